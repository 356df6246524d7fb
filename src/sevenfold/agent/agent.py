"""`sevenfold.Agent` and `sevenfold.AsyncAgent`: a model with tools that works until it is done.

A run takes place in its own thread (or asyncio task). The caller can inspect, queue and interrupt meanwhile, and a
keyboard interrupt never hits the middle of a write.
"""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import AsyncGenerator, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AsyncExitStack, ExitStack, aclosing, closing, contextmanager
from functools import partial
from types import MappingProxyType
from typing import Self, TypeVar, Unpack, get_args

from msgspec.structs import replace

from sevenfold.agent import interrupt
from sevenfold.agent.agent_events import AgentEvent, AsyncEventQueue, Ended, EventQueue, Finished
from sevenfold.agent.assembly import Assembly
from sevenfold.agent.checkpoints import Checkpoints, RestorePlan
from sevenfold.agent.hooks.registry import AsyncHooks, Hooks
from sevenfold.agent.loop import Loop
from sevenfold.agent.options import AgentOptions
from sevenfold.agent.permissions.engine import Grants, Mode
from sevenfold.agent.submitted import SubmitOptions, SubmittedRun, submit
from sevenfold.agent.team.team import MapProgress, Team
from sevenfold.agent.texts import CommandOutput
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.session_tools import PlanFile, TodoList
from sevenfold.agent.tools.shell import ShellTool
from sevenfold.agent.tools.skills import SkillCatalog
from sevenfold.agent.tools.tool import Toolbox
from sevenfold.conversation.controls import EFFORTS, THINKING
from sevenfold.conversation.flow import Flow, drive, drive_async
from sevenfold.conversation.request import ToolCall
from sevenfold.conversation.step_thread import await_end
from sevenfold.errors import Refused
from sevenfold.jobs import Jobs
from sevenfold.layers.compact.compaction import Compacted, CompactionRequest
from sevenfold.ports import AsyncClient, Client
from sevenfold.providers.registry import async_client_for, client_for
from sevenfold.record.authorship import UserPrompt
from sevenfold.record.decisions import AgentEnd
from sevenfold.session.async_session import AsyncSession
from sevenfold.session.factory import OFFLINE_JOBS
from sevenfold.session.options import checked, one_of
from sevenfold.session.results import Wishes
from sevenfold.session.session import Session
from sevenfold.stores.lineage import AGENT_VARIABLE

R = TypeVar("R")
BUSY = "the agent is working; wait for it, interrupt() it, or queue() what you have to say"
CHECKS = MappingProxyType(
    {
        "mode": (one_of(*get_args(Mode)), f"one of {', '.join(get_args(Mode))}"),
        "effort": (one_of(*EFFORTS), f"one of {', '.join(EFFORTS)}"),
        "thinking": (
            lambda value: isinstance(value, Mapping) or value in THINKING,
            f"one of {', '.join(THINKING)}, or a mapping",
        ),
        "agents": (
            lambda value: isinstance(value, bool | Mapping),
            "True or False, or a mapping from names to definitions of agents",
        ),
    }
)
"""Validation of the options that only agents have."""


