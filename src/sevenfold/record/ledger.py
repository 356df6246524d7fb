"""The decisions on record, and which of them hold.

They are kept in the order they were made. Whether one counts depends on the branch (it holds where the
record it was made at led to the present) and on what was taken back since; so their effect is always
worked out from the list, for now or for any earlier moment, and never stored.
"""

from __future__ import annotations

from msgspec import Struct

from sevenfold.record import blocks
from sevenfold.record.blocks import PLACEHOLDER_CLEARED, Block
from sevenfold.record.chain import Chain
from sevenfold.record.decisions import (
    Epoch,
    Fold,
    Offload,
    OwnDecision,
    Pinned,
    Signed,
    Snip,
    Undone,
)
from sevenfold.record.effects import Effects, Replaced, Span
from sevenfold.record.entries import Boundary, Clearing


class Made(Struct, frozen=True):
    """A decision and its place in the file."""

    seq: int
    what: Clearing | OwnDecision
    after: int = -1
    """Place of the record an epoch names as the last whose reasoning stays…"""
    before: int | None = None
    """…and of the one from which on it stays."""

    @property
    def id(self) -> str:
        """The name it is undone by."""
        return self.what.uuid if isinstance(self.what, Clearing) else self.what.id


def changes_view(what: OwnDecision) -> bool:
    """Must the view be laid out again when this is decided?"""
    return isinstance(what, Offload | Pinned | Signed | Snip | Fold | Undone) or (
        isinstance(what, Epoch) and what.drops_thinking
    )


class Ledger:
    """All decisions, in order."""

    def __init__(self) -> None:
        self.all: list[Made] = []
        self._holding: list[Made] = []
        self._standing: set[str] = set()

    def add(self, seq: int, what: Clearing | OwnDecision, chain: Chain) -> None:
        """Take in a decision; it was made where the conversation now stands, so it holds."""
        made = Made(seq, what)
        if isinstance(what, Epoch):
            stays = chain.nodes.get(what.drops_thinking_after or "")
            again = chain.nodes.get(what.drops_thinking_before or "")
            made = Made(seq, what, stays.seq if stays else -1, again.seq if again else None)
        self.all.append(made)
        self._holding.append(made)

    def holding(self) -> list[Clearing | OwnDecision]:
        """The decisions that hold on the live branch, in order."""
        return [made.what for made in self._holding]

    def settle(self, chain: Chain, leaf: str | None) -> set[str]:
        """Find out which decisions hold when ``leaf`` is the newest record; returns those taken back."""
        lineage = chain.lineage(leaf) if self.all and leaf is not None else set()
        self._holding = [made for made in self.all if self._holds(made, chain, lineage)]
        return self._undone(None)

    def effects(self, seq: int | None = None) -> Effects:
        """What is out of sight, now or when the file was only ``seq`` long."""
        undone, answers = self._undone(seq), self._model(seq)
        results: dict[str, list[Replaced]] = {}
        attachments: dict[str, str] = {}
        spans: list[Span] = []
        thinking: list[tuple[int, int]] = []
        signed: dict[str, Block] = {}
        references, deletions = False, dict[str, Block]()
        for made in self._holding:
            if made.id in undone or (seq is not None and made.seq >= seq):
                continue
            match made.what:
                case Clearing(uuid=name, about=about):
                    for call in about.compacted_tool_ids:
                        results.setdefault(call, []).append(Replaced(name, PLACEHOLDER_CLEARED, made.seq))
                    attachments.update(dict.fromkeys(about.cleared_attachment_uuids, name))
                case Offload(id=name, tool_use_id=call, preview=preview):
                    results.setdefault(call, []).append(Replaced(name, preview, made.seq, words_only=True))
                case Pinned(calls=calls, record=record):
                    references = True
                    deletions = {**deletions, record: blocks.deletion(calls)} if calls else {}
                case Snip(id=name, first=first, last=last):
                    spans.append(Span(name, first, last))
                case Fold(id=name, first=first, last=last, summary=summary):
                    spans.append(Span(name, first, last, summary))
                case Signed(boundary=boundary, block=block, model=model) if not answers or model in (
                    "",
                    answers,
                ):
                    signed[boundary] = blocks.read(bytes(block))
                case Epoch(drops_thinking=True):
                    thinking.append((made.after, made.seq if made.before is None else made.before))
                case _:
                    pass
        return Effects(results, attachments, tuple(spans), tuple(thinking), references, deletions, signed)

    def since(self, seq: int) -> list[Made]:
        """Decisions that hold and were made after this place in the file."""
        return [made for made in self._holding if made.seq > seq]

    def taken_back(self, chain: Chain) -> list[tuple[int, int]]:
        """Where compactions stand that were undone or redone, and where that was decided."""
        spans = []
        for made in self.all:
            node = chain.nodes.get(made.what.decision) if isinstance(made.what, Undone) else None
            if node and isinstance(node.entry, Boundary):
                spans.append((node.seq, made.seq))
        return spans

    def prune(self, since: int) -> None:
        """Before this place keep only what holds; those decisions then hold whatever else is forgotten."""
        holding = {made.id for made in self._holding}
        self.all = [made for made in self.all if made.seq > since or made.id in holding]
        self._standing = {made.id for made in self.all if made.seq < since}

    def _holds(self, made: Made, chain: Chain, lineage: set[str]) -> bool:
        place = made.what.uuid if isinstance(made.what, Clearing) else made.what.at
        if place is None or made.id in self._standing or not (chain.complete or place in chain):
            return True
        return chain.resolve(place) in lineage

    def _model(self, seq: int | None) -> str:
        """The model that answers, as far as is known."""
        for made in reversed(self.all):
            if isinstance(made.what, Epoch) and (seq is None or made.seq < seq):
                return made.what.model
        return ""

    def _undone(self, seq: int | None) -> set[str]:
        undone: set[str] = set()
        for made in self._holding:
            if isinstance(made.what, Undone) and (seq is None or made.seq < seq):
                (undone.discard if made.what.redo else undone.add)(made.what.decision)
        return undone
