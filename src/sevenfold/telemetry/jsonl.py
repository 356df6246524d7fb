"""Events as lines of a file that only its owner can read.

A line is written in one go, and one that was cut short (a crash, a full disk) is ended before the next begins, so
a reader loses that line at most. When the file is full it becomes `….1`, replacing the one before: two generations,
never more than twice the limit on the disk. Several processes may write to the same file.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from sevenfold.errors import SettingError, TranscriptLocked
from sevenfold.events import Event
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.telemetry.sink import Mask, Sink, unmasked

LIMIT = 32 * 1024 * 1024
"""Bytes of one generation."""

_LINE_END = 0x0A


class JsonlSink(Sink):
    """Writes one line per event; ``limit`` is the size in bytes at which the file is put aside."""

    def __init__(self, path: Path | str, *, mask: Mask = unmasked, limit: int = LIMIT) -> None:
        super().__init__(mask)
        self.path = Path(path)
        self._limit = limit
        self._torn = False
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = self._opened()
        except OSError as error:
            raise SettingError(
                f"{self.path}: telemetry cannot be written there ({error.strerror}); "
                "check the folder's permissions or name another file"
            ) from error

    @property
    def previous(self) -> Path:
        """The generation before this one."""
        return self.path.with_name(self.path.name + ".1")

    def _take(self, event: Event) -> None:
        line = msgspec.json.encode(event) + b"\n"
        if not self._in_place():
            # Another process put it aside, or a secret was purged from it.
            self._reopen()
        size = os.fstat(self._fd).st_size
        if size and size + len(line) > self._limit:
            self._rotate()
        self._write(line)

    def _finish(self) -> None:
        os.close(self._fd)

    def _opened(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(self.path, flags, 0o600)
        try:
            os.fchmod(fd, 0o600)
            size = os.fstat(fd).st_size
            self._torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        except OSError:
            os.close(fd)
            raise
        return fd

    def _rotate(self) -> None:
        """Put the full file aside, unless another process has; either way go on in the one of that name."""
        try:
            lock = FileLock(self.path)
        except TranscriptLocked:
            return
        try:
            if self._in_place():
                self.path.replace(self.previous)
            self._reopen()
        finally:
            lock.release()

    def _reopen(self) -> None:
        before, self._fd = self._fd, self._opened()
        os.close(before)

    def _in_place(self) -> bool:
        try:
            return os.path.samestat(self.path.stat(), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def _write(self, line: bytes) -> None:
        line = b"\n" + line if self._torn else line
        written = 0
        while written < len(line):
            written += os.write(self._fd, line[written:])
            self._torn = line[written - 1] != _LINE_END
