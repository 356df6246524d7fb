"""Assembles an agent from its parts: session, tools, permissions, prompt, slots, executor and loop.

The parts are created in the order in which they need one another, and the conversation is in the middle: the prompt and
the tools go into it, while checkpoints, executor and loop work on it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import UNSET
from msgspec.structs import replace

from sevenfold.agent import slots
from sevenfold.agent.agent_events import Notice, Reporter
from sevenfold.agent.checkpoint_files import MirroredFolder
from sevenfold.agent.checkpoints import Checkpoints
from sevenfold.agent.executor import AgentHooks, Callbacks, Executor, refuse
from sevenfold.agent.home import AgentHome
from sevenfold.agent.instructions import LoadedFile
from sevenfold.agent.loop import Loop, RunLimits
from sevenfold.agent.mentions import Mentions, MentionTool
from sevenfold.agent.options import AgentOptions, answer_tokens, effort_and_thinking
from sevenfold.agent.permissions.engine import Grants, Mode, Permissions
from sevenfold.agent.permissions.rules import PermissionRules, unknown_rules
from sevenfold.agent.prompt import AgentPrompt
from sevenfold.agent.standard_tools import Fit, StoreRecall, as_tools, find_skills, standard_tools
from sevenfold.agent.state import AgentState
from sevenfold.agent.team.descent import SubSettings, one_at_a_time
from sevenfold.agent.team.presence import Presence
from sevenfold.agent.team.team import Team
from sevenfold.agent.team.tools import team_tools
from sevenfold.agent.tools.context import Abort, Context, Desk
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.searchers import find_searcher
from sevenfold.agent.tools.session_tools import MemoryTool
from sevenfold.agent.tools.shell import command_environ
from sevenfold.agent.tools.skills import SkillInput, SkillTool
from sevenfold.agent.tools.tool import Toolbox
from sevenfold.clock import SystemClock
from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.flow import Flow
from sevenfold.conversation.hooks import InstructionsLoaded, SessionEnd, SessionStart
from sevenfold.conversation.options import window_for
from sevenfold.conversation.request import ToolCall
from sevenfold.errors import InputError, TranscriptError
from sevenfold.layers.remember.evidence import READS, memory_commands
from sevenfold.ports import AsyncClient, Client, StoredText
from sevenfold.profiles import find
from sevenfold.prompts.context import TasksGone
from sevenfold.providers.registry import profile_through, provider_for
from sevenfold.recall.index import SessionRecall
from sevenfold.request.sections import SystemPrompt
from sevenfold.session import factory
from sevenfold.session.factory import OpenOptions, Options, SessionParts
from sevenfold.stores.files import private_folder
from sevenfold.stores.jsonl.store import FileResults
from sevenfold.stores.lineage import AGENT_VARIABLE, AGENTS, started_by_agent
from sevenfold.stores.trust import Trust, user_folder

if TYPE_CHECKING:
    from sevenfold.agent.mcp.deferred import Deferral
    from sevenfold.agent.mcp.servers import McpServers, McpUpdater
    from sevenfold.agent.team.definitions import AgentCatalog
    from sevenfold.agent.team.descent import Descent
    from sevenfold.conversation.hooks import HookInput, HookOutcome

FORK_ROOM = 8_000
"""The most characters of one tool result in a fork that only reads."""
MENTIONS_SHARE = 4
"""The files that a message mentions may take one in this many parts of the effective window."""


class Assembly:
    """The parts of an agent, common to `Agent` and `AsyncAgent`, which only add the waiting."""

    def __init__(
        self,
        model: str,
        options: AgentOptions,
        client: Client | AsyncClient,
        descent: Descent | None = None,
    ) -> None:
        """``descent`` describes a sub-agent and its parent; None for an agent that no other agent started."""
        self.model = find(model).model
        self.options = options
        self.client = client
        self.descent = descent
        self.team: Team | None = None
        """The sub-agents it has started; None if it may not start any."""
        consent = options.get("consent")
        self.consent = one_at_a_time(consent) if consent and descent is None else consent
        """Asks the user for permission, also on behalf of its sub-agents; None: there is no user."""
        self.clock = options.get("clock") or SystemClock()
        self.workspace = Path(options.get("folder", ".")).expanduser().resolve()
        if not self.workspace.is_dir():
            raise InputError(f"the workspace {self.workspace} is not a folder")
        self.roots = tuple(Path(root).expanduser().resolve() for root in options.get("roots", ()))
        """Further folders that count as the workspace."""
        for root in self.roots:
            if not root.is_dir():
                raise InputError(f"{root}, one of the roots, is not a folder")
        self.user_folder = user_folder(os.environ)
        self.trusted: bool = (
            descent.parent.trusted if descent else Trust(self.user_folder).covers(self.workspace)
        )
        self.reporter = Reporter()
        self.has_user = not started_by_agent()
        """Whether a user speaks to it; False in a process that another agent started."""
        # Marks this process, so that what the agent starts can tell that no user started it.
        self._unmark = weakref.finalize(self, AGENTS.add())
        self.home, self.store = self._open_store(options.get("name"), options.get("branch"))
        self.servers: McpServers | None = None
        """The MCP servers whose tools it may use; None if there are none."""
        try:
            listed = factory.profile_for(self.store, model, client)
            self.profile = profile_through(provider_for(model), listed)
            if descent is not None:
                settings = SubSettings(self.store.settings, descent, self.profile)
                self.store = replace(self.store, settings=settings)
            self.servers = self._connect_servers()
            self._assemble()
        except BaseException:
            # A sub-agent uses the servers of its parent.
            if self.servers is not None and self.descent is None:
                self.servers.close()
            self.store.log.close()
            self.home.remove()
            self._unmark()
            raise

    # -- assembling -----------------------------------------------------------------------------

    def _open_store(self, name: str | None, branch: str | None) -> tuple[AgentHome, SessionParts]:
        settings = self.options.get("settings")
        if (descent := self.descent) is not None:
            return descent.parent.home.of_subagent(descent.entry.id), descent.open()
        if name is not None:
            store_option = self.options.get("store")
            open_options = OpenOptions(
                folder=self.workspace, store=store_option, branch=branch, settings=settings or {}
            )
            store = factory.on_disk(name, open_options)
            assert store.store is not None
            try:
                return AgentHome.for_session(store.store, name, branch), store
            except BaseException:
                store.log.close()
                raise
        home = AgentHome.unsaved()
        store = factory.in_memory("agent", settings, self.workspace)
        assert home.results is not None
        # The model reads stored results with its Read tool, so they must be files, even for a session in memory.
        results = FileResults(home.results)
        recall = SessionRecall(store.log, None, results)
        return home, replace(store, results=results, recall=recall, cwd=str(self.workspace))

    def create_subagent(self, descent: Descent) -> Assembly:
        """Create a sub-agent of this agent."""
        return Assembly(descent.entry.started.model, descent.options(), self.client, descent)

    def _connect_servers(self) -> McpServers | None:
        mcp_option = self.options.get("mcp")
        if mcp_option is None:
            return None
        # Imported here because most agents have no servers.
        from sevenfold.agent.mcp.servers import McpServers

        return (
            mcp_option
            if isinstance(mcp_option, McpServers)
            else McpServers.of(mcp_option, self.workspace, files=False)
        )

    def _assemble(self) -> None:
        options = self.options
        private_folder(self.home.scratch)
        # A fork that is resumed has a state of its own, which its parent's must not replace.
        starts_fresh = self.home.saved is None or _is_unwritten(self.home.saved)
        self.state = AgentState(self)
        if self.descent is not None and self.descent.fork and starts_fresh:
            self.state.inherit(self.descent.parent.state)
        limits = RunLimits(
            options.get("max_turns"), options.get("max_usd"), options.get("max_output_tokens")
        )
        self.fit = Fit.of(window_for(self.profile, self.store.settings.current()))
        self.skills = find_skills(self.workspace, self.user_folder, trusted=self.trusted)
        self.box = self._toolbox()
        # The prompt says what is left of the limits, which the loop counts. The loop needs the conversation, and the
        # conversation the prompt, so the loop comes last, and until then everything is left.
        self._loop: Loop | None = None
        self.prompt = AgentPrompt(self, lambda: (limits, self._loop.remaining if self._loop else limits))
        self.conversation: Conversation = self._conversation()
        self.team = Team(self, self.types.known) if self.types else None
        self.inherited_usd = self.descent.inherited_usd(self.store) if self.descent else 0.0
        """The cost of the conversation a fork starts with; 0 for other agents, None if a price is unknown."""
        self.checkpoints: Checkpoints | None = self._checkpoints()
        """Copies of files from before the agent changed them; None if checkpoints are off."""
        self.hooks = AgentHooks(self.common_hook_fields, self._report_hooks)
        self.executor = self._executor()
        self.server_updater = self._server_updater()
        models = (self.model, self.store.settings.current().summary_model or self.model)
        limits.check_usd(models, self.conversation.account.usd)
        self.mentions = self._mentions()
        """Reads the files that a message mentions; None: ``@path`` has no special meaning."""
        self.loop = self._loop = Loop(self, limits)
        self.presence = Presence(self)
        self._resumed = len(self.conversation.transcript.view) > 0
        self.started = False
        """Whether the SessionStart (or SubagentStart) hooks have fired."""
        self._announced_files: tuple[LoadedFile, ...] = ()
        self._reported_problem = ""
        # In a resumed session too, a file that is read again and still in view unchanged need not be sent again.
        for file in self.state.recent.files.values():
            if file.call:
                self.conversation.remember_read(file.path, file.call, file.version)
        slots.install(self)
        self.conversation.serve_agent(
            autonomous=lambda: self.state.grants.mode == "autonomous", read_only=self._run_read_only
        )
        self.conversation.events.listen(self.reporter.listen)

    def grants_within(self, permissions: Permissions, saved: Mode | None) -> Grants:
        """The agent's grants: ``permissions`` with its mode and rules; ``saved`` is the mode saved last, if any."""
        if self.descent is not None:
            return self.descent.grants(permissions)
        mode = self.options.get("mode") or saved or "ask"
        rules = self.options.get("rules") or {}
        return Grants(replace(permissions, mode=mode, rules=PermissionRules.of(rules)))

    @cached_property
    def types(self) -> AgentCatalog | None:
        """The types of agents it may start; None if it may not start any."""
        if self.descent is not None:
            return self.descent.parent.types
        agents_option = self.options.get("agents", False)
        settings = self.store.settings.current()
        # The smallest windows have no room for the tools.
        if agents_option is False or not settings.agent_depth or self.fit.size == "tiny":
            return None
        # Imported here because most agents start no others.
        from sevenfold.agent.team.definitions import AgentCatalog

        folders = self.workspace, self.user_folder
        return AgentCatalog(
            *folders, Trust(self.user_folder).covers, {} if agents_option is True else agents_option
        )

    @property
    def _lists_types(self) -> bool:
        """Whether the prompt, not the tool's description, lists the agent types; a fork sends what its parent does."""
        if self.descent is not None and self.descent.fork:
            return self.descent.parent._lists_types
        return self.has_standard_prompt

    def _toolbox(self) -> Toolbox:
        tools_option = self.options.get("tools")
        if tools_option is not None:
            self.own_tools = as_tools(tools_option)
        else:
            self.own_tools = self.fit.tools(standard_tools(self.state.processes, skills=self.skills))
        if self.options.get("memory") == "tool":
            self.own_tools.append(MemoryTool())
        if self.types is not None:
            self.own_tools += team_tools(
                lambda: cast(Team, self.team), "" if self._lists_types else self.types.text()
            )
        if (descent := self.descent) is not None:
            # This only affects what the model is shown; what it may use is decided at each call.
            listed_names = {tool.name for tool in descent.parent.own_tools}
            if not descent.fork:
                listed_names = {name for name in listed_names if descent.definition.allows(name)}
            self.own_tools = [tool for tool in self.own_tools if tool.name in listed_names]
        if self.servers is None:
            return Toolbox(self.own_tools)
        from sevenfold.agent.mcp.deferred import toolbox

        return toolbox(self.own_tools, self.servers.tools(), self._deferral)

    @property
    def _deferral(self) -> Deferral:
        """When and how the tools of servers are found by a search."""
        from sevenfold.agent.mcp.deferred import Deferral

        settings = self.store.settings.current()
        max_tokens = window_for(self.profile, settings).context * settings.mcp_tools_share
        by_provider = settings.mcp_search == "provider" or (
            settings.mcp_search == "auto" and factory.reaches_provider(self.client, self.profile)
        )
        return Deferral(max_tokens, self.profile.tool_search if by_provider else "")

    def _server_updater(self) -> McpUpdater | None:
        """The updater that keeps the agent's tools and prompt in sync with its MCP servers; None without servers."""
        if self.servers is None:
            return None
        from sevenfold.agent.mcp.servers import McpUpdater

        prompt = self.prompt.compute if self.has_standard_prompt else None
        return McpUpdater(
            self.servers, self.own_tools, self.conversation, self.executor, self._deferral, prompt
        )

    @property
    def has_standard_prompt(self) -> bool:
        """Whether the system prompt is the standard one, not the caller's."""
        return self.options.get("system") is None

    @property
    def remembers(self) -> bool:
        """Whether it remembers lasting facts across sessions."""
        # A session that another agent starts from its shell has no user whose words could be remembered.
        usual = self.options.get("name") is not None and self.has_user
        return bool(self.options.get("memory", usual))

    def _conversation(self) -> Conversation:
        options = self.options
        own_prompt = options.get("system")
        kinds = self.box.kinds()
        chosen: Options = {
            "system": self.prompt.compute() if own_prompt is None else own_prompt,
            "tools": [factory.Tool(schema, kinds[schema["name"]]) for schema in self.box.schemas()],
            "listen": options.get("listen", ()),
            "clock": self.clock,
            "source": options.get("source", "main"),
            "memory": self.remembers,
        }
        settings = self.store.settings.current()
        answer = answer_tokens(options, self.profile, settings, self.fit)
        chosen["max_tokens"] = answer
        chosen["fields"] = effort_and_thinking(options, self.profile, settings, answer)
        if (ids := options.get("ids")) is not None:
            chosen["ids"] = ids
        if (layers := options.get("layers")) is not None:
            chosen["layers"] = layers
        if isinstance(thinking := options.get("thinking"), Mapping):
            chosen["thinking"] = thinking
        frame = self.descent.frame(self.store) if self.descent else None
        conversation = factory.conversation(self.store, self.model, chosen, self.profile, frame)
        conversation.ask_for_diagnoses(factory.reaches_provider(self.client, conversation.profile))
        return conversation

    def _checkpoints(self) -> Checkpoints | None:
        if not self.options.get("checkpoints") or not self.store.settings.current().checkpoints:
            return None
        if self.descent is not None:
            # The user restores files to a point in the main conversation.
            parent = self.descent.parent
            return parent.checkpoints if self.workspace == parent.workspace else None
        transcript = self.conversation.transcript
        processes = self.state.processes
        gate = self.state.gate
        return Checkpoints(
            MirroredFolder(self.home.folder / "checkpoints", self.home.mirror, self.store.log.renew),
            self.workspace,
            lambda: find_searcher().files(str(self.workspace), lambda: False),
            lambda: transcript.view.tip,
            lambda: any(task.state == "running" for task in processes.tasks()),
            lambda text: gate is not None and gate.text(text) != text,
        )

    def _executor(self) -> Executor:
        state = self.state
        passed = self.store.settings.current().shell_secrets or ""
        context = Context(
            workspace=self.workspace,
            desk=state.desk,
            roots=(self.home.scratch, *self.roots),
            environ=cache(lambda: {**command_environ(os.environ, passed), AGENT_VARIABLE: "1"}),
            unchanged=self.conversation.unchanged,
            room=self.fit.room,
            may_read=lambda path: state.grants.now.may_read(path),
            may_follow=lambda permitted, address: state.grants.now.may_follow(permitted, address),
            ask=self.options.get("ask"),
            recall=StoreRecall(self.store, self.conversation.fetch),
            todos=state.todos,
            plans=state.plans,
            memory=memory_commands(self.conversation),
        )
        callbacks = Callbacks(
            consent=self.consent or refuse,
            report=self.reporter.put,
            learn=partial(state.learn, on_read=self.conversation.remember_read),
            checkpoints=self.checkpoints,
            save=state.save,
            remarked=self.conversation.remarked,
        )
        executor = Executor(self.box, context, state.grants, self.hooks, callbacks)
        executor.hands_over = self.descent is None
        return executor

    def _run_read_only(self, calls: Sequence[ToolCall]) -> Flow[list[Mapping[str, Any]]]:
        """Carry out a fork's calls with reading tools only, without asking the user or recording what was read."""
        # A desk of its own, so that the fork cannot change the agent's working directory.
        desk = Desk(self.workspace)
        desk.restore(self.state.desk.state())
        context = replace(
            self.executor.context,
            desk=desk,
            abort=Abort(),
            unchanged=lambda path, version: (
                None
            ),  # the fork is given content, not a reference to an earlier call
            room=min(self.fit.room, FORK_ROOM),
        )
        permissions = self.state.grants.now
        memory = self.conversation.services.memory
        grants = Grants(
            replace(permissions, readable=(*permissions.readable, *([memory.path] if memory else [])))
        )
        box = Toolbox(tool for tool in self.box if tool.kind in READS)
        executor = Executor(box, context, grants, self.hooks, Callbacks())
        executor.hands_over = False
        return executor.run(calls)

    def _mentions(self) -> Callable[[str], Any] | None:
        """The function that reads the files a prompt mentions, under the same rules as the tools; None if off."""
        if not self.options.get("mentions"):
            return None
        executor = self.executor.with_tools(Toolbox([MentionTool()]), self._learn_mentioned)
        tokens = self.conversation.window.effective // MENTIONS_SHARE
        return Mentions(executor, tokens, self.reporter.put).read

    # -- while it works -------------------------------------------------------------------------

    def common_hook_fields(self) -> dict[str, Any]:
        """The fields that every hook input has."""
        descent = self.descent
        return {
            **({"agent_id": descent.entry.id, "agent_type": descent.definition.name} if descent else {}),
            "session_id": self.store.name,
            "transcript_path": self.store.path,
            "cwd": str(self.state.desk.cwd),
            "permission_mode": self.state.grants.mode,
        }

    def close(self) -> None:
        """Stop its sub-agents, save the state, and end background commands and MCP servers."""
        with ExitStack() as cleanup:
            cleanup.callback(self._unmark)
            cleanup.callback(self.presence.close)
            if self.servers is not None and self.descent is None:
                cleanup.callback(self.servers.close)
            cleanup.callback(self.state.close)
            if self.team is not None:
                cleanup.callback(self.team.close)

    def end(self) -> None:
        """Close a sub-agent, including its conversation and log."""
        with ExitStack() as cleanup:
            cleanup.callback(self.conversation.close)
            cleanup.callback(self.store.recall.close)
            cleanup.callback(self.close)

    def session_end(self) -> SessionEnd:
        """The hook event for closing the agent."""
        return SessionEnd(**self.common_hook_fields(), reason="other")

    def take_hook_events(self) -> list[HookInput]:
        """Hook events not fired yet (session start, instruction files loaded); also updates prompt and servers."""
        if self.server_updater is not None:
            self.server_updater()
        self._note_lost_tasks()
        if self.state.problem != self._reported_problem:
            self._reported_problem = self.state.problem
            if self.state.problem:
                self.conversation.events.aside("state", self.state.problem)
        if self.has_standard_prompt and (prompt := self.prompt.news()):
            self.want_prompt(prompt)
        events: list[HookInput] = []
        if not self.started and self.descent is not None:
            events += self.descent.started(self.store, self.common_hook_fields())
        elif not self.started:
            source: Literal["resume", "startup"] = "resume" if self._resumed else "startup"
            events.append(SessionStart(**self.common_hook_fields(), source=source, model=self.model))
            self._report_unknown_rules()
            for path, why in self.types.problems.items() if self.types else ():
                self.conversation.events.aside("agents", f"{path}: {why}")
        if self.prompt.loaded is not self._announced_files:
            events += [self._instructions_loaded(file) for file in self.prompt.loaded if file.text]
        self.started = True
        self._announced_files = self.prompt.loaded
        return events

    def want_prompt(self, prompt: SystemPrompt) -> None:
        """Set the system prompt of the next epoch; until then, its changes are announced in messages."""
        self.conversation.want(self.conversation.epoch.wanted.with_system(prompt))

    def _note_lost_tasks(self) -> None:
        """Tell the model about background commands that ended with an earlier process."""
        if lines := slots.task_lines(self.state.take_lost_tasks()):
            self.conversation.note(TasksGone("\n".join(lines)).render())
            self.state.save()

    def _report_unknown_rules(self) -> None:
        if (rules := self.state.grants.now.rules) == PermissionRules():
            return
        standard = standard_tools(self.state.processes, skills=self.skills)
        known_tools = {tool.name for tool in (*self.box, *standard)} | {SkillTool.name}
        for line in unknown_rules(rules, known_tools):
            self.conversation.events.aside("rules", line)

    def _instructions_loaded(self, file: LoadedFile) -> InstructionsLoaded:
        return InstructionsLoaded(
            **self.common_hook_fields(),
            file_path=file.path,
            memory_type=file.owner,
            load_reason=file.reason,
            parent_file_path=file.parent or UNSET,
        )

    def background_tasks(self) -> list[dict[str, str]]:
        """The running background commands, in the form Stop hooks receive."""
        return [
            {
                "id": task.id,
                "type": "shell",
                "status": task.state,
                "command": task.command,
                "output_file": task.path,
            }
            for task in self.state.processes.tasks()
            if task.state == "running"
        ]

    def _report_hooks(self, outcome: HookOutcome) -> None:
        """Show the messages of hooks, and report failed hooks."""
        for text in outcome.messages:
            self.reporter.put(Notice(text))
        for failure in outcome.failures:
            reason = f"{outcome.event}, {failure.hook}: {failure.problem}"
            self.conversation.events.aside("hooks", reason)

    def _learn_mentioned(self, call: ToolCall, output: ToolOutput) -> None:
        # Without a call id, because no call of the model shows the file.
        self.state.learn(replace(call, id=""), output, lambda *_: None)

    def is_own_file(self, path: str) -> bool:
        """Whether the path is one of the session's own files."""
        own_paths = {self.store.path, self.store.notes.path}
        return path in own_paths or Path(path).is_relative_to(self.home.folder)

    def skill_text(self, name: str) -> str:
        """The text of a skill; empty if there is no such skill any more, or its folder is no longer trusted."""
        if name not in self.skills.known:
            return ""
        shown = SkillTool(self.skills).act(SkillInput(name), self.executor.context)
        return shown.content if isinstance(shown.content, str) else ""


def _is_unwritten(text: StoredText) -> bool:
    """Whether nothing was saved there yet; what cannot be read was, and is reported when it is loaded."""
    try:
        return text.read() is None
    except TranscriptError:
        return False
