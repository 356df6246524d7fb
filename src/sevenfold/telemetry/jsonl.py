"""Writes events as JSON lines to a file that only its owner can read.

Each line is written at once, and a torn line (after a crash or on a full disk) is ended before the next one, so a
reader loses at most that line. A full file is renamed to `….1` and replaces the previous one, so there are two files
and never more than twice the limit on disk. Several processes may write to the same file.
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
from sevenfold.stores.files import append_line, private_parent
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.telemetry import Mask, Sink

LIMIT = 32 * 1024 * 1024
"""The maximum size of one file, in bytes."""


class JsonlSink(Sink):
    """Writes one line per event; the file is rotated before it exceeds ``limit`` bytes."""

    def __init__(self, path: Path | str, *, mask: Mask = mask_text, limit: int = LIMIT) -> None:
        super().__init__(mask)
        self.path = Path(path)
        self._limit = limit
        try:
            private_parent(self.path)
            with self._opened():
                pass
        except OSError as error:
            raise SettingError(
                f"{self.path}: telemetry cannot be written there ({error.strerror}); "
                "check the folder's permissions or name another file"
            ) from error

    @property
    def previous(self) -> Path:
        """The path of the previous, rotated file."""
        return self.path.with_name(self.path.name + ".1")

    def _take(self, event: Event) -> None:
        line = msgspec.json.encode(event) + b"\n"
        # Opened each time: another process may have rotated the file, or purged a secret from it.
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
        """Rotate the full file, unless another process has done so or is about to."""
        with suppress(TranscriptLocked), FileLock(self.path):
            if os.path.samestat(self.path.stat(), os.fstat(fd)):
                self.path.replace(self.previous)
