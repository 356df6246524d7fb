"""Events as lines of a file that only its owner can read.

A line is written in one go, and one that was cut short (a crash, a full disk) is ended before the next begins, so
a reader loses that line at most. When the file is full it becomes `….1`, replacing the one before: two generations,
never more than twice the limit on the disk. Several processes may write to the same file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from sevenfold.errors import SettingError, TranscriptLocked
from sevenfold.events import Event
from sevenfold.record.redact import mask_text
from sevenfold.stores.files import append_line
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.telemetry import Mask, Sink

LIMIT = 32 * 1024 * 1024
"""Bytes of one generation."""


class JsonlSink(Sink):
    """Writes one line per event; ``limit`` is the size in bytes at which the file is put aside."""

    def __init__(self, path: Path | str, *, mask: Mask = mask_text, limit: int = LIMIT) -> None:
        super().__init__(mask)
        self.path = Path(path)
        self._limit = limit
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._opened():
                pass
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
        # Opened each time: another process may have put it aside, or a secret was purged from it.
        with self._opened() as fd:
            size = os.fstat(fd).st_size
            if not size or size + len(line) <= self._limit:
                append_line(fd, line)
                return
            self._put_aside(fd)
        with self._opened() as fd:
            append_line(fd, line)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            os.fchmod(fd, 0o600)
            yield fd
        finally:
            os.close(fd)

    def _put_aside(self, fd: int) -> None:
        """Put the full file aside, unless another process has or is about to."""
        with suppress(TranscriptLocked), FileLock(self.path):
            if os.path.samestat(self.path.stat(), os.fstat(fd)):
                self.path.replace(self.previous)
