"""A session's transcript: the log on one side, the view folded from it on the other, always in step.

Everything that happens is written first and folded second, so a record that could not be stored is not
seen either. Nothing else writes to a log.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeVar

from msgspec.structs import replace

from sevenfold.errors import InputError, TranscriptTooNew
from sevenfold.ports import Clock, Ids, Log
from sevenfold.record import log as lines
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import (
    Carry,
    Commit,
    CompactMetadata,
    Epoch,
    MicrocompactMetadata,
    OwnDecision,
)
from sevenfold.record.entries import Decision, Stored
from sevenfold.record.layout import Measured
from sevenfold.record.log import Answer, Place, Written
from sevenfold.runtime.resume import resume

Made = TypeVar("Made", bound=OwnDecision)


class Transcript:
    """What was said and decided, and what the model sees of it."""

    def __init__(self, log: Log, place: Place, *, clock: Clock, ids: Ids) -> None:
        self.log = log
        self.place = place
        self._clock = clock
        self._ids = ids
        self.view = resume(log)
        self._epoch_offset = self.view.carry.epoch_offset if self.view.carry else None

    @property
    def read_only(self) -> bool:
        """True when a newer version wrote records here that this one does not understand."""
        return bool(self.view.unknown_kinds)

    def user(
        self,
        blocks: Sequence[Block],
        *,
        meta: bool = False,
        key: str = "",
        stored: dict[str, Stored] | None = None,
    ) -> str:
        """Record what was said on the user's side; returns the record's id.

        ``stored`` says where the whole of those results is of which ``blocks`` hold only a preview.
        """
        uuid = self._ids.new()
        written = lines.said_by_user(
            self.place, uuid, self.view.tip, self._now(), _some(blocks), meta=meta, key=key, stored=stored
        )
        self._write(written)
        return uuid

    def model(self, answer: Answer) -> Measured | None:
        """Record the model's answer; says what its reported size can be compared with."""
        return self._write(
            lines.said_by_model(self.place, self._ids.new(), self.view.tip, self._now(), answer)
        )

    def attach(
        self, kind: str, facts: dict[str, object], blocks: Sequence[Block], *, role: str = "user"
    ) -> str:
        """Record something put beside the conversation, as it will be sent."""
        uuid = self._ids.new()
        written = lines.attached(
            self.place, uuid, self.view.tip, self._now(), kind, facts, _some(blocks), role=role
        )
        self._write(written)
        return uuid

    def clear(self, about: MicrocompactMetadata) -> str:
        """Record that old results are cleared."""
        uuid = self._ids.new()
        written = lines.cleared(self.place, uuid, self.view.tip, self._now(), about)
        self._write(written)
        return uuid

    def decide(self, decision: Made) -> Made:
        """Record a decision of our own, made at the newest record; returns it with its id."""
        made = replace(decision, id=self._ids.new(), at=self.view.tip, timestamp=self._now())
        self._write(lines.decided(made))
        return made

    def compact(
        self, about: CompactMetadata, summary: Sequence[Block], *, boundary: str = "", anchor: str = ""
    ) -> str:
        """Record a compaction in one write that counts only as a whole; returns the boundary's id.

        ``boundary`` and ``anchor`` are ids given out beforehand, when ``about`` keeps messages that
        must be told where they now stand: behind the summary (``anchor``) or behind the boundary.
        """
        segment = about.preserved_segment
        if segment and not self.view.begins_round(segment.head_uuid):
            raise InputError(
                f"what a compaction keeps cannot begin at {segment.head_uuid}: it is not in view, "
                "or would be torn from the answer it belongs to; begin at that answer"
            )
        boundary, anchor, now = boundary or self._ids.new(), anchor or self._ids.new(), self._now()
        carry = Carry(
            id=self._ids.new(),
            at=anchor,
            timestamp=now,
            boundary=boundary,
            previous_boundary=self.view.boundary,
            epoch=self.view.epoch.id if self.view.epoch else None,
            epoch_offset=self._epoch_offset,
            segment_offset=self.view.start_of(segment) if segment else None,
        )
        commit = Commit(id=self._ids.new(), at=anchor, timestamp=now, boundary=boundary)
        self._write(
            lines.compacted(self.place, boundary, self.view.tip, now, about),
            lines.said_by_user(self.place, anchor, boundary, now, _some(summary), summary=True),
            lines.decided(carry),
            lines.decided(commit),
            durable=True,
        )
        return boundary

    def new_id(self) -> str:
        """A name for a record that is about to be written."""
        return self._ids.new()

    def close(self) -> None:
        """Let others write."""
        self.log.close()

    def _write(self, *written: Written, durable: bool = False) -> Measured | None:
        if self.read_only:
            kinds = ", ".join(sorted(self.view.unknown_kinds))
            raise TranscriptTooNew(
                f"this transcript holds records this version does not know ({kinds}): "
                "it can be read, but only a newer Sevenfold can continue it"
            )
        offset = self.log.append([one.line for one in written], durable=durable)
        measured = None
        for one in written:
            if isinstance(one.entry, Decision) and isinstance(one.entry.made, Epoch):
                self._epoch_offset = offset
            measured = self.view.add(one.entry, offset) or measured
            offset += len(one.line)
        if self.view.missing is not None:
            self.view = resume(self.log)
        return measured

    def _now(self) -> str:
        milliseconds = int(self._clock.now() * 1000)
        return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    """A moment in ISO form; the records of a turn are often written within one second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _some(blocks: Sequence[Block]) -> Sequence[Block]:
    if not blocks:
        raise InputError("there is nothing to record: a message needs at least one content block")
    return blocks
