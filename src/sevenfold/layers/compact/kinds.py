"""What a compaction summarised, by kind: who said it, and what it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from sevenfold.record.authorship import is_users
from sevenfold.record.layout import Item
from sevenfold.record.weight import NOTHING, Weight, measure

Tokens = Callable[[Weight], float]
"""Converts a weight to tokens."""


class KindCounts(Struct, frozen=True):
    """How many messages or blocks of each kind a compaction summarised, and their estimated tokens."""

    user_messages: int = 0
    user_tokens: int = 0
    assistant_messages: int = 0
    """Answers of the model; its calls are counted apart."""
    assistant_tokens: int = 0
    calls: int = 0
    call_tokens: int = 0
    results: int = 0
    result_tokens: int = 0
    """Without the images in them."""
    attachments: int = 0
    """What a program added: attachments, reminders, earlier summaries."""
    attachment_tokens: int = 0
    images: int = 0
    """Pictures and pages of PDF files, those in tool results too."""
    image_tokens: int = 0


def by_kind(items: Iterable[Item], tokens: Tokens) -> KindCounts:
    """Count these records by kind."""
    counts = dict.fromkeys(("user", "assistant", "call", "result", "attachment", "image"), 0)
    weights = dict.fromkeys(counts, NOTHING)
    for item in items:
        author = _author(item)
        spoke = False
        for block in item.shown:
            weight = measure(block)
            pictures = _pictures(weight)
            kind = {"tool_use": "call", "tool_result": "result"}.get(block.kind, author)
            counts["image"] += weight.images
            weights["image"] += pictures
            weights[kind] += weight - pictures
            counts[kind] += kind != author
            spoke = spoke or kind == author
        counts[author] += spoke
    sizes = {kind: round(tokens(weight)) for kind, weight in weights.items()}
    return KindCounts(
        user_messages=counts["user"],
        user_tokens=sizes["user"],
        assistant_messages=counts["assistant"],
        assistant_tokens=sizes["assistant"],
        calls=counts["call"],
        call_tokens=sizes["call"],
        results=counts["result"],
        result_tokens=sizes["result"],
        attachments=counts["attachment"],
        attachment_tokens=sizes["attachment"],
        images=counts["image"],
        image_tokens=sizes["image"],
    )


def _pictures(weight: Weight) -> Weight:
    """The part of a weight that is pictures and pages."""
    return Weight(
        images=weight.images,
        patches=weight.patches,
        fine_patches=weight.fine_patches,
        half_tiles=weight.half_tiles,
        pages=weight.pages,
        unseen=weight.unseen,
    )


def _author(item: Item) -> str:
    if item.record.role == "assistant":
        return "assistant"
    return "user" if is_users(item.record) else "attachment"
