"""The simulator's clock: real, or advanced by hand, so that an idle hour takes a test no time."""

from __future__ import annotations

import asyncio

from sevenfold.clock import ManualClock, SystemClock


class RealClock(SystemClock):
    """The machine's clock."""

    async def sleep(self, seconds: float) -> None:
        """Sleep for real."""
        await asyncio.sleep(seconds)


class VirtualClock(ManualClock):
    """A clock that stops until it is advanced; sleeping advances it and returns at once."""

    async def sleep(self, seconds: float) -> None:
        """Advance the clock and return at once."""
        self.advance(seconds)


SimulatorClock = RealClock | VirtualClock
