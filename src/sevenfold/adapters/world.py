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
    """Random UUIDs, put together by hand from a pool of random bytes: an id must cost next to nothing."""

    def __init__(self) -> None:
        self._pool = ""
        self._owner = 0

    def new(self) -> str:
        """A UUID of version 4 that nobody else has, not even a process forked from this one."""
        if not self._pool or self._owner != os.getpid():
            self._pool, self._owner = os.urandom(4096).hex(), os.getpid()
        name, self._pool = self._pool[-32:], self._pool[:-32]
        return f"{name[:8]}-{name[8:12]}-4{name[13:16]}-{'89ab'[int(name[16], 16) & 3]}{name[17:20]}-{name[20:]}"


class CountedIds:
    """UUIDs in order, the same in every run."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def new(self) -> str:
        """The next one."""
        return str(uuid.UUID(int=next(self._numbers)))
