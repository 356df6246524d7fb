"""What decisions do to the records in view."""

from __future__ import annotations

from msgspec import Struct

from sevenfold.record import blocks
from sevenfold.record.blocks import THINKING, Block
from sevenfold.record.entries import Said


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
