"""Clocks and id generators: the real ones, and ones under the caller's control."""

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
    """A clock that moves only when advanced."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start

    def now(self) -> float:
        """Seconds since 1970, according to this clock."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds


class RandomIds:
    """UUIDs of version 4, ten times faster than generating each at random.

    All groups but the first are random once per process. The first is an eight-digit counter, multiplied so that
    consecutive ids look unrelated: ninety million ids are all different.
    """

    def new(self) -> str:
        """A new id."""
        return f"{next(_numbers) * _SPREAD % 90_000_000 + 10_000_000}{_drawn}"


_SPREAD = 55_623_059
"""It has no common divisor with ninety million, so different numbers stay different."""
_numbers = itertools.count()
_drawn = ""


def _draw() -> None:
    global _numbers, _drawn
    _numbers = itertools.count(uuid.uuid4().int % 90_000_000)
    _drawn = str(uuid.uuid4())[8:]


_draw()
if hasattr(os, "register_at_fork"):
    # Otherwise a forked process would produce the same ids as its parent.
    os.register_at_fork(after_in_child=_draw)


class CountedIds:
    """UUIDs in order, the same in every run."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def new(self) -> str:
        """The next id."""
        return str(uuid.UUID(int=next(self._numbers)))
