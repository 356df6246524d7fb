"""All sessions of a server: as they are stored, those that are open here, and the runs that work on them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from sevenfold.doors.server.accounts import Accounts
from sevenfold.doors.server.metrics import ServerMetrics
from sevenfold.doors.server.open_sessions import OpenSessions
from sevenfold.doors.server.options import ServerLimits, ServerOptions
from sevenfold.doors.server.runs import ADOPTING_SECONDS, Runs
from sevenfold.doors.server.stored_sessions import StoredSessions
from sevenfold.doors.server.threads import ServerThreads
from sevenfold.errors import SevenfoldError

__all__ = ["ServerLimits", "ServerOptions", "Sessions"]

_CLOSING_SECONDS = 5.0
"""Seconds between checks for sessions to close."""
T = TypeVar("T")


class Sessions:
    """The sessions of a server. Its methods are called on the event loop."""

    def __init__(self, options: ServerOptions, accounts: Accounts, metrics: ServerMetrics) -> None:
        self.options = options
        self.accounts = accounts
        self.threads = ServerThreads(options.limits.requests)
        self.stored = StoredSessions(options, accounts)
        self.open = OpenSessions(options, accounts, metrics, self.stored, self.threads)
        self.runs = Runs(options.limits, accounts, metrics, self.open, self.threads)
        self.loop: asyncio.AbstractEventLoop

    def begin(self) -> None:
        """Begin to serve, on the running loop."""
        self.loop = asyncio.get_running_loop()
        self.runs.begin()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run a function that may block in a thread."""
        return await self.threads.run(work)

    async def close(self) -> None:
        """Close everything except runs that could not be paused."""
        await self.open.close_idle(0.0)
        if not self.runs.any_left:
            await self.in_thread(self.runs.jobs.close)
            await self.open.close_clients()
            await self.in_thread(self.stored.close)

    async def keep_house(self, stopping: asyncio.Event) -> None:
        """Close idle sessions and adopt runs, until the server stops."""
        next_check = 0.0
        while not stopping.is_set():
            if time.monotonic() >= next_check:
                next_check = time.monotonic() + ADOPTING_SECONDS
                with suppress(SevenfoldError):
                    await self.in_thread(self.accounts.settle_lost)
                    await self.in_thread(self.runs.forget_jobs)
                    await self.runs.adopt()
            await self.open.close_idle(self.options.limits.idle_seconds)
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSING_SECONDS):
                    await stopping.wait()
