"""Time and chance: the real ones, and the ones under the caller's control."""

from __future__ import annotations

import itertools
import os
import time
import uuid


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()


class ManualClock:
    """A clock that moves when told to."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start

    def now(self) -> float:
        """Seconds since 1970, as far as this clock is concerned."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds


class RandomIds:
    """Random UUIDs."""

    def new(self) -> str:
        """A UUID nobody else has: of version 4, put together by hand because that is much faster."""
        name = os.urandom(16).hex()
        return f"{name[:8]}-{name[8:12]}-4{name[13:16]}-{'89ab'[int(name[16], 16) & 3]}{name[17:20]}-{name[20:]}"


class CountedIds:
    """UUIDs in order, the same in every run."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def new(self) -> str:
        """The next one."""
        return str(uuid.UUID(int=next(self._numbers)))
