"""What an agent is made of, put together: session, tools, permissions, prompt, slots and the loop over them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET
from msgspec.structs import replace

from sevenfold.adapters.home import user_home
from sevenfold.adapters.instructions import Loaded
from sevenfold.adapters.results import FileResults
from sevenfold.adapters.storing import private_folder
from sevenfold.adapters.trust import Trust, user_folder
from sevenfold.adapters.world import SystemClock
from sevenfold.errors import InputError
from sevenfold.events import SteppedAside
from sevenfold.profiles import find
from sevenfold.runtime.compaction.restore import FilesSlot
from sevenfold.runtime.engine import Engine
from sevenfold.runtime.hooks.inputs import HookInput, InstructionsLoaded, SessionEnd, SessionStart
from sevenfold.runtime.hooks.outcomes import Outcome
from sevenfold.runtime.loop import Call, Limits, Loop
from sevenfold.tools.context import Context
from sevenfold.tools.output import ToolOutput
from sevenfold.tools.skills import SkillInput, SkillTool
from sevenfold.tools.toolbox import Toolbox
from sevenfold.wiring import opened, slots, toolkit
from sevenfold.wiring.agent_events import Reporter
from sevenfold.wiring.agent_options import AgentOptions, Place
from sevenfold.wiring.hands import Hands, nobody
from sevenfold.wiring.keeping import UsedSkill
from sevenfold.wiring.opened import Options, Store
from sevenfold.wiring.prompting import Prompting
from sevenfold.wiring.standard_tools import standard_tools
from sevenfold.wiring.standing import Standing

if TYPE_CHECKING:
    from sevenfold.wiring.mcp import McpServers


class Workings:
    """Everything of an agent that does not wait."""

    def __init__(self, model: str, options: AgentOptions) -> None:
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
        from sevenfold.wiring.mcp import McpServers

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
        self.skills = toolkit.find_skills(self.folder, user_folder(os.environ), trusted=self.trusted)
        self.box = self._box()
        self.prompting = self._prompting()
        self.engine = self._engine()
        self.core = self.engine.session
        self.hands = self._hands()
        self._follow = self._following()
        limits = Limits(options.get("max_turns"), options.get("max_usd"), options.get("max_output_tokens"))
        self.loop = Loop(
            self.engine,
            self.hands,
            limits=limits,
            common=self.common,
            news=self._news,
            heard=self._heard,
        )
        self._resumed = len(self.core.transcript.view) > 0
        self._told_start = False
        self._told_of: tuple[Loaded, ...] = ()
        for file in self.standing.familiar.files.values():
            if file.call:
                self.core.remember_read(file.path, file.call, file.version)
        self._fill_slots()
        self.core.listen(self.reporter.happened)

    def _box(self) -> Toolbox:
        given = self.options.get("tools")
        if given is not None:
            self._own = list(toolkit.as_tools(given))
        else:
            self._own = list(standard_tools(self.standing.processes, skills=self.skills))
        if self.servers is None:
            return Toolbox(self._own)
        from sevenfold.wiring.mcp import together

        return together(self._own, self.servers.tools())

    def _following(self) -> Callable[[], None]:
        """Keeps the agent in step with its servers."""
        if self.servers is None:
            return lambda: None
        from sevenfold.wiring.mcp import Following

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
            others=[self.servers.section()] if self.servers else [],
        )

    def _engine(self) -> Engine:
        options, own, kinds = self.options, self.options.get("system"), self.box.kinds()
        chosen: Options = {
            "system": self.prompting.prompt() if own is None else own,
            "tools": [opened.Tool(schema, kinds[schema["name"]]) for schema in self.box.schemas()],
            "listen": options.get("listen", ()),
            "clock": self.clock,
            "source": options.get("source", "main"),
        }
        if "max_tokens" in options:
            chosen["max_tokens"] = options["max_tokens"]
        if (ids := options.get("ids")) is not None:
            chosen["ids"] = ids
        thinking = options.get("thinking")
        if thinking is not None:
            chosen["thinking"] = thinking
        return opened.engine(self.store, self.model, chosen)

    def _hands(self) -> Hands:
        standing = self.standing
        context = Context(
            workspace=self.folder,
            desk=standing.desk,
            roots=(self.place.scratch,),
            environ=dict(os.environ),
            unchanged=self.core.unchanged,
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
            heard=self._heard,
        )

    def _fill_slots(self) -> None:
        standing, compactor = self.standing, self.engine.compactor
        files = slots.OpenFilesSlot(
            standing.familiar, standing.desk, may_read=standing.may_restore, own=self._is_own
        )
        before = [slot for slot in compactor.slots if not isinstance(slot, FilesSlot)]
        compactor.slots[:] = [*before, *slots.state_slots(standing, self._skill_text), files]
        if self.options.get("system") is None:
            compactor.slots.insert(0, slots.SectionsSlot(self.prompting.renewed, self.core.exchange))
        compactor.cleanups += [files.forget, standing.save]

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
        self.standing.close()
        if self.servers is not None:
            self.servers.close()

    @property
    def started(self) -> bool:
        """Were hooks told that the session began?"""
        return self._told_start

    def ending(self) -> SessionEnd:
        """What hooks are told when it ends."""
        return SessionEnd(**self.common(), reason="other")

    def _news(self) -> list[HookInput]:
        """What hooks have not been told: that the session began or goes on, and which instructions were read."""
        self._follow()
        told: list[HookInput] = []
        if not self._told_start:
            source: Literal["resume", "startup"] = "resume" if self._resumed else "startup"
            told.append(SessionStart(**self.common(), source=source, model=self.model))
        if self.prompting.loaded is not self._told_of:
            told += [self._instruction(file) for file in self.prompting.loaded if file.text]
        self._told_start, self._told_of = True, self.prompting.loaded
        return told

    def _instruction(self, file: Loaded) -> InstructionsLoaded:
        return InstructionsLoaded(
            **self.common(),
            file_path=file.path,
            memory_type=file.owner,
            load_reason=file.reason,
            parent_file_path=file.parent or UNSET,
        )

    def _heard(self, outcome: Outcome) -> None:
        """Show what hooks want shown, and tell of those that failed."""
        for text in outcome.messages:
            self.reporter.notice(text)
        for failure in outcome.failures:
            self.core.announcer.tell(
                SteppedAside(layer="hooks", reason=f"{outcome.event}, {failure.hook}: {failure.problem}")
            )

    def _learn(self, call: Call, output: ToolOutput) -> None:
        self.standing.learn(call, output, self.core.remember_read)

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
