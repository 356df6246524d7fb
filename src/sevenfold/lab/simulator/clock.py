"""The simulator's clock: real, or moved by hand so that an idle hour costs a test nothing."""

from __future__ import annotations

import asyncio

from sevenfold.clock import ManualClock, SystemClock


class RealClock(SystemClock):
    """The machine's clock."""

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        await asyncio.sleep(seconds)


class VirtualClock(ManualClock):
    """A clock that stops until it is advanced; sleeping advances it and returns at once."""

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass, at once."""
        self.advance(seconds)


SimulatorClock = RealClock | VirtualClock
