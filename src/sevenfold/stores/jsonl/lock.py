"""A lock for one writer at a time, which the operating system releases when its holder dies.

The lock is a file next to the one it guards. It names its holder and the holder's fencing number, which is one higher
than the previous holder's. The lock file is only removed together with the file it guards. So a process that acquired
the lock checks that its open file still has that name: otherwise two processes could hold locks on two different
files.

A child inherits the lock until it starts its own program, and if the holder is killed in that moment, the lock
outlives it by that much. So where the named holder is dead, the lock is waited for a little longer; a child that goes
on as a copy of its parent closes its copy of the lock.

A hanging process cannot be forced to release its lock, but it can be overtaken: a new lock file replaces the one it
holds, and from then on `FileLock.check` raises in that process.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import msgspec

from sevenfold.errors import TranscriptLocked, TranscriptOvertaken

_POLL_SECONDS = 0.05
_HEIR_SECONDS = 3.0
"""How long to wait at most for a lock whose holder is dead: a child has it, and is about to start its program."""


class Holder(msgspec.Struct, frozen=True):
    """The process that holds a lock."""

    pid: int
    host: str
    since: str
    fence: int = 0

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"

    @property
    def is_dead(self) -> bool:
        """Whether it is known that this process has ended."""
        if self.host != socket.gethostname() or self.pid <= 0 or sys.platform == "win32":
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        try:
            about = Path(f"/proc/{self.pid}/stat").read_bytes()
        except OSError:
            return False
        # A killed process keeps its number until its parent has taken note of it.
        return about.rpartition(b")")[2].split()[:1] == [b"Z"]


class FileLock:
    """A lock on ``path``, held from construction until `release` or the end of the process."""

    def __init__(self, path: Path, *, wait: float = 0.0, take: bool = False) -> None:
        """Acquire the lock; after ``wait`` seconds, raise `TranscriptLocked` or, with ``take``, overtake the holder."""
        self._guarded = path
        self._path = path.with_name(path.name + ".lock")
        started = time.monotonic()
        last = 0
        while (fd := self._acquired()) < 0:
            waited = time.monotonic() - started
            holder = self._holder()
            inherited = holder is not None and holder.is_dead and waited < _HEIR_SECONDS
            if waited >= wait and not inherited:
                if not take:
                    error = TranscriptLocked(
                        f"{path}: being written by {holder or 'another process'}; end that one or wait for it. "
                        "Commands that only read (recall, audit, profile, compact to a new file) need not wait"
                    )
                    error.holder = str(holder or "another process")
                    raise error
                last = max(last, holder.fence if holder else 0)
                self._path.unlink(missing_ok=True)
                continue
            time.sleep(_POLL_SECONDS)
        self._fd = fd
        held = os.fstat(fd)
        self._identity = held.st_dev, held.st_ino
        before = self._holder()
        self.fence = max(last, before.fence if before else 0) + 1
        """The fencing number, larger than every earlier holder's."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        note = msgspec.json.encode(Holder(os.getpid(), socket.gethostname(), now, self.fence))
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, note, 0)
        _held.add(self)

    def check(self) -> None:
        """Raise `TranscriptOvertaken` if another holder took this lock over, or acquired it after its release."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return
        replaced = (there.st_dev, there.st_ino) != self._identity
        if not replaced and self._fd < 0:
            holder = self._holder()
            replaced = holder is not None and holder.fence > self.fence
        if replaced:
            raise TranscriptOvertaken(
                f"{self._guarded}: taken over by {self._holder() or 'another process'}; nothing was written. "
                "Open the session again to continue from what is there now"
            )

    def release(self) -> None:
        """Release the lock; does nothing if it is released already."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def remove(self) -> None:
        """Delete the lock file and release the lock, for when the guarded file is deleted."""
        # Some systems cannot delete an open file; there the lock file stays behind.
        with suppress(OSError):
            self._path.unlink()
        self.release()

    def _acquired(self) -> int:
        """Try to acquire the lock once; return the file descriptor of the lock file, or -1."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if try_lock(fd) and is_named(fd, self._path):
            return fd
        os.close(fd)
        return -1

    def _holder(self) -> Holder | None:
        try:
            return msgspec.json.decode(self._path.read_bytes()[:1024], type=Holder)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


_held: weakref.WeakSet[FileLock] = weakref.WeakSet()
"""The locks of this process."""


def _leave_to_parent() -> None:
    """Close the copies of the parent's locks in a child."""
    for lock in _held:
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def is_named(fd: int, path: Path) -> bool:
    """Whether the open file is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def exclusive(fd: int) -> Iterator[None]:
    """Hold an exclusive lock on an open file during the block; only other lock calls are kept out."""
    lock_file(fd)
    try:
        yield
    finally:
        unlock_file(fd)


if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30

    def try_lock(fd: int) -> bool:
        """Try to lock a file until it is closed; False if another process has locked it."""
        os.lseek(fd, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def lock_file(fd: int) -> None:
        """Wait until no other process has locked the file, then lock it; meant for the duration of a write."""
        while not try_lock(fd):
            time.sleep(_POLL_SECONDS / 50)

    def unlock_file(fd: int) -> None:
        """Release the lock on the file."""
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def try_lock(fd: int) -> bool:
        """Try to lock a file until it is closed; False if another process has locked it."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def lock_file(fd: int) -> None:
        """Wait until no other process has locked the file, then lock it; meant for the duration of a write."""
        fcntl.flock(fd, fcntl.LOCK_EX)

    def unlock_file(fd: int) -> None:
        """Release the lock on the file."""
        fcntl.flock(fd, fcntl.LOCK_UN)
