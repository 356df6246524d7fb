"""One writer at a time, by a lock the system gives back when its holder dies.

The lock is a file beside the one it guards, and says who holds it. It stays there, unless what it guards is removed
and the lock with it. So whoever got a lock looks whether it is still the file of that name: else two processes
could hold two different ones.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from sevenfold.errors import TranscriptLocked

_POLL_SECONDS = 0.05


class Holder(msgspec.Struct, frozen=True):
    """Who holds a lock."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


class FileLock:
    """The lock on ``path``; held from construction until `release`, or until the process ends."""

    def __init__(self, path: Path, *, wait: float = 0.0) -> None:
        self._path = path.with_name(path.name + ".lock")
        deadline = time.monotonic() + wait
        while (fd := self._taken()) < 0:
            if time.monotonic() >= deadline:
                raise TranscriptLocked(
                    f"{path}: being written by {self._holder() or 'another process'}; end that one or wait for it. "
                    "Commands that only read (recall, audit, profile, compact to a new file) need not wait"
                )
            time.sleep(_POLL_SECONDS)
        self._fd = fd
        now = datetime.now(UTC).isoformat(timespec="seconds")
        note = msgspec.json.encode(Holder(os.getpid(), socket.gethostname(), now))
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, note, 0)

    def release(self) -> None:
        """Let the next one in."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        """Remove the lock together with what it guards, and let go of it."""
        # Some systems keep a file's name while it is open; then an empty lock stays behind.
        with suppress(OSError):
            self._path.unlink()
        self.release()

    def _taken(self) -> int:
        """The lock's file if it is ours now, else -1."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if _try_lock(fd) and self._is_in_place(fd):
            return fd
        os.close(fd)
        return -1

    def _is_in_place(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), self._path.stat())
        except FileNotFoundError:
            return False

    def _holder(self) -> Holder | None:
        try:
            return msgspec.json.decode(self._path.read_bytes()[:1024], type=Holder)
        except (OSError, msgspec.DecodeError):
            return None


if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30

    def _try_lock(fd: int) -> bool:
        os.lseek(fd, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
