"""Background work: a flow driven in a thread or an asyncio task, with a callback when it is done.

In a thread, the flow's own steps and the callback run under the session's lock; only the waiting does not. No error is
raised here: the callback gets it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Protocol, TypeVar

from sevenfold.conversation.flow import AsyncHookRunner, Flow, Guard, HookRunner, drive, drive_async
from sevenfold.conversation.step_thread import StepThread
from sevenfold.ports import AsyncClient, Client

Result = TypeVar("Result")
Done = Callable[[Result | Exception], None]
Stop = Callable[[], object]
BETWEEN_LOOKS = 0.05
"""Seconds after which it is checked whether there is still something to wait for."""


class Runner(Protocol):
    """Runs flows in the background."""

    def __call__(self, work: Flow[Result], done: Done[Result]) -> None:
        """Start the flow; ``done`` is called with its result or its error."""

    def every(self, seconds: float, call: Callable[[], None]) -> Stop:
        """Call a function every ``seconds``, until the returned function is called."""


class Ending(Protocol):
    """Work of a layer at the end of a conversation, for which closing it waits a while."""

    @property
    def seconds(self) -> float:
        """How long to wait at most."""

    @property
    def busy(self) -> bool:
        """Whether there is still something to wait for."""

    def leave(self) -> None:
        """Start the work; the conversation is about to be closed."""

    def hurry(self) -> None:
        """Stop waiting."""

    def left(self) -> None:
        """The waiting is over, and the conversation is closed next."""


class Threads:
    """Runs flows in threads; `close` waits a while for those still running."""

    def __init__(self, client: Callable[[], Client], hooks: HookRunner | None, guard: Guard) -> None:
        self._client = client
        self._hooks = hooks
        self._guard = guard
        self._running: set[threading.Thread] = set()

    def __call__(self, work: Flow[Result], done: Done[Result]) -> None:
        """Start the flow; see `Runner`."""
        thread = threading.Thread(target=self._run, args=(work, done), daemon=True, name="sevenfold")
        self._running = {running for running in self._running if running.is_alive()} | {thread}
        thread.start()

    def every(self, seconds: float, call: Callable[[], None]) -> Stop:
        """Call a function every ``seconds`` in a separate thread; see `Runner`."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(seconds):
                call()

        threading.Thread(target=beat, daemon=True, name="sevenfold-beat").start()
        return over.set

    def close(self, seconds: float = 5.0) -> None:
        """Wait at most ``seconds`` for running flows; those that take longer end with the process."""
        until = monotonic() + seconds
        # In a loop, because a flow that ends may start another.
        while (remaining := until - monotonic()) > 0 and (
            running := [thread for thread in self._running if thread.is_alive()]
        ):
            running[0].join(remaining)

    def finish(self, endings: Sequence[Ending]) -> None:
        """Let layers do their work at the end, and wait for it; a keyboard interrupt ends the waiting."""
        until = monotonic() + max((ending.seconds for ending in endings), default=0.0)
        try:
            for ending in endings:
                ending.leave()
            while any(ending.busy for ending in endings) and monotonic() < until:
                running = [thread for thread in self._running if thread.is_alive()]
                if not running:
                    break
                running[0].join(BETWEEN_LOOKS)
        except KeyboardInterrupt:
            pass  # the user does not want to wait
        finally:
            for ending in endings:
                ending.left()

    def _run(self, work: Flow[Result], done: Done[Result]) -> None:
        try:
            came: Result | Exception = drive(work, self._client(), hooks=self._hooks, guard=self._guard)
        except Exception as error:  # noqa: BLE001 (whatever happens here, the session only hears of it)
            came = error
        with self._guard:
            done(came)


class TaskRunner:
    """Runs flows as tasks of the event loop, and their steps in a thread."""

    def __init__(
        self,
        client: Callable[[], AsyncClient],
        hooks: AsyncHookRunner | None,
        guard: Guard,
        thread: StepThread,
    ) -> None:
        self._client = client
        self._hooks = hooks
        self._guard = guard
        self._thread = thread
        self._running: set[asyncio.Task[None]] = set()

    def __call__(self, work: Flow[Result], done: Done[Result]) -> None:
        """Start the flow; see `Runner`."""
        self._thread.on_loop(partial(self._start, work, done))

    def _start(self, work: Flow[Result], done: Done[Result]) -> None:
        task = asyncio.get_running_loop().create_task(self._run(work, done))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def every(self, seconds: float, call: Callable[[], None]) -> Stop:
        """Call a function every ``seconds`` in the thread of the steps; see `Runner`."""
        beats: list[asyncio.Task[None]] = []

        async def beat() -> None:
            while True:
                await asyncio.sleep(seconds)
                await self._thread.run(call)

        def start() -> None:
            beats.append(asyncio.get_running_loop().create_task(beat()))

        def stop() -> None:
            for task in beats:
                task.cancel()

        self._thread.on_loop(start)
        return partial(self._thread.on_loop, stop)

    async def settle(self, seconds: float) -> None:
        """Wait at most ``seconds`` for running flows."""
        until = monotonic() + seconds
        while self._running and (remaining := until - monotonic()) > 0:
            await asyncio.wait(list(self._running), timeout=remaining)

    async def finish(self, endings: Sequence[Ending]) -> None:
        """Let layers do their work at the end, and wait for it."""
        until = monotonic() + max((ending.seconds for ending in endings), default=0.0)
        try:
            for ending in endings:
                await self._thread.run(ending.leave)
            while self._running and any(ending.busy for ending in endings) and monotonic() < until:
                await asyncio.wait(list(self._running), timeout=BETWEEN_LOOKS)
        finally:
            for ending in endings:
                await self._thread.run(ending.left)

    async def close(self, seconds: float = 5.0) -> None:
        """Wait at most ``seconds`` for running flows, then cancel the rest."""
        await self.settle(seconds)
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, work: Flow[Result], done: Done[Result]) -> None:
        try:
            came: Result | Exception = await drive_async(
                work, self._client(), hooks=self._hooks, guard=self._guard, thread=self._thread
            )
        except Exception as error:  # noqa: BLE001 (the session only hears of it)
            came = error

        def finish() -> None:
            with self._guard:
                done(came)

        await self._thread.run(finish)
