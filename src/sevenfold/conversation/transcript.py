"""A session's transcript: the log and the view folded from it, always in step.

Every record is written first and folded second, so a record that could not be stored is not in view
either. Nothing else writes to a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import NoReturn, TypeVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from sevenfold.conversation.gate import Gate
from sevenfold.conversation.resume import SizeReport, resume
from sevenfold.errors import InputError, Refused, TranscriptTooNew
from sevenfold.ports import Clock, Ids, Log
from sevenfold.record import calls
from sevenfold.record import log as lines
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import (
    Carry,
    Commit,
    CompactMetadata,
    Epoch,
    MicrocompactMetadata,
    OwnDecision,
    Pin,
    Segment,
    Signed,
)
from sevenfold.record.entries import KEPT_MESSAGE, Decision, Said, Stored, name_of
from sevenfold.record.layout import Item, Measured
from sevenfold.record.log import Answer, Place, Stamp, Written, shorten_label
from sevenfold.record.view import View

Made = TypeVar("Made", bound=OwnDecision)


class Attachment(Struct, frozen=True):
    """Context given to the model in addition to messages: a file, instructions, the output of a hook."""

    kind: str
    blocks: tuple[Block, ...]
    facts: dict[str, object] = {}
    role: str = "user"


class Leading(Struct, frozen=True):
    """What another program shows first after it compacted its conversation."""

    blocks: tuple[Block, ...]
    summary: bool = False
    role: str = "user"
    kept: bool = False
    """Whether it repeats a message of the user that is on record."""


class Transcript:
    """The messages and decisions of a session, and the view that results from them."""

    def __init__(self, log: Log, place: Place, *, clock: Clock, ids: Ids) -> None:
        self.log = log
        # Logs of other packages may have no such method.
        self._announce: Callable[[Sequence[bytes]], Sequence[int]] = getattr(log, "announce", log.append)
        self.place = place
        self._clock = clock
        self._ids = ids
        self.size_reports: list[SizeReport] = []
        """The size reports found while reading the log."""
        self.written = 0
        """Bytes written since the transcript was opened."""
        self.view = resume(log, self.size_reports)
        self.gate: Gate | None = None
        """Masks secrets in everything that is written; None if nothing is masked."""
        self._closed = False
        self._unwritten: list[Written] | None = None
        """Records that `atomic` holds back until its block ends; None outside such a block."""

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Treat all records of this block as one decision, in a single write that counts completely or not at all.

        Records enter the view at once. If the write fails, or an error ends the block, they are removed from it.
        """
        if self._unwritten is not None:
            yield
            return
        records: list[Written] = []
        self._unwritten = records
        try:
            yield
            if len(records) > 1:
                names = [name for written in records if (name := name_of(written.entry))]
                records = [lines.decided(Commit(boundary="", together=names)), *records]
            for position, written in zip(self._append(records), records, strict=True) if records else ():
                self.view.locate(written.entry, position)
        except BaseException:
            if records:
                self.view = resume(self.log)
            raise
        finally:
            self._unwritten = None

    @property
    def read_only(self) -> bool:
        """True if a newer version wrote records here that this one does not understand."""
        return bool(self.view.unknown_kinds)

    def user(
        self,
        blocks: Sequence[Block],
        *,
        meta: bool = False,
        key: str = "",
        stored: dict[str, Stored] | None = None,
        origin: str = "",
        typed: str | None = None,
    ) -> str:
        """Record a message with the user role; returns the record's id.

        ``stored`` says where the full content is of results that are only previews in ``blocks``; ``origin`` and
        ``typed`` are as in `Said`.
        """
        at = self._stamp()
        self._write(
            lines.said_by_user(
                at, blocks or _nothing(), meta=meta, key=key, stored=stored, origin=origin, typed=typed
            )
        )
        return at.uuid

    def model(self, answer: Answer) -> Measured | None:
        """Record the model's answer; returns its reported size with what to compare it with, if there is one."""
        return self._write(lines.said_by_model(self._stamp(), answer))

    def distinct(self, answer: Answer) -> Answer:
        """The answer with new ids for calls whose ids are already taken."""
        if not any(block.kind == "tool_use" for block in answer.blocks):
            return answer
        return calls.distinct(answer, self._taken, self._ids.new)

    def _taken(self, call: str) -> bool:
        """Whether another call has this id; a call with the same random id on an abandoned branch is the same call."""
        record = self.view.call_record(call)
        if record is not None and self.view.item(record) is not None:
            return True
        if calls.is_random_id(call):
            return False
        return record is not None or (not self.view.whole and self.log.called(call))

    def attach(
        self, kind: str, facts: dict[str, object], blocks: Sequence[Block], *, role: str = "user"
    ) -> str:
        """Record an attachment exactly as it will be sent; returns the record's id."""
        at = self._stamp()
        self._write(lines.said_by_user(at, blocks or _nothing(), role=role, attachment=kind, facts=facts))
        return at.uuid

    def again(self, message: Said) -> str:
        """Record a message or attachment once more, as the newest; returns the new record's id."""
        if message.attachment:
            return self.attach(message.attachment, {}, message.blocks, role=message.role)
        return self.user(
            message.blocks,
            meta=message.meta,
            key=message.key,
            stored=dict(message.stored),
            origin=message.origin,
            typed=message.typed,
        )

    def clear(self, about: MicrocompactMetadata) -> str:
        """Record that old results or attachments are cleared; returns the record's id."""
        at = self._stamp()
        self._write(lines.cleared(at, about))
        return at.uuid

    def decide(self, decision: Made, *, announced: bool = False) -> Made:
        """Record one of our own decisions at the current tip; returns it with its id.

        One that is ``announced`` says what is about to be done; see `sevenfold.stores.log.announcing`.
        """
        record = replace(decision, id=self._ids.new(), at=self.view.tip, timestamp=self._now())
        self._write(lines.decided(record), announced=announced)
        return record

    def label(self, kind: str, text: str) -> None:
        """Record a label of the session, such as its title, unless it is unchanged."""
        # Mask before cutting: part of a secret would not be recognised as one.
        text = shorten_label(self.gate.text(text) if self.gate else text)
        if text and text != self.view.labels.get(kind):
            self._write(lines.labelled(self.place, kind, text, self.view.tip))

    def compact(
        self,
        about: CompactMetadata,
        summary: Sequence[Block],
        *,
        boundary: str = "",
        anchor: str = "",
        attachments: Sequence[Attachment] = (),
        epoch: Epoch | None = None,
        signed: bytes | None = None,
        carry: Carry | None = None,
        known_by: Mapping[str, str] = {},
    ) -> str:
        """Record a compaction in one write that counts only as a whole; returns the boundary's id.

        ``boundary`` and ``anchor`` are ids created beforehand, for when ``about`` keeps messages and must name what
        they follow: the summary (``anchor``) or the boundary. ``attachments`` come after the summary and the kept
        messages; ``epoch`` opens with the compaction; ``signed`` is the provider's own summary, for its model;
        ``carry`` has what must stay known after the boundary, ``known_by`` the session's labels.
        """
        segment = about.preserved_segment
        if segment and not self.view.begins_round(segment.head_uuid):
            raise InputError(
                f"what a compaction keeps cannot begin at {segment.head_uuid}: it is not in view, "
                "or would be torn from the answer it belongs to; begin at that answer"
            )
        boundary = boundary or self._ids.new()
        anchor = anchor or self._ids.new()
        timestamp = self._now()
        stamp = {"at": anchor, "timestamp": timestamp}
        written = [lines.compacted(Stamp(self.place, boundary, self.view.tip, timestamp), about)]
        if signed is not None:
            block = Signed(boundary=boundary, block=Raw(signed), model=epoch.model if epoch else "")
            written.append(
                lines.decided(replace(block, id=self._ids.new(), at=boundary, timestamp=timestamp))
            )
        at = Stamp(self.place, anchor, boundary, timestamp)
        written.append(lines.said_by_user(at, summary or _nothing(), summary=True))
        for attachment in attachments:
            at = Stamp(self.place, self._ids.new(), at.uuid, timestamp)
            written.append(_attached(at, attachment))
        carried = replace(
            carry or Carry(boundary=boundary),
            id=self._ids.new(),
            boundary=boundary,
            previous_boundary=self.view.boundary,
            epoch=self.view.epoch.id if self.view.epoch else None,
            epoch_offset=None if epoch else self._find_epoch(),
            segment_offset=self.view.start_of(segment) if segment else None,
            **stamp,
        )
        if epoch is not None:
            opened = replace(epoch, id=self._ids.new(), boundary=boundary, **stamp)
            written.append(lines.decided(opened))
            carried = replace(carried, epoch=opened.id)
        written += [lines.labelled(self.place, kind, text, at.uuid) for kind, text in known_by.items()]
        commit = Commit(id=self._ids.new(), at=anchor, timestamp=timestamp, boundary=boundary)
        self._write_all([*written, lines.decided(carried), lines.decided(commit)])
        return boundary

    def compacted_elsewhere(
        self, about: CompactMetadata, leading: Sequence[Leading], kept: tuple[str, str] | None = None
    ) -> str:
        """Record that another program compacted its conversation; returns the boundary's id.

        ``leading`` is what the program shows first from then on, its summary among it; ``kept`` are the first and the
        last record of what follows that unchanged.
        """
        boundary = self._ids.new()
        ids = [self._ids.new() for _ in leading]
        if kept is not None:
            segment = Segment(
                head_uuid=kept[0], anchor_uuid=ids[-1] if ids else boundary, tail_uuid=kept[1]
            )
            about = replace(about, preserved_segment=segment)
        timestamp = self._now()
        written = [lines.compacted(Stamp(self.place, boundary, self.view.tip, timestamp), about, own=False)]
        parent = boundary
        for record, uuid in zip(leading, ids, strict=True):
            at = Stamp(self.place, uuid, parent, timestamp)
            attachment = "system_message" if record.role == "system" else ""
            if record.kept:
                attachment = KEPT_MESSAGE
            written.append(
                lines.said_by_user(
                    at, record.blocks, role=record.role, summary=record.summary, attachment=attachment
                )
            )
            parent = uuid
        for line in written:
            self._write(line)
        return boundary

    def pinned(self) -> set[str]:
        """The ids of the pinned records, which every layer keeps verbatim."""
        records = set(self.view.carry.pins) if self.view.carry else set()
        for decision in self.view.decisions():
            if isinstance(decision, Pin) and decision.id not in self.view.undone:
                (records.discard if decision.off else records.add)(decision.record)
        return records

    def pinned_items(self) -> list[Item]:
        """The pinned records with their original content, from the log if they are no longer in view."""
        return [
            item for name in sorted(self.pinned()) if (item := self.view.item(name) or self._in_log(name))
        ]

    def _in_log(self, uuid: str) -> Item | None:
        _, entry = self.log.record(uuid) or (0, None)
        return Item.of(entry, 0) if isinstance(entry, Said) else None

    def new_id(self) -> str:
        """An id for a record that is about to be written."""
        return self._ids.new()

    def close(self) -> None:
        """Close the log, so that others can write to it."""
        self._closed = True
        self.log.close()

    def must_be_writable(self) -> None:
        """Raise if nothing can be recorded: `Refused` if closed, `TranscriptTooNew` if a newer version wrote here."""
        if self._closed:
            raise Refused("this session is closed, so nothing can be added to it; open it again")
        if self.view.unknown_kinds:
            kinds = ", ".join(sorted(self.view.unknown_kinds))
            raise TranscriptTooNew(
                f"this transcript holds records this version does not know ({kinds}): "
                "it can be read, but only a newer Sevenfold can continue it"
            )

    def _write(self, record: Written, *, announced: bool = False) -> Measured | None:
        """Write a record, or hold it back inside `atomic`, and fold it."""
        view = self.view
        if self._closed or view.unknown_kinds:
            self.must_be_writable()
        if self.gate is not None:
            record = self.gate.record(record)
        position = -1
        if self._unwritten is None:
            line = record.line
            (position,) = (self._announce if announced else self.log.append)((line,))
            self.written += len(line)
        else:
            self._unwritten.append(record)
        measured = view.add(record.entry, position)
        if view.missing is not None:
            self.view = self.view_after()
        return measured

    def _write_all(self, written: Sequence[Written]) -> None:
        """Write records that count together, force them to disk, and fold them."""
        self.must_be_writable()
        if self.gate is not None:
            written = [self.gate.record(record) for record in written]
        if self._unwritten is None:
            positions = self._append(written, durable=True)
        else:
            self._unwritten += written
            positions = (-1,) * len(written)
        for record, position in zip(written, positions, strict=True):
            self.view.add(record.entry, position)
        if self.view.missing is not None:
            self.view = self.view_after()

    def _append(self, written: Sequence[Written], *, durable: bool = False) -> Sequence[int]:
        """Append records to the log in one write; returns their positions."""
        lines_written = [record.line for record in written]
        positions = self.log.append(lines_written, durable=durable)
        self.written += sum(map(len, lines_written))
        return positions

    def view_after(self, *decisions: OwnDecision, reports: list[SizeReport] | None = None) -> View:
        """The view as it would be after these decisions, folded from as far back as the live branch needs.

        Size reports found on the way are added to ``reports``.
        """
        planned = [Decision(replace(decision, at=self.view.tip)) for decision in decisions]
        return resume(self.log, reports, [*(written.entry for written in self._unwritten or ()), *planned])

    def _find_epoch(self) -> int | None:
        """The position of the current epoch's record; None if there is none."""
        epoch = self.view.epoch
        opened = self.log.decisions(Epoch) if epoch else ()
        return next((position for position, epoch_at in opened if epoch and epoch_at.id == epoch.id), None)

    def _stamp(self) -> Stamp:
        timestamp = _moment(int(self._clock.now() * 1000))
        return Stamp(self.place, self._ids.new(), self.view.tip, timestamp)

    def _now(self) -> str:
        return _moment(int(self._clock.now() * 1000))


@lru_cache(maxsize=1)
def _moment(milliseconds: int) -> str:
    """A time in ISO format; cached because the records of one write share it."""
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    """The same to the second; cached because the records of a turn are often written within one."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _attached(at: Stamp, attachment: Attachment) -> Written:
    """The record of an attachment."""
    kind = attachment.kind
    return lines.said_by_user(
        at, attachment.blocks, role=attachment.role, attachment=kind, facts=attachment.facts
    )


def _nothing() -> NoReturn:
    raise InputError("there is nothing to record: a message needs at least one content block")
