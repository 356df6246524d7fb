"""Output of commands, kept within bounds: both ends of it in memory, or its beginning in a file.

A command can put something else in the place of its file, so only what is still a regular file is read back.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

KEPT_AT_EACH_END = 128 * 1024
"""Bytes of output kept at the beginning and at the end."""
MOST_IN_A_FILE = 64 * 1024 * 1024
"""Bytes of output kept of a command in the background."""


class Ends:
    """The beginning and the end of an output."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._first = bytearray()
        self._last = bytearray()
        self.left_out = 0

    def add(self, chunk: bytes) -> None:
        """More of it."""
        self._progress(chunk.decode(errors="replace"))
        room = KEPT_AT_EACH_END - len(self._first)
        self._first += chunk[:room]
        self._last += chunk[room:] if room < len(chunk) else b""
        if len(self._last) > 2 * KEPT_AT_EACH_END:
            self._shorten()

    def _shorten(self) -> None:
        over = max(0, len(self._last) - KEPT_AT_EACH_END)
        self.left_out += over
        del self._last[:over]

    def text(self) -> str:
        """All of it, or both ends with a note in between."""
        self._shorten()
        if not self.left_out:
            return bytes(self._first + self._last).decode(errors="replace")
        first, last = (
            bytes(self._first).decode(errors="replace"),
            bytes(self._last).decode(errors="replace"),
        )
        return f"{first}\n… {self.left_out:,} bytes of output are left out here …\n{last}"


class OutputFile:
    """The beginning of an output, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("xb", buffering=0)
        self._room = MOST_IN_A_FILE

    def add(self, chunk: bytes) -> None:
        """More of it."""
        if self._room > 0:
            self._file.write(chunk[: self._room])
            self._room -= len(chunk)
            if self._room <= 0:
                self._file.write(b"\n(more output than is kept)\n")

    def close(self) -> None:
        """No more of it."""
        self._file.close()


def size(path: str) -> int:
    """Bytes of output in a file; none if it is gone."""
    try:
        found = os.lstat(path)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def piece(path: str, place: int, most: int) -> bytes:
    """A piece of the output in a file; nothing if it is gone."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.pread(file, most, place) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)
