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
    """Random UUIDs, put together by hand and many at a time: an id must cost next to nothing."""

    def __init__(self) -> None:
        self._ready: list[str] = []
        self._drawn_in = 0

    def new(self) -> str:
        """A UUID of version 4 that is given out once, also by a process forked from this one."""
        if not self._ready or self._drawn_in != _forks:
            digits = os.urandom(16 * _AT_A_TIME).hex()
            self._ready = [_uuid4(digits[place : place + 32]) for place in range(0, len(digits), 32)]
            self._drawn_in = _forks
        return self._ready.pop()


_forks = 0
"""How many forks lie between this process and the first: to ask for its id every time would be a system call."""


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)

_AT_A_TIME = 64


def _uuid4(digits: str) -> str:
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


class CountedIds:
    """UUIDs in order, the same in every run."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def new(self) -> str:
        """The next one."""
        return str(uuid.UUID(int=next(self._numbers)))
