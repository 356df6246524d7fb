"""One writer at a time, by a lock the system releases when its holder dies.

The lock is a file next to the one it guards; it names its holder and the holder's fencing number, which is one more
than that of the holder before. The file stays there, unless what it guards is removed and the lock with it. So a
process that got a lock checks whether it is still the file of that name: otherwise two processes could hold two
different ones.

A process that hangs cannot be made to release its lock. It can be overtaken: a new lock file takes the name of the one
it holds, and from then on `FileLock.check` refuses it.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import msgspec

from sevenfold.errors import TranscriptLocked, TranscriptOvertaken

_POLL_SECONDS = 0.05


class Holder(msgspec.Struct, frozen=True):
    """Who holds a lock."""

    pid: int
    host: str
    since: str
    fence: int = 0

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


class FileLock:
    """The lock on ``path``; held from construction until `release`, or until the process ends."""

    def __init__(self, path: Path, *, wait: float = 0.0, take: bool = False) -> None:
        """Raises `TranscriptLocked` after ``wait`` seconds; with ``take`` it overtakes the holder instead."""
        self._guarded = path
        self._path = path.with_name(path.name + ".lock")
        deadline = time.monotonic() + wait
        last = 0
        while (fd := self._acquired()) < 0:
            if time.monotonic() >= deadline:
                holder = self._holder()
                if not take:
                    raise TranscriptLocked(
                        f"{path}: being written by {holder or 'another process'}; end that one or wait for it. "
                        "Commands that only read (recall, audit, profile, compact to a new file) need not wait"
                    )
                last = max(last, holder.fence if holder else 0)
                self._path.unlink(missing_ok=True)
                continue
            time.sleep(_POLL_SECONDS)
        self._fd = fd
        held = os.fstat(fd)
        self._identity = held.st_dev, held.st_ino
        before = self._holder()
        self.fence = max(last, before.fence if before else 0) + 1
        """Larger than that of every holder before."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        note = msgspec.json.encode(Holder(os.getpid(), socket.gethostname(), now, self.fence))
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, note, 0)

    def check(self) -> None:
        """Raise `TranscriptOvertaken` if another process took the lock from this one."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return
        if (there.st_dev, there.st_ino) != self._identity:
            raise TranscriptOvertaken(
                f"{self._guarded}: taken over by {self._holder() or 'another process'}; nothing was written. "
                "Open the session again to continue from what is there now"
            )

    def release(self) -> None:
        """Let the next one in."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def remove(self) -> None:
        """Remove the lock together with what it guards, and release it."""
        # Some systems keep a file's name while it is open; then an empty lock stays behind.
        with suppress(OSError):
            self._path.unlink()
        self.release()

    def _acquired(self) -> int:
        """The lock's file if it is ours now, else -1."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if try_lock(fd) and is_named(fd, self._path):
            return fd
        os.close(fd)
        return -1

    def _holder(self) -> Holder | None:
        try:
            return msgspec.json.decode(self._path.read_bytes()[:1024], type=Holder)
        except (OSError, msgspec.DecodeError):
            return None


def is_named(fd: int, path: Path) -> bool:
    """Is the open file still the one of that name?"""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def exclusive(fd: int) -> Iterator[None]:
    """Keep every other process that asks for the same out of a file for a moment."""
    lock_file(fd)
    try:
        yield
    finally:
        unlock_file(fd)


if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30

    def try_lock(fd: int) -> bool:
        """Lock a file until it is closed; False if another process has it locked."""
        os.lseek(fd, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def lock_file(fd: int) -> None:
        """Wait until no other process has locked a file, and lock it: for the moment of a write."""
        while not try_lock(fd):
            time.sleep(_POLL_SECONDS / 50)

    def unlock_file(fd: int) -> None:
        """Let others lock the file."""
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def try_lock(fd: int) -> bool:
        """Lock a file until it is closed; False if another process has it locked."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def lock_file(fd: int) -> None:
        """Wait until no other process has locked a file, and lock it: for the moment of a write."""
        fcntl.flock(fd, fcntl.LOCK_EX)

    def unlock_file(fd: int) -> None:
        """Let others lock the file."""
        fcntl.flock(fd, fcntl.LOCK_UN)
