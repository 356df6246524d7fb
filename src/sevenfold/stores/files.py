"""File handling for the stores: safe names, atomic writes, errors that say what to do.

A file is written under a temporary name in the same folder, synced to disk, and renamed in one step. A process that
is killed half-way leaves a temporary file and the old file untouched. Only their owner can access folders and files.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import BinaryIO, Self

from sevenfold import errors

TEMPORARY = ".tmp"
"""The suffix of an unfinished file; its name also starts with a dot."""

RESULT_ENDINGS = (".json", ".txt")
"""Suffixes that a result's name may have and its file keeps; any other result is stored as ``.txt``."""

_DIGITS = 8
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)", re.IGNORECASE)


def reason_of(error: Exception) -> str:
    """Why something failed, in the operating system's words without its number."""
    return getattr(error, "strerror", None) or str(error)


def real_path(path: Path) -> Path:
    """The path without links. Links in a circle stay, so that opening the file says what is wrong with it.

    `Path.resolve` raises a `RuntimeError` for them up to Python 3.12.
    """
    return Path(os.path.realpath(path))


def safe_name(foreign: str) -> str:
    """Return a safe file name for ``foreign``, which may contain any characters; no other string gets the same name.

    Plain ids are returned unchanged; others keep their readable characters, plus a hash that makes them unique.
    """
    if is_plain(foreign):
        return foreign
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", foreign).strip("-")[:40]
    digest = hashlib.sha256(foreign.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{readable or 'id'}.{digest}"


def is_plain(foreign: str) -> bool:
    """Whether this id can be used as a file name unchanged."""
    return bool(_PLAIN.fullmatch(foreign)) and not _RESERVED.fullmatch(foreign)


def result_names(name: str, content: bytes) -> Iterator[str]:
    """Yield file names for a tool result: a short one, then a longer one in case other content has the short one."""
    ending = next((ending for ending in RESULT_ENDINGS if name.endswith(ending)), ".txt")
    plain = safe_name(name.removesuffix(ending))
    digest = hashlib.sha256(content).hexdigest()
    yield f"{plain}-{digest[:_DIGITS]}{ending}"
    yield f"{plain}-{digest}{ending}"


def result_name(path: str, folder: str) -> str:
    """Return the file name of a tool result if its path is directly in a folder of that name; otherwise empty.

    The parent folders may have moved since the path was recorded, so they are not compared.
    """
    named = PurePath(path)
    plain = "\0" not in path and named.parent.name == folder and ".." not in named.parts
    return named.name if plain and not is_temporary(Path(named.name)) else ""


def missing_result(path: str) -> errors.ResultMissing:
    """Return the error for a path under which no result is stored."""
    return errors.ResultMissing(
        f"{path!r}: no stored result of this session is kept there; it may have been collected, or purged"
    )


# -- reading ---------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading. It must be a regular file, because callers read from arbitrary positions."""
    with explained(path), open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise errors.TranscriptForeign(f"{path}: not a regular file; copy its content into one first")
        yield file


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; if it is a pipe, do not wait for a writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Convert any `OSError` in the block with `explain`."""
    try:
        yield
    except OSError as error:
        raise explain(error, path) from error


def explain(error: OSError, path: Path) -> errors.TranscriptError:
    """Convert an `OSError` into a `TranscriptError` that says what to do."""
    match error.errno:
        case errno.ENOENT:
            return errors.TranscriptMissing(f"{path}: there is no such file; check the path")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return errors.TranscriptDenied(f"{path}: {error.strerror}; check its owner and permissions")
        case errno.EISDIR:
            return errors.TranscriptForeign(f"{path}: this is a directory; name a file inside it")
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return errors.TranscriptFull(
                f"{path}: no room for the record ({error.strerror}); everything before it is intact. "
                "Free some space and try again"
            )
        case _:
            return errors.TranscriptError(f"{path}: {error.strerror or error}")


# -- writing ---------------------------------------------------------------------------------------


class Staged:
    """A file that is written and synced but not yet renamed to its target; leaving the context discards it."""

    def __init__(self, target: Path, content: Iterable[bytes]) -> None:
        """Write the content; raises `sevenfold.errors.TranscriptError`, leaving no file behind."""
        self.target = target
        with explained(target):
            handle, name = tempfile.mkstemp(TEMPORARY, f".{target.name[:80]}.", target.parent)
            self.path = Path(name)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.writelines(content)
                    file.flush()
                    os.fsync(handle)
            except BaseException:
                self.discard()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def commit(self, check: Callable[[], None] | None = None) -> None:
        """Rename it to its target, replacing any existing file; ``check`` is called just before, and may raise."""
        with explained(self.target):
            if check is not None:
                check()
            self.path.replace(self.target)
            _force(self.target.parent)

    def discard(self) -> None:
        """Remove the temporary file, unless it was committed."""
        self.path.unlink(missing_ok=True)


def write_whole(target: Path, content: bytes, check: Callable[[], None] | None = None) -> None:
    """Write or replace a file atomically; it is synced to disk when this returns.

    ``check`` is called when nothing but the renaming is left to do; if it raises, nothing changes.
    """
    with Staged(target, [content]) as staged:
        staged.commit(check)


def append_line(fd: int, line: bytes) -> None:
    """Append a line to an open file; if its last line is torn, end that one first."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        line = b"\n" + line
    while line:
        line = line[os.write(fd, line) :]


def private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, accessible to their owner only; raises if the folder is a link."""
    if folder.is_symlink():
        raise errors.TranscriptDenied(f"{folder} is a symlink; refusing to write through it. Remove it")
    if folder.is_dir():
        return
    with explained(folder):
        if not folder.parent.exists():
            private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def private_parent(path: Path) -> None:
    """Create the folder of a file if it is missing, with its parents, accessible to their owner only."""
    if not path.parent.exists():
        private_folder(path.parent)


def private_opener(path: str, flags: int) -> int:
    """The ``opener`` for files of ours: whatever the umask, only the owner may read them."""
    return os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)


def is_temporary(path: Path) -> bool:
    """Whether this is a temporary file, left by an unfinished write."""
    return path.name.startswith(".") and path.name.endswith(TEMPORARY)


def _force(folder: Path) -> None:
    """Sync a folder, so that the new name of a file is on disk; Windows cannot open folders and needs no sync."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
