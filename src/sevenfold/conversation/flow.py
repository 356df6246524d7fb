"""Flows: generators that yield effects and are sent their results, and the two drivers that run them.

A flow contains all the decisions and none of the waiting, so it is written once for blocking and for async programs,
and a test can drive it with `next` and `send`. Effects are a closed union; each one is iterable, so
``reply = yield from Ask(call)`` is typed. However a flow ends (normally, by an error, an interrupt or a
cancellation), it is closed before the driver returns.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from math import ceil
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, assert_never, final

from msgspec import Struct

from sevenfold.conversation.hooks import HookInput, HookOutcome
from sevenfold.conversation.step_thread import StepThread
from sevenfold.errors import Aborted, Refused
from sevenfold.ports import (
    AsyncClient,
    Call,
    Client,
    Reply,
    Watcher,
    count_with,
    count_with_async,
)

R = TypeVar("R")


class HookRunner(Protocol):
    """Runs the hooks of an event for the blocking driver."""

    def fire(self, event: HookInput, stopped: Callable[[], bool] = ...) -> HookOutcome:
        """Run the event's hooks; raises `Aborted` once ``stopped()`` is true."""


class AsyncHookRunner(Protocol):
    """Runs the hooks of an event for the async driver."""

    async def fire(self, event: HookInput) -> HookOutcome:
        """Run the event's hooks; cancelling this call ends them."""


class Signal:
    """A one-time event that both threads and async tasks can wait for."""

    def __init__(self) -> None:
        self._happened = threading.Event()
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def happen(self) -> None:
        """Mark it as happened and wake everything that waits."""
        with self._lock:
            self._happened.set()
            for loop, event in self._waiting:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(event.set)

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds``; True if it has happened."""
        return self._happened.wait(seconds)

    async def wait_async(self, seconds: float) -> bool:
        """Like `wait`, without blocking the event loop."""
        event = asyncio.Event()
        waiting = asyncio.get_running_loop(), event
        with self._lock:
            self._waiting.append(waiting)
        try:
            if not self._happened.is_set():
                await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return self._happened.is_set()
        finally:
            with self._lock:
                self._waiting.remove(waiting)
        return True


class _Effect(Struct, Generic[R], frozen=True):
    """An effect that a flow yields; ``yield from`` evaluates to its typed result."""

    def __iter__(self) -> Generator[Any, Any, R]:
        result: R = yield self
        return result


@final
class Ask(_Effect[Reply], frozen=True):
    """Ask a model; the flow gets its `Reply`, or a `ModelError` thrown in."""

    call: Call


@final
class CountTokens(_Effect[int | None], frozen=True):
    """Have the provider count a request's tokens; the flow gets None if it does not say."""

    call: Call


@final
class Fire(_Effect[HookOutcome], frozen=True):
    """Run the hooks of an event; the flow gets their `HookOutcome`."""

    event: HookInput


@final
class Wait(_Effect[bool], frozen=True):
    """Wait for background work; the flow gets True if it ended in time."""

    signal: Signal
    seconds: float


@final
class Run(_Effect[R], frozen=True):
    """Do something slow, such as running a tool or waiting for the user; the flow gets the result or the error."""

    now: Callable[[], R]
    """For the blocking driver."""
    later: Callable[[], Awaitable[R]]
    """For the async driver."""


@final
class Gather(_Effect[list[R]], frozen=True):
    """Run flows concurrently, at most ``limit`` at a time; the flow gets their results in order.

    Their steps run without the driver's guard, because they may wait for the user or for a reader of events.
    """

    flows: Sequence[Flow[R]]
    limit: int


Effect: TypeAlias = Ask | CountTokens | Fire | Wait | Run[Any] | Gather[Any]
Flow: TypeAlias = Generator[Effect, Any, R]


def in_thread(work: Callable[[], R]) -> Run[R]:
    """An effect for pure computation; the async driver runs it in a thread.

    No lock is held meanwhile, so a flow that yields this must check afterwards that the conversation is unchanged.
    """
    return Run(work, partial(asyncio.to_thread, work))


