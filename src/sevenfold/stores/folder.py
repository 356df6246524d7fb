"""Folders of files that are always replaced whole, on disk and in memory; see `sevenfold.ports.Folder`.

Names are relative paths made of plain parts. They may come from a model, so a name that could lead out of the folder,
or through a link, is refused.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from secrets import token_hex

import msgspec
from msgspec import Struct

from sevenfold.errors import InputError, TranscriptDenied, TranscriptLocked
from sevenfold.ports import Folder
from sevenfold.stores.files import Staged, append_line, explained, is_temporary, private_folder, write_whole
from sevenfold.stores.jsonl.lock import FileLock

LARGEST = 16 * 1024 * 1024
"""The largest file that is read, in bytes."""

DREAM_LOCK = ".consolidate-lock"
STALE_SECONDS = 3600.0
"""Seconds without a heartbeat after which a lock holder can be overtaken, even if its process is alive."""
SECONDS_TO_WAIT = 5.0

_READING = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
_APPENDING = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
_NO_FILE = (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENOTDIR)
_PART = re.compile(r"[A-Za-z0-9_.\-]{1,120}")


def check_name(name: str) -> str:
    """Return the name if it is a safe relative path; raise `InputError` otherwise."""
    parts = name.split("/")
    if all(_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        return name
    raise InputError(
        f"{name[:120]!r} is not a valid name here: use letters, digits, dots, dashes and underscores"
    )


def read_regular(path: Path, most: int = sys.maxsize) -> bytes | None:
    """Return a file's content; None if it is missing, larger than ``most`` bytes, or a link, folder or pipe."""
    with explained(path):
        try:
            handle = os.open(path, _READING)
        except OSError as error:
            if error.errno in _NO_FILE or path.is_symlink() or path.is_dir():
                return None
            raise
    state = os.fstat(handle)
    if not stat.S_ISREG(state.st_mode) or state.st_size > most:
        os.close(handle)
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read()


class FileFolder:
    """A folder on disk, created on the first write."""

    def __init__(self, folder: Path, check: Callable[[], None] | None = None) -> None:
        """``check`` is called right before anything is changed, and may raise."""
        self._folder = folder.absolute()
        self._check = check
        self.directory = self._folder
        self.path = str(self._folder)

    def names(self, below: str = "") -> Sequence[str]:
        """Return the names of the files below a subfolder, at any depth; hidden folders are skipped."""
        top = self._path(below) if below else self._folder
        names: list[str] = []
        for folder, folders, files in os.walk(top):
            here = Path(folder)
            # `os.walk` descends into what is left in this list.
            folders[:] = [name for name in folders if _is_shown(here / name)]
            regular = filter(_is_regular, (here / name for name in files))
            names += [path.relative_to(self._folder).as_posix() for path in regular]
        return sorted(names)

    def read(self, name: str, *, most: int = LARGEST) -> bytes | None:
        """Return a file's content, or None if it is missing or larger than ``most`` bytes."""
        try:
            path = self._path(name)
        except TranscriptDenied:
            return None
        return read_regular(path, most)

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file atomically."""
        path = self._path(name)
        private_folder(path.parent)
        write_whole(path, content, self._check)

    def append(self, name: str, line: bytes) -> None:
        """Append a line to a file."""
        path = self._path(name)
        private_folder(path.parent)
        with explained(path):
            handle = os.open(path, _APPENDING, 0o600)
            try:
                self._may_change()
                append_line(handle, line + b"\n")
                os.fsync(handle)
            finally:
                os.close(handle)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        path = self._path(name)
        self._may_change()
        with explained(path):
            path.unlink(missing_ok=True)

    def _may_change(self) -> None:
        if self._check is not None:
            self._check()

    def _path(self, name: str) -> Path:
        """Return the path of a file; raises `TranscriptDenied` if a folder on the way to it is a link."""
        path = self._folder / check_name(name)
        for above in path.parents:
            if above == self._folder:
                return path
            if above.is_symlink():
                raise TranscriptDenied(f"{above}: this link may lead out of the folder; remove it")
        return path

    @contextmanager
    def lock(self, *, wait: float = 0.0) -> Iterator[None]:
        """Hold the folder's lock during the block."""
        private_folder(self._folder)
        with explained(self._folder):
            lock = FileLock(self._folder, wait=wait)
        with lock:
            yield

    def dream_lock(self) -> ConsolidateLock:
        """The lock for consolidating the memory in this folder."""
        return ConsolidateLock(self)


