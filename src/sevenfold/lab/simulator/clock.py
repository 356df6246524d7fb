"""Time as the simulator sees it: real, or moved by hand so that an hour's idleness costs a test nothing."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class SimulatorClock(Protocol):
    """What the simulator asks of time."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        ...


class RealClock:
    """The machine's own time."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        await asyncio.sleep(seconds)


class VirtualClock:
    """Time that stands still until it is moved; sleeping moves it and returns at once."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start

    def now(self) -> float:
        """Seconds since the epoch, as far as this clock was moved."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass, at once."""
        self.advance(seconds)
