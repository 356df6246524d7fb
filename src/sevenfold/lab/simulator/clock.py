"""The simulator's clock: real, or moved by hand so that an idle hour costs a test nothing."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class SimulatorClock(Protocol):
    """What the simulator needs of a clock."""

    def now(self) -> float:
        """Seconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""


class RealClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        await asyncio.sleep(seconds)


class VirtualClock:
    """A clock that stops until it is advanced; sleeping advances it and returns at once."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass, at once."""
        self.advance(seconds)
