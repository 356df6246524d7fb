"""A log in a file: one JSON record a line, appended, never rewritten.

A kill at any byte loses at most the write under way. What it leaves of a line is not removed: the next
writer ends it with a line break, and readers count it as damaged. How far writes are forced to the disk
is a setting; forced or not, they survive the end of the process, and forced ones a power cut as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from sevenfold.errors import TranscriptError
from sevenfold.stores.jsonl import lines
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.log import LineLog, positions

_LINE_END = 0x0A


class Sync(StrEnum):
    """When writes are forced to the disk."""

    ALWAYS = "always"
    """After every append."""
    DURABLE = "durable"
    """Where losing them would lose more than a turn: compactions, and at the end."""
    NEVER = "never"
    """Left to the system."""


class JsonlLog(LineLog):
    """A transcript file. Readers need no lock; the one writer holds it from `open` to `close`."""

    def __init__(self, path: Path, *, limit: int = lines.LINE_LIMIT) -> None:
        self.path = path
        self.mended = False
        """True when the last writer was cut off in the middle of a line."""
        self._limit = limit
        self._fd = -1
        self._size = 0
        self._sync = Sync.DURABLE
        self._lock: FileLock | None = None
        self._torn = False
        self._owner = os.getpid()

    @classmethod
    def open(
        cls, path: Path, *, wait: float = 0.0, sync: Sync = Sync.DURABLE, limit: int = lines.LINE_LIMIT
    ) -> JsonlLog:
        """Open a transcript for writing, made if it is not there; ``wait`` seconds for another writer."""
        log = cls(path, limit=limit)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            log._lock = FileLock(path, wait=wait)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
            log._fd = os.open(path, flags, 0o600)
            log._size = os.fstat(log._fd).st_size
            log._torn = log._size > 0 and os.pread(log._fd, 1, log._size - 1) != b"\n"
        except OSError as error:
            log.close()
            raise lines.explain(error, path) from error
        log._sync = sync
        log.mended = log._torn
        return log

    def append(self, records: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Write the records in one go; see `sevenfold.ports.Log`."""
        if self._fd < 0:
            raise TranscriptError(f"{self.path}: opened for reading only, so nothing can be appended")
        if self._owner != os.getpid():
            # A fork shares its parent's lock, and knows nothing of what the parent has written since.
            raise TranscriptError(
                f"{self.path}: opened by process {self._owner}, of which this one ({os.getpid()}) is a fork; two that "
                "write would lose what the other said. Open a session of its own in the new process"
            )
        for record in records:
            if len(record) > self._limit:
                raise TranscriptError(
                    f"{self.path}: a record of {len(record):,} bytes is over the limit of {self._limit:,}; "
                    "nothing was written"
                )
        mend = b"\n" if self._torn else b""
        first = self._size + len(mend)
        try:
            self._write(mend + b"".join(records))
            if self._sync is Sync.ALWAYS or (durable and self._sync is Sync.DURABLE):
                os.fsync(self._fd)
        except OSError as error:
            raise lines.explain(error, self.path) from error
        return positions(first, records)

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Lines from a position on."""
        for line in lines.scan(self.path, start, limit=self._limit):
            yield line.offset, line.raw

    def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """The lines that contain ``text``, the newest first."""
        return lines.find(self.path, text, before, limit=self._limit)

    def close(self) -> None:
        """Force what was written to the disk, unless that is switched off, and let others write."""
        fd, lock, self._fd, self._lock = self._fd, self._lock, -1, None
        try:
            if fd >= 0 and self._sync is not Sync.NEVER:
                os.fsync(fd)
        except OSError as error:
            raise lines.explain(error, self.path) from error
        finally:
            if fd >= 0:
                os.close(fd)
            if lock:
                lock.release()

    def _write(self, data: bytes) -> None:
        """All of it, however many calls that takes; a part that got there is remembered as torn."""
        written = 0
        while written < len(data):
            count = os.write(self._fd, memoryview(data)[written:] if written else data)
            written += count
            self._size += count
            self._torn = data[written - 1] != _LINE_END
