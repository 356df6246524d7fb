"""The live records in the order they are sent, weighed as they are added.

A layout holds three things that must stay consistent: the records in order, the messages built from them, and the
newest size a server reported for them with what changed since. Records are appended, with one exception: an answer
stored as several records can continue after its first results have arrived, and its next part is inserted before
them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.record.blocks import Block
from sevenfold.record.entries import Said
from sevenfold.record.usage import UNEDITED, Edits, Usage
from sevenfold.record.weight import NOTHING, Weight, combined, measure, reasoning, total
from sevenfold.record.wire import Message, Wire

if TYPE_CHECKING:
    from sevenfold.record.gauge import Expected, Size


class Item(Struct, frozen=True, gc=False):
    """A live record and the blocks sent for it."""

    record: Said
    seq: int
    role: str
    shown: tuple[Block, ...]
    weight: Weight
    hidden_by: str = ""
    """The decision that hides all of it; empty if none does."""
    begins: bool = False
    """Whether it always starts a new message: so does the first record of a fork."""

    @property
    def said(self) -> Said:
        """The former name of `record`."""
        warnings.warn("item.said is called item.record now", DeprecationWarning, stacklevel=2)
        return self.record

    @classmethod
    def of(cls, record: Said, seq: int, *, weighs: bool = True) -> Item:
        """The item for a record that no decision has touched."""
        shown = () if record.synthetic else record.blocks
        # Servers refuse blank text. Hardly any record has some, so all others share the tuple of their record.
        for block in shown:
            if block.kind == "text" and block.blank:
                shown = tuple([block for block in shown if not block.blank])
                break
        if not weighs:
            return cls(record, seq, record.role, shown, NOTHING)
        return cls(record, seq, record.role, shown, measure(shown[0]) if len(shown) == 1 else total(shown))


class Anchor(Struct, frozen=True, gc=False):
    """The newest size a server reported, and what changed since."""

    prompt: int
    """Prompt tokens in the call's last round; 0 from servers that do not count."""
    output: int
    """Output tokens in the same round."""
    model: str
    message_id: str
    seq: int
    records: int
    """How many records were in view when it was measured."""
    reply: Weight
    """The answer that came with the report."""
    cut: bool = False
    """Whether the answer was interrupted, so that the report may count only part of it."""
    edits: Edits = UNEDITED
    """What the provider removed from the prompt before it counted."""
    since: Weight = NOTHING
    """Content added after that answer."""
    removed: Weight = NOTHING
    """What later decisions removed from the part that was measured."""
    faded: Weight = NOTHING
    """Reasoning of turns that ended since: models that do not keep it drop it at the user's next message."""


class Measured(Struct, frozen=True, gc=False):
    """A prompt size reported by a server, to compare with the estimate."""

    previous: Anchor | None
    """The previous report on the same view, if there was one."""
    sent: Weight
    """The weight of the prompt without system and tools; empty if there is a previous report to compare with."""
    usage: Usage
    model: str
    faded: Weight = NOTHING
    """The part of the prompt that is reasoning of earlier turns, which not every model keeps."""
    expected: Expected | None = None
    """What was expected when the size was last computed; may be out of date."""


