"""The live records laid out as they are sent, weighed as they are added.

A layout knows three things that must never drift apart: the records in order, the messages made of
them, and the newest size a server reported for them with what changed since. It only grows, but for one
case: an answer stored as several records can go on after its first results have arrived, and then its
next part goes before them.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.record.blocks import Block
from sevenfold.record.entries import Said
from sevenfold.record.usage import Usage
from sevenfold.record.weight import NOTHING, Weight
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


class Measured(Struct, frozen=True):
    """A server reported the size of a prompt, so what was expected can be compared with it."""

    before: Anchor | None
    """The report before this one on the same view, if there was one."""
    sent: Weight
    """All that was in the prompt, system and tools aside."""
    usage: Usage
    model: str


class Layout:
    """Records in view, in order."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.index: dict[str, int] = {}
        self.wire = Wire()
        self.total = NOTHING
        self.anchor: Anchor | None = None
        self.round: set[str] = set()
        """The newest answer and its results: what follows may name any of them as its parent."""
        self._answer = ""
        self._calls: set[str] = set()

    def add(self, item: Item, *, reported: bool = True) -> Measured | None:
        """Add a record; ``reported`` says whether a size it brings holds for this view."""
        said, place = item.said, self._place(item.said)
        measured = self._weigh(item, reported)
        if place == len(self.items):
            self.index[said.uuid] = place
            self.items.append(item)
            self.wire.add(place, item.role, said.message_id, item.shown)
            return measured
        self.items.insert(place, item)
        self.index = {one.said.uuid: number for number, one in enumerate(self.items)}
        for number in range(self.wire.truncate(place), len(self.items)):
            one = self.items[number]
            self.wire.add(number, one.role, one.said.message_id, one.shown)
        return measured

    def _place(self, said: Said) -> int:
        """Where a record goes, and what the current round is from then on.

        The records of a round (an answer and its results) may arrive in any order and name any of each
        other as parent; more of the answer goes before the results that are already there.
        """
        place = len(self.items)
        if said.role == "assistant" and said.message_id and said.message_id == self._answer:
            place = 1 + max(self.index[mate] for mate in self.round if self._answers(mate))
            self.round.add(said.uuid)
            self._calls.update(said.calls)
        elif said.role == "assistant":
            self.round, self._answer, self._calls = {said.uuid}, said.message_id, set(said.calls)
        elif said.answers and self._calls.issuperset(said.answers):
            self.round.add(said.uuid)
        else:
            self.round, self._answer, self._calls = set(), "", set()
        return place

    def _answers(self, uuid: str) -> bool:
        return self.items[self.index[uuid]].said.role == "assistant"

    def _weigh(self, item: Item, reported: bool) -> Measured | None:
        before, said = self.anchor, item.said
        sent, self.total = self.total, self.total + item.weight
        if said.role == "assistant" and before and said.message_id and before.message_id == said.message_id:
            self.anchor = replace(
                before, usage=said.usage or before.usage, reply=before.reply + item.weight
            )
        elif reported and said.usage is not None:
            place = len(self.items)
            self.anchor = Anchor(said.usage, said.model, said.message_id, item.seq, place, item.weight)
            return Measured(before, sent, said.usage, said.model)
        elif before:
            self.anchor = replace(before, since=before.since + item.weight)
        return None
