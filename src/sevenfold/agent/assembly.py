"""What an agent is made of, put together: session, tools, permissions, prompt, slots and the loop over them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET
from msgspec.structs import replace

from sevenfold.agent import slots, toolkit
from sevenfold.agent.events import Reporter
from sevenfold.agent.executor import Hands, nobody
from sevenfold.agent.fit import Fit
from sevenfold.agent.instructions import Loaded
from sevenfold.agent.loop import Call, Limits, Loop
from sevenfold.agent.mentions import Mentions
from sevenfold.agent.options import AgentOptions, Place
from sevenfold.agent.output_styles import find_style
from sevenfold.agent.permissions.rules import Rules, unknown_rules
from sevenfold.agent.prompt import Manners, Prompting
from sevenfold.agent.standard_tools import standard_tools
from sevenfold.agent.state import Standing
from sevenfold.agent.state_files import UsedSkill
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.shell import command_environ
from sevenfold.agent.tools.skills import SkillInput, SkillTool
from sevenfold.agent.tools.tool import Toolbox
from sevenfold.clock import SystemClock
from sevenfold.conversation.engine import Engine
from sevenfold.conversation.flow import Run
from sevenfold.conversation.hooks import (
    HookInput,
    HookOutcome,
    InstructionsLoaded,
    SessionEnd,
    SessionStart,
)
from sevenfold.conversation.options import window_for
from sevenfold.conversation.transcript import Beside
from sevenfold.errors import InputError
from sevenfold.events import SteppedAside
from sevenfold.layers.compact.slots import FilesSlot, Slot
from sevenfold.ports import AsyncClient, Client
from sevenfold.profiles import find
from sevenfold.prompts.context import TasksGone
from sevenfold.prompts.system import OutputStyle
from sevenfold.session import factory as opened
from sevenfold.session.close import finish
from sevenfold.session.factory import Options, Store
from sevenfold.stores.files import private_folder
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.store import FileResults
from sevenfold.stores.trust import Trust, user_folder

if TYPE_CHECKING:
    from sevenfold.agent.mcp.servers import Following, McpServers

MENTIONS_SHARE = 4
"""What a message mentions may take this part of the window, one in so many."""


class Workings:
    """Everything of an agent that does not wait."""

    def __init__(self, model: str, options: AgentOptions, client: Client | AsyncClient) -> None:
        self.model = find(model).model
        self.options = options
        self.clock = options.get("clock") or SystemClock()
        self.folder = Path(options.get("folder", ".")).expanduser().resolve()
        if not self.folder.is_dir():
            raise InputError(f"{self.folder} is not a folder an agent could work in")
        self.trusted = Trust(user_folder(os.environ)).covers(self.folder)
        self.reporter = Reporter()
        self.place, self.store = self._stored(options.get("name"))
        self.servers: McpServers | None = None
        """MCP servers whose tools it may use."""
        try:
            self.profile = opened.profile_for(self.store, model, client)
            self.servers = self._servers()
            self._assemble()
        except BaseException:
            if self.servers is not None:
                self.servers.close()
            self.store.log.close()
            self.place.remove()
            raise

    # -- putting together -----------------------------------------------------------------------

    def _stored(self, name: str | None) -> tuple[Place, Store]:
        settings = self.options.get("settings")
        if name is not None:
            kept = user_home().project(self.folder).session(name)
            store = opened.on_disk(name, self.folder, None, settings, 0.0)
            return Place(kept.agent.resolve(), kept.results.resolve(), passing=False), store
        folder = Path(tempfile.mkdtemp(prefix="sevenfold-")).resolve()
        place = Place(folder, folder / "tool-results", passing=True)
        store = opened.in_memory("agent", settings)
        # The reader is a tool like any other: what it is to read must be a file.
        results = FileResults(place.results)
        recall = opened.Recalled(store.log, None, results)
        return place, replace(store, results=results, recall=recall, cwd=str(self.folder))

    def _servers(self) -> McpServers | None:
        given = self.options.get("mcp")
        if given is None:
            return None
        # Here, because most agents have none.
        from sevenfold.agent.mcp.servers import McpServers

        return given if isinstance(given, McpServers) else McpServers.of(given, self.folder, files=False)

    def _assemble(self) -> None:
        options = self.options
        private_folder(self.place.scratch)
        self.standing = Standing(
            self.folder,
            self.place,
            mode=options.get("mode"),
            rules=options.get("rules") or {},
            consent=options.get("consent"),
        )
        self._limits = Limits(
            options.get("max_turns"), options.get("max_usd"), options.get("max_output_tokens")
        )
        self._left: Callable[[], Limits] = lambda: self._limits
        self.fit = Fit.of(window_for(self.profile, self.store.settings.current()))
        self.skills = toolkit.find_skills(self.folder, user_folder(os.environ), trusted=self.trusted)
        self.box = self._box()
        self.prompting = self._prompting()
        self.engine = self._engine()
        self.core = self.engine.session
        self.hands = self._hands()
        self._follow = self._following()
        self._check_usd()
        self.loop = Loop(
            self.engine,
            self.hands,
            limits=self._limits,
            common=self.common,
            news=self._news,
            heard=self._heard,
            beside=self._running_tasks,
            mentions=self._mentions(),
        )
        self._left = lambda: self.loop.left
        self._resumed = len(self.core.transcript.view) > 0
        self._told_start = False
        self._told_of: tuple[Loaded, ...] = ()
        for file in self.standing.familiar.files.values():
            if file.call:
                self.core.remember_read(file.path, file.call, file.version)
        self._fill_slots()
        self.core.listen(self.reporter.happened)

    def _check_usd(self) -> None:
        """Raise if the limit in dollars cannot be kept."""
        most = self._limits.usd
        models = (self.model, self.store.settings.current().summary_model or self.model)
        unpriced = next((model for model in models if find(model).price(0) is None), None)
        if most is not None and unpriced is not None:
            raise InputError(
                f"max_usd={most} cannot be kept: what {unpriced} costs is not known, and no setting says it. Leave it "
                "out, and limit the work by max_turns or max_output_tokens instead"
            )
        if most is not None and self.core.exchange.account.usd is None:
            raise InputError(
                f"max_usd={most} cannot be kept: it counts the whole session, in which a model was asked whose price "
                "is not known. Begin a new session, or limit the work by max_turns or max_output_tokens instead"
            )

    def _box(self) -> Toolbox:
        given = self.options.get("tools")
        if given is not None:
            self._own = list(toolkit.as_tools(given))
        else:
            self._own = self.fit.tools(standard_tools(self.standing.processes, skills=self.skills))
        if self.servers is None:
            return Toolbox(self._own)
        from sevenfold.agent.mcp.servers import together

        return together(self._own, self.servers.tools())

    def _following(self) -> Following | None:
        """Keeps the agent in step with its servers."""
        if self.servers is None:
            return None
        from sevenfold.agent.mcp.servers import Following

        prompt = self.prompting.prompt if self.options.get("system") is None else None
        return Following(self.servers, self._own, self.core, self.hands, prompt)

    def _prompting(self) -> Prompting:
        settings = self.store.settings.current()
        return Prompting(
            self.folder,
            model=self.model,
            clock=self.clock,
            environ=os.environ,
            trusted=self.trusted,
            user=user_folder(os.environ),
            skills=self.skills,
            kept_results=min(settings.gap_keep, settings.size_keep) if settings.layers else None,
            scratch=self.place.scratch,
            fit=self.fit,
            manners=Manners(
                self.options.get("guidance"), settings.language, self._style(settings.output_style)
            ),
            left=lambda: (self._limits, self._left()),
            others=[self.servers.section()] if self.servers else [],
        )

    def _style(self, name: str | None) -> OutputStyle | None:
        """The manner of answering the user has chosen; a project's count if its folder is trusted."""
        if name is None:
            return None
        folders = [user_folder(os.environ), *([self.folder / ".sevenfold"] if self.trusted else [])]
        return find_style(name, folders)

    def _engine(self) -> Engine:
        options, own, kinds = self.options, self.options.get("system"), self.box.kinds()
        chosen: Options = {
            "system": self.prompting.prompt() if own is None else own,
            "tools": [opened.Tool(schema, kinds[schema["name"]]) for schema in self.box.schemas()],
            "listen": options.get("listen", ()),
            "clock": self.clock,
            "source": options.get("source", "main"),
        }
        if (answer := options.get("max_tokens", self.fit.answer)) is not None:
            chosen["max_tokens"] = answer
        if (ids := options.get("ids")) is not None:
            chosen["ids"] = ids
        thinking = options.get("thinking")
        if thinking is not None:
            chosen["thinking"] = thinking
        return opened.engine(self.store, self.model, chosen, self.profile)

    def _hands(self) -> Hands:
        standing = self.standing
        context = Context(
            workspace=self.folder,
            desk=standing.desk,
            roots=(self.place.scratch,),
            environ=command_environ(os.environ, self.store.settings.current().shell_secrets or ""),
            unchanged=self.core.unchanged,
            room=self.fit.room,
            may_read=lambda path: standing.grants.now.may_read(path),
            ask=self.options.get("ask"),
            recall=toolkit.Recalling(self.store, self.core.fetch),
            todos=standing.todos,
            plans=standing.plans,
        )
        return Hands(
            self.box,
            context,
            standing.grants,
            common=self.common,
            consent=self.options.get("consent") or nobody,
            hooks=self.options.get("hooks"),
            witness=self.reporter,
            learn=self._learn,
            keep=standing.save,
            heard=self._heard,
        )

    def _mentions(self) -> Callable[[str], Run[list[Beside]]] | None:
        """Reads what a prompt mentions, as the tools would."""
        if not self.options.get("mentions"):
            return None
        reader = self.hands.beside(Mentions.box(), learn=self._learn_mentioned)
        room = self.core.window.effective // MENTIONS_SHARE
        return Mentions(reader, lambda: room, self.reporter.mentioned).beside

    def _fill_slots(self) -> None:
        standing, compactor = self.standing, self.engine.compactor
        files = slots.OpenFilesSlot(
            standing.familiar, standing.desk, may_read=standing.may_restore, own=self._is_own
        )
        before = [slot for slot in compactor.slots if not isinstance(slot, FilesSlot)]
        announced: list[Slot] = [self._follow.slot()] if self._follow is not None else []
        if self.options.get("system") is None:
            before.insert(0, slots.SectionsSlot(self.prompting, self.core.exchange))
            announced.append(slots.skill_listing_slot(self.skills))
        compactor.slots[:] = [
            *before,
            *slots.state_slots(standing, self._skill_text),
            *announced,
            files,
        ]
        compactor.cleanups += [files.forget, standing.save]
        compactor.writer.autonomous = lambda: standing.grants.mode == "autonomous"

    # -- while it works -------------------------------------------------------------------------

    def common(self) -> dict[str, Any]:
        """What every hook is told."""
        return {
            "session_id": self.store.name,
            "transcript_path": self.store.path,
            "cwd": str(self.standing.desk.cwd),
            "permission_mode": self.standing.grants.mode,
        }

    def close(self) -> None:
        """Keep how things stand, and end what runs beside the agent."""
        finish(self.standing.close, *([self.servers.close] if self.servers is not None else []))

    @property
    def started(self) -> bool:
        """Were hooks told that the session began?"""
        return self._told_start

    def ending(self) -> SessionEnd:
        """What hooks are told when it ends."""
        return SessionEnd(**self.common(), reason="other")

    def _news(self) -> list[HookInput]:
        """What hooks have not been told: that the session began or goes on, and which instructions were read."""
        if self._follow is not None:
            self._follow()
        self._tell_of_the_gone()
        if self.options.get("system") is None and (prompt := self.prompting.news()):
            self.core.exchange.wanted = self.core.exchange.wanted.saying(prompt)
        told: list[HookInput] = []
        if not self._told_start:
            source: Literal["resume", "startup"] = "resume" if self._resumed else "startup"
            told.append(SessionStart(**self.common(), source=source, model=self.model))
            self._tell_of_strange_rules()
        if self.prompting.loaded is not self._told_of:
            told += [self._instruction(file) for file in self.prompting.loaded if file.text]
        self._told_start, self._told_of = True, self.prompting.loaded
        return told

    def _tell_of_the_gone(self) -> None:
        """Tell the model of commands that ended with an earlier process."""
        if lines := [work.line for work in slots.works(self.standing.take_gone())]:
            self.core.note(TasksGone("\n".join(lines)).render())
            self.standing.save()

    def _tell_of_strange_rules(self) -> None:
        if (rules := self.standing.grants.now.rules) == Rules():
            return
        standard = standard_tools(self.standing.processes, skills=self.skills)
        known = {tool.name for tool in (*self.box, *standard)} | {SkillTool.name}
        for line in unknown_rules(rules, known):
            self.core.announcer.tell(SteppedAside(layer="rules", reason=line))

    def _instruction(self, file: Loaded) -> InstructionsLoaded:
        return InstructionsLoaded(
            **self.common(),
            file_path=file.path,
            memory_type=file.owner,
            load_reason=file.reason,
            parent_file_path=file.parent or UNSET,
        )

    def _running_tasks(self) -> list[dict[str, str]]:
        """What runs in the background, as Stop hooks are told."""
        running = (task for task in self.standing.processes.tasks() if task.state == "running")
        return [
            {
                "id": task.id,
                "type": "shell",
                "status": task.state,
                "command": task.command,
                "output_file": task.path,
            }
            for task in running
        ]

    def _heard(self, outcome: HookOutcome) -> None:
        """Show what hooks want shown, and tell of those that failed."""
        for text in outcome.messages:
            self.reporter.notice(text)
        for failure in outcome.failures:
            self.core.announcer.tell(
                SteppedAside(layer="hooks", reason=f"{outcome.event}, {failure.hook}: {failure.problem}")
            )

    def _learn(self, call: Call, output: ToolOutput) -> None:
        self.standing.learn(call, output, self.core.remember_read)

    def _learn_mentioned(self, call: Call, output: ToolOutput) -> None:
        """No call of the model's shows what the user mentioned."""
        self.standing.learn(replace(call, id=""), output, lambda *_: None)

    def _is_own(self, path: str) -> bool:
        """Is this one of the session's own files?"""
        own = {self.store.path, self.store.notes.path}
        return path in own or Path(path).is_relative_to(self.place.folder)

    def _skill_text(self, skill: UsedSkill) -> str:
        """What a skill says now; nothing if it is gone, or its folder no longer trusted."""
        if skill.name not in self.skills.known:
            return ""
        shown = SkillTool(self.skills).act(SkillInput(skill.name), self.hands.context)
        return shown.content if isinstance(shown.content, str) else ""
