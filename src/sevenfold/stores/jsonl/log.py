"""A log in a file: one JSON record a line, appended, never rewritten.

A kill at any byte loses at most the write under way. What it leaves of a line is not removed: the next writer ends it
with a line break, and readers count it as damaged. A write that fails takes back what it had written, so a record that
was reported as not stored never counts. How far writes are forced to the disk is a setting; forced or not, they survive
the end of the process, and forced ones a power cut as well.

Files are read forwards or from the end, one line at a time. A line longer than the limit is not read into memory: it
comes back empty, with its size in ``problem``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from sevenfold.errors import TranscriptError, TranscriptLocked, TranscriptMissing
from sevenfold.stores.files import explain, opened
from sevenfold.stores.jsonl.lock import FileLock, exclusive, lock_file, unlock_file
from sevenfold.stores.log import LineLog, positions

LINE_LIMIT = 64 * 1024 * 1024
"""Bytes. The largest body a provider takes is half of that."""

_CHUNK = 256 * 1024
_WRITING = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)


class Line(Struct, frozen=True):
    """One line of a file as it is there, its line end included."""

    offset: int
    raw: bytes
    problem: str = ""

    @property
    def torn(self) -> bool:
        """True for a last line whose writing was cut short."""
        return not self.problem and not self.raw.endswith(b"\n")


def scan(path: Path, start: int = 0, *, limit: int = LINE_LIMIT) -> Iterator[Line]:
    """All lines from ``start`` on, which must be the beginning of one."""
    with opened(path) as file:
        yield from _scan(file, file.seek(start), limit)


def _scan(file: BinaryIO, offset: int, limit: int) -> Iterator[Line]:
    while raw := file.readline(limit):
        size = len(raw)
        if size < limit or raw.endswith(b"\n"):
            yield Line(offset, raw)
        else:
            del raw
            while more := file.readline(_CHUNK):
                size += len(more)
                if more.endswith(b"\n"):
                    break
            yield Line(offset, b"", f"a line of {size:,} bytes, over the limit of {limit:,}")
        offset += size


def find(
    path: Path, text: bytes, end: int | None = None, *, limit: int = LINE_LIMIT
) -> Iterator[tuple[int, bytes]]:
    """The lines that contain ``text``, each with its offset, the last one first, from ``end`` towards the start."""
    with opened(path) as file:
        edge = file.seek(0, os.SEEK_END) if end is None else end
        while (hit := _rfind(file, text or b"\n", edge)) >= 0:
            edge = _rfind(file, b"\n", hit) + 1
            file.seek(edge)
            yield edge, next(_scan(file, edge, limit)).raw


def _rfind(file: BinaryIO, needle: bytes, end: int) -> int:
    """The last place before ``end`` where ``needle`` begins and ends, or -1."""
    edge, overlap = end, b""
    while edge > 0:
        begin = max(0, edge - _CHUNK)
        file.seek(begin)
        window = file.read(edge - begin) + overlap
        if (hit := window.rfind(needle)) >= 0:
            return begin + hit
        edge, overlap = begin, window[: len(needle) - 1]
    return -1


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

    def __init__(self, path: Path, *, limit: int = LINE_LIMIT, start: int = 0, header: int = 0) -> None:
        """``start`` is the position of the first line, ``header`` how many bytes come before it in the file."""
        self.path = path
        self.fence = 0
        """The fencing number of the writer; 0 for a log that is only read."""
        self.was_torn = False
        """True when the last writer was cut off in the middle of a line."""
        self._limit = limit
        self._header = header
        self._shift = header - start
        """What must be added to a position to get an offset in the file."""
        self._fd = -1
        self._size = 0
        self._sync = Sync.DURABLE
        self._lock: FileLock | None = None
        self._torn = False
        self._owner = os.getpid()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        wait: float = 0.0,
        take: bool = False,
        sync: Sync = Sync.DURABLE,
        limit: int = LINE_LIMIT,
        start: int = 0,
        header: int = 0,
    ) -> JsonlLog:
        """Open a transcript for writing, made if it is not there; ``wait`` seconds for another writer.

        With ``take`` a writer that has not released it by then is overtaken: its next append is refused.
        """
        log = cls(path, limit=limit, start=start, header=header)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            log._lock = _locked(path, wait, take)
            log.fence = log._lock.fence
            log._fd = os.open(path, _WRITING, 0o600)
            log._find_end()
        except OSError as error:
            log.close()
            raise explain(error, path) from error
        log._sync = sync
        log.was_torn = log._torn
        return log

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Write the lines in one go; see `sevenfold.ports.Log`."""
        data = lines[0] if len(lines) == 1 else b"".join(lines)
        fd, lock = self._fd, self._lock
        if lock is None or self._owner != os.getpid() or len(data) > self._limit:
            lock = self._must_be_writable(lines)
        first = self._size + self._torn - self._shift
        try:
            lock_file(fd)
            try:
                # In there, so that a process that stops right here and is overtaken cannot write when it wakes.
                lock.check()
                if not os.fstat(fd).st_nlink:
                    raise TranscriptMissing(
                        f"{self.path}: deleted or replaced while it was open; nothing was written. What was said is "
                        "no longer on disk under that name, so open the session again to continue from what is there"
                    )
                self._write(b"\n" + data if self._torn else data)
            finally:
                unlock_file(fd)
            if self._sync is Sync.ALWAYS or (durable and self._sync is Sync.DURABLE):
                os.fsync(fd)
        except OSError as error:
            raise explain(error, self.path) from error
        return (first,) if len(lines) == 1 else positions(first, lines)

    def _must_be_writable(self, lines: Sequence[bytes]) -> FileLock:
        """The lock that is held; raises if these lines cannot be written."""
        if self._lock is None:
            raise TranscriptError(f"{self.path}: opened for reading only, so nothing can be appended")
        if self._owner != os.getpid():
            # A fork shares its parent's lock, and knows nothing of what the parent has written since.
            raise TranscriptError(
                f"{self.path}: opened by process {self._owner}, of which this one ({os.getpid()}) is a fork; two that "
                "write would lose what the other said. Open a session of its own in the new process"
            )
        if (longest := max(map(len, lines))) > self._limit:
            raise TranscriptError(
                f"{self.path}: a record of {longest:,} bytes is over the limit of {self._limit:,}; nothing was written"
            )
        return self._lock

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Lines from a position on."""
        for line in scan(self.path, start + self._shift, limit=self._limit):
            yield line.offset - self._shift, line.raw

    def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """The lines that contain ``text``, the newest first."""
        end = None if before is None else before + self._shift
        for offset, line in find(self.path, text, end, limit=self._limit):
            if offset < self._header:
                break
            yield offset - self._shift, line

    def close(self) -> None:
        """Force what was written to the disk, unless that is switched off, and let others write."""
        fd, lock, self._fd, self._lock = self._fd, self._lock, -1, None
        try:
            if fd >= 0 and self._sync is not Sync.NEVER:
                os.fsync(fd)
        except OSError as error:
            raise explain(error, self.path) from error
        finally:
            if fd >= 0:
                os.close(fd)
            if lock:
                lock.release()

    def _write(self, data: bytes) -> None:
        """All of it, however many calls that takes, or nothing."""
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, memoryview(data)[written:])
        except BaseException:
            # A line that lacks only its end would count once the next writer ends it.
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
            self._find_end()
            raise
        self._size += written
        self._torn = False

    def _find_end(self) -> None:
        """Learn how long the file is and whether its last line is torn."""
        self._size = os.fstat(self._fd).st_size
        self._torn = self._size > 0 and os.pread(self._fd, 1, self._size - 1) != b"\n"


def _locked(path: Path, wait: float, take: bool) -> FileLock:
    try:
        return FileLock(path, wait=wait)
    except TranscriptLocked:
        if not take:
            raise
    fd = os.open(path, _WRITING, 0o600)
    try:
        with exclusive(fd):
            return FileLock(path, take=True)
    finally:
        os.close(fd)


def end_of(path: Path) -> tuple[int, bool]:
    """How many bytes a transcript has, and whether its last line is torn."""
    with opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return size, file.read(1) not in (b"", b"\n")


def line_before(path: Path, position: int) -> bytes | None:
    """The line that ends at a position, torn or not; empty at the beginning, None if no line ends there."""
    if position == 0:
        return b""
    with opened(path) as file:
        start = _rfind(file, b"\n", position - 1) + 1
        file.seek(start)
        line = file.read(position - start)
    # The next writer ends a torn line, so the line end that is not there yet is counted.
    return line if line.endswith(b"\n") or start + len(line) == position - 1 else None
