"""`sevenfold.Agent`: a model with tools that works until it is done, for those who wait and for those who await.

A run goes on in a thread (a task) of its own, so that the caller can look, queue and interrupt while it works, and so
that an interrupt from the keyboard never hits the middle of a write.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from functools import partial
from types import TracebackType
from typing import Self, TypeVar, Unpack

from sevenfold.agent.assembly import Workings
from sevenfold.agent.events import AgentEvent, Ended, Queue
from sevenfold.agent.hooks.registry import AsyncHooks, Hooks
from sevenfold.agent.interruptible import AsyncInterruptible, Interruptible
from sevenfold.agent.loop import Finished
from sevenfold.agent.options import FITTING, AgentOptions
from sevenfold.agent.permissions.engine import Grants
from sevenfold.agent.toolkit import KeptTodos, Plans
from sevenfold.agent.tools.skills import Skills
from sevenfold.conversation.flow import Flow, drive, drive_async
from sevenfold.errors import Refused
from sevenfold.layers.compact.request import Compacted, Wish
from sevenfold.ports import AsyncClient, Client
from sevenfold.providers.registry import async_client_for, async_client_of, client_for, client_of
from sevenfold.session.async_session import AsyncSession
from sevenfold.session.close import finish, finish_async
from sevenfold.session.options import checked
from sevenfold.session.results import Wishes
from sevenfold.session.session import Session

Result = TypeVar("Result")
BUSY = "the agent is working; wait for it, interrupt() it, or queue() what you have to say"


class _Parts:
    """What both kinds of agent show of their workings."""

    def __init__(self, model: str, options: AgentOptions, client: Client | AsyncClient) -> None:
        self._workings = Workings(model, options, client)
        self._running = False

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self._workings.model

    @property
    def grants(self) -> Grants:
        """What the agent is permitted; its ``mode`` can be changed at any time."""
        return self._workings.standing.grants

    @property
    def todos(self) -> KeptTodos:
        """The to-do list."""
        return self._workings.standing.todos

    @property
    def plans(self) -> Plans:
        """The plan, and whether one is being made."""
        return self._workings.standing.plans

    @property
    def skills(self) -> Skills:
        """The skills there are."""
        return self._workings.skills

    @property
    def goal(self) -> str:
        """What all of it is for: comes back, word for word, behind every summary."""
        return self._workings.standing.goal

    @goal.setter
    def goal(self, goal: str) -> None:
        self._workings.standing.set_goal(goal)

    @property
    def workings(self) -> Workings:
        """What the agent is made of, for those who build on it."""
        return self._workings

    @property
    def running(self) -> bool:
        """Is it working?"""
        return self._running

    @property
    def waiting(self) -> tuple[str, ...]:
        """What was queued and not heard yet."""
        return self._workings.loop.waiting

    def queue(self, text: str) -> None:
        """Say something while it works; it hears it with the results of the tools it is using."""
        self._workings.loop.queue(text)

    def interrupt(self) -> None:
        """Stop the answer and the tools under way; what was said and done stays in the conversation."""
        self._workings.loop.interrupt()
        self._workings.hands.stop()

    def _begin(self, prompt: str) -> Flow[Finished]:
        """A run that can be interrupted from now on."""
        self._claim()
        return self._workings.loop.run(prompt)

    def _compacting(self, instructions: str, wish: Wishes) -> Flow[Compacted | None]:
        """A compaction that can be interrupted from now on."""
        self._claim()
        return self._workings.loop.compact(Wish(trigger="manual", instructions=instructions, **wish))

    def _claim(self) -> None:
        if self._running:
            raise Refused(BUSY)
        self._running = True
        self._workings.hands.ready()


class Agent(_Parts):
    """A model with tools that works until it is done.

    Every option besides the model can be left out:

        tools              functions and tools; else the standard tools
        name               the name it is kept under, to be continued; else it is kept nowhere
        folder             the workspace; else where the program runs
        mode               ask, accept_edits, plan or autonomous
        rules              permission rules, in lists under allow, ask and deny
        consent            decides what the user has to decide; else it is refused
        ask                puts the model's questions to the user
        hooks              `Hooks`, or `AsyncHooks` for an `AsyncAgent`
        mentions           True: files that a prompt mentions as @path are put beside it
        mcp                servers whose tools it may use: by name with their configuration, or `McpServers`
        max_turns          requests in one run
        max_usd            dollars in the whole session; only for models whose prices are known
        max_output_tokens  tokens the model writes in one run
        max_tokens         tokens of one answer
        client             a client of an official SDK, or one of ours; else the environment decides
        system             the system prompt, in place of the standard one
        guidance           what the model is to know besides, in the standard prompt
        settings           what overrides the settings in files and environment, or a source of all of them
        listen             functions, each called with every event of the engine; they may veto what is proposed
        thinking           the request's field of that name
        source             on whose behalf requests are made: main, or sdk for a program's own
        clock              who tells the time
        ids                who names records; random names, unless a run is to be repeatable to the byte
    """

    def __init__(self, model: str, **options: Unpack[AgentOptions]) -> None:
        options = checked(options, AgentOptions, fitting=FITTING)
        given = options.get("client")
        self._owned = given is None
        self._client = client_for(model) if given is None else client_of(given)
        self._hooks: Hooks | None = options.get("hooks")
        super().__init__(model, options, self._client)
        workings = self._workings
        self.session = Session(workings.engine, workings.store, self._client, self._hooks)
        """The session it works in: gauge, why, undo, compact, recall…"""
        self._asked = Interruptible(self._client, lambda: workings.loop.stopped)
        self._work: _Work | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, prompt: str = "") -> Finished:
        """Work until there is nothing left to do; without a prompt it goes on where it stopped.

        An interrupt from the keyboard stops it like `interrupt`, and is raised when the conversation is in order.
        """
        finished: Finished | None = None
        with closing(self.stream(prompt)) as events:
            for event in events:
                if isinstance(event, Ended):
                    finished = event.finished
        assert finished is not None
        return finished

    def stream(self, prompt: str = "") -> Generator[AgentEvent, None, None]:
        """Work, and tell what happens while it does; closing the iterator interrupts."""
        self._work = work = _Work(partial(self._drive, self._begin(prompt)))
        self._workings.reporter.sink = work.events
        try:
            work.start()
            while (event := work.events.get()) is not None:
                yield event
        finally:
            self._stop(work)
        if work.error is not None:
            raise work.error
        yield Ended(work.finished)

    def compact(self, instructions: str = "", **wish: Unpack[Wishes]) -> Compacted | None:
        """See `Session.compact`; interrupted, it raises `sevenfold.errors.Aborted` and everything is as it was."""
        flow = self._compacting(instructions, wish)
        try:
            return self._drive(flow)
        finally:
            self._running = False

    def _drive(self, flow: Flow[Result]) -> Result:
        workings = self._workings
        watch, lock, stopped = workings.reporter.piece, workings.core.lock, workings.loop.stopped
        return drive(flow, self._asked, watch, self._hooks, lock, stopped)

    def _stop(self, work: _Work) -> None:
        if not work.over:
            self.interrupt()
        work.events.leave()
        work.join()
        self._workings.reporter.sink = None
        self._running = False

    def close(self) -> None:
        """Stop what it does, and let others open the session."""
        own = [self._client.close] if self._owned else []
        finish(self._halt, self._tell_end, self._workings.close, self.session.close, *own)

    def _halt(self) -> None:
        if self._running and self._work is not None:
            self._stop(self._work)

    def _tell_end(self) -> None:
        if self._hooks is not None and self._workings.started:
            self._hooks.fire(self._workings.ending())


class _Work(threading.Thread):
    """A run in a thread of its own."""

    def __init__(self, work: Callable[[], Finished]) -> None:
        super().__init__(daemon=True, name="sevenfold-agent")
        self._work = work
        self._context = contextvars.copy_context()
        self.events = Queue()
        self.finished = Finished("interrupted")
        self.error: BaseException | None = None
        self.over = False

    def run(self) -> None:
        """Work, and hand over what came of it."""
        try:
            self.finished = self._context.run(self._work)
        except BaseException as error:  # noqa: BLE001 (raised again where the caller waits)
            self.error = error
        finally:
            self.over = True
            self.events.end()


class AsyncAgent(_Parts):
    """The same agent with the same names, awaited."""

    def __init__(self, model: str, **options: Unpack[AgentOptions]) -> None:
        options = checked(options, AgentOptions, awaits=True, fitting=FITTING)
        given = options.get("client")
        self._owned = given is None
        self._client = async_client_for(model) if given is None else async_client_of(given)
        self._hooks: AsyncHooks | None = options.get("hooks")
        super().__init__(model, options, self._client)
        workings = self._workings
        self.session = AsyncSession(Session(workings.engine, workings.store), self._client, self._hooks)
        """The session it works in: gauge, why, undo, compact, recall…"""
        self._asked = AsyncInterruptible(self._client, lambda: workings.loop.stopped)
        self._task: asyncio.Task[Finished] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def run(self, prompt: str = "") -> Finished:
        """See `Agent.run`; cancelling it stops it like `interrupt`, with the conversation in order."""
        finished: Finished | None = None
        async with aclosing(self.stream(prompt)) as events:
            async for event in events:
                if isinstance(event, Ended):
                    finished = event.finished
        assert finished is not None
        return finished

    async def stream(self, prompt: str = "") -> AsyncGenerator[AgentEvent, None]:
        """See `Agent.stream`."""
        flow, queue = self._begin(prompt), _AsyncQueue()
        self._workings.reporter.sink = queue
        self._task = task = asyncio.ensure_future(self._worked(flow, queue))
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            await self._stop(task)
        yield Ended(task.result())

    async def compact(self, instructions: str = "", **wish: Unpack[Wishes]) -> Compacted | None:
        """See `Agent.compact`."""
        flow = self._compacting(instructions, wish)
        try:
            return await self._drive(flow)
        finally:
            self._running = False

    async def _worked(self, flow: Flow[Finished], queue: _AsyncQueue) -> Finished:
        try:
            return await self._drive(flow)
        finally:
            queue.end()

    async def _drive(self, flow: Flow[Result]) -> Result:
        watch, stopped = self._workings.reporter.piece, self._workings.loop.stopped
        return await drive_async(flow, self._asked, watch, self._hooks, stopped)

    async def _stop(self, task: asyncio.Task[Finished]) -> None:
        if not task.done():
            self.interrupt()
        await _ended(task)
        self._workings.reporter.sink = None
        self._running = False

    async def close(self) -> None:
        """See `Agent.close`."""
        own = [self._client.close] if self._owned else []
        workings = partial(asyncio.to_thread, self._workings.close)
        await finish_async(self._halt, self._tell_end, workings, self.session.close, *own)

    async def _halt(self) -> None:
        if self._running and self._task is not None:
            await self._stop(self._task)

    async def _tell_end(self) -> None:
        if self._hooks is not None and self._workings.started:
            await self._hooks.fire(self._workings.ending())


class _AsyncQueue:
    """Events to a reader on the event loop, from there or from a tool's thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()

    def put(self, event: AgentEvent) -> None:
        """Add an event."""
        self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    def end(self) -> None:
        """There will be no more."""
        self._loop.call_soon_threadsafe(self._events.put_nowait, None)

    async def get(self) -> AgentEvent | None:
        """The next event; None when there will be no more."""
        return await self._events.get()


async def _ended(task: asyncio.Task[Finished]) -> None:
    """Wait for a task's end, whoever is cancelled meanwhile: it was told to stop and is about to."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
