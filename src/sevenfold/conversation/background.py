"""Background work: a flow driven in a thread or in a task, with a callback when it is done.

What the flow itself does, and what is done with its outcome, happens under the session's lock; only the waiting
does not. No error is raised here: the callback gets it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Protocol, TypeAlias, TypeVar

from sevenfold.conversation.flow import AsyncHookRunner, Flow, HookRunner, drive, drive_async
from sevenfold.ports import AsyncClient, Client

Result = TypeVar("Result")
Work: TypeAlias = Flow[Result]
Done = Callable[[Result | Exception], None]
Stop = Callable[[], object]
Guard = AbstractContextManager[object]


class Runner(Protocol):
    """Runs flows somewhere else."""

    def __call__(self, work: Work[Result], done: Done[Result]) -> None:
        """Begin; ``done`` is called with what came of it."""

    def every(self, seconds: float, call: Callable[[], None]) -> Stop:
        """Call something again and again, until the function that is returned is called."""


class Threads:
    """Runs work in threads; `close` waits for what is under way, for a while."""

    def __init__(
        self, client: Callable[[], Client], hooks: HookRunner | None = None, guard: Guard | None = None
    ) -> None:
        self._client = client
        self._hooks = hooks
        self._guard = guard or nullcontext()
        self._running: set[threading.Thread] = set()

    def __call__(self, work: Work[Result], done: Done[Result]) -> None:
        """Begin."""
        thread = threading.Thread(target=self._run, args=(work, done), daemon=True, name="sevenfold")
        self._running = {one for one in self._running if one.is_alive()} | {thread}
        thread.start()

    def every(self, seconds: float, call: Callable[[], None]) -> Stop:
        """Call something every so many seconds, in a thread of its own."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(seconds):
                call()

        threading.Thread(target=beat, daemon=True, name="sevenfold-beat").start()
        return over.set

    def close(self, seconds: float = 5.0) -> None:
        """Wait for what is under way, so long in all; what is not done by then is given up with the process."""
        until = monotonic() + seconds
        # Again and again: what is done may begin the next.
        while (left := until - monotonic()) > 0 and (
            running := [one for one in self._running if one.is_alive()]
        ):
            running[0].join(left)

    def _run(self, work: Work[Result], done: Done[Result]) -> None:
        try:
            came: Result | Exception = drive(work, self._client(), hooks=self._hooks, guard=self._guard)
        except Exception as error:  # noqa: BLE001 (whatever happens here, the session only hears of it)
            came = error
        with self._guard:
            done(came)


class TaskRunner:
    """The same with tasks of the running event loop."""

    def __init__(self, client: Callable[[], AsyncClient], hooks: AsyncHookRunner | None = None) -> None:
        self._client = client
        self._hooks = hooks
        self._running: set[asyncio.Task[None]] = set()

    def __call__(self, work: Work[Result], done: Done[Result]) -> None:
        """Begin."""
        task = asyncio.get_running_loop().create_task(self._run(work, done))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def every(self, seconds: float, call: Callable[[], None]) -> Stop:
        """Call something every so many seconds, in the running event loop."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(seconds)
                call()

        return asyncio.get_running_loop().create_task(beat()).cancel

    async def settle(self, seconds: float) -> None:
        """Wait for what is under way, at most so long."""
        until = monotonic() + seconds
        while self._running and (left := until - monotonic()) > 0:
            await asyncio.wait(list(self._running), timeout=left)

    async def close(self, seconds: float = 5.0) -> None:
        """Wait for what is under way, then end it."""
        await self.settle(seconds)
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, work: Work[Result], done: Done[Result]) -> None:
        try:
            came: Result | Exception = await drive_async(work, self._client(), hooks=self._hooks)
        except Exception as error:  # noqa: BLE001 (the session only hears of it)
            came = error
        done(came)
