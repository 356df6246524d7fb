"""What the decisions in force do to the records in view.

Decisions are kept in the order they were made. Which of them count depends on the branch (a decision
holds where the record it was made at is live) and on what was taken back since; so their effect is always
worked out from the list, for now or for any earlier moment, and never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from sevenfold.record import blocks
from sevenfold.record.blocks import PLACEHOLDER_CLEARED, THINKING, Block
from sevenfold.record.decisions import Epoch, Fold, Offload, OwnDecision, Snip, Undone
from sevenfold.record.entries import Clearing, Said


class Made(Struct, frozen=True):
    """A decision and its place in the file."""

    seq: int
    what: Clearing | OwnDecision
    after: int = -1
    """Place of the record an epoch names as the last whose reasoning stays."""

    @property
    def id(self) -> str:
        """The name it is undone by."""
        return self.what.uuid if isinstance(self.what, Clearing) else self.what.id


class Span(Struct, frozen=True):
    """Records out of sight from ``first`` to ``last``; ``summary`` stands for them unless it is empty."""

    decision: str
    first: str
    last: str
    summary: str = ""


class Replaced(Struct, frozen=True):
    """A result whose content another text stands for; results that come later are not meant."""

    decision: str
    text: str
    seq: int


class Effects(Struct, frozen=True):
    """What is out of sight, and by which decision."""

    results: dict[str, list[Replaced]] = {}
    """By the id of the tool call, the oldest first: it is the one that holds."""
    attachments: dict[str, str] = {}
    """Record → decision that cleared it."""
    spans: tuple[Span, ...] = ()
    thinking: tuple[tuple[int, int], ...] = ()
    """Between these places in the file reasoning is no longer sent."""


Counts = Callable[[Made], bool]
"""Does a decision hold on the branch in question?"""


def always(made: Made) -> bool:
    """Every decision holds."""
    return True


def changes_view(what: OwnDecision) -> bool:
    """Must the view be laid out again when this is decided?"""
    return isinstance(what, Offload | Snip | Fold | Undone) or (
        isinstance(what, Epoch) and what.drops_thinking
    )


def undone_at(decisions: Iterable[Made], counts: Counts, seq: int | None = None) -> set[str]:
    """The decisions that were taken back on this branch, now or at an earlier moment."""
    undone: set[str] = set()
    for made in decisions:
        if isinstance(made.what, Undone) and counts(made) and (seq is None or made.seq < seq):
            (undone.discard if made.what.redo else undone.add)(made.what.decision)
    return undone


def in_force(decisions: list[Made], counts: Counts, seq: int | None = None) -> Effects:
    """The effect of all decisions that count on this branch, now or when the file was only ``seq`` long."""
    undone = undone_at(decisions, counts, seq)
    results: dict[str, list[Replaced]] = {}
    attachments: dict[str, str] = {}
    spans: list[Span] = []
    thinking: list[tuple[int, int]] = []
    for made in decisions:
        if made.id in undone or (seq is not None and made.seq >= seq) or not counts(made):
            continue
        match made.what:
            case Clearing(uuid=name, about=about):
                for call in about.compacted_tool_ids:
                    results.setdefault(call, []).append(Replaced(name, PLACEHOLDER_CLEARED, made.seq))
                attachments.update(dict.fromkeys(about.cleared_attachment_uuids, name))
            case Offload(id=name, tool_use_id=call, preview=preview):
                results.setdefault(call, []).append(Replaced(name, preview, made.seq))
            case Snip(id=name, first=first, last=last):
                spans.append(Span(name, first, last))
            case Fold(id=name, first=first, last=last, summary=summary):
                spans.append(Span(name, first, last, summary))
            case Epoch(drops_thinking=True):
                thinking.append((made.after, made.seq))
            case _:
                pass
    return Effects(results, attachments, tuple(spans), tuple(thinking))


def place_of(what: Clearing | OwnDecision) -> str | None:
    """The record a decision was made at."""
    return what.uuid if isinstance(what, Clearing) else what.at


def render(said: Said, seq: int, effects: Effects) -> tuple[Block, ...]:
    """The record's blocks as the model sees them; spans are the view's affair."""
    if said.synthetic or said.uuid in effects.attachments:
        return ()
    drops = any(after < seq < upto for after, upto in effects.thinking)
    shown: list[Block] = []
    for block in said.blocks:
        if block.blank or (drops and block.kind in THINKING):
            continue
        replaced = replacement(block, seq, effects)
        shown.append(blocks.with_content(block, replaced.text) if replaced else block)
    return tuple(shown)


def replacement(block: Block, seq: int, effects: Effects) -> Replaced | None:
    """What stands for a result's content, if anything does."""
    if block.kind != "tool_result":
        return None
    return next((one for one in effects.results.get(block.id, ()) if seq < one.seq), None)
