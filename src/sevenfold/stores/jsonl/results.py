"""Stored tool results: the full text of what was too big for the context.

A result is a file of its own, named after its call and its content, in a folder that belongs to one session.
Ids and paths come from elsewhere and are never trusted: a name is made safe before it is used, and of a path
only the last part counts, looked up in this folder and nowhere else. Links are not followed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath

from sevenfold.errors import ResultMissing
from sevenfold.stores.atomic import is_temporary, private_folder, write_whole
from sevenfold.stores.jsonl.lines import explain
from sevenfold.stores.names import safe_name

ENDINGS = (".json", ".txt")
"""A name may end in one of these, and then its file does; with neither it is a text."""
_DIGITS = 8
_OPEN = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


class FileResults:
    """Results in a folder, each in its own file; the folder is made when the first one comes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    def keep(self, name: str, content: bytes) -> str:
        """Store a result; see `sevenfold.ports.Results`."""
        private_folder(self.folder)
        for candidate in _names(name, content):
            path = self.folder / candidate
            before = self._read(path)
            if before is None:
                write_whole(path, content)
            if before is None or before == content:
                return str(path)
        raise AssertionError("unreachable: two contents share a SHA-256")

    def fetch(self, path: str) -> bytes:
        """What was stored under a path; see `sevenfold.ports.Results`."""
        name = _name_in(path, self.folder.name)
        content = self._read(self.folder / name) if name else None
        if content is None:
            raise _missing(path)
        return content

    def _read(self, path: Path) -> bytes | None:
        """A result's bytes; None where there is none, be it that something else stands there."""
        try:
            handle = os.open(path, _OPEN)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENOTDIR) or path.is_symlink():
                return None
            raise explain(error, path) from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            return None
        with os.fdopen(handle, "rb") as file:
            return file.read()


class MemoryResults:
    """Results in memory: for tests, and for sessions nobody wants kept."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def keep(self, name: str, content: bytes) -> str:
        """Store a result; see `sevenfold.ports.Results`."""
        for candidate in _names(name, content):
            if self._kept.setdefault(candidate, content) == content:
                return f"memory/{candidate}"
        raise AssertionError("unreachable: two contents share a SHA-256")

    def fetch(self, path: str) -> bytes:
        """What was stored under a path; see `sevenfold.ports.Results`."""
        try:
            return self._kept[_name_in(path, "memory")]
        except KeyError:
            raise _missing(path) from None


def _names(name: str, content: bytes) -> Iterator[str]:
    """File names for a result: the short one, and one for the case that another content has it."""
    ending = next((ending for ending in ENDINGS if name.endswith(ending)), ".txt")
    plain = safe_name(name.removesuffix(ending))
    digest = hashlib.sha256(content).hexdigest()
    yield f"{plain}-{digest[:_DIGITS]}{ending}"
    yield f"{plain}-{digest}{ending}"


def _name_in(path: str, folder: str) -> str:
    """The file's name, if the path leads to a folder of that name; empty for anything else.

    The folders above may have moved since the path was written down, so they are not compared.
    """
    given = PurePath(path)
    plain = "\0" not in path and given.parent.name == folder and ".." not in given.parts
    return given.name if plain and not is_temporary(Path(given.name)) else ""


def _missing(path: str) -> ResultMissing:
    return ResultMissing(
        f"{path!r}: no stored result of this session is kept there; it may have been collected, or purged"
    )
