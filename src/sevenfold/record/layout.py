"""The live records laid out as they are sent, weighed as they are added.

A layout knows three things that must never drift apart: the records in order, the messages made of
them, and the newest size a server reported for them with what changed since. It only grows, but for one
case: an answer stored as several records can go on after its first results have arrived, and then its
next part goes before them.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.record.blocks import Block
from sevenfold.record.entries import Said
from sevenfold.record.usage import Usage
from sevenfold.record.weight import NOTHING, Weight, reasoning, total
from sevenfold.record.wire import Wire


class Item(Struct, frozen=True):
    """A live record with what is sent of it."""

    said: Said
    seq: int
    role: str
    shown: tuple[Block, ...]
    weight: Weight
    hidden_by: str = ""
    """The decision that took all of it out of sight; empty while it is seen."""

    @classmethod
    def of(cls, said: Said, seq: int) -> Item:
        """A record that no decision has touched."""
        shown = () if said.synthetic else tuple([block for block in said.blocks if not block.blank])
        return cls(said, seq, said.role, shown, total(shown))


class Anchor(Struct, frozen=True):
    """The newest size a server reported, and what changed since then."""

    usage: Usage
    model: str
    message_id: str
    seq: int
    place: int
    """How many records were in view when it was measured."""
    reply: Weight
    """The answer that came with the report."""
    since: Weight = NOTHING
    """What was said after that answer."""
    removed: Weight = NOTHING
    """What later decisions took out of the part that was measured."""
    faded: Weight = NOTHING
    """Reasoning of turns that ended since: models that do not keep it drop it at the user's next words."""


class Measured(Struct, frozen=True):
    """A server reported the size of a prompt, so what was expected can be compared with it."""

    before: Anchor | None
    """The report before this one on the same view, if there was one."""
    sent: Weight
    """All that was in the prompt, system and tools aside."""
    usage: Usage
    model: str
    faded: Weight = NOTHING
    """The part of it that is reasoning of earlier turns, which not every model keeps."""


class Layout:
    """Records in view, in order."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.index: dict[str, int] = {}
        self.wire = Wire()
        self.total = NOTHING
        self.anchor: Anchor | None = None
        self.faded = NOTHING
        """Reasoning of the turns before the user's newest words."""
        self.round: set[str] = set()
        """The newest answer and its results: what follows may name any of them as its parent."""
        self.calls: set[str] = set()
        """What the newest answer asks for."""
        self.inserted = 0
        """How many records were put between others."""
        self._answer = ""
        self._answer_end = 0
        self._round_end = 0
        self._reasoning = NOTHING
        self._answered = False

    def add(self, item: Item, *, reported: bool = True) -> Measured | None:
        """Add a record; ``reported`` says whether a size it brings holds for this view."""
        said, place = item.said, self.place(item.said)
        self._enter(said, place)
        measured = self._weigh(item, reported)
        if place == len(self.items):
            self.index[said.uuid] = place
            self.items.append(item)
            self.wire.add(place, item.role, said.message_id, item.shown)
            return measured
        self.inserted += 1
        self.items.insert(place, item)
        self.index = {one.said.uuid: number for number, one in enumerate(self.items)}
        for number in range(self.wire.truncate(place), len(self.items)):
            one = self.items[number]
            self.wire.add(number, one.role, one.said.message_id, one.shown)
        return measured

    def place(self, said: Said) -> int:
        """Where a record goes: the answer of a round stays together, and its results follow it.

        They may arrive in any order, name any of each other as parent, and have other things between
        them.
        """
        if said.role == "assistant":
            return self._answer_end if self.goes_on(said) else len(self.items)
        return len(self.items) if self.calls.isdisjoint(said.answers) else self._round_end

    def goes_on(self, said: Said) -> bool:
        """Is this more of the newest answer?"""
        return said.message_id == self._answer != ""

    def _enter(self, said: Said, place: int) -> None:
        """Keep account of the round; once other things have come, it only goes on from the newest record."""
        if said.role == "assistant":
            if not self.goes_on(said):
                self.round, self._answer, self.calls = set(), said.message_id, set()
                self._round_end = place
            self._answer_end = place + 1
            self.calls.update(said.calls)
        elif self.calls.isdisjoint(said.answers):
            self.round = set()
            return
        self._round_end += 1
        if self._round_end > len(self.items):
            self.round.add(said.uuid)

    def _weigh(self, item: Item, reported: bool) -> Measured | None:
        self._turn(item)
        before, said = self.anchor, item.said
        sent, self.total = self.total, self.total + item.weight
        if said.role == "assistant" and before and said.message_id and before.message_id == said.message_id:
            self.anchor = replace(
                before, usage=said.usage or before.usage, reply=before.reply + item.weight
            )
        elif reported and said.usage is not None:
            place = len(self.items)
            self.anchor = Anchor(said.usage, said.model, said.message_id, item.seq, place, item.weight)
            return Measured(before, sent, said.usage, said.model, self.faded)
        elif before:
            self.anchor = replace(before, since=before.since + item.weight)
        return None

    def _turn(self, item: Item) -> None:
        """Keep account of reasoning: it is of the past once the user speaks after a finished answer."""
        if item.said.role == "assistant":
            self._reasoning += reasoning(item.weight)
            self._answered = False
        elif item.said.answers:
            self._answered = True
        elif item.shown and not item.said.meta and not self._answered:
            faded, self.faded = self._reasoning - self.faded, self._reasoning
            if self.anchor:
                self.anchor = replace(self.anchor, faded=self.anchor.faded + faded)

    def measured_alone(self, said: Said) -> Measured | None:
        """What the report in this record tells when there is none before it to compare with."""
        anchor = self.anchor
        if anchor is None or said.usage is None or said.message_id != anchor.message_id:
            return None
        return Measured(None, self.total - anchor.reply - anchor.since, said.usage, said.model, self.faded)


class Round(Struct, frozen=True):
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
