"""A log in a file: one JSON record per line, appended, never rewritten.

A kill at any byte loses at most the write in progress. A torn line is not removed: the next writer ends it with a line
break, and readers count it as damaged. A failed write removes the bytes it had written, so a record that was reported
as not stored never counts. A setting decides which writes are synced to disk. All writes survive the end of the
process; synced writes also survive a power cut.

An overtaken writer still has the file open and may be about to write, or stopped in the middle of a write. So the new
writer does not share the file: it appends an empty line, copies everything before that line, and gives the copy the
file's name. Every append checks where its lines ended up. Lines before the empty line are in the copy; lines after it
are in a file that no longer has a name, and the append is refused.

Files are read forwards or from the end, one line at a time. A line longer than the limit is not read into memory: it
is returned empty, with its size in ``problem``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from sevenfold.errors import TranscriptError, TranscriptLocked, TranscriptMissing, TranscriptOvertaken
from sevenfold.stores.files import Staged, explain, explained, opened, private_parent
from sevenfold.stores.jsonl.lock import (
    TAKEOVER_SECONDS,
    FileLock,
    being_taken_over,
    is_named,
    takeover_of,
    try_lock,
)
from sevenfold.stores.log import LineLog, positions

LINE_LIMIT = 64 * 1024 * 1024
"""In bytes; twice the largest request body that a provider accepts."""

_CHUNK = 256 * 1024
_WRITING = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
_process = os.getpid()
"""The id of this process; a system call for each append would cost more than the rest of the check."""


def _note_process() -> None:
    global _process
    _process = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_process)


class Line(Struct, frozen=True):
    """One line of a file, unchanged, including its line end."""

    offset: int
    raw: bytes
    problem: str = ""

    @property
    def torn(self) -> bool:
        """True for a last line without its newline, left by an interrupted write."""
        return not self.problem and not self.raw.endswith(b"\n")


def scan(path: Path, start: int = 0, *, limit: int = LINE_LIMIT) -> Iterator[Line]:
    """Yield all lines from offset ``start``, which must be the start of a line."""
    with opened(path) as file:
        yield from _scan(file, file.seek(start), limit)


def _scan(file: BinaryIO, offset: int, limit: int) -> Iterator[Line]:
    while raw := file.readline(limit):
        size = len(raw)
        if size < limit or raw.endswith(b"\n"):
            yield Line(offset, raw)
        else:
            del raw
            while chunk := file.readline(_CHUNK):
                size += len(chunk)
                if chunk.endswith(b"\n"):
                    break
            yield Line(offset, b"", f"a line of {size:,} bytes, over the limit of {limit:,}")
        offset += size


def find(
    path: Path, text: bytes, end: int | None = None, *, limit: int = LINE_LIMIT
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that contain ``text``, each with its offset, from ``end`` back to the start of the file."""
    with opened(path) as file:
        edge = file.seek(0, os.SEEK_END) if end is None else end
        while (hit := _rfind(file, text or b"\n", edge)) >= 0:
            edge = _rfind(file, b"\n", hit) + 1
            file.seek(edge)
            yield edge, next(_scan(file, edge, limit)).raw


def _rfind(file: BinaryIO, needle: bytes, end: int) -> int:
    """Return the offset of the last ``needle`` that lies entirely before ``end``, or -1."""
    edge = end
    overlap = b""
    while edge > 0:
        begin = max(0, edge - _CHUNK)
        file.seek(begin)
        window = file.read(edge - begin) + overlap
        if (hit := window.rfind(needle)) >= 0:
            return begin + hit
        edge = begin
        overlap = window[: len(needle) - 1]
    return -1


class Sync(StrEnum):
    """When writes are synced to disk."""

    ALWAYS = "always"
    """After every append."""
    DURABLE = "durable"
    """Where a lost write would cost more than a turn: for compactions, and when the log is closed."""
    NEVER = "never"
    """Never; the operating system decides."""