class _BaseAgent:
    """The common base of `Agent` and `AsyncAgent`."""

    def __init__(self, model: str, options: AgentOptions, client: Client | AsyncClient) -> None:
        self.assembly = Assembly(model, options, client)
        """The parts of the agent, for programs that build on it."""
        self._owned = options.get("client") is None
        self._running = False
        self.assembly.presence.busy = lambda: self._running

    @staticmethod
    def submit(
        prompt: str | UserPrompt, *, agent: str, session: str, jobs: Jobs, **options: Unpack[SubmitOptions]
    ) -> SubmittedRun:
        """Have a session's agent run as a job, in this process or on another machine; returns at once.

        ``agent`` is the name by which those who carry out jobs know the function that makes it. Runs of one session
        are carried out one after the other, in this order. See `SubmitOptions` for the rest.
        """
        return submit(prompt, agent, session, jobs, options)

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.assembly.model

    @property
    def grants(self) -> Grants:
        """The agent's permissions; their ``mode`` can be changed at any time."""
        return self.assembly.state.grants

    @property
    def todos(self) -> TodoList:
        """The to-do list."""
        return self.assembly.state.todos

    @property
    def plans(self) -> PlanFile:
        """The plan, and whether the agent is planning."""
        return self.assembly.state.plans

    @property
    def skills(self) -> SkillCatalog:
        """The available skills."""
        return self.assembly.skills

    @property
    def team(self) -> Team | None:
        """The sub-agents it has started; None if it may not start any."""
        return self.assembly.team

    @property
    def goal(self) -> str:
        """The goal of the session, restored verbatim after every compaction."""
        return self.assembly.state.goal

    @goal.setter
    def goal(self, goal: str) -> None:
        self.assembly.state.goal = goal
        self.assembly.state.save()

    @property
    def workings(self) -> Assembly:
        """The old name of `assembly`."""
        warnings.warn("agent.workings is called agent.assembly now", DeprecationWarning, stacklevel=2)
        return self.assembly

    @property
    def running(self) -> bool:
        """Whether the agent is busy."""
        return self._running

    @property
    def waiting(self) -> tuple[str, ...]:
        """Queued messages that have not been sent to the model yet."""
        return self.assembly.loop.waiting

    def restore_plan(self, record: str) -> RestorePlan:
        """Plan how to restore the files to their state when this user message was sent; `restore` carries it out.

        Raises `sevenfold.errors.Refused` if checkpoints are off, the record is unknown, or files are being changed.
        """
        log = self.assembly.store.log
        checkpoints = self._kept_files()
        target = log.record(record)
        if target is None:
            raise Refused(f"there is no record {record} in this session")
        return checkpoints.plan(
            lambda tip: (tip_record := log.record(tip)) is None or tip_record[0] >= target[0]
        )

    def restore(self, plan: RestorePlan, *, but: Collection[str] = ()) -> Mapping[str, str]:
        """Restore files, except those in ``but``; returns the files that could not be restored, and why."""
        return self._kept_files().restore(plan, but=but)

    def _kept_files(self) -> Checkpoints:
        if self.assembly.checkpoints is None:
            raise Refused(
                "checkpoints are off: pass checkpoints=True, and leave the setting checkpoints on"
            )
        return self.assembly.checkpoints

    def run_command(self, command: str, *, asked: bool = False) -> ToolOutput:
        """Run a command line for the user; with ``asked``, only if permitted, like the agent's own commands."""
        assembly = self.assembly
        call = ToolCall("for-the-user", ShellTool.name, {"command": command})
        with self._claimed():
            assembly.executor.begin()
            if asked:
                (result,) = drive(assembly.executor.run([call]), None)
                return ToolOutput(result["content"], is_error=result.get("is_error", False))
            box = Toolbox([ShellTool(assembly.state.processes)])
            context = assembly.executor.context.for_call(call.id)
            environ = {name: value for name, value in context.environ().items() if name != AGENT_VARIABLE}
            return box.run(call.name, call.input, replace(context, environ=lambda: environ))

    def note_command(self, command: str, output: ToolOutput) -> None:
        """Show the model a command the user ran, and its output, along with the user's next message."""
        conversation = self.assembly.conversation
        with conversation.atomic():
            conversation.user(f"! {command}")
            conversation.note(CommandOutput(command, output.text).render())

    def queue(self, prompt: str | UserPrompt, *, first: bool = False) -> None:
        """Queue a message while the agent works; the model gets it with the results of the running tools.

        With ``first`` it is sent before those that are queued already.
        """
        self.assembly.loop.queue(prompt, first=first)

    def unqueue(self, place: int = -1) -> UserPrompt | None:
        """Take a queued message out again, by default the last; None if there is none, or it has been sent."""
        return self.assembly.loop.unqueue(place)

    def interrupt(self) -> None:
        """Stop the current answer and the running tools; what is done so far stays in the conversation."""
        self.assembly.loop.interrupt()

    def pause(self) -> None:
        """Stop the current run before its next request, so that nothing under way is lost.

        The request and the tools under way end first. The run ends as ``interrupted``; if it has a key, it goes on when
        it is run again with that key, here or wherever the session is opened next.
        """
        self.assembly.loop.pause()

    def _run(self, prompt: str | UserPrompt, key: str) -> Flow[Finished]:
        """Claim the agent for a run, which can be interrupted from this call on."""
        self._claim()
        self.assembly.presence.watch()
        loop = self.assembly.loop
        return loop.run_once(prompt, key) if key else loop.run(prompt)

    def _claim(self) -> None:
        if self._running:
            raise Refused(BUSY)
        self._running = True

    @contextmanager
    def _claimed(self) -> Iterator[Loop]:
        """Claim the agent for something other than a run, which `interrupt` can also stop."""
        self._claim()
        try:
            yield self.assembly.loop
        finally:
            self._running = False


