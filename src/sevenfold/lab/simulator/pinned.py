"""An extension of the simulator's own, off unless switched on: deleting from a cached prefix by reference.

No public API has this. A tool result may carry a `cache_reference`; a `cache_edits` block in a later
message names references to delete. What is deleted is no longer shown or charged, while the prefix keeps
its hash, so the cache holds. The block has to be sent again at its place, or the prefix is another.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from sevenfold.lab.simulator.conversation import Item
from sevenfold.lab.simulator.errors import invalid


def deleted_references(items: Sequence[Item]) -> frozenset[str]:
    """The references that are to be deleted; an unknown one is refused."""
    known = {item.block["cache_reference"] for item in items if item.block.get("cache_reference")}
    wanted: set[str] = set()
    for item in (item for item in items if item.kind == "cache_edits"):
        for place, edit in enumerate(item.block["edits"]):
            reference = edit.get("cache_reference") if isinstance(edit, dict) else None
            if not isinstance(edit, dict) or edit.get("type") != "delete" or reference not in known:
                raise invalid(f"{item.path}.cache_edits.edits.{place}: no result has that cache_reference")
            wanted.add(str(reference))
    return frozenset(wanted)


def without_deleted(items: Sequence[Item], gone: frozenset[str]) -> tuple[tuple[Item, ...], int]:
    """The items with deleted results at no cost, and how many tokens that saves."""
    kept = tuple(
        replace(item, piece=replace(item.piece, tokens=0))
        if item.block.get("cache_reference") in gone
        else item
        for item in items
    )
    saved = sum(one.tokens - other.tokens for one, other in zip(items, kept, strict=True))
    return kept, saved
