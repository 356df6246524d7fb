"""A log that begins with a file and continues in memory: what a session would write, before it is decided to keep it.

The file is read as it was when the draft began and never touched. Positions are those the new lines will have once
they follow the file's bytes, in the file itself or in a copy of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sevenfold.stores.jsonl import lines
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.log import Branch
from sevenfold.stores.memory.log import MemoryLog

_CHUNK = 1 << 20


class DraftLog(Branch):
    """A file's lines, followed by those that were appended here."""

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
        super().__init__(JsonlLog(path).upto(self.size), MemoryLog(), self.size + self.torn)

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Add lines to the draft; see `sevenfold.ports.Log`."""
        self.added.extend(lines)
        return super().append(lines)

    def whole(self) -> Iterator[bytes]:
        """The file's bytes and the draft's after them, in pieces."""
        left = self.size
        with lines.opened(self.path) as file:
            while left and (piece := file.read(min(left, _CHUNK))):
                left -= len(piece)
                yield piece
        if self.torn and self.added:
            yield b"\n"
        yield from self.added