class Agent(_BaseAgent):
    """A model with tools that works until it is done.

    The model is required; all options can be omitted:

        tools              functions and tools; default: the standard tools
        name               the name under which to store the session, so it can be resumed; default: not stored
        branch             the name of a fork of that session to work in; default: the session itself
        folder             the workspace; default: the current directory
        roots              further folders that count as the workspace
        mode               ask, accept_edits, plan or autonomous
        rules              permission rules: lists under allow, ask and deny
        consent            asks the user for permission; default: anything that needs consent is refused
        ask                passes the model's questions to the user
        hooks              `Hooks`, or `AsyncHooks` for an `AsyncAgent`
        mentions           True: attach files that a prompt mentions as @path
        checkpoints        True: save files before the agent changes them; `restore` restores them
        memory             False: remember nothing across sessions; "tool": also give the model a memory tool
        agents             True: it may start sub-agents; a mapping: further types, besides those defined in files
        store              where named sessions are stored: a folder, a URL or a `sevenfold.ports.Store`
        mcp                MCP servers whose tools it may use: names with configurations, or `McpServers`
        max_turns          limit on requests in one run
        max_usd            limit in dollars for the whole session; only for models whose prices are known
        max_output_tokens  limit on the tokens the model writes in one run
        max_tokens         limit on the tokens of one answer; default: as many as the model can write
        effort             how much effort the model puts into its answers, such as low or high
        client             a client of an official SDK, or one of ours; default: chosen from the environment
        system             a system prompt that replaces the standard one
        guidance           additional guidance for the model, added to the standard prompt
        settings           settings that override files and environment, or a source of all settings
        listen             functions called with every event of the engine; they can veto proposals
        layers             what keeps it within the window, cheapest first; by default those a session has
        thinking           shown, hidden or off; or the request field of that name
        source             on whose behalf requests are made: main, or sdk for a program's own
        clock              provides the time
        ids                generates record ids; default: random ids
    """

    def __init__(self, model: str, **options: Unpack[AgentOptions]) -> None:
        options = checked(options, AgentOptions, fitting=CHECKS)
        self._client = client_for(model, None, OFFLINE_JOBS, options.get("client"))
        self._hooks: Hooks | None = options.get("hooks")
        super().__init__(model, options, self._client)
        self.session = Session(self.assembly.conversation, self.assembly.store, self._client, self._hooks)
        """The session it works in: gauge, why, undo, compact, recall…"""
        self._interruptible = interrupt.InterruptibleClient(
            self._client, lambda: self.assembly.loop.stopped, interrupt.patience_of(self.assembly)
        )
        self._work: Future[Finished] | None = None
        self._events = EventQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, prompt: str | UserPrompt = "", *, key: str = "") -> Finished:
        """Work until there is nothing left to do; without a prompt, continue where the last run stopped.

        A run with a ``key`` is carried out once: if the process ended meanwhile, the same call goes on where it
        stopped, and once the run has ended, it returns the same end without asking the model.

        A keyboard interrupt stops the run like `interrupt`, and is raised once the conversation is consistent.
        """
        with closing(self.stream(prompt, key=key)) as events:
            (ended,) = deque(events, maxlen=1)
        assert isinstance(ended, Ended)
        return ended.finished

    def stream(self, prompt: str | UserPrompt = "", *, key: str = "") -> Generator[AgentEvent, None, None]:
        """Run like `run`, and yield events meanwhile; closing the iterator interrupts the run."""
        flow = self._run(prompt, key)
        self._events = events = EventQueue()
        self.assembly.reporter.sink = events
        self._work = work = Future[Finished]()
        work.add_done_callback(lambda _: events.end())
        try:
            # A tool may close the agent before this returns, so `_work` is set before the thread starts.
            interrupt.in_own_thread(partial(self._drive, flow), "sevenfold-agent", work)
            while (event := events.get()) is not None:
                yield event
        finally:
            self._stop(work)
        yield Ended(work.result())

    def map(
        self, prompts: Sequence[str], agent: str = "fork", progress: MapProgress | None = None
    ) -> list[AgentEnd]:
        """Run several tasks concurrently, each with a sub-agent of this type; returns how each ended, in order.

        Forks know the conversation so far and read it from the cache. Nothing they do enters the conversation: repeat
        what matters in the next prompt. The same tasks at the same point in the conversation run only once, even after
        a kill. ``progress`` is called with a task's number and a line of text for each call its agent makes.
        """
        with self._claimed() as loop:
            return self._drive(loop.map(prompts, agent, progress))

    def compact(self, instructions: str = "", **wish: Unpack[Wishes]) -> Compacted | None:
        """See `Session.compact`; if interrupted, raises `sevenfold.errors.Aborted` and changes nothing."""
        request = CompactionRequest(trigger="manual", instructions=instructions, **wish)
        with self._claimed() as loop:
            return self._drive(loop.compact(request))

    def _drive(self, flow: Flow[R]) -> R:
        assembly = self.assembly
        lock = self.assembly.conversation.lock
        return drive(
            flow, self._interruptible, assembly.reporter.put, self._hooks, lock, assembly.loop.stopped
        )

    def _stop(self, work: Future[Finished]) -> None:
        if not work.done():
            self.interrupt()
        self._events.leave()
        wait((work,))
        self.assembly.reporter.sink = None
        self._running = False

    def close(self) -> None:
        """Stop working, and release the session so that others can open it."""
        with ExitStack() as cleanup:  # in reverse order, each even if another one fails
            if self._owned:
                cleanup.callback(self._client.close)
            cleanup.callback(self.session.close)
            cleanup.callback(self.assembly.close)
            cleanup.callback(self._fire_end)
            cleanup.callback(self._halt)

    def _halt(self) -> None:
        if self._running and self._work is not None:
            self._stop(self._work)

    def _fire_end(self) -> None:
        if self._hooks is not None and self.assembly.started:
            self._hooks.fire(self.assembly.session_end())


