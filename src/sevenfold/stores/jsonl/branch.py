"""Branches of a transcript: each begins with the transcript up to a position and continues in a file of its own.

The file's first line is no record. It says where in the transcript the branch begins, and what the line before that
position is, so that a transcript that was rewritten since is noticed.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from sevenfold.errors import InputError, TranscriptError, TranscriptForeign
from sevenfold.stores.files import private_folder, write_whole
from sevenfold.stores.home import SessionFiles
from sevenfold.stores.jsonl.log import JsonlLog, Sync, end_of, line_before, scan
from sevenfold.stores.log import BranchLog, LineLog


class BranchPoint(Struct, frozen=True, tag="branch", tag_field="type"):
    """Where a branch begins."""

    start: int
    """The position of its first line."""
    after: str
    """A digest of the line before it."""

    @classmethod
    def at(cls, position: int, before: bytes) -> BranchPoint:
        """At a position, after a line."""
        return cls(position, blake2b(before.rstrip(b"\n"), digest_size=16).hexdigest())

    @classmethod
    def of(cls, path: Path) -> tuple[BranchPoint, int]:
        """That of a branch's file, and how many bytes it takes there."""
        header = next(scan(path)).raw
        try:
            return msgspec.json.decode(header, type=cls), len(header)
        except msgspec.DecodeError as error:
            raise TranscriptForeign(f"{path}: this is no branch of a session ({error})") from error

    def header(self) -> bytes:
        """The first line of the branch's file."""
        return msgspec.json.encode(self) + b"\n"

    def fits(self, transcript: Path) -> bool:
        """Is the transcript up to here the one the branch began with?"""
        before = line_before(transcript, self.start)
        return before is not None and BranchPoint.at(self.start, before) == self


def read_branch(files: SessionFiles, path: Path) -> LineLog:
    """A branch for reading, by its file."""
    point, header = BranchPoint.of(path)
    return _joined(files, point, JsonlLog(path, start=point.start, header=header))


def open_branch(
    files: SessionFiles, name: str, at: int | None, *, wait: float = 0.0, take: bool = False, sync: Sync
) -> LineLog:
    """A branch for writing, made if it is not there; see `sevenfold.ports.Store`."""
    path = files.branch(name)
    if not path.exists():
        _begin(files, path, at)
    point, header = BranchPoint.of(path)
    own = JsonlLog.open(path, wait=wait, take=take, sync=sync, start=point.start, header=header)
    try:
        return _joined(files, point, own)
    except BaseException:
        own.close()
        raise


def _begin(files: SessionFiles, path: Path, at: int | None) -> None:
    if at is None:
        size, torn = end_of(files.transcript)
        at = size + torn
    before = line_before(files.transcript, at)
    if before is None:
        raise InputError(f"{files.transcript}: a branch cannot begin at {at:,}, where no line ends")
    private_folder(path.parent)
    write_whole(path, BranchPoint.at(at, before).header())


def _joined(files: SessionFiles, point: BranchPoint, own: LineLog) -> LineLog:
    if not point.fits(files.transcript):
        raise TranscriptError(
            f"{files.transcript}: it is not what its branch began with; if a purge was interrupted, run it again"
        )
    return BranchLog(JsonlLog(files.transcript).upto(point.start), own, point.start)