def _is_shown(folder: Path) -> bool:
    """Whether the files of a subfolder are listed: not those of a hidden one, and not what a link leads to."""
    return not folder.name.startswith(".") and not folder.is_symlink()


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and not is_temporary(path)


@contextmanager
def hold_lock(lock: threading.Lock, wait: float, problem: TranscriptLocked) -> Iterator[None]:
    """Hold a lock during the block; raises ``problem`` after ``wait`` seconds, never if ``wait`` is negative."""
    if not lock.acquire(timeout=-1 if wait < 0 else wait):
        raise problem
    try:
        yield
    finally:
        lock.release()


class MemoryFolder:
    """A folder in memory."""

    directory: Path | None = None

    def __init__(self, path: str = "") -> None:
        self.path = path
        self._files: dict[str, bytes] = {}
        self._held = threading.Lock()
        self._dreams = MemoryDreamLock()

    def names(self, below: str = "") -> Sequence[str]:
        """Return the names of the files below a subfolder, at any depth; hidden folders are skipped."""
        start = f"{check_name(below)}/" if below else ""
        below_it = (name for name in self._files if name.startswith(start))
        return sorted(name for name in below_it if "/." not in f"/{name[len(start) :].rpartition('/')[0]}")

    def read(self, name: str, *, most: int = LARGEST) -> bytes | None:
        """Return a file's content, or None if it is missing or larger than ``most`` bytes."""
        content = self._files.get(check_name(name))
        return None if content is None or len(content) > most else content

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file."""
        self._files[check_name(name)] = content

    def append(self, name: str, line: bytes) -> None:
        """Append a line to a file."""
        self._files[check_name(name)] = self._files.get(name, b"") + line + b"\n"

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        self._files.pop(check_name(name), None)

    def lock(self, *, wait: float = 0.0) -> AbstractContextManager[None]:
        """Return a context that holds the folder's lock."""
        problem = TranscriptLocked("this memory is being written in another thread; try again")
        return hold_lock(self._held, wait, problem)

    def dream_lock(self) -> MemoryDreamLock:
        """The lock for consolidating the memory in this folder."""
        return self._dreams


class ConsolidateLock:
    """``.consolidate-lock``: its mtime is the time of the last consolidation; its text names the process running one.

    Four lines: the process id, when that process started, the previous mtime (empty if there was no file), and a random
    token for this acquisition. Text and mtime change in one step, so a crash leaves either the old or the new state.
    """

    def __init__(self, folder: FileFolder) -> None:
        self._folder = folder
        self._path = Path(folder.path) / DREAM_LOCK
        self._held = b""
        """The text of the lock file while this object holds the lock; otherwise empty."""

    def last(self) -> float | None:
        """Return when memory was last consolidated, or None if never."""
        owner = self._owner()
        return self._time() if owner is None else owner[2]

    def take(self, now: float) -> bool:
        """Try to acquire the lock; False if another process is consolidating."""
        with self._folder.lock(wait=SECONDS_TO_WAIT):
            owner = self._owner()
            time = self._time()
            if owner is not None and time is not None:
                alive = owner[1] == process_start_time(owner[0])
                # A heartbeat far in the future dates from before the clock was set back, so it counts as old.
                if alive and abs(now - time) < STALE_SECONDS:
                    return False
                time = owner[2]
            previous = "" if time is None else repr(time)
            body = (
                f"{os.getpid()}\n{process_start_time(os.getpid())}\n{previous}\n{token_hex(8)}\n".encode()
            )
            self._put(body, now)
            self._held = body if self._folder.read(DREAM_LOCK) == body else b""
            return bool(self._held)

    def beat(self, now: float) -> bool:
        """Send a heartbeat; False if another process has taken over."""
        with self._folder.lock(wait=SECONDS_TO_WAIT):
            if held := self._is_held():
                self._put(self._held, now)
            return held

    def finish(self, now: float) -> None:
        """Release the lock and record ``now`` as the time of the last consolidation."""
        self._end(now)

    def fail(self) -> None:
        """Release the lock and restore the previous time of the last consolidation."""
        self._end(None)

    def _end(self, time: float | None) -> None:
        """Release the lock, unless another process took over; set the last time, None for the previous one."""
        with self._folder.lock(wait=SECONDS_TO_WAIT):
            owner = self._owner()
            if not self._is_held() or owner is None:
                return
            self._held = b""
            if time is None:
                time = owner[2]
            if time is None:
                self._folder.remove(DREAM_LOCK)
            else:
                self._put(b"", time)

    def _is_held(self) -> bool:
        return bool(self._held) and self._folder.read(DREAM_LOCK) == self._held

    def _put(self, body: bytes, time: float) -> None:
        with Staged(self._path, [body]) as staged:
            os.utime(staged.path, (time, time))
            staged.commit()

    def _time(self) -> float | None:
        try:
            return self._path.lstat().st_mtime
        except FileNotFoundError:
            return None

    def _owner(self) -> tuple[int, str, float | None] | None:
        """Return the holder's process id, when it started, and the previous mtime; None if the lock is free."""
        lines = (self._folder.read(DREAM_LOCK) or b"").decode(errors="replace").splitlines()
        if not lines or not re.fullmatch(r"[0-9]{1,10}", lines[0].strip()):
            return None
        began = lines[1] if len(lines) > 1 else ""
        previous = lines[2] if len(lines) > 2 else ""
        try:
            return int(lines[0]), began, float(previous) if previous.strip() else None
        except ValueError:
            return int(lines[0]), began, None