class Layout:
    """Records in view, in order; if it does not ``weigh``, only their order is right.

    ``unsupported`` is what the model that gets them does not take, as in `Epoch.unsupported`.
    """

    def __init__(self, *, weighs: bool = True, unsupported: Sequence[str] = ()) -> None:
        self._weighs = weighs
        self.unsupported = tuple(unsupported)
        self.items: list[Item] = []
        self.index: dict[str, int] = {}
        self.wire = Wire(unsupported)
        self.bytes = 0
        """Bytes of all content that is sent."""
        self.pictures = 0
        """Images and documents in it."""
        self._total = NOTHING
        self._loose: list[Weight] = []
        """Weights not yet added to the total, which is rarely needed when servers report sizes."""
        self.anchor: Anchor | None = None
        self.faded = NOTHING
        """Reasoning of the turns before the user's newest message."""
        self.calls: set[str] = set()
        """Tool calls of the newest answer."""
        self.inserted = 0
        """How many records were inserted between others."""
        self.sized: tuple[object, Size] | None = None
        """The size last computed and what it was computed with; reset whenever a record is added."""
        self.expected: Expected | None = None
        """What the gauge last expected the next report to say."""
        self._answer = ""
        """The message id of the newest answer."""
        self._answer_end = 0
        """Index behind its last record."""
        self._round_start: int | None = None
        """Index of the newest answer's first record; None once anything but its results follows."""
        self._round_end = 0
        """Index behind the newest round's last record."""
        self._reasoning = NOTHING
        """All reasoning in view."""
        self._has_results = False
        """Whether results follow the newest answer, so that its turn is not over."""

    def total(self) -> Weight:
        """The weight of all content that is sent."""
        if self._loose:
            self._total = combined(self._total, *self._loose)
            self._loose.clear()
        return self._total

    def add(self, item: Item, *, reported: bool = True) -> Measured | None:
        """Add a record; returns the size it reports, if any. ``reported`` says whether that is valid for this view."""
        record = item.record
        items = self.items
        index = self._enter(record)
        measured = self._weigh(item, reported) if self._weighs else None
        self.sized = None
        if index == len(items):
            self.index[record.uuid] = index
            items.append(item)
            if self._weighs:
                # As `_add_to` does it, without a further call: opening a log comes here with nearly every record.
                self.wire.add(
                    index, item.role, record.message_id, item.shown, item.begins, record.new_kinds
                )
            return measured
        self.inserted += 1
        self.items.insert(index, item)
        # Only from the place on: results of parallel calls arrive like this, and in a long session often.
        for number in range(index, len(self.items)):
            self.index[self.items[number].record.uuid] = number
        if not self._weighs:
            return None
        for number in range(self.wire.truncate(index), len(self.items)):
            self._add_to(self.wire, number)
        return measured

    def messages_until(self, uuid: str) -> list[Message]:
        """The messages as they are with this record as the newest; all of them if it is not here."""
        end = self.index.get(uuid, len(self.items) - 1) + 1
        wire = self.wire.copy()
        for number in range(wire.truncate(end), end):
            self._add_to(wire, number)
        return wire.messages()

    def index_for(self, record: Said) -> int:
        """The index at which a record belongs: the records of one answer stay together, and its results follow.

        In the log they may be in any order, name any of each other as parent, and have other records between
        them.
        """
        if record.role == "assistant":
            return self._answer_end if self.continues_answer(record) else len(self.items)
        return len(self.items) if self.calls.isdisjoint(record.answers) else self._round_end

    def continues_round(self, parent: str | None, tip: str | None) -> bool:
        """Whether a record with this parent continues the newest round, whose newest record is ``tip``.

        A result belongs to the round of its call wherever it was given. What follows one that was given on another
        branch continues that branch.
        """
        newest = self.items[self._round_start :] if self._round_start is not None else []
        messages = {item.record.uuid: item.record for item in newest}
        if tip not in messages:
            return False
        first = newest[0].record.uuid
        while parent in messages and parent != first:
            parent = messages.pop(parent).parent
        return parent == first

    def continues_answer(self, record: Said) -> bool:
        """Whether this record continues the newest answer."""
        return record.message_id == self._answer != ""

    def _add_to(self, wire: Wire, number: int) -> None:
        item = self.items[number]
        record = item.record
        wire.add(number, item.role, record.message_id, item.shown, item.begins, record.new_kinds)

    def _enter(self, record: Said) -> int:
        """The `index_for` of a record being added; updates the state of the round.

        Once another record has followed the round, it only continues from the newest record.
        """
        end = len(self.items)
        if record.role == "assistant":
            if record.message_id == self._answer != "":
                index = self._answer_end
                self.calls.update(record.calls)
            else:
                index = self._round_start = self._round_end = end
                self._answer = record.message_id
                self.calls = set(record.calls)
            self._answer_end = index + 1
        elif self.calls.isdisjoint(record.answers):
            self._round_start = None
            return end
        else:
            index = self._round_end
        self._round_end += 1
        return index

    def _weigh(self, item: Item, reported: bool) -> Measured | None:
        """Count a record's content, and what it changes about the anchor; returns the size that it reports, if any."""
        record = item.record
        weight = item.weight
        self._loose.append(weight)
        self.bytes += weight.wire
        self.pictures += weight.images
        if record.role == "assistant":
            self._has_results = False
            if weight.thoughts:
                self._reasoning += reasoning(weight)
            if self.anchor and record.message_id and self.anchor.message_id == record.message_id:
                self.anchor = _with_more_of_answer(self.anchor, record.usage, weight)
                return None
        elif record.answers:
            self._has_results = True
        elif item.shown and not record.meta and not self._has_results:
            # What the user says while the model works on results does not end the turn, so its reasoning still counts.
            self._fade()
        previous = self.anchor
        if not reported or record.usage is None or record.outdated:
            if previous:
                # Adding weights is slow, and there is often only one to add.
                since = weight if previous.since is NOTHING else previous.since + weight
                self.anchor = replace(previous, since=since)
            return None
        usage = record.usage.last_round if record.usage.iterations else record.usage
        self.anchor = Anchor(
            prompt=usage.prompt,
            output=usage.output_tokens,
            model=record.model,
            message_id=record.message_id,
            seq=item.seq,
            records=len(self.items),
            reply=weight,
            cut=record.cut,
            edits=record.edits,
        )
        if record.edits != (previous.edits if previous else UNEDITED):
            # If the edits differ from last time, the prompt's growth says nothing about what was added.
            return None
        # Only the growth since the previous report is compared, if there was one: its error does not add up.
        sent = NOTHING if previous and previous.prompt else self.total() - weight
        return Measured(previous, sent, record.usage, record.model, self.faded, self.expected)

    def _fade(self) -> None:
        """Count all reasoning so far as past: the user has spoken after a finished answer."""
        if self._reasoning is not self.faded:
            faded = self._reasoning - self.faded
            self.faded = self._reasoning
            if self.anchor:
                self.anchor = replace(self.anchor, faded=self.anchor.faded + faded)

    def counted(self, tokens: int, model: str, seq: int) -> Measured:
        """Take the size of all that is in view from a provider that counted it, as if an empty answer reported it."""
        previous = self.anchor
        self.anchor = Anchor(tokens, 0, model, "", seq, len(self.items), NOTHING)
        self.sized = None
        sent = NOTHING if previous and previous.prompt else self.total()
        return Measured(previous, sent, Usage(input_tokens=tokens), model, self.faded, self.expected)

    def measured_alone(self, record: Said) -> Measured | None:
        """The size this record reports, without a previous report to compare with; None if there is none to use."""
        anchor = self.anchor
        if not (
            anchor and record.usage and record.message_id == anchor.message_id and record.edits is UNEDITED
        ):
            return None
        return Measured(
            None, self.total() - anchor.reply - anchor.since, record.usage, record.model, self.faded
        )


