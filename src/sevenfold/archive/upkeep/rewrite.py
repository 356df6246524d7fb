"""Rewriting a transcript without a secret: every line stays a line, and every record keeps its identity.

Positions stored in records are adjusted. Masking changes what the model is sent, and its thinking may be bound to the
old content, so the new file ends with a copy of the last epoch that drops thinking, valid on every branch. A `Purged`
record documents the rewrite. A session's branches are rewritten with it, because they begin with its lines.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from sevenfold.archive.upkeep.secrets import Leak, entry_of, mask_record
from sevenfold.clock import RandomIds, SystemClock
from sevenfold.errors import InputError, TranscriptTooNew
from sevenfold.ports import Clock, Ids
from sevenfold.record.decisions import Epoch, Offloaded, OwnDecision, Purged, Signed, Undone
from sevenfold.record.entries import Boundary, Damaged, Decision, Entry, Label, Said
from sevenfold.record.log import decided
from sevenfold.record.view import View
from sevenfold.stores.home import SessionFiles
from sevenfold.stores.jsonl.log import scan
from sevenfold.stores.jsonl.store import BranchPoint

_CARRY = b'"kind":"carry"'
_POSITION = re.compile(rb'"(epoch_offset|segment_offset)":(\d+)')


class RecordStamper(Struct, frozen=True):
    """The clock and the source of ids for new records."""

    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=RandomIds)

    def stamp(self) -> str:
        """The current time as a timestamp for records."""
        now = datetime.fromtimestamp(self.clock.now(), UTC)
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Rewrite(Struct):
    """One pass over a transcript or a branch; `masked` is final once `lines` is exhausted."""

    path: Path
    leaks: Sequence[Leak]
    stamper: RecordStamper
    branch_of: SessionFiles | None = None
    """The session of a branch, whose own transcript is not rewritten yet; None for the transcript itself."""
    masked: int = 0
    """How many places in the file were masked."""
    _view: View = field(default_factory=lambda: View(keeps_history=False))
    _position: int = 0
    _from: list[int] = field(default_factory=lambda: [0])
    _by: list[int] = field(default_factory=lambda: [0])
    _signed: list[str] = []

    def lines(self, results: dict[str, str]) -> Iterator[bytes]:
        """The lines of the new file; ``results`` maps each stored result masked with it to its new digest."""
        start = header = inherited = 0
        if self.branch_of is not None:
            point, header = BranchPoint.read(self.path)
            start = point.start
            yield self._begin(self.branch_of, point).header()
            inherited = self.masked
            self.masked = 0
        torn = False
        for number, line in enumerate(scan(self.path, header, limit=sys.maxsize), 1):
            torn = line.torn
            yield self._rewritten(line.raw, line.offset - header + start, number)
        if self._view.unknown_kinds:
            raise TranscriptTooNew(
                f"{self.path}: it holds records this version does not know; purge with a newer Sevenfold"
            )
        if torn:
            yield b"\n"
        yield from self._closing(results, inherited)

    def _begin(self, files: SessionFiles, point: BranchPoint) -> BranchPoint:
        """Process the lines a branch inherits; returns its branch point in the rewritten parent."""
        if not point.fits(files):
            # An interrupted purge has already rewritten this branch: it fits the parent's new content.
            return point
        last = b""
        for number, (position, raw) in enumerate(point.base(files, sys.maxsize).read(), 1):
            last = self._rewritten(raw, position, number)
        return BranchPoint.at(self._shifted(point.start), last, point.of)

    def _rewritten(self, raw: bytes, position: int, number: int) -> bytes:
        rewritten = self._moved(self._without(raw, number))
        if len(rewritten) != len(raw):
            self._from.append(position + len(raw))
            self._by.append(self._by[-1] + len(rewritten) - len(raw))
        self._view.add(entry_of(rewritten), self._position)
        self._position += len(rewritten)
        return rewritten

    def _without(self, raw: bytes, number: int) -> bytes:
        masked, times = mask_record(self.leaks, raw)
        if not times:
            return raw
        entry = entry_of(masked)
        if _identity(entry) != _identity(entry_of(raw)):
            raise InputError(
                f"{self.path}: line {number}: what is to be masked is part of the record's own structure, "
                "so it is no secret in the usual sense; nothing was changed"
            )
        self.masked += times
        if isinstance(entry, Decision) and isinstance(entry.record, Signed):
            self._signed.append(entry.record.id)
        return masked

    def _moved(self, raw: bytes) -> bytes:
        """A carry record with its positions adjusted to the new file; any other record unchanged."""
        if _CARRY not in raw[:200]:
            return raw
        return _POSITION.sub(lambda match: b'"%s":%d' % (match[1], self._shifted(int(match[2]))), raw)

    def _shifted(self, position: int) -> int:
        return position + self._by[bisect_right(self._from, position) - 1]

    def _closing(self, results: dict[str, str], inherited: int) -> Iterator[bytes]:
        masks = [leak.mask for leak in self.leaks]
        yield self._own(Purged(masks=masks, count=self.masked, results=results))
        # Masking invalidates the provider's signature on a summary, so undo that one: the readable one replaces it.
        yield from (self._own(Undone(decision=signed)) for signed in self._signed)
        epoch = self._view.epoch
        if (self.masked or inherited) and epoch is not None:
            plain = replace(epoch, drops_thinking_after=None, boundary=None)
            yield self._own(replace(plain, reason="purged", drops_thinking=True))

    def _own(self, decision: OwnDecision) -> bytes:
        # Without a record in `at`, the decision applies wherever the conversation continues from.
        stamped = replace(decision, id=self.stamper.ids.new(), at=None, timestamp=self.stamper.stamp())
        return decided(stamped).line


def _identity(entry: Entry) -> object:
    """What masking must not change in a record: its kind, ids and structure, but not its texts."""
    match entry:
        case Said():
            stored = [(call, stored_result.path) for call, stored_result in entry.stored.items()]
            kinds = [(block.kind, block.id) for block in entry.blocks]
            return replace(entry, blocks=(), stored={}, usage=None), kinds, stored
        case Boundary():
            return replace(entry, about=replace(entry.about, user_context=None))
        case Decision(record=Offloaded() as made):
            return type(made), made.id, made.at, made.tool_use_id, made.path, made.sha256
        case Decision(record=Epoch() as made):
            return type(made), made.id, made.at, made.model, sorted(made.settings)
        case Decision(record=made):
            return type(made), made.id, made.at
        case Label(kind=kind):
            return Label, kind
        case Damaged():
            return Damaged
        case _:
            return entry
