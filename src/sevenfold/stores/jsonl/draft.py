"""A log that begins with a file and goes on in memory: what a session would write, before anybody decides to keep it.

The file is read as it was when the draft began and never touched. Offsets are those the new lines will have once
they stand behind the file's bytes, in the file itself or in a copy of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sevenfold.stores.jsonl import lines
from sevenfold.stores.memory.log import MemoryLog

_CHUNK = 1 << 20


class DraftedLog:
    """A file's lines, and behind them those that were appended here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with lines.opened(path) as file:
            self.size = file.seek(0, 2)
            """Bytes of the file when the draft began."""
            file.seek(max(0, self.size - 1))
            self.torn = file.read(1) not in (b"", b"\n")
            """Was its last writer cut off in the middle of a line?"""
        self.added: list[bytes] = []
        """The lines that are not in the file."""
        self._behind = MemoryLog()
        self._start = self.size + self.torn

    def append(self, records: Sequence[bytes], *, durable: bool = False) -> int:
        """Add lines to the draft; see `sevenfold.ports.Log`."""
        self.added.extend(records)
        return self._start + self._behind.append(records)

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Lines from an offset on."""
        if start < self.size:
            for line in lines.scan(self.path, start):
                if line.offset >= self.size:
                    break
                yield line.offset, line.raw[: self.size - line.offset]
        for offset, raw in self._behind.read(max(0, start - self._start)):
            yield self._start + offset, raw

    def holding(self, needle: bytes, before: int | None = None) -> Iterator[int]:
        """Offsets of the lines that contain ``needle``, the newest first."""
        behind = None if before is None else max(0, before - self._start)
        for offset in self._behind.holding(needle, behind):
            yield self._start + offset
        yield from lines.holding(self.path, needle, min(self.size, self.size if before is None else before))

    def whole(self) -> Iterator[bytes]:
        """The file's bytes and the draft's behind them, in pieces."""
        left = self.size
        with lines.opened(self.path) as file:
            while left and (piece := file.read(min(left, _CHUNK))):
                left -= len(piece)
                yield piece
        if self.torn and self.added:
            yield b"\n"
        yield from self.added

    def close(self) -> None:
        """Nothing to let go of."""