def unguarded(flow: Flow[R]) -> Flow[R]:
    """Wrap a flow so that its steps run without the driver's guard; see `Gather`."""
    (outcome,) = yield from Gather([flow], 1)
    return outcome


Guard = AbstractContextManager[object]
_UNGUARDED: Guard = nullcontext()

TICK = 0.05
"""The longest a blocked wait takes to notice that it was stopped, in seconds."""
FOREVER = 10.0**7
STOPPED = "stopped before it was done"


def translated(flow: Flow[R], step: Callable[[Effect], Flow[Any]], guard: Guard = _UNGUARDED) -> Flow[R]:
    """Wrap a flow so that ``step`` handles each effect; the result or error of that flow goes back into the first."""
    go_on: Callable[[], Effect] = partial(next, flow)
    try:
        while True:
            with guard:
                effect = go_on()
            try:
                go_on = partial(flow.send, (yield from step(effect)))
            except Exception as error:  # noqa: BLE001 (the flow decides what to do about any error)
                go_on = partial(flow.throw, error)
    except StopIteration as end:
        result: R = end.value
        return result
    finally:
        flow.close()


def locked(flow: Flow[R], lock: Guard) -> Flow[R]:
    """Wrap a flow so that it holds a lock during its steps, but not while it waits."""
    return translated(flow, _Effect.__iter__, lock)


def drive(
    flow: Flow[R],
    client: Client | None,
    watch: Watcher | None = None,
    hooks: HookRunner | None = None,
    guard: Guard = _UNGUARDED,
    stopped: Signal | None = None,
) -> R:
    """Run a flow to its end and return its result; its own steps run under the ``guard``, its waits do not.

    Once ``stopped`` has happened, a hook or a wait raises `Aborted` in the flow. Model calls and tools are stopped by
    their clients and executors.
    """

    async def perform(effect: Effect) -> Any:
        match effect:
            case Ask(call=call):
                return _given(client).ask(call, watch)
            case CountTokens(call=call):
                return count_with(client, call)
            case Fire(event=event):
                return _fired(event, hooks, stopped)
            case Wait(signal=signal, seconds=seconds):
                return _waited(signal, seconds, stopped)
            case Run(now=now):
                return now()
            case Gather(flows=flows, limit=limit):
                again = partial(drive, client=client, watch=watch, hooks=hooks, stopped=stopped)
                return _gathered(flows, limit, again)
            case _:
                assert_never(effect)

    async def advance(step: Callable[[], Any]) -> Any:
        with guard:
            return step()

    # Nothing in `perform` and `advance` awaits, so the coroutine finishes at its first step.
    try:
        _run(flow, perform, advance).send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    raise AssertionError("unreachable")


async def drive_async(
    flow: Flow[R],
    client: AsyncClient | None,
    watch: Watcher | None = None,
    hooks: AsyncHookRunner | None = None,
    stopped: Signal | None = None,
    guard: Guard = _UNGUARDED,
    thread: StepThread | None = None,
) -> R:
    """Run a flow to its end without blocking the event loop; see `drive` for ``stopped`` and ``guard``.

    The flow's own steps run in ``thread``; without one, they run on the event loop.
    """

    async def perform(effect: Effect) -> Any:
        match effect:
            case Ask(call=call):
                return await _given(client).ask(call, watch)
            case CountTokens(call=call):
                return await count_with_async(client, call)
            case Fire(event=event):
                return await _unless(stopped, hooks.fire(event)) if hooks else _nothing(event)
            case Wait(signal=signal, seconds=seconds):
                return await _unless(stopped if stopped is not signal else None, signal.wait_async(seconds))
            case Run(later=later):
                return await later()
            case Gather(flows=flows, limit=limit):
                again = partial(
                    drive_async, client=client, watch=watch, hooks=hooks, stopped=stopped, thread=thread
                )
                return await _gathered_async(flows, limit, again)
            case _:
                assert_never(effect)

    def guarded(step: Callable[[], Any]) -> Any:
        with guard:
            return step()

    async def advance(step: Callable[[], Any]) -> Any:
        return guarded(step) if thread is None else await thread.run(partial(guarded, step))

    return await _run(flow, perform, advance)


