"""Time and chance: the real ones, and the ones under the caller's control."""

from __future__ import annotations

import itertools
import os
import time
import uuid

_VARIANTS = dict(zip("0123456789abcdef", 4 * "89ab", strict=True))
"""Of a random digit the two bits that are left, behind the two that say how the UUID was made."""


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
    """Random UUIDs of version 4, put together by hand: `uuid.uuid4` takes several times as long."""

    def new(self) -> str:
        """Another one."""
        digits = os.urandom(16).hex()
        variant = _VARIANTS[digits[16]]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


class CountedIds:
    """UUIDs in order, the same in every run."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def new(self) -> str:
        """The next one."""
        return str(uuid.UUID(int=next(self._numbers)))