def _with_more_of_answer(anchor: Anchor, usage: Usage | None, weight: Weight) -> Anchor:
    """The anchor after a further record of the answer that it is about, which reports the size again or not at all."""
    reply = anchor.reply + weight
    if usage is None:
        return replace(anchor, reply=reply)
    last_round = usage.last_round
    return replace(anchor, prompt=last_round.prompt, output=last_round.output_tokens, reply=reply)


class Round(Struct, frozen=True, gc=False):
    """One answer of the model, its tool results, and everything else before the next answer.

    A round is the smallest unit that can be removed: any other cut would separate a call from its result or split an
    answer. Everything before the first answer is a round too, the opening.
    """

    items: tuple[Item, ...]

    @property
    def answer(self) -> tuple[Item, ...]:
        """The records of the model's answer; none in the opening."""
        return tuple(item for item in self.items if item.record.role == "assistant")

    @property
    def weight(self) -> Weight:
        """The weight of all it sends."""
        return sum((item.weight for item in self.items), NOTHING)


def rounds(items: Iterable[Item]) -> list[Round]:
    """The records of a view, grouped into rounds."""
    groups: list[list[Item]] = []
    answering = ""
    for item in items:
        begins = item.record.role == "assistant" and _answer_of(item) != answering
        if begins or not groups:
            groups.append([])
        if begins:
            answering = _answer_of(item)
        groups[-1].append(item)
    return [Round(tuple(group)) for group in groups]


def _answer_of(item: Item) -> str:
    return item.record.message_id or item.record.uuid