class JsonlLog(LineLog):
    """A transcript file. Readers need no lock; the only writer holds the lock from `open` to `close`."""

    def __init__(self, path: Path, *, limit: int = LINE_LIMIT, start: int = 0, header: int = 0) -> None:
        """A log for reading; ``start`` is the first line's position, ``header`` the bytes before it in the file."""
        self.path = path
        self.fence = 0
        """The writer's fencing number; 0 for a log opened for reading."""
        self.was_torn = False
        """True if the previous writer was interrupted in the middle of a line."""
        self._limit = limit
        self._header = header
        self._shift = header - start
        """The number to add to a position to get an offset in the file."""
        self._fd = -1
        self._size = 0
        self._always = False
        self._forces = True
        """Whether durable writes are synced to disk; with ``_always``, all writes are."""
        self._lock: FileLock | None = None
        self._held: FileLock | None = None
        """The same lock, also after it was released."""
        self._torn = False
        self._process = _process

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
        """Open a transcript for writing, and create it if needed; wait up to ``wait`` seconds for another writer.

        With ``take``, a writer that still holds the lock after that is overtaken: its next append is refused.
        """
        log = cls(path, limit=limit, start=start, header=header)
        with ExitStack() as cleanup, explained(path):
            cleanup.callback(log.close)
            private_parent(path)
            log._lock = log._held = _locked(path, wait, take)
            log.fence = log._lock.fence
            log._fd = _opened_alone(path, log._lock)
            log._find_end()
            # Appends notice a process that takes over from here on, but not one that has written to the file before.
            log._lock.check()
            cleanup.pop_all()
        log._always = sync is Sync.ALWAYS
        log._forces = sync is not Sync.NEVER
        log.was_torn = log._torn
        return log

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Write all lines at once; see `sevenfold.ports.Log`."""
        single = len(lines) == 1
        data = lines[0] if single else b"".join(lines)
        if self._lock is None or self._process != _process or len(data) > self._limit:
            self._must_be_writable(lines)
        if torn := self._torn:
            data = b"\n" + data
        start = self._size
        size = len(data)
        fd = self._fd
        try:
            try:
                written = os.write(fd, data)
                while written < size:
                    written += os.write(fd, memoryview(data)[written:])
                end = self._size = start + size
            except BaseException:
                self._take_back(data)
                raise
            self._torn = False
            if self._always or (durable and self._forces):
                os.fsync(fd)
            state = os.fstat(fd)
            if state.st_size != end or not state.st_nlink:
                start = self._look_up(size)
        except OSError as error:
            raise explain(error, self.path) from error
        first = start + torn - self._shift
        return (first,) if single else positions(first, lines)

    def _look_up(self, size: int) -> int:
        """Return the offset of the last ``size`` bytes written, after another process changed the file.

        Raises `TranscriptError` if the bytes are not in the transcript.
        """
        end = os.lseek(self._fd, 0, os.SEEK_CUR)
        assert self._lock is not None
        try:
            self._lock.check()
            named = is_named(self._fd, self.path)
            if not named:
                # Whoever takes over replaces the lock file, then this one; a third may be taking over from that one.
                self._lock.check(wait=TAKEOVER_SECONDS if being_taken_over(self.path) else 0)
        except TranscriptOvertaken:
            if end == self._size and size:
                return end - size  # the successor copied these bytes
            raise
        if not named:
            raise TranscriptMissing(
                f"{self.path}: deleted or replaced while it was open; nothing was written. What was said is "
                "no longer on disk under that name, so open the session again to continue from what is there"
            )
        self._find_end()
        return end - size

    def _must_be_writable(self, lines: Sequence[bytes]) -> None:
        """Raise `TranscriptError` if these lines cannot be written."""
        if self._lock is None:
            raise TranscriptError(f"{self.path}: opened for reading only, so nothing can be appended")
        if self._process != _process:
            # A forked process shares its parent's lock but does not know what the parent has written since.
            raise TranscriptError(
                f"{self.path}: opened by process {self._process}, of which this one ({_process}) is a fork; two that "
                "write would lose what the other said. Open a session of its own in the new process"
            )
        if (longest := max(map(len, lines))) > self._limit:
            raise TranscriptError(
                f"{self.path}: a record of {longest:,} bytes is over the limit of {self._limit:,}; nothing was written"
            )

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the lines from a position on."""
        for line in scan(self.path, start + self._shift, limit=self._limit):
            yield line.offset - self._shift, line.raw

    def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that contain ``text``, newest first."""
        end = None if before is None else before + self._shift
        for offset, line in find(self.path, text, end, limit=self._limit):
            if offset < self._header:
                break
            yield offset - self._shift, line

    def renew(self) -> None:
        """Raise `TranscriptOvertaken` if another writer has had the lease since this log was opened for writing.

        There is nothing to extend: the operating system keeps the lease as long as the process lives.
        """
        if self._held is not None:
            self._held.check()

    def close(self) -> None:
        """Sync the file to disk, unless that is switched off, and release the lock."""
        fd = self._fd
        lock = self._lock
        self._fd = -1
        self._lock = None
        try:
            if fd >= 0 and self._forces:
                os.fsync(fd)
        except OSError as error:
            raise explain(error, self.path) from error
        finally:
            if fd >= 0:
                os.close(fd)
            if lock:
                lock.release()

    def _take_back(self, data: bytes) -> None:
        """Remove the part of ``data`` that a failed write left, unless others have written since."""
        if data.startswith(os.pread(self._fd, len(data) + 1, self._size)):
            # A line that lacks only its newline would become valid as soon as the next writer ends it.
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
            self._find_end()

    def _find_end(self) -> None:
        """Determine the file's size and whether its last line is torn."""
        self._size = os.fstat(self._fd).st_size
        self._torn = self._size > 0 and os.pread(self._fd, 1, self._size - 1) != b"\n"