class AsyncAgent(_BaseAgent):
    """The async version of `Agent`."""

    def __init__(self, model: str, **options: Unpack[AgentOptions]) -> None:
        options = checked(options, AgentOptions, awaits=True, fitting=CHECKS)
        self._client = async_client_for(model, None, OFFLINE_JOBS, options.get("client"))
        self._hooks: AsyncHooks | None = options.get("hooks")
        super().__init__(model, options, self._client)
        session = Session(self.assembly.conversation, self.assembly.store)
        self.session = AsyncSession(session, self._client, self._hooks)
        """The session it works in: gauge, why, undo, compact, recall…"""
        self._interruptible = interrupt.AsyncInterruptibleClient(
            self._client, lambda: self.assembly.loop.stopped, interrupt.patience_of(self.assembly)
        )
        self._task: asyncio.Task[Finished] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, prompt: str | UserPrompt = "", *, key: str = "") -> Finished:
        """See `Agent.run`; cancelling it stops the run like `interrupt` and leaves the conversation consistent."""
        async with aclosing(self.stream(prompt, key=key)) as events:
            async for event in events:
                last = event
        assert isinstance(last, Ended)
        return last.finished

    async def stream(
        self, prompt: str | UserPrompt = "", *, key: str = ""
    ) -> AsyncGenerator[AgentEvent, None]:
        """See `Agent.stream`."""
        flow = self._run(prompt, key)
        queue = AsyncEventQueue()
        self.assembly.reporter.sink = queue
        self._task = task = asyncio.ensure_future(self._drive(flow))
        task.add_done_callback(lambda _: queue.end())
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            await self._stop(task)
        yield Ended(task.result())

    async def map(
        self, prompts: Sequence[str], agent: str = "fork", progress: MapProgress | None = None
    ) -> list[AgentEnd]:
        """See `Agent.map`."""
        with self._claimed() as loop:
            return await self._drive(loop.map(prompts, agent, progress))

    async def compact(self, instructions: str = "", **wish: Unpack[Wishes]) -> Compacted | None:
        """See `Agent.compact`."""
        request = CompactionRequest(trigger="manual", instructions=instructions, **wish)
        with self._claimed() as loop:
            return await self._drive(loop.compact(request))

    async def _drive(self, flow: Flow[R]) -> R:
        assembly = self.assembly
        lock = self.assembly.conversation.lock
        return await drive_async(
            flow,
            self._interruptible,
            assembly.reporter.put,
            self._hooks,
            assembly.loop.stopped,
            lock,
            self.session.steps,
        )

    async def _stop(self, task: asyncio.Task[Finished]) -> None:
        if not task.done():
            self.interrupt()
        await await_end(task)
        self.assembly.reporter.sink = None
        self._running = False

    async def close(self) -> None:
        """See `Agent.close`."""
        async with AsyncExitStack() as cleanup:
            if self._owned:
                cleanup.push_async_callback(self._client.close)
            cleanup.push_async_callback(self.session.close)
            cleanup.push_async_callback(asyncio.to_thread, self.assembly.close)
            cleanup.push_async_callback(self._fire_end)
            cleanup.push_async_callback(self._halt)

    async def _halt(self) -> None:
        if self._running and self._task is not None:
            await self._stop(self._task)

    async def _fire_end(self) -> None:
        if self._hooks is not None and self.assembly.started:
            await self._hooks.fire(self.assembly.session_end())
