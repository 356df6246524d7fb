"""Files of ours: names that are safe, contents that are whole, errors that say what to do.

A file is written under a temporary name in the same folder, forced to the disk, and takes its name in one step. A
process that is killed half-way leaves a temporary file and the old one untouched. Folders and files are their owner's
alone.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import BinaryIO, Self

from sevenfold import errors

TEMPORARY = ".tmp"
"""How the name of an unfinished file ends; it begins with a dot."""

RESULT_ENDINGS = (".json", ".txt")
"""The name of a result may end in one of these, and then its file does; with neither it is a text."""

_DIGITS = 8
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)", re.IGNORECASE)


def safe_name(foreign: str) -> str:
    """A file name for ``foreign`` and for nothing else, whatever characters that contains.

    Plain ids stay as they are; others keep their readable characters, with a hash that tells them apart.
    """
    if is_plain(foreign):
        return foreign
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", foreign).strip("-")[:40]
    digest = hashlib.sha256(foreign.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{readable or 'id'}.{digest}"


def is_plain(foreign: str) -> bool:
    """Can this id be a file name as it is?"""
    return bool(_PLAIN.fullmatch(foreign)) and not _RESERVED.fullmatch(foreign)


def result_names(name: str, content: bytes) -> Iterator[str]:
    """File names for a tool result: the short one, and one for the case that another content has it."""
    ending = next((ending for ending in RESULT_ENDINGS if name.endswith(ending)), ".txt")
    plain = safe_name(name.removesuffix(ending))
    digest = hashlib.sha256(content).hexdigest()
    yield f"{plain}-{digest[:_DIGITS]}{ending}"
    yield f"{plain}-{digest}{ending}"


def result_name(path: str, folder: str) -> str:
    """The file name of a tool result, if the path leads to a folder of that name; empty for anything else.

    The folders above may have moved since the path was written down, so they are not compared.
    """
    given = PurePath(path)
    plain = "\0" not in path and given.parent.name == folder and ".." not in given.parts
    return given.name if plain and not is_temporary(Path(given.name)) else ""


def missing_result(path: str) -> errors.ResultMissing:
    """The error for a path under which nothing is stored."""
    return errors.ResultMissing(
        f"{path!r}: no stored result of this session is kept there; it may have been collected, or purged"
    )


# -- reading ---------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file for reading. Only a regular one can be read again from any position, as is done everywhere here."""
    with explained(path), open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise errors.TranscriptForeign(f"{path}: not a regular file; copy its content into one first")
        yield file


def _without_waiting(path: str, flags: int) -> int:
    """Open without waiting for a writer, should it be a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns the system's errors in here into ours; see `explain`."""
    try:
        yield
    except OSError as error:
        raise explain(error, path) from error


def explain(error: OSError, path: Path) -> errors.TranscriptError:
    """The system's error in words that say what to do."""
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
    """A file that is written and on the disk, but does not have its name yet; leaving its context discards it."""

    def __init__(self, target: Path, content: Iterable[bytes]) -> None:
        """Write the content; raises `sevenfold.errors.TranscriptError`, and then leaves nothing behind."""
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

    def commit(self) -> None:
        """Give it its name, replacing the file that had it."""
        with explained(self.target):
            self.path.replace(self.target)
            _force(self.target.parent)

    def discard(self) -> None:
        """Remove it, unless it was committed."""
        self.path.unlink(missing_ok=True)


def write_whole(target: Path, content: bytes) -> None:
    """Write a file in one step; it is on the disk when this returns."""
    with Staged(target, [content]) as staged:
        staged.commit()


def append_line(fd: int, line: bytes) -> None:
    """Write a line at the end of an open file; one before it that was cut short is ended first."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        line = b"\n" + line
    while line:
        line = line[os.write(fd, line) :]


def private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone."""
    if folder.is_symlink():
        raise errors.TranscriptDenied(
            f"{folder}: this is a link; what belongs here must not end up elsewhere, so remove it"
        )
    if folder.is_dir():
        return
    with explained(folder):
        if not folder.parent.exists():
            private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def is_temporary(path: Path) -> bool:
    """Is this a file whose writing was never finished?"""
    return path.name.startswith(".") and path.name.endswith(TEMPORARY)


def _force(folder: Path) -> None:
    """A name is on the disk when its folder is; systems whose folders cannot be opened do this themselves."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
