"""What the core may ask of the world.

Each protocol here is one thing the engine needs and does not do itself. Every implementation of a port
passes the same contract suite; the ones that keep everything in memory are shipped, because whoever
builds on the engine tests with them too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Log(Protocol):
    """Lines that are only ever added to.

    Offsets are opaque to the caller but ordered: a line's offset is where `read` can start again.
    """

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> int:
        """Write lines (each with its line end) in one go; a crash leaves a first part of them at worst.

        Returns the offset of the first. ``durable`` waits until they would survive a power cut.
        """
        ...

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Lines from an offset on. One that could not be read comes back as ``b""``."""
        ...

    def holding(self, needle: bytes, before: int | None = None) -> Iterator[int]:
        """Offsets of the lines that contain ``needle``, the newest first."""
        ...

    def close(self) -> None:
        """Let others write."""
        ...


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Seconds since 1970."""
        ...


class Ids(Protocol):
    """Gives out names that nobody else has."""

    def new(self) -> str:
        """A new UUID as text."""
        ...
