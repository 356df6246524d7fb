"""Time and chance: the real ones, and the ones under the caller's control."""

from __future__ import annotations

import itertools
import os
import time
import uuid


class SystemClock:
    """The machine's clock."""

    now = staticmethod(time.time)
    """Seconds since 1970."""


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
    """UUIDs of version 4, ten times as fast as drawing each of them.

    All groups but the first are drawn once per process. The first is a running number of eight digits, multiplied so
    that neighbours look nothing alike: no two are the same among ninety million.
    """

    def new(self) -> str:
        """Another one."""
        return f"{next(_numbers) * _SPREAD % 90_000_000 + 10_000_000}{_drawn}"


_SPREAD = 55_623_059
"""It has no divisor in common with ninety million, so numbers that differ stay different."""
_numbers = itertools.count()
_drawn = ""


def _draw() -> None:
    global _numbers, _drawn
    _numbers, _drawn = itertools.count(uuid.uuid4().int % 90_000_000), str(uuid.uuid4())[8:]


_draw()
if hasattr(os, "register_at_fork"):
    # A fork would go on with the ids of its parent.
    os.register_at_fork(after_in_child=_draw)


class CountedIds:
    """UUIDs in order, the same in every run."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def new(self) -> str:
        """The next one."""
        return str(uuid.UUID(int=next(self._numbers)))