class _End(Struct, Generic[R], frozen=True):
    """The result of a flow. A `StopIteration`, which carries it, could not leave a thread or a coroutine."""

    result: R


def _step(go_on: Callable[[], Effect]) -> Effect | _End[Any]:
    try:
        return go_on()
    except StopIteration as end:
        return _End(end.value)


async def _run(
    flow: Flow[R],
    perform: Callable[[Effect], Awaitable[Any]],
    advance: Callable[[Callable[[], Any]], Awaitable[Any]],
) -> R:
    """The loop of both drivers: perform each effect and pass its result, or its error, back into the flow."""
    go_on: Callable[[], Effect] = partial(next, flow)
    try:
        while True:
            effect = await advance(partial(_step, go_on))
            if isinstance(effect, _End):
                result: R = effect.result
                return result
            try:
                go_on = partial(flow.send, await perform(effect))
            except Exception as error:  # noqa: BLE001 (the flow decides what to do about any error)
                go_on = partial(flow.throw, error)
            except BaseException as stop:
                await advance(partial(_cut_off, flow, stop))
                raise
    finally:
        await advance(flow.close)


def _cut_off(flow: Flow[R], stop: BaseException) -> None:
    """Tell a flow that an interrupt or a cancellation cut off a model's answer, so that it bills the reported usage."""
    if isinstance(stop.__cause__, Aborted):
        with suppress(Exception):
            flow.throw(stop.__cause__)


def _fired(event: HookInput, hooks: HookRunner | None, stopped: Signal | None) -> HookOutcome:
    if stopped is None:
        return hooks.fire(event) if hooks else _nothing(event)
    if stopped.wait(0):
        raise Aborted(STOPPED)
    return hooks.fire(event, lambda: stopped.wait(0)) if hooks else _nothing(event)


def _waited(signal: Signal, seconds: float, stopped: Signal | None) -> bool:
    if stopped is None or stopped is signal:
        return signal.wait(seconds)
    for _ in range(ceil(seconds / TICK)):
        if signal.wait(TICK):
            return True
        if stopped.wait(0):
            raise Aborted(STOPPED)
    return False


async def _unless(stopped: Signal | None, work: Coroutine[Any, Any, R]) -> R:
    """Return the result of the work; raises `Aborted` if ``stopped`` happens first."""
    if stopped is None:
        return await work
    doing = asyncio.ensure_future(work)
    over = asyncio.ensure_future(stopped.wait_async(FOREVER))
    try:
        await asyncio.wait((doing, over), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise Aborted(STOPPED)
        return doing.result()
    finally:
        doing.cancel()
        over.cancel()
        await asyncio.gather(doing, over, return_exceptions=True)


def _gathered(flows: Sequence[Flow[R]], limit: int, run: Callable[[Flow[R]], R]) -> list[R]:
    if len(flows) <= 1:
        return [run(flow) for flow in flows]
    contexts = [contextvars.copy_context() for _ in flows]
    with ThreadPoolExecutor(min(limit, len(flows)), "sevenfold-flow") as pool:
        return list(pool.map(lambda context, flow: context.run(run, flow), contexts, flows))


async def _gathered_async(
    flows: Sequence[Flow[R]], limit: int, run: Callable[[Flow[R]], Awaitable[R]]
) -> list[R]:
    room = asyncio.Semaphore(limit)

    async def one(flow: Flow[R]) -> R:
        async with room:
            return await run(flow)

    return await asyncio.gather(*map(one, flows))


def _given(client: Any) -> Any:
    if client is None:
        raise Refused("a model has to be asked, and no client was given")
    return client


def _nothing(event: HookInput) -> HookOutcome:
    return HookOutcome(event=type(event).__name__)
