"""A log that lives in memory: for tests, and for sessions nobody wants kept."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from sevenfold.stores.log import LineLog, positions


class MemoryLog(LineLog):
    """Lines in a list."""

    def __init__(self, lines: Sequence[bytes] = ()) -> None:
        self._lines: list[bytes] = []
        self._positions: list[int] = []
        self.size = 0
        """Bytes in all."""
        self.append(lines)

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Add lines; nothing in memory is more durable than the rest."""
        made = positions(self.size, lines)
        # The positions first: readers in other threads go by the lines that are there.
        self._positions += made
        self._lines += lines
        self.size += sum(map(len, lines))
        return made

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Lines from a position on."""
        for index in range(bisect_left(self._positions, start), len(self._lines)):
            yield self._positions[index], self._lines[index]

    def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """The lines that contain ``text``, the newest first."""
        end = len(self._lines) if before is None else bisect_left(self._positions, before)
        for index in range(min(end, len(self._lines)) - 1, -1, -1):
            if text in self._lines[index]:
                yield self._positions[index], self._lines[index]

    def close(self) -> None:
        """There is nothing to release."""
