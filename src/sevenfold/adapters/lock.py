"""One writer at a time, by a lock the system gives back when its holder dies.

The lock is a file beside the one it guards. It stays there (removing it would let two processes hold
two different files), and says who holds it.
"""

from __future__ import annotations

import os
import socket
import sys
import time
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
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        deadline = time.monotonic() + wait
        while not _try_lock(self._fd):
            if time.monotonic() >= deadline:
                holder = _read_holder(self._fd)
                os.close(self._fd)
                raise TranscriptLocked(
                    f"{path}: being written by {holder or 'another process'}; "
                    "end that one, wait for it, or open the transcript for reading only"
                )
            time.sleep(_POLL_SECONDS)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        note = msgspec.json.encode(Holder(os.getpid(), socket.gethostname(), now))
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, note, 0)

    def release(self) -> None:
        """Let the next one in."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _read_holder(fd: int) -> Holder | None:
    try:
        return msgspec.json.decode(os.pread(fd, 1024, 0), type=Holder)
    except msgspec.DecodeError:
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
