"""A session's transcript: the log on one side, the view folded from it on the other, always in step.

Everything that happens is written first and folded second, so a record that could not be stored is not
seen either. Nothing else writes to a log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    Signed,
)
from sevenfold.record.entries import Decision, Said, Stored, name_of
from sevenfold.record.layout import Item, Measured
from sevenfold.record.log import Answer, Place, Stamp, Written, shorten_label
from sevenfold.record.view import View

Made = TypeVar("Made", bound=OwnDecision)


class Attachment(Struct, frozen=True):
    """Something the model is given besides messages: a file, instructions, what a hook adds."""

    kind: str
    blocks: tuple[Block, ...]
    facts: dict[str, object] = {}
    role: str = "user"


class Transcript:
    """What was said and decided, and what the model sees of it."""

    def __init__(self, log: Log, place: Place, *, clock: Clock, ids: Ids) -> None:
        self.log = log
        self.place = place
        self._clock = clock
        self._ids = ids
        self.size_reports: list[SizeReport] = []
        """What reading the log taught about sizes."""
        self.written = 0
        """Bytes written since it was opened."""
        self.view = resume(log, self.size_reports)
        self.gate: Gate | None = None
        """Masks secrets in everything that is written; None: nothing is masked."""
        self._closed = False
        self._unwritten: list[Written] | None = None
        """What `together` holds back until all of it is there."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is recorded in here is one decision: it is written in one go, and counts whole or not at all.

        It is in view at once. If it cannot be written, or an error ends the block, it is out of view again.
        """
        if self._unwritten is not None:
            yield
            return
        made: list[Written] = []
        self._unwritten = made
        try:
            yield
            if len(made) > 1:
                names = [name for one in made if (name := name_of(one.entry))]
                made = [lines.decided(Commit(boundary="", together=names)), *made]
            for place, one in zip(self._append(made), made, strict=True) if made else ():
                self.view.locate(one.entry, place)
        except BaseException:
            if made:
                self.view = resume(self.log)
            raise
        finally:
            self._unwritten = None

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
        at = self._stamp()
        self._write(lines.said_by_user(at, blocks or _nothing(), meta=meta, key=key, stored=stored))
        return at.uuid

    def model(self, answer: Answer) -> Measured | None:
        """Record the model's answer; says what its reported size can be compared with."""
        return self._write(lines.said_by_model(self._stamp(), answer))

    def distinct(self, answer: Answer) -> Answer:
        """The answer with names of their own for those of its calls whose names are taken."""
        if not any(block.kind == "tool_use" for block in answer.blocks):
            return answer
        return calls.distinct(answer, self._taken, self._ids.new)

    def _taken(self, call: str) -> bool:
        """Is there another call with this id? One with a random id on an abandoned branch is the same call."""
        known = self.view.asked(call)
        if known is not None and self.view.item(known) is not None:
            return True
        if calls.drawn(call):
            return False
        return known is not None or (not self.view.whole and self.log.called(call))

    def attach(
        self, kind: str, facts: dict[str, object], blocks: Sequence[Block], *, role: str = "user"
    ) -> str:
        """Record an attachment, as it will be sent."""
        at = self._stamp()
        self._write(lines.said_by_user(at, blocks or _nothing(), role=role, attachment=kind, facts=facts))
        return at.uuid

    def again(self, said: Said) -> str:
        """Record a message of the user's side once more, as the newest."""
        if said.attachment:
            return self.attach(said.attachment, {}, said.blocks, role=said.role)
        return self.user(said.blocks, meta=said.meta, key=said.key, stored=dict(said.stored))

    def clear(self, about: MicrocompactMetadata) -> str:
        """Record that old results are cleared."""
        at = self._stamp()
        self._write(lines.cleared(at, about))
        return at.uuid

    def decide(self, decision: Made) -> Made:
        """Record a decision of our own, made at the newest record; returns it with its id."""
        made = replace(decision, id=self._ids.new(), at=self.view.tip, timestamp=self._now())
        self._write(lines.decided(made))
        return made

    def label(self, kind: str, text: str) -> None:
        """Record what the session is known by, unless it is known by that already."""
        # Before it is cut: a part of a secret would not be known for one.
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

        ``boundary`` and ``anchor`` are ids given out beforehand, when ``about`` keeps messages and must name what
        they follow: the summary (``anchor``) or the boundary. ``attachments`` come after everything else; ``epoch``
        opens with it; ``signed`` is the provider's own summary, for its model; ``carry`` holds what must be known
        on this side of the boundary too, ``known_by`` the session's labels.
        """
        segment = about.preserved_segment
        if segment and not self.view.begins_round(segment.head_uuid):
            raise InputError(
                f"what a compaction keeps cannot begin at {segment.head_uuid}: it is not in view, "
                "or would be torn from the answer it belongs to; begin at that answer"
            )
        boundary, anchor, now = boundary or self._ids.new(), anchor or self._ids.new(), self._now()
        stamp = {"at": anchor, "timestamp": now}
        written = [lines.compacted(Stamp(self.place, boundary, self.view.tip, now), about)]
        if signed is not None:
            block = Signed(boundary=boundary, block=Raw(signed), model=epoch.model if epoch else "")
            written.append(lines.decided(replace(block, id=self._ids.new(), at=boundary, timestamp=now)))
        at = Stamp(self.place, anchor, boundary, now)
        written.append(lines.said_by_user(at, summary or _nothing(), summary=True))
        for one in attachments:
            at = Stamp(self.place, self._ids.new(), at.uuid, now)
            kind, facts = one.kind, one.facts
            written.append(lines.said_by_user(at, one.blocks, role=one.role, attachment=kind, facts=facts))
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
        commit = Commit(id=self._ids.new(), at=anchor, timestamp=now, boundary=boundary)
        self._write_all([*written, lines.decided(carried), lines.decided(commit)])
        return boundary

    def pinned(self) -> set[str]:
        """The records that are pinned now: they survive every layer, word for word."""
        records = set(self.view.carry.pins) if self.view.carry else set()
        for made in self.view.decisions():
            if isinstance(made, Pin) and made.id not in self.view.undone:
                (records.discard if made.off else records.add)(made.record)
        return records

    def pinned_items(self) -> list[Item]:
        """The same as they were said, from the log where they are no longer in view."""
        return [
            one for name in sorted(self.pinned()) if (one := self.view.item(name) or self._in_log(name))
        ]

    def _in_log(self, uuid: str) -> Item | None:
        _, entry = self.log.record(uuid) or (0, None)
        return Item.of(entry, 0) if isinstance(entry, Said) else None

    def new_id(self) -> str:
        """A name for a record that is about to be written."""
        return self._ids.new()

    def close(self) -> None:
        """Let others write."""
        self._closed = True
        self.log.close()

    def must_be_writable(self) -> None:
        """Raise if nothing can be recorded here."""
        if self._closed:
            raise Refused("this session is closed, so nothing can be added to it; open it again")
        if self.view.unknown_kinds:
            kinds = ", ".join(sorted(self.view.unknown_kinds))
            raise TranscriptTooNew(
                f"this transcript holds records this version does not know ({kinds}): "
                "it can be read, but only a newer Sevenfold can continue it"
            )

    def _write(self, one: Written) -> Measured | None:
        """Write a record and fold it."""
        view = self.view
        if self._closed or view.unknown_kinds:
            self.must_be_writable()
        if self.gate is not None:
            one = self.gate.record(one)
        position = -1
        if self._unwritten is None:
            line = one.line
            (position,) = self.log.append((line,))
            self.written += len(line)
        else:
            self._unwritten.append(one)
        measured = view.add(one.entry, position)
        if view.missing is not None:
            self.view = self.view_after()
        return measured

    def _write_all(self, written: Sequence[Written]) -> None:
        """Write records that count together, forced to the disk, and fold them."""
        self.must_be_writable()
        if self.gate is not None:
            written = [self.gate.record(one) for one in written]
        if self._unwritten is None:
            positions = self._append(written, durable=True)
        else:
            self._unwritten += written
            positions = (-1,) * len(written)
        for one, position in zip(written, positions, strict=True):
            self.view.add(one.entry, position)
        if self.view.missing is not None:
            self.view = self.view_after()

    def _append(self, written: Sequence[Written], *, durable: bool = False) -> Sequence[int]:
        """Write to the log in one go; where each record is now."""
        made = [one.line for one in written]
        positions = self.log.append(made, durable=durable)
        self.written += sum(map(len, made))
        return positions

    def view_after(self, *decisions: OwnDecision) -> View:
        """What the model would see if these were decided, folded from as far back as the live branch needs."""
        made = [Decision(replace(one, at=self.view.tip)) for one in decisions]
        return resume(self.log, unwritten=[*(one.entry for one in self._unwritten or ()), *made])

    def _find_epoch(self) -> int | None:
        """Where the record of the epoch in force is."""
        epoch = self.view.epoch
        made = self.log.decisions(Epoch) if epoch else ()
        return next((position for position, one in made if epoch and one.id == epoch.id), None)

    def _stamp(self) -> Stamp:
        now = _moment(int(self._clock.now() * 1000))
        return Stamp(self.place, self._ids.new(), self.view.tip, now)

    def _now(self) -> str:
        return _moment(int(self._clock.now() * 1000))


@lru_cache(maxsize=1)
def _moment(milliseconds: int) -> str:
    """A moment in ISO form; the records of one write have it in common."""
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    """The same to the second: the records of a turn are often written within one."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _nothing() -> NoReturn:
    raise InputError("there is nothing to record: a message needs at least one content block")
