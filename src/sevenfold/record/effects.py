"""What decisions do to the records in view."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.record import blocks
from sevenfold.record.blocks import THINKING, Block
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item
from sevenfold.record.weight import NOTHING, measure, total


class Fate(Struct, frozen=True):
    """Whether the model sees a record, and what decided it."""

    state: str
    """seen, trimmed, hidden, off_branch, sidechain or unknown"""
    by: tuple[str, ...] = ()
    """The decisions that hid or trimmed it."""


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
    words_only: bool = False
    """Pictures and documents in the result stay."""

    def instead_of(self, block: Block) -> Block:
        """The result as it is shown."""
        return (
            blocks.with_words(block, self.text)
            if self.words_only
            else blocks.with_content(block, self.text)
        )


class Effects(Struct, frozen=True):
    """What is out of sight, and by which decision."""

    results: dict[str, list[Replaced]] = {}
    """By the id of the tool call, the oldest first: it is the one that holds."""
    attachments: dict[str, str] = {}
    """Record → decision that cleared it."""
    spans: tuple[Span, ...] = ()
    thinking: tuple[tuple[int, int], ...] = ()
    """Between these places in the file reasoning is no longer sent."""
    references: bool = False
    """Results carry the names they can be deleted by from the cached prefix…"""
    deletions: dict[str, Block] = {}
    """…and behind these records stands which of them are."""
    signed: dict[str, Block] = {}
    """Boundary → the provider's own summary, sent in place of the readable one, or in front of it."""


def item(said: Said, seq: int, effects: Effects) -> Item:
    """A record as the model sees it, if no span hides it."""
    made = effects.signed.get(said.parent or "") if said.summary else None
    if made is not None and not blocks.opaque(made):
        return Item(said, seq, "assistant", (made,), total((made,)))
    shown = _render(said, seq, effects)
    if made is not None:
        shown = (made, *shown)
    return Item(said, seq, said.role, shown, total(shown))


def hidden(item: Item, decision: str) -> Item:
    """The item out of sight."""
    return replace(item, shown=(), weight=NOTHING, hidden_by=decision)


def hide_spans(items: list[Item], effects: Effects) -> list[Item]:
    """All items, those of a span out of sight and its summary in the place of the first."""
    items = list(items)
    places = {item.said.uuid: number for number, item in enumerate(items)}
    for span in effects.spans:
        first, last = places.get(span.first), places.get(span.last)
        if first is None or last is None or last < first:
            continue
        items[first : last + 1] = [hidden(item, span.decision) for item in items[first : last + 1]]
        if span.summary:
            said = blocks.text(span.summary)
            items[first] = replace(items[first], role="user", shown=(said,), weight=measure(said))
    return items


def _render(said: Said, seq: int, effects: Effects) -> tuple[Block, ...]:
    if said.synthetic or said.uuid in effects.attachments:
        return ()
    drops = bool(effects.thinking) and any(after < seq < upto for after, upto in effects.thinking)
    shown: list[Block] = []
    for block in said.blocks:
        if block.blank or (drops and block.kind in THINKING):
            continue
        replaced = _replacement(block, seq, effects)
        block = replaced.instead_of(block) if replaced else block
        named = effects.references and block.kind == "tool_result"
        shown.append(blocks.referenced(block) if named else block)
    if said.uuid in effects.deletions:
        shown.append(effects.deletions[said.uuid])
    return tuple(shown)


def trims(item: Item, effects: Effects) -> set[str]:
    """The decisions that put something else in the place of a result in this record."""
    replaced = (_replacement(block, item.seq, effects) for block in item.said.blocks)
    return {one.decision for one in replaced if one}


def _replacement(block: Block, seq: int, effects: Effects) -> Replaced | None:
    """What stands for a result's content, if anything does."""
    if block.kind != "tool_result" or block.id not in effects.results:
        return None
    return next((one for one in effects.results[block.id] if seq < one.seq), None)
