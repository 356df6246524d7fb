"""The live records laid out as they are sent, weighed as they are added.

A layout knows three things that must never drift apart: the records in order, the messages made of
them, and the newest size a server reported for them with what changed since. It only grows, but for one
case: an answer stored as several records can go on after its first results have arrived, and then its
next part goes before them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.record.blocks import Block
from sevenfold.record.entries import Said
from sevenfold.record.usage import UNEDITED, Edits, Usage
from sevenfold.record.weight import NOTHING, Weight, combined, measure, reasoning, total
from sevenfold.record.wire import Wire

if TYPE_CHECKING:
    from sevenfold.record.gauge import Expected, Size


class Item(Struct, frozen=True, gc=False):
    """A live record with what is sent of it."""

    said: Said
    seq: int
    role: str
    shown: tuple[Block, ...]
    weight: Weight
    hidden_by: str = ""
    """The decision that took all of it out of sight; empty while it is seen."""
    begins: bool = False
    """It starts a message of its own, whatever came before: the first record of a fork."""

    @classmethod
    def of(cls, said: Said, seq: int) -> Item:
        """A record that no decision has touched."""
        shown = () if said.synthetic else said.blocks
        for block in shown:
            if block.kind == "text" and block.blank:
                shown = tuple([block for block in shown if not block.blank])
                break
        return cls(said, seq, said.role, shown, measure(shown[0]) if len(shown) == 1 else total(shown))


class Anchor(Struct, frozen=True, gc=False):
    """The newest size a server reported, and what changed since then."""

    prompt: int
    """Tokens of the prompt, in the last round of the call. Servers that do not count report 0."""
    output: int
    """Tokens of the answer, in the same round."""
    model: str
    message_id: str
    seq: int
    place: int
    """How many records were in view when it was measured."""
    reply: Weight
    """The answer that came with the report."""
    cut: bool = False
    """The answer was interrupted, so the report may count a part of it only."""
    edits: Edits = UNEDITED
    """What the provider took out of the prompt before it counted."""
    since: Weight = NOTHING
    """What was said after that answer."""
    removed: Weight = NOTHING
    """What later decisions took out of the part that was measured."""
    faded: Weight = NOTHING
    """Reasoning of turns that ended since: models that do not keep it drop it at the user's next words."""


class Measured(Struct, frozen=True, gc=False):
    """A server reported the size of a prompt, so what was expected can be compared with it."""

    before: Anchor | None
    """The report before this one on the same view, if there was one."""
    sent: Weight
    """All that was in the prompt, system and tools aside; nothing where the report before tells."""
    usage: Usage
    model: str
    faded: Weight = NOTHING
    """The part of it that is reasoning of earlier turns, which not every model keeps."""
    expected: Expected | None = None
    """What was expected when the size was last looked at; it may have changed since."""


