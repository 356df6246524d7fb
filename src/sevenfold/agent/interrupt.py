"""Interruptible waiting: for tools, for the user, and for models.

Work that does not end when it is asked to is left behind: it may continue in its thread, but the agent no longer waits
for it. A model may think for minutes before its first word, so each request is made in its own thread or task. When the
run is interrupted, the next piece of the answer raises `Aborted`, which closes the connection and carries the partial
answer. If no piece arrives, the request is left behind, and the error carries what was received so far. A
request is also left behind if its answer has begun, and then nothing arrives any more: its connection may be dead
without either side having noticed.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.flow import Ask, Effect, Flow, Run, Signal, translated
from sevenfold.errors import Aborted, ModelError, ProviderFailed
from sevenfold.ports import (
    AsyncClient,
    Call,
    Client,
    Clock,
    HeadWatcher,
    Piece,
    Reply,
    Watcher,
    count_with,
    count_with_async,
)
from sevenfold.record import blocks
from sevenfold.record.log import Answer

if TYPE_CHECKING:
    from sevenfold.agent.assembly import Assembly

R = TypeVar("R")
TICK = 0.05
GLANCE = 0.25
"""How often an asynchronous request is checked for silence, in seconds."""
GRACE = 3.0
"""Seconds that interrupted work gets to end by itself."""
SHORT_GRACE = 0.25
"""The same for a coroutine, which can be cancelled, a function that cannot notice the interrupt, and a request."""
STREAMED_SOURCES = ("main", "sdk", "agent")
"""Query sources whose answers are streamed to the reader: those of the conversation itself."""


class LeftBehind(Aborted):
    """The work did not end when it was interrupted; it may still be going on."""


def in_own_thread(
    work: Callable[[], R], name: str = "sevenfold-work", result: Future[R] | None = None
) -> Future[R]:
    """Run ``work`` in a new thread; returns its future. A shared pool would not do: work can take minutes.

    The thread does not keep the process alive, and may be started while the interpreter shuts down. Pass ``result`` if
    you need the future before the work begins. Raises RuntimeError if the system cannot start another thread.
    """
    result = Future() if result is None else result
    result.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 (raised again by `result` in the waiting thread)
            result.set_exception(error)

    try:
        threading.Thread(target=run, daemon=True, name=name).start()
    except RuntimeError as error:
        result.set_exception(error)
        raise
    return result


def run_interruptibly(work: Callable[[], R], interrupted: Callable[[], bool], grace: float) -> R:
    """Run ``work`` in a new thread and wait for it; raises `LeftBehind` if it is still running after an interrupt."""
    result = in_own_thread(work)
    while not result.done():
        wait([result], TICK)
        if interrupted() and not wait([result], grace).done:
            raise LeftBehind
    return result.result()


async def await_interruptibly(
    work: Coroutine[Any, Any, R], interrupted: Callable[[], bool], grace: float
) -> R:
    """Await ``work``; if it is still running after an interrupt, cancel it and raise `LeftBehind`."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait((task,), timeout=TICK)
            if interrupted() and not task.done():
                done, _ = await asyncio.wait((task,), timeout=grace)
                if not done:
                    raise LeftBehind
    finally:
        task.cancel()
    return task.result()


class _Listener:
    """Forwards the pieces of an answer until the request is interrupted, and collects its text."""

    def __init__(self, call: Call, watch: Watcher | None, stopped: Signal, patience: Patience) -> None:
        self._watch = watch if call.source.partition(":")[0] in STREAMED_SOURCES else None
        self._watcher: Any = watch
        self._stopped = stopped
        self._patience = patience
        self._arrived_at: float | None = None
        self._left = False
        self._texts: list[str] = []
        self._head = Answer("msg_interrupted", "", ())

    def begin(self, head: Answer) -> None:
        """Called when the answer begins; ``head`` has the id, the model and the usage the provider reported."""
        self._head = head
        if isinstance(self._watcher, HeadWatcher):
            self._watcher.begin(head)

    def __call__(self, piece: Piece) -> None:
        if self._stopped.wait(0) or self._left:
            raise Aborted("the call was stopped")
        self.arrived()
        if piece.kind == "text":
            self._texts.append(piece.words)
        if self._watch is not None:
            self._watch(piece)

    def arrived(self) -> None:
        """Called whenever something arrives, even if no piece came of it."""
        self._arrived_at = self._patience.clock.now()

    def silent(self) -> bool:
        """Whether the answer has begun, and nothing has arrived for too long; from then on it is left behind."""
        if self._arrived_at is None:
            return False
        self._left = self._left or self._patience.exhausted(self._arrived_at)
        return self._left

    def abandoned(self) -> ModelError:
        """The error for a request that was left behind, with the partial answer."""
        text = "".join(self._texts)
        content = (blocks.text(text),) if text.strip() else ()
        partial = replace(self._head, blocks=content)
        if self._stopped.wait(0) or not self._left:
            return Aborted("the call was stopped", partial=partial)
        error = ProviderFailed(
            f"the server began its answer, then sent nothing for {self._patience.limit():.0f} seconds. Ask again",
            partial=partial,
        )
        error.network = "silent"
        return error


