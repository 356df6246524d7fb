"""A log that lives in memory: for tests, and for sessions nobody wants kept."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence


class MemoryLog:
    """Lines in a list."""

    def __init__(self, lines: Sequence[bytes] = ()) -> None:
        self._lines: list[bytes] = []
        self._offsets: list[int] = []
        self._size = 0
        self.append(lines)

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> int:
        """Add lines; nothing in memory is more durable than the rest."""
        first = self._size
        for line in lines:
            # The offset first: whoever reads at the same time goes by the lines that are there.
            self._offsets.append(self._size)
            self._lines.append(line)
            self._size += len(line)
        return first

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Lines from an offset on."""
        for index in range(bisect_left(self._offsets, start), len(self._lines)):
            yield self._offsets[index], self._lines[index]

    def holding(self, needle: bytes, before: int | None = None) -> Iterator[int]:
        """Offsets of the lines that contain ``needle``, the newest first."""
        end = len(self._lines) if before is None else bisect_left(self._offsets, before)
        for index in range(end - 1, -1, -1):
            if needle in self._lines[index]:
                yield self._offsets[index]

    def close(self) -> None:
        """Nothing to let go of."""
