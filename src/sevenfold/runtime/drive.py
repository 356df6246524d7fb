"""Running a flow: the only place where models and hooks are waited for, once without and once with `await`.

A flow is a generator that yields what it needs and is sent what it gets. It holds all the decisions and
none of the waiting, so there is one of it for both worlds, and a test can be its driver. However a flow ends, by
its own end, an error, an interrupt or a cancellation, it is closed before the driver returns.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from msgspec import Struct

from sevenfold.errors import ModelError, Refused
from sevenfold.ports import Ask, AsyncClient, Client, Watcher
from sevenfold.runtime.hooks.inputs import HookInput
from sevenfold.runtime.hooks.outcomes import Outcome
from sevenfold.runtime.hooks.run import AsyncHooks, Hooks


class Fire(Struct, frozen=True):
    """What a flow yields when hooks are to run; it gets their `Outcome` back."""

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
        with self._lock:
            self._waiting.append((asyncio.get_running_loop(), event))
        try:
            if not self._happened.is_set():
                await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return self._happened.is_set()
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


Result = TypeVar("Result")
Flow = Generator[Any, Any, Result]
"""Yields `Ask`, `Fire`, `Wait` or `Do`."""
Guard = AbstractContextManager[object]

NOBODY = "a model has to be asked, and no client was given"


def drive(
    flow: Flow[Result],
    client: Client | None,
    watch: Watcher | None = None,
    hooks: Hooks | None = None,
    guard: Guard | None = None,
) -> Result:
    """Run a flow to its end; its own steps, unlike what it waits for, are done under the ``guard``."""
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
                        got = hooks.fire(event) if hooks else _nothing(event)
                    case Wait(signal=signal, seconds=seconds):
                        got = signal.wait(seconds)
                    case Do(now=now):
                        got = now()
            except ModelError as error:
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
) -> Result:
    """Run a flow to its end without blocking."""
    try:
        wanted = next(flow)
        while True:
            try:
                match wanted:
                    case Ask(call=call):
                        got: Any = await _given(client).ask(call, watch)
                    case Fire(event=event):
                        got = await hooks.fire(event) if hooks else _nothing(event)
                    case Wait(signal=signal, seconds=seconds):
                        got = await signal.wait_async(seconds)
                    case Do(later=later):
                        got = await later()
            except ModelError as error:
                wanted = flow.throw(error)
            else:
                wanted = flow.send(got)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        flow.close()


def _given(client: Any) -> Any:
    if client is None:
        raise Refused(NOBODY)
    return client


def _nothing(event: HookInput) -> Outcome:
    return Outcome(event=type(event).__name__)