def _locked(path: Path, wait: float, take: bool) -> FileLock:
    try:
        return FileLock(path, wait=wait)
    except TranscriptLocked:
        if not take:
            raise
    return FileLock(path, take=True)


def _opened_alone(path: Path, lock: FileLock) -> int:
    """Open and lock a transcript for writing; if another process still has it locked, replace it by a copy first.

    That process was overtaken, or someone deleted the lock file of its lease. Raises `TranscriptOvertaken` if yet
    another process has taken over meanwhile: its copy must not be replaced by this one.
    """
    if not being_taken_over(path) and (fd := _locked_file(path)) >= 0:
        return fd
    with takeover_of(path):
        lock.check()
        while (fd := _locked_file(path)) < 0:
            _replace_by_copy(path)
    return fd


def _locked_file(path: Path) -> int:
    """Open and lock a transcript for writing; -1 if another process has it locked."""
    fd = os.open(path, _WRITING, 0o600)
    if try_lock(fd):
        return fd
    os.close(fd)
    return -1


def _replace_by_copy(path: Path) -> None:
    """Replace a transcript by a copy of it as it is now; what is written to it later is not in the copy."""
    with path.open("ab", buffering=0) as file:
        file.write(b"\n")
        end = file.tell() - 1
    with Staged(path.resolve(), _chunks(path, end)) as copy:
        copy.commit()


def _chunks(path: Path, end: int) -> Iterator[bytes]:
    """Yield the content of a file up to an offset, in chunks."""
    with opened(path) as file:
        while chunk := file.read(min(_CHUNK, end - file.tell())):
            yield chunk


def end_of(path: Path) -> tuple[int, bool]:
    """Return the size of a transcript in bytes and whether its last line is torn."""
    with opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return size, file.read(1) not in (b"", b"\n")


def line_before(path: Path, position: int) -> bytes | None:
    """Return the line, torn or not, that ends at a position; empty at position 0, None if no line ends there."""
    if position == 0:
        return b""
    with opened(path) as file:
        start = _rfind(file, b"\n", position - 1) + 1
        file.seek(start)
        line = file.read(position - start)
    # The next writer will end a torn line, so its missing newline counts already.
    return line if line.endswith(b"\n") or start + len(line) == position - 1 else None