class Layout:
    """Records in view, in order."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.index: dict[str, int] = {}
        self.wire = Wire()
        self.bytes = 0
        """Of all that is sent."""
        self.pictures = 0
        """And documents, in all that is sent."""
        self._total = NOTHING
        self._loose: list[Weight] = []
        """What the total does not contain yet: where sizes are reported it is hardly ever asked for."""
        self.anchor: Anchor | None = None
        self.faded = NOTHING
        """Reasoning of the turns before the user's newest words."""
        self.calls: set[str] = set()
        """What the newest answer asks for."""
        self.inserted = 0
        """How many records were put between others."""
        self.sized: tuple[object, Size] | None = None
        """The size last asked for, and by what it was measured; forgotten as soon as anything changes."""
        self.expected: Expected | None = None
        """What the gauge expected of the next report when it last looked."""
        self._answer = ""
        self._answer_end = 0
        self._round_start: int | None = None
        """Where the newest answer begins; None once other things than its results have come."""
        self._round_end = 0
        self._reasoning = NOTHING
        self._answered = False

    def total(self) -> Weight:
        """The weight of all that is sent."""
        if self._loose:
            self._total = combined(self._total, *self._loose)
            self._loose.clear()
        return self._total

    def add(self, item: Item, *, reported: bool = True) -> Measured | None:
        """Add a record; ``reported`` says whether a size it brings holds for this view."""
        said, items = item.said, self.items
        place = self._enter(said)
        measured = self._weigh(item, reported)
        self.sized = None
        if place == len(items):
            self.index[said.uuid] = place
            items.append(item)
            self.wire.add(place, item.role, said.message_id, item.shown, item.begins)
            return measured
        self.inserted += 1
        self.items.insert(place, item)
        self.index = {one.said.uuid: number for number, one in enumerate(self.items)}
        for number in range(self.wire.truncate(place), len(self.items)):
            one = self.items[number]
            self.wire.add(number, one.role, one.said.message_id, one.shown, begins=one.begins)
        return measured

    def place(self, said: Said) -> int:
        """Where a record goes: the answer of a round stays together, and its results follow it.

        They may arrive in any order, name any of each other as parent, and have other things between
        them.
        """
        if said.role == "assistant":
            return self._answer_end if self.goes_on(said) else len(self.items)
        return len(self.items) if self.calls.isdisjoint(said.answers) else self._round_end

    def in_round(self, *records: str | None) -> bool:
        """Are these the newest answer or results of it? What follows may name any of them as its parent."""
        newest = self.items[self._round_start :] if self._round_start is not None else ()
        return {item.said.uuid for item in newest}.issuperset(records)

    def goes_on(self, said: Said) -> bool:
        """Is this more of the newest answer?"""
        return said.message_id == self._answer != ""

    def _enter(self, said: Said) -> int:
        """The `place` of a record that is added; keeps account of the round.

        Once other things have come, the round only goes on from the newest record.
        """
        end = len(self.items)
        if said.role == "assistant":
            if said.message_id == self._answer != "":
                place = self._answer_end
                self.calls.update(said.calls)
            else:
                place = self._round_start = self._round_end = end
                self._answer, self.calls = said.message_id, set(said.calls)
            self._answer_end = place + 1
        elif self.calls.isdisjoint(said.answers):
            self._round_start = None
            return end
        else:
            place = self._round_end
        self._round_end += 1
        return place

    def _weigh(self, item: Item, reported: bool) -> Measured | None:
        said, weight = item.said, item.weight
        self._loose.append(weight)
        self.bytes += weight.wire
        self.pictures += weight.images + weight.documents
        if said.role == "assistant":
            if weight.thoughts:
                self._reasoning += reasoning(weight)
            self._answered, before = False, self.anchor
            if before and said.message_id and before.message_id == said.message_id:
                usage = said.usage.last_round if said.usage else None
                self.anchor = replace(
                    before,
                    prompt=usage.prompt if usage else before.prompt,
                    output=usage.output_tokens if usage else before.output,
                    reply=before.reply + weight,
                )
                return None
        elif said.answers:
            self._answered = True
        elif item.shown and not said.meta and not self._answered:
            self._fade()
        before = self.anchor
        if reported and said.usage is not None and not said.outdated:
            usage = said.usage.last_round if said.usage.iterations else said.usage
            self.anchor = Anchor(
                usage.prompt,
                usage.output_tokens,
                said.model,
                said.message_id,
                item.seq,
                len(self.items),
                weight,
                said.cut,
                said.edits,
            )
            if said.edits != (before.edits if before else UNEDITED):
                # With other edits than last time, the growth of the prompt says nothing about what was added.
                return None
            sent = NOTHING if before and before.prompt else self.total() - weight
            return Measured(before, sent, said.usage, said.model, self.faded, self.expected)
        if before:
            since = before.since
            self.anchor = replace(before, since=weight if since is NOTHING else since + weight)
        return None

    def _fade(self) -> None:
        """Reasoning is of the past once the user speaks after a finished answer."""
        if self._reasoning is not self.faded:
            faded, self.faded = self._reasoning - self.faded, self._reasoning
            if self.anchor:
                self.anchor = replace(self.anchor, faded=self.anchor.faded + faded)

    def measured_alone(self, said: Said) -> Measured | None:
        """What the report in this record tells when there is none before it to compare with."""
        anchor = self.anchor
        if not (anchor and said.usage and said.message_id == anchor.message_id and said.edits is UNEDITED):
            return None
        return Measured(
            None, self.total() - anchor.reply - anchor.since, said.usage, said.model, self.faded
        )


class Round(Struct, frozen=True, gc=False):
    """One answer of the model, its results, and what else was said before the next answer.

    A round is the smallest piece that can be let go: cut anywhere else, a call would lose its result or an
    answer a part of itself. What comes before the first answer is a round too, the opening.
    """

    items: tuple[Item, ...]

    @property
    def answer(self) -> tuple[Item, ...]:
        """The records of the model's answer; none in the opening."""
        return tuple(item for item in self.items if item.said.role == "assistant")

    @property
    def weight(self) -> Weight:
        """Of all it sends."""
        return sum((item.weight for item in self.items), NOTHING)


def rounds(items: Iterable[Item]) -> list[Round]:
    """The records of a view, grouped."""
    groups: list[list[Item]] = []
    answering = ""
    for item in items:
        begins = item.said.role == "assistant" and _answer_of(item) != answering
        if begins or not groups:
            groups.append([])
        if begins:
            answering = _answer_of(item)
        groups[-1].append(item)
    return [Round(tuple(group)) for group in groups]


def _answer_of(item: Item) -> str:
    return item.said.message_id or item.said.uuid
