"""A transcript written anew without a secret: every line stays a line, and every record who it was.

Places that records name as numbers of bytes are moved along. What the model would be sent has changed, and its
reasoning may be bound to what it was, so the new file ends with an epoch like the last one that goes on
without reasoning; it holds on every branch. A record says what was done.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.errors import InputError, TranscriptTooNew
from sevenfold.ports import Clock, Ids
from sevenfold.record import entries
from sevenfold.record.decisions import Epoch, Offload, OwnDecision, Purged, Signed, Undone
from sevenfold.record.entries import Boundary, Damaged, Decision, Entry, Label, Said
from sevenfold.record.log import decided
from sevenfold.record.view import View
from sevenfold.stores.jsonl import lines
from sevenfold.stores.jsonl.purge.leak import Leak

_CARRY = b'"kind":"carry"'
_OFFSET = re.compile(rb'"(epoch_offset|segment_offset)":(\d+)')


class World(Struct, frozen=True):
    """Time and names for records."""

    clock: Clock
    ids: Ids

    def stamp(self) -> str:
        """Now, as records say it."""
        now = datetime.fromtimestamp(self.clock.now(), UTC)
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Rewriting:
    """One pass over a transcript; read `masked` when `lines` has ended."""

    def __init__(self, path: Path, leaks: Sequence[Leak], world: World) -> None:
        self.masked = 0
        self._path = path
        self._leaks = leaks
        self._world = world
        self._view = View(keeps_history=False)
        self._from = [0]
        self._by = [0]
        self._signed: list[str] = []

    def lines(self, results: dict[str, str]) -> Iterator[bytes]:
        """The new file's lines; ``results`` are stored results that are masked along with it."""
        torn = False
        place = 0
        for number, line in enumerate(lines.scan(self._path, limit=sys.maxsize), 1):
            new = self._moved(self._without(line.raw, number))
            if len(new) != len(line.raw):
                self._from.append(line.offset + len(line.raw))
                self._by.append(self._by[-1] + len(new) - len(line.raw))
            self._view.add(_entry(new), place)
            place += len(new)
            torn = line.torn
            yield new
        if self._view.unknown_kinds:
            raise TranscriptTooNew(
                f"{self._path}: it holds records this version does not know; purge with a newer Sevenfold"
            )
        if torn:
            yield b"\n"
        yield from self._closing(results)

    def _without(self, raw: bytes, number: int) -> bytes:
        new, times = mask_record(self._leaks, raw)
        if times and _bones(_entry(new)) != _bones(_entry(raw)):
            raise InputError(
                f"{self._path}: line {number}: what is to be masked is part of the record's own structure, "
                "so it is no secret in the usual sense; nothing was changed"
            )
        self.masked += times
        match _entry(new):
            case Decision(made=Signed() as made) if times:
                self._signed.append(made.id)
            case _:
                pass
        return new

    def _moved(self, raw: bytes) -> bytes:
        """A carry record with its offsets as they are in the new file."""
        return _OFFSET.sub(self._shifted, raw) if _CARRY in raw[:200] else raw

    def _shifted(self, found: re.Match[bytes]) -> bytes:
        offset = int(found[2])
        offset += self._by[bisect_right(self._from, offset) - 1]
        return b'"%s":%d' % (found[1], offset)

    def _closing(self, results: dict[str, str]) -> Iterator[bytes]:
        masks = [leak.mask for leak in self._leaks]
        yield self._own(Purged(masks=masks, count=self.masked, results=results))
        # A summary the provider signed is no longer what was signed: the readable one takes its place.
        yield from (self._own(Undone(decision=signed)) for signed in self._signed)
        epoch = self._view.epoch
        if self.masked and epoch is not None:
            plain = replace(epoch, drops_thinking_after=None, boundary=None)
            yield self._own(replace(plain, reason="purged", drops_thinking=True))

    def _own(self, made: OwnDecision) -> bytes:
        # Made at no record, so that it holds wherever the conversation goes on from.
        stamped = replace(made, id=self._world.ids.new(), at=None, timestamp=self._world.stamp())
        return decided(stamped).line


def mask_record(leaks: Sequence[Leak], raw: bytes) -> tuple[bytes, int]:
    """A transcript's line without any of these secrets, and how many places were masked."""
    text, masked = raw.decode(errors="surrogateescape"), 0
    suspects = [leak for leak in leaks if leak.may_be_in(text)]
    if not suspects:
        return raw, 0
    damaged = isinstance(_entry(raw), Damaged)
    for leak in suspects:
        text, times = leak.in_text(text) if damaged else leak.in_json(text)
        masked += times
    return (text.encode(errors="surrogateescape"), masked) if masked else (raw, 0)


def mask_text(leaks: Sequence[Leak], raw: bytes) -> tuple[bytes, int]:
    """The same for any other file."""
    text, masked = raw.decode(errors="surrogateescape"), 0
    for leak in leaks:
        text, times = leak.in_text(text)
        masked += times
    return (text.encode(errors="surrogateescape"), masked) if masked else (raw, 0)


def _entry(raw: bytes) -> Entry:
    return entries.read(raw) if len(raw) <= lines.LINE_LIMIT else Damaged("the line is too long to be read")


def _bones(entry: Entry) -> object:
    """What a record is, apart from what it says."""
    match entry:
        case Said():
            stored = [(call, one.path) for call, one in entry.stored.items()]
            kinds = [(block.kind, block.id) for block in entry.blocks]
            return replace(entry, blocks=(), stored={}, usage=None), kinds, stored
        case Boundary():
            return replace(entry, about=replace(entry.about, user_context=None))
        case Decision(made=Offload() as made):
            return type(made), made.id, made.at, made.tool_use_id, made.path, made.sha256
        case Decision(made=Epoch() as made):
            return type(made), made.id, made.at, made.model, sorted(made.settings)
        case Decision(made=made):
            return type(made), made.id, made.at
        case Label(kind=kind):
            return Label, kind
        case Damaged():
            return Damaged
        case _:
            return entry
