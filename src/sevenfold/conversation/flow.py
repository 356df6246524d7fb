"""Flows: generators that yield what they need and are sent what they get, and the two drivers that run them.

A flow holds all the decisions and none of the waiting, so it is written once for programs that block and programs
that await, and a test can drive it with `next` and `send`. Effects are a closed union; each one is iterable, so
``reply = yield from Ask(call)`` is typed. However a flow ends (its own end, an error, an interrupt, a
cancellation), it is closed before the driver returns.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import partial
from math import ceil
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, assert_never, final

from msgspec import Struct

from sevenfold.conversation.hooks import HookInput, HookOutcome
from sevenfold.errors import Aborted, Refused
from sevenfold.ports import AsyncClient, Call, Client, Reply, Watcher

R = TypeVar("R")


class HookRunner(Protocol):
    """Runs the hooks of an event for a driver that blocks."""

    def fire(self, event: HookInput, stopped: Callable[[], bool] = ...) -> HookOutcome:
        """Run them; raises `Aborted` once ``stopped()``."""


class AsyncHookRunner(Protocol):
    """Runs the hooks of an event for a driver that awaits."""

    async def fire(self, event: HookInput) -> HookOutcome:
        """Run them; cancelling it ends them."""


class Signal:
    """Something that happens once; threads and tasks can wait for it."""

    def __init__(self) -> None:
        self._happened = threading.Event()
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def happen(self) -> None:
        """It has happened."""
        with self._lock:
            self._happened.set()
            for loop, event in self._waiting:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(event.set)

    def wait(self, seconds: float) -> bool:
        """Wait for so long; True if it has happened."""
        return self._happened.wait(seconds)

    async def wait_async(self, seconds: float) -> bool:
        """The same without blocking."""
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
    """What a flow yields; ``yield from`` gives it the result, with its type."""

    def __iter__(self) -> Generator[Any, Any, R]:
        result: R = yield self
        return result


@final
class Ask(_Effect[Reply], frozen=True):
    """Ask a model; the flow gets its `Reply`, or a `ModelError` thrown in."""

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
    """Do something slow: use a tool, wait for the user; the flow gets its result, or its error thrown in."""

    now: Callable[[], R]
    """For the driver that blocks."""
    later: Callable[[], Awaitable[R]]
    """For the driver that awaits."""


@final
class Gather(_Effect[list[R]], frozen=True):
    """Run flows concurrently, at most ``limit`` at a time; the flow gets their results in order.

    Their steps are taken without the driver's guard: they may wait for the user, or for a reader of events.
    """

    flows: Sequence[Flow[R]]
    limit: int


Effect: TypeAlias = Ask | Fire | Wait | Run[Any] | Gather[Any]
Flow: TypeAlias = Generator[Effect, Any, R]


def in_thread(work: Callable[[], R]) -> Run[R]:
    """Something that only computes; the driver that awaits has it done in a thread.

    No lock is held meanwhile, so a flow that yields this must check afterwards that the conversation is unchanged.
    """
    return Run(work, partial(asyncio.to_thread, work))


def unguarded(flow: Flow[R]) -> Flow[R]:
    """The flow with its steps taken without the driver's guard; see `Gather`."""
    (got,) = yield from Gather([flow], 1)
    return got


TICK = 0.05
"""Seconds within which a blocked wait notices that it was stopped."""
FOREVER = 10.0**7
STOPPED = "stopped before it was done"


def translated(flow: Flow[R], step: Callable[[Effect], Flow[Any]]) -> Flow[R]:
    """The flow with each of its effects taken by ``step``, a flow whose result, or error, the first one gets."""
    try:
        effect = next(flow)
        while True:
            try:
                got = yield from step(effect)
            except Exception as error:  # noqa: BLE001 (the flow decides what to do about any error)
                effect = flow.throw(error)
            else:
                effect = flow.send(got)
    except StopIteration as end:
        result: R = end.value
        return result
    finally:
        flow.close()


def locked(flow: Flow[R], lock: AbstractContextManager[object]) -> Flow[R]:
    """A flow whose steps hold a lock, and whose waiting does not."""
    send: Callable[[], Effect] = partial(next, flow)
    try:
        while True:
            with lock:
                effect = send()
            try:
                send = partial(flow.send, (yield effect))
            except Exception as error:  # noqa: BLE001 (the flow decides what to do about any error)
                send = partial(flow.throw, error)
    except StopIteration as end:
        result: R = end.value
        return result
    finally:
        flow.close()


def drive(
    flow: Flow[R],
    client: Client | None,
    watch: Watcher | None = None,
    hooks: HookRunner | None = None,
    guard: AbstractContextManager[object] | None = None,
    stopped: Signal | None = None,
) -> R:
    """Run a flow to its end; its own steps, but not its waits, are taken under the ``guard``.

    Once ``stopped`` has happened, a hook or a wait raises `Aborted` in the flow. Models and tools are stopped by
    their clients and executors.
    """
    flow = flow if guard is None else locked(flow, guard)
    try:
        effect = next(flow)
        while True:
            try:
                match effect:
                    case Ask(call=call):
                        got: Any = _given(client).ask(call, watch)
                    case Fire(event=event):
                        got = _fired(event, hooks, stopped)
                    case Wait(signal=signal, seconds=seconds):
                        got = _waited(signal, seconds, stopped)
                    case Run(now=now):
                        got = now()
                    case Gather(flows=flows, limit=limit):
                        again = partial(drive, client=client, watch=watch, hooks=hooks, stopped=stopped)
                        got = _gathered(flows, limit, again)
                    case _:
                        assert_never(effect)
            except Exception as error:  # noqa: BLE001 (the flow decides what to do about any error)
                effect = flow.throw(error)
            except BaseException as stop:
                _cut_off(flow, stop)
                raise
            else:
                effect = flow.send(got)
    except StopIteration as end:
        result: R = end.value
        return result
    finally:
        flow.close()


async def drive_async(
    flow: Flow[R],
    client: AsyncClient | None,
    watch: Watcher | None = None,
    hooks: AsyncHookRunner | None = None,
    stopped: Signal | None = None,
) -> R:
    """Run a flow to its end without blocking; see `drive` for ``stopped``."""
    try:
        effect = next(flow)
        while True:
            try:
                match effect:
                    case Ask(call=call):
                        got: Any = await _given(client).ask(call, watch)
                    case Fire(event=event):
                        got = await _unless(stopped, hooks.fire(event)) if hooks else _nothing(event)
                    case Wait(signal=signal, seconds=seconds):
                        other = stopped if stopped is not signal else None
                        got = await _unless(other, signal.wait_async(seconds))
                    case Run(later=later):
                        got = await later()
                    case Gather(flows=flows, limit=limit):
                        again = partial(
                            drive_async, client=client, watch=watch, hooks=hooks, stopped=stopped
                        )
                        got = await _gathered_async(flows, limit, again)
                    case _:
                        assert_never(effect)
            except Exception as error:  # noqa: BLE001 (the flow decides what to do about any error)
                effect = flow.throw(error)
            except BaseException as stop:
                _cut_off(flow, stop)
                raise
            else:
                effect = flow.send(got)
    except StopIteration as end:
        result: R = end.value
        return result
    finally:
        flow.close()


def _cut_off(flow: Flow[R], stop: BaseException) -> None:
    """Tell a flow that a model's answer was cut off by an interrupt or a cancellation: it bills what was reported."""
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
    """What comes of the work, unless it is stopped before."""
    if stopped is None:
        return await work
    doing, over = asyncio.ensure_future(work), asyncio.ensure_future(stopped.wait_async(FOREVER))
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
