"""Work beside the session: a flow driven in a thread of its own, or in a task, that tells when it is done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from sevenfold.ports import AsyncClient, Client
from sevenfold.runtime.drive import drive, drive_async

Result = TypeVar("Result")
Work = Generator[Any, Any, Result]
Done = Callable[[Result | Exception], None]


class Threads:
    """Runs work in threads; `close` waits for what is under way, for a while."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client
        self._running: set[threading.Thread] = set()

    def __call__(self, work: Work[Result], done: Done[Result]) -> None:
        """Begin."""
        thread = threading.Thread(target=self._run, args=(work, done), daemon=True, name="sevenfold")
        self._running = {one for one in self._running if one.is_alive()} | {thread}
        thread.start()

    def close(self, seconds: float = 5.0) -> None:
        """Wait for what is under way; what is not done by then is given up with the process."""
        for thread in self._running:
            thread.join(seconds)

    def _run(self, work: Work[Result], done: Done[Result]) -> None:
        try:
            came: Result | Exception = drive(work, self._client())
        except Exception as error:  # noqa: BLE001 (whatever happens here, the session only hears of it)
            came = error
        done(came)


class Tasks:
    """The same with tasks of the running event loop."""

    def __init__(self, client: Callable[[], AsyncClient]) -> None:
        self._client = client
        self._running: set[asyncio.Task[None]] = set()

    def __call__(self, work: Work[Result], done: Done[Result]) -> None:
        """Begin."""
        task = asyncio.get_running_loop().create_task(self._run(work, done))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self, seconds: float = 5.0) -> None:
        """Wait for what is under way, then end it."""
        running = list(self._running)
        if running:
            await asyncio.wait(running, timeout=seconds)
        for task in running:
            task.cancel()

    async def _run(self, work: Work[Result], done: Done[Result]) -> None:
        try:
            came: Result | Exception = await drive_async(work, self._client())
        except Exception as error:  # noqa: BLE001 (the session only hears of it)
            came = error
        done(came)
