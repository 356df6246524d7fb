"""The threads in which a server does what may block its event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

T = TypeVar("T")
FEWEST = 8
"""The fewest threads, however few requests a server may answer at once: it has work of its own."""


class ServerThreads:
    """A limited number of threads."""

    def __init__(self, at_once: int) -> None:
        self.limiter = CapacityLimiter(max(FEWEST, at_once))

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function that may block in a thread."""
        return await to_thread.run_sync(work, limiter=self.limiter)