class Patience(Struct, frozen=True):
    """How long an answer that has begun may be silent."""

    clock: Clock
    limit: Callable[[], float]
    """Returns the most seconds."""

    def exhausted(self, since: float) -> bool:
        """Whether a silence that began at ``since`` has lasted too long."""
        return self.clock.now() - since > self.limit()


class InterruptibleClient(Struct, frozen=True):
    """A client whose requests raise `Aborted` as soon as the run is interrupted."""

    client: Client
    stopped: Callable[[], Signal]
    """Returns the stop signal of the current run."""
    patience: Patience

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request; raises `Aborted` if the run is interrupted."""
        stopped = self.stopped()
        listener = _Listener(call, watch, stopped, self.patience)
        sent = _told_of_retries(call)
        if stopped.wait(0):
            raise listener.abandoned()
        try:
            return run_interruptibly(
                lambda: self.client.ask(sent, listener),
                lambda: stopped.wait(0) or listener.silent(),
                SHORT_GRACE,
            )
        except LeftBehind:
            raise listener.abandoned() from None

    def count(self, call: Call) -> int | None:
        """The tokens of the request's prompt; None if its server does not say, or the run is interrupted."""
        stopped = self.stopped()
        try:
            return run_interruptibly(
                lambda: count_with(self.client, call), lambda: stopped.wait(0), SHORT_GRACE
            )
        except LeftBehind:
            return None

    def close(self) -> None:
        """Close connections."""
        self.client.close()


class AsyncInterruptibleClient(Struct, frozen=True):
    """The async version of `InterruptibleClient`."""

    client: AsyncClient
    stopped: Callable[[], Signal]
    """Returns the stop signal of the current run."""
    patience: Patience

    async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request; raises `Aborted` if the run is interrupted."""
        stopped = self.stopped()
        listener = _Listener(call, watch, stopped, self.patience)
        sent = _told_of_retries(call)
        if stopped.wait(0):
            raise listener.abandoned()
        asking = asyncio.ensure_future(self.client.ask(sent, listener))
        stopping = asyncio.ensure_future(_happens(stopped))
        try:
            finished: set[object] = set()
            while not finished and not listener.silent():
                tasks = (asking, stopping)
                done, _ = await asyncio.wait(tasks, timeout=GLANCE, return_when=asyncio.FIRST_COMPLETED)
                finished = set(done)
        finally:
            stopping.cancel()
            if not asking.done():
                asking.cancel()
        try:
            return await asking
        except asyncio.CancelledError as cancelled:
            if stopped.wait(0):
                cause = cancelled.__cause__
                whole = isinstance(cause, Aborted) and cause.partial
                raise (cause if whole and isinstance(cause, Aborted) else listener.abandoned()) from None
            if listener.silent():
                raise listener.abandoned() from None
            raise

    async def count(self, call: Call) -> int | None:
        """The tokens of the request's prompt; None if its server does not say, or the run is interrupted."""
        stopped = self.stopped()
        try:
            return await await_interruptibly(
                count_with_async(self.client, call), lambda: stopped.wait(0), SHORT_GRACE
            )
        except LeftBehind:
            return None

    async def close(self) -> None:
        """Close connections."""
        await self.client.close()


def patience_of(assembly: Assembly) -> Patience:
    """The patience of an agent, which its settings may change while it runs."""
    conversation = assembly.conversation
    return Patience(conversation.clock, lambda: conversation.settings.stall_seconds)


def _told_of_retries(call: Call) -> Call:
    """The call without silent retries by the client, if the agent's loop retries it and tells the user so."""
    streamed = call.source.partition(":")[0] in STREAMED_SOURCES
    return replace(call, retries=0) if streamed and call.retries is None else call


async def _happens(signal: Signal) -> None:
    while not await signal.wait_async(3600):
        pass


# -- sub-agents ------------------------------------------------------------------------------------


class _Warming(Struct, frozen=True):
    """Fires ``warm`` when an answer begins: from then on, the request is in the prompt cache."""

    warm: Signal

    def begin(self, head: Answer) -> None:
        """Called when the answer begins."""
        self.warm.happen()

    def __call__(self, piece: Piece) -> None:
        """Ignore the pieces; only the beginning matters here."""


def with_client(flow: Flow[R], child: Assembly, warm: Signal) -> Flow[R]:
    """The flow of a sub-agent, with requests that stop when the sub-agent is stopped; its answers are not streamed.

    ``warm`` fires when its first answer begins. If its time limit has passed, the sub-agent is interrupted.
    """
    client: Any = child.client  # sync or async to match the driver, which makes only one of the two calls

    def stopped() -> Signal:
        return child.loop.stopped

    patience = patience_of(child)
    ask = InterruptibleClient(client, stopped, patience).ask
    ask_async = AsyncInterruptibleClient(client, stopped, patience).ask
    clock = child.conversation.clock
    limit = child.descent.definition.timeout if child.descent else None
    until = None if limit is None else clock.now() + limit

    def step(effect: Effect) -> Flow[Any]:
        if until is not None and clock.now() >= until:
            child.loop.interrupt()
        if not isinstance(effect, Ask):
            return (yield effect)
        arguments = effect.call, _Warming(warm)
        reply = yield from Run(partial(ask, *arguments), partial(ask_async, *arguments))
        warm.happen()
        return reply

    return translated(flow, step)
