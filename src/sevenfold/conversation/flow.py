"""Running a flow: the only place where models and hooks are waited for, once without and once with `await`.

A flow is a generator that yields what it needs and is sent what it gets. It holds all the decisions and
none of the waiting, so there is one of it for both worlds, and a test can be its driver. However a flow ends, by
its own end, an error, an interrupt or a cancellation, it is closed before the driver returns.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import ceil
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from sevenfold.conversation.hooks import HookInput, HookOutcome
from sevenfold.errors import Aborted, Refused
from sevenfold.ports import Ask, AsyncClient, Client, Watcher


class Hooks(Protocol):
    """Runs the hooks of an event for a driver that blocks."""

    def fire(self, event: HookInput, stopped: Callable[[], bool] = ...) -> HookOutcome:
        """Run them; raises `Aborted` once ``stopped()``."""
        ...

    def close(self) -> None:
        """End the hooks that run in the background."""
        ...


class AsyncHooks(Protocol):
    """Runs the hooks of an event for a driver that awaits."""

    async def fire(self, event: HookInput) -> HookOutcome:
        """Run them; cancelling it ends them."""
        ...

    def close(self) -> None:
        """End the hooks that run in the background."""
        ...


class Fire(Struct, frozen=True):
    """What a flow yields when hooks are to run; it gets their `HookOutcome` back."""

    event: HookInput


class Signal:
    """Something that happens once, for whoever waits for it, in a thread or in a task."""

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


class Wait(Struct, frozen=True):
    """What a flow yields to wait for work that goes on beside it; it is told whether that came to an end."""

    signal: Signal
    seconds: float


class Do(Struct, frozen=True):
    """What a flow yields to have something done that takes its time; it gets back what came of it."""

    now: Callable[[], Any]
    """Does it, for a driver that blocks…"""
    later: Callable[[], Awaitable[Any]]
    """…and for one that awaits."""


def aside(work: Callable[[], Any]) -> Do:
    """Something that only computes, from what does not change: who awaits has it done in a thread.

    Nothing is held meanwhile, so whoever yields this must look again whether the world is still the same.
    """
    return Do(work, partial(asyncio.to_thread, work))


Result = TypeVar("Result")
Flow = Generator[Any, Any, Result]
"""Yields `Ask`, `Fire`, `Wait` or `Do`."""
Guard = AbstractContextManager[object]

TICK = 0.05
"""Seconds in which somebody who waits notices that it is no longer wanted."""
FOREVER = 10.0**7
STOPPED = "stopped before it was done"
NOBODY = "a model has to be asked, and no client was given"


def drive(
    flow: Flow[Result],
    client: Client | None,
    watch: Watcher | None = None,
    hooks: Hooks | None = None,
    guard: Guard | None = None,
    stopped: Signal | None = None,
) -> Result:
    """Run a flow to its end; its own steps, unlike what it waits for, are done under the ``guard``.

    Once ``stopped`` has happened no hook is waited for any more, nor work beside the flow: it gets `Aborted`. Models
    and tools are stopped by whoever asks and runs them.
    """
    guard = guard or nullcontext()
    try:
        with guard:
            wanted = next(flow)
        while True:
            try:
                match wanted:
                    case Ask(call=call):
                        got: Any = _given(client).ask(call, watch)
                    case Fire(event=event):
                        got = _fired(event, hooks, stopped)
                    case Wait(signal=signal, seconds=seconds):
                        got = _waited(signal, seconds, stopped)
                    case Do(now=now):
                        got = now()
                    case _:
                        raise AssertionError(f"nobody knows how to do {wanted!r}")
            except Exception as error:  # noqa: BLE001 (whatever it is, the flow decides what comes of it)
                with guard:
                    wanted = flow.throw(error)
            else:
                with guard:
                    wanted = flow.send(got)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        flow.close()


async def drive_async(
    flow: Flow[Result],
    client: AsyncClient | None,
    watch: Watcher | None = None,
    hooks: AsyncHooks | None = None,
    stopped: Signal | None = None,
) -> Result:
    """Run a flow to its end without blocking; see `drive` for ``stopped``."""
    try:
        wanted = next(flow)
        while True:
            try:
                match wanted:
                    case Ask(call=call):
                        got: Any = await _given(client).ask(call, watch)
                    case Fire(event=event):
                        got = await _unless(stopped, hooks.fire(event)) if hooks else _nothing(event)
                    case Wait(signal=signal, seconds=seconds):
                        other = stopped if stopped is not signal else None
                        got = await _unless(other, signal.wait_async(seconds))
                    case Do(later=later):
                        got = await later()
                    case _:
                        raise AssertionError(f"nobody knows how to do {wanted!r}")
            except Exception as error:  # noqa: BLE001 (whatever it is, the flow decides what comes of it)
                wanted = flow.throw(error)
            else:
                wanted = flow.send(got)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        flow.close()


def _fired(event: HookInput, hooks: Hooks | None, stopped: Signal | None) -> HookOutcome:
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


async def _unless(stopped: Signal | None, work: Coroutine[Any, Any, Result]) -> Result:
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


def _given(client: Any) -> Any:
    if client is None:
        raise Refused(NOBODY)
    return client


def _nothing(event: HookInput) -> HookOutcome:
    return HookOutcome(event=type(event).__name__)
