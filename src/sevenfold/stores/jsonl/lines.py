"""Reading a file line by line, forwards or from the end, without ever holding more than one line.

A line longer than the limit is not read into memory: it comes back empty, with its size in ``problem``.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from sevenfold.errors import (
    TranscriptDenied,
    TranscriptError,
    TranscriptForeign,
    TranscriptFull,
    TranscriptMissing,
)

LINE_LIMIT = 64 * 1024 * 1024
"""Bytes. The largest body a provider takes is half of that."""

_CHUNK = 256 * 1024


class Line(Struct, frozen=True):
    """One line of a file as it is there, its line end included."""

    offset: int
    raw: bytes
    problem: str = ""

    @property
    def torn(self) -> bool:
        """True for a last line whose writing was cut short."""
        return not self.problem and not self.raw.endswith(b"\n")


def scan(path: Path, start: int = 0, *, limit: int = LINE_LIMIT) -> Iterator[Line]:
    """All lines from ``start`` on, which must be the beginning of one."""
    with opened(path) as file:
        yield from _scan(file, file.seek(start), limit)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file for reading. Only a regular one can be read again from any place, as is done everywhere here."""
    try:
        with open(path, "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TranscriptForeign(
                    f"{path}: this is no regular file; copy what it gives into one first"
                )
            yield file
    except OSError as error:
        raise explain(error, path) from error


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for somebody at the other end, should it be a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _scan(file: BinaryIO, offset: int, limit: int) -> Iterator[Line]:
    while raw := file.readline(limit):
        size = len(raw)
        if size < limit or raw.endswith(b"\n"):
            yield Line(offset, raw)
        else:
            del raw
            while more := file.readline(_CHUNK):
                size += len(more)
                if more.endswith(b"\n"):
                    break
            yield Line(offset, b"", f"a line of {size:,} bytes, over the limit of {limit:,}")
        offset += size


def find(
    path: Path, text: bytes, end: int | None = None, *, limit: int = LINE_LIMIT
) -> Iterator[tuple[int, bytes]]:
    """The lines that contain ``text``, each with its offset, the last one first, from ``end`` towards the start."""
    with opened(path) as file:
        edge = file.seek(0, 2) if end is None else end
        while (hit := _rfind(file, text or b"\n", edge)) >= 0:
            edge = _rfind(file, b"\n", hit) + 1
            file.seek(edge)
            yield edge, next(_scan(file, edge, limit)).raw


def _rfind(file: BinaryIO, needle: bytes, end: int) -> int:
    """The last place before ``end`` where ``needle`` begins and ends, or -1."""
    edge, overlap = end, b""
    while edge > 0:
        begin = max(0, edge - _CHUNK)
        file.seek(begin)
        window = file.read(edge - begin) + overlap
        if (hit := window.rfind(needle)) >= 0:
            return begin + hit
        edge, overlap = begin, window[: len(needle) - 1]
    return -1


def explain(error: OSError, path: Path) -> TranscriptError:
    """The system's error in words that say what to do."""
    match error.errno:
        case errno.ENOENT:
            return TranscriptMissing(f"{path}: there is no such file; check the path")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return TranscriptDenied(f"{path}: {error.strerror}; check its owner and permissions")
        case errno.EISDIR:
            return TranscriptForeign(f"{path}: this is a directory; name a file inside it")
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return TranscriptFull(
                f"{path}: no room for the record ({error.strerror}); everything before it is intact. "
                "Free some space and try again"
            )
        case _:
            return TranscriptError(f"{path}: {error.strerror or error}")
