"""Folders of files that are replaced as a whole, on disk and in memory; see `sevenfold.ports.Folder`.

Names are relative paths of plain parts. They may come from a model, so a name that could lead out of the folder, or to
a link in it, is refused.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sevenfold.errors import InputError, TranscriptLocked
from sevenfold.stores.files import explain, is_temporary, private_folder, write_whole
from sevenfold.stores.jsonl.lock import FileLock

LARGEST = 16 * 1024 * 1024
"""Bytes of the largest file that is read."""

_PART = re.compile(r"[A-Za-z0-9_.\-]{1,120}")


def check_name(name: str) -> str:
    """The name, if it is a safe relative path; raises `InputError` otherwise."""
    parts = name.split("/")
    if all(_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        return name
    raise InputError(
        f"{name[:120]!r} is not a valid name here: use letters, digits, dots, dashes and underscores"
    )


class FileFolder:
    """A directory; it is made when something is first written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self.path = str(self._folder)

    def names(self, below: str = "") -> Sequence[str]:
        """The files below a folder of this one."""
        top = self._folder / check_name(below) if below else self._folder
        found: list[str] = []
        for folder, folders, files in os.walk(top):
            folders[:] = [name for name in folders if not (Path(folder) / name).is_symlink()]
            for name in files:
                path = Path(folder) / name
                if not is_temporary(path) and path.is_file() and not path.is_symlink():
                    found.append(path.relative_to(self._folder).as_posix())
        return sorted(found)

    def read(self, name: str, *, most: int = LARGEST) -> bytes | None:
        """A file's content."""
        path = self._folder / check_name(name)
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            handle = os.open(path, flags)
        except FileNotFoundError:
            return None
        except OSError as error:
            if path.is_symlink() or path.is_dir():
                return None
            raise explain(error, path) from error
        with os.fdopen(handle, "rb") as file:
            state = os.fstat(handle)
            if not stat.S_ISREG(state.st_mode) or state.st_size > most:
                return None
            return file.read(most)

    def write(self, name: str, content: bytes) -> None:
        """Replace a file in one step."""
        path = self._folder / check_name(name)
        private_folder(path.parent)
        write_whole(path, content)

    def append(self, name: str, line: bytes) -> None:
        """Add a line to a file."""
        path = self._folder / check_name(name)
        private_folder(path.parent)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
            try:
                end = os.lseek(handle, 0, os.SEEK_END)
                torn = end > 0 and os.pread(handle, 1, end - 1) != b"\n"
                os.write(handle, (b"\n" if torn else b"") + line + b"\n")
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise explain(error, path) from error

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        path = self._folder / check_name(name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise explain(error, path) from error

    @contextmanager
    def lock(self, *, wait: float = 0.0) -> Iterator[None]:
        """Hold the folder's lock."""
        private_folder(self._folder)
        try:
            lock = FileLock(self._folder, wait=wait)
        except OSError as error:
            raise explain(error, self._folder) from error
        try:
            yield
        finally:
            lock.release()


class MemoryFolder:
    """The same in memory."""

    def __init__(self, path: str = "") -> None:
        self.path = path
        self._files: dict[str, bytes] = {}
        self._held = threading.Lock()

    def names(self, below: str = "") -> Sequence[str]:
        """The files below a folder of this one."""
        start = f"{check_name(below)}/" if below else ""
        return sorted(name for name in self._files if name.startswith(start))

    def read(self, name: str, *, most: int = LARGEST) -> bytes | None:
        """A file's content."""
        return self._files.get(check_name(name))

    def write(self, name: str, content: bytes) -> None:
        """Replace a file."""
        self._files[check_name(name)] = content

    def append(self, name: str, line: bytes) -> None:
        """Add a line to a file."""
        self._files[check_name(name)] = self._files.get(name, b"") + line + b"\n"

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._files.pop(check_name(name), None)

    @contextmanager
    def lock(self, *, wait: float = 0.0) -> Iterator[None]:
        """Hold the folder's lock."""
        if not self._held.acquire(timeout=wait if wait > 0 else -1 if wait < 0 else 0.0001):
            raise TranscriptLocked("this memory is being written in another thread; try again")
        try:
            yield
        finally:
            self._held.release()
