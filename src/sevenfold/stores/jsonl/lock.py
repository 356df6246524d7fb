"""A lock for one writer at a time, which the operating system releases when its holder dies.

The lock is a file next to the one it guards. It names its holder and the holder's fencing number, which is one higher
than the previous holder's. The lock file is only removed together with the file it guards. So a process that acquired
the lock checks that its open file still has that name: otherwise two processes could hold locks on two different
files.

A child inherits the lock until it starts its own program, and if the holder is killed in that moment, the lock
outlives it by that much. So where the named holder is dead, the lock is waited for a little longer; a child that goes
on as a copy of its parent closes its copy of the lock.

A hanging process cannot be forced to release its lock, but it can be overtaken: a new lock file replaces the one it
holds, and from then on `FileLock.check` raises in that process. Several may want to overtake it at once, so each step
of a takeover holds a second lock, `takeover_of`, whose file is there only meanwhile.
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
from secrets import token_hex
from typing import Self

import msgspec

from sevenfold.errors import TranscriptLocked, TranscriptOvertaken

_POLL_SECONDS = 0.05
TAKEOVER_SECONDS = 10.0
"""How long to wait for another process that is taking over; a large transcript is copied meanwhile."""
_NOTE_BYTES = 1024
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

    fence: int
    """The fencing number, larger than every earlier holder's."""

    def __init__(
        self, path: Path, *, wait: float = 0.0, take: bool = False, temporary: bool = False
    ) -> None:
        """Acquire the lock; after ``wait`` seconds, raise `TranscriptLocked` or, with ``take``, overtake the holder.

        The file of a ``temporary`` lock is removed when it is released as a context.
        """
        self._guarded = path
        self._path = _lock_path(path)
        self._temporary = temporary
        self._fd = -1
        started = time.monotonic()
        while not self._acquired():
            waited = time.monotonic() - started
            holder = self._holder()
            inherited = holder is not None and holder.is_dead and waited < _HEIR_SECONDS
            if waited < wait or inherited:
                time.sleep(_POLL_SECONDS)
            elif take:
                with takeover_of(path):
                    last = self._displaced()
                    # Others may try to acquire it too; they let go of it when they see that it is being taken over.
                    while not self._acquired(last, takes_over=True):
                        time.sleep(_POLL_SECONDS / 50)
                break
            else:
                error = TranscriptLocked(
                    f"{path}: being written by {holder or 'another process'}; end that one or wait for it. "
                    "Commands that only read (recall, audit, profile, compact to a new file) need not wait"
                )
                error.holder = str(holder or "another process")
                raise error
        _held.add(self)

    def check(self, *, wait: float = 0.0) -> None:
        """Raise `TranscriptOvertaken` if another holder took this lock over, or acquired it after its release.

        There is no lock file if somebody deleted it, and for a moment while the lock is being taken over; ``wait`` is
        how long to wait for it then.
        """
        until = time.monotonic() + wait
        while (there := _stat(self._path)) is None:
            if time.monotonic() >= until:
                return
            time.sleep(_POLL_SECONDS / 50)
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
        if self._temporary:
            self.remove()
        else:
            self.release()

    def remove(self) -> None:
        """Delete the lock file and release the lock, for when the guarded file is deleted."""
        # Some systems cannot delete an open file; there the lock file stays behind.
        with suppress(OSError):
            self._path.unlink()
        self.release()

    def _acquired(self, last: int = 0, *, takes_over: bool = False) -> bool:
        """Try to acquire the lock once, with a fencing number larger than ``last`` and every earlier holder's."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if try_lock(fd) and is_named(fd, self._path):
            last_holder = self._holder()
            if last_holder is None and not takes_over and being_taken_over(self._guarded):
                # The lock file is new because another process has just removed the one before it.
                os.close(fd)
                return False
            self.fence = max(last, last_holder.fence if last_holder else 0) + 1
            since = datetime.now(UTC).isoformat(timespec="seconds")
            note = msgspec.json.encode(Holder(os.getpid(), socket.gethostname(), since, self.fence))
            # In one write of a fixed length: the number must never be missing, even if this lock is displaced now.
            os.pwrite(fd, note.ljust(_NOTE_BYTES), 0)
            # Whoever takes over reads the number from the file it displaces, so it must have been there by then.
            if is_named(fd, self._path):
                lock_state = os.fstat(fd)
                self._identity = lock_state.st_dev, lock_state.st_ino
                self._fd = fd
                _held.add(self)
                return True
        os.close(fd)
        return False

    def _displaced(self) -> int:
        """Take the lock file away from its holder, and return that holder's fencing number; 0 if there is none.

        It is renamed before it is read: another process may have acquired the lock since it was found to be held.
        """
        aside = self._path.with_name(f"{self._path.name}.{token_hex(8)}")
        try:
            self._path.rename(aside)
        except FileNotFoundError:
            return 0
        try:
            holder = _read_holder(aside)
        finally:
            aside.unlink()
        return holder.fence if holder else 0

    def _holder(self) -> Holder | None:
        return _read_holder(self._path)


def _read_holder(path: Path) -> Holder | None:
    try:
        return msgspec.json.decode(path.read_bytes()[:_NOTE_BYTES], type=Holder)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def takeover_of(path: Path) -> FileLock:
    """The lock that is held while the lock on ``path``, or that file itself, is replaced."""
    try:
        return FileLock(_takeover_path(path), wait=TAKEOVER_SECONDS, temporary=True)
    except TranscriptLocked as error:
        raise TranscriptLocked(
            f"{path}: being taken over by {error.holder}, which hangs; end that process and try again"
        ) from error


def being_taken_over(path: Path) -> bool:
    """Whether a process holds `takeover_of` a file, or was killed while holding it."""
    return _lock_path(_takeover_path(path)).exists()


def _takeover_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.takeover")


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def is_held(path: Path) -> bool:
    """Whether a process holds the lock on ``path``, as far as it can be seen without trying to take it.

    Trying would write to the lock file, and could keep an owner out who comes in that moment.
    """
    lock = _lock_path(path)
    try:
        state = lock.stat()
    except OSError:
        return False
    holder = _read_holder(lock)
    if holder is None or holder.is_dead:
        return False
    try:
        locks = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return True
    locked_files = [line.split()[5] for line in locks.splitlines() if "FLOCK" in line]
    return any(file.endswith(f":{state.st_ino}") for file in locked_files)


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