class MemoryDreamLock:
    """A dream lock in memory, for one process."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._held = False

    def last(self) -> float | None:
        """Return when memory was last consolidated, or None if never."""
        return self._last

    def take(self, now: float) -> bool:
        """Try to acquire the lock; False if another thread is consolidating."""
        is_free = not self._held
        self._held = True
        return is_free

    def beat(self, now: float) -> bool:
        """Return True: no other process can take over."""
        return True

    def finish(self, now: float) -> None:
        """Release the lock and record ``now`` as the time of the last consolidation."""
        self._last = now
        self._held = False

    def fail(self) -> None:
        """Release the lock and leave the time of the last consolidation unchanged."""
        self._held = False


class DreamState(Struct, frozen=True, omit_defaults=True):
    """What a `TextDreamLock` keeps."""

    last: float | None = None
    """When memory was last consolidated."""
    holder: str = ""
    """A random token of the holder; empty if there is none."""
    beat: float = 0.0
    """When the holder last sent a heartbeat."""


class TextDreamLock:
    """A dream lock for any folder whose own lock excludes every other user of the folder.

    It knows nothing of processes, so a holder that died is overtaken after an hour without a heartbeat.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._token = token_hex(8)

    def last(self) -> float | None:
        """Return when memory was last consolidated, or None if never."""
        return self._state().last

    def take(self, now: float) -> bool:
        """Try to acquire the lock; False if someone else is consolidating."""
        with self._folder.lock(wait=SECONDS_TO_WAIT):
            state = self._state()
            if state.holder and abs(now - state.beat) < STALE_SECONDS:
                return False
            self._put(DreamState(state.last, self._token, now))
            return True

    def beat(self, now: float) -> bool:
        """Send a heartbeat; False if someone else has taken over."""
        with self._folder.lock(wait=SECONDS_TO_WAIT):
            state = self._state()
            if state.holder != self._token:
                return False
            self._put(DreamState(state.last, self._token, now))
            return True

    def finish(self, now: float) -> None:
        """Release the lock and record ``now`` as the time of the last consolidation."""
        self._release(now)

    def fail(self) -> None:
        """Release the lock and leave the time of the last consolidation unchanged."""
        self._release(None)

    def _release(self, last: float | None) -> None:
        with self._folder.lock(wait=SECONDS_TO_WAIT):
            state = self._state()
            if state.holder == self._token:
                self._put(DreamState(state.last if last is None else last))

    def _state(self) -> DreamState:
        try:
            return msgspec.json.decode(self._folder.read(DREAM_LOCK) or b"{}", type=DreamState)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return DreamState()

    def _put(self, state: DreamState) -> None:
        self._folder.write(DREAM_LOCK, msgspec.json.encode(state))


def this_process() -> str:
    """An identity of this process that no other process has, on this machine or another one."""
    pid = os.getpid()
    return f"{socket.gethostname()}:{pid}:{process_start_time(pid)}"


def process_is_alive(identity: str) -> bool:
    """Whether the process with this identity is still running; one on another machine counts as running."""
    host, pid, began = [*identity.rsplit(":", 2), "", ""][:3]
    if host != socket.gethostname() or not pid.isdecimal():
        return bool(host)
    return process_start_time(int(pid)) == began


def process_start_time(pid: int) -> str:
    """Return when a process started, in the system's clock ticks; "gone" if it has ended, empty if unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return "gone"
        except OSError:
            pass
        return ""
    return stat.rpartition(b")")[2].split()[19].decode()
