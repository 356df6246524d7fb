"""Edits the server makes to a prompt before the model sees it; the client's history stays as it is.

First what always happens: a summary replaces what stands before it, reminders for one turn vanish, and
older models lose the thinking of finished turns. Then the edits a request asks for: thinking cleared, tool
results cleared. What was cleared is reported with the tokens it freed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.lab.simulator.conversation import Item, last_compaction, total
from sevenfold.lab.simulator.pieces import Scales
from sevenfold.profiles import Profile

Json = Mapping[str, Any]
CLEARED = "[Old tool result content cleared by the simulated server]"
DEFAULT_TRIGGER = 100_000
DEFAULT_KEEP = 3


class Edited(Struct, frozen=True):
    """Messages as the model sees them, and the account of what was cleared."""

    items: tuple[Item, ...]
    applied: tuple[Json, ...] = ()


def visible(items: Sequence[Item], messages: Sequence[Json], profile: Profile) -> tuple[Item, ...]:
    """What of the messages is shown to the model before any requested edit."""
    begin = max(0, last_compaction(items))
    last_user = max((n for n, message in enumerate(messages) if message["role"] == "user"), default=-1)
    forgotten = -1 if profile.thinking.kept else _last_spoken(items)

    def shown(item: Item) -> bool:
        if item.role == "system" and messages[item.message].get("clear_at") == "next_user_message":
            return item.message > last_user
        return not (item.is_thinking and item.message < forgotten)

    return tuple(item for item in items[begin:] if shown(item))


def apply_edits(
    head: int, items: tuple[Item, ...], config: Json | None, profile: Profile, scales: Scales
) -> Edited:
    """Apply the clearing edits a request asks for; ``head`` is the size of system and tools."""
    applied: list[Json] = []
    for edit in (config or {}).get("edits") or ():
        if edit["type"] == "clear_thinking_20251015":
            items, report = _clear_thinking(items, edit, profile)
        elif edit["type"] == "clear_tool_uses_20250919":
            items, report = _clear_tool_uses(head, items, edit, profile, scales)
        else:
            continue
        applied += [report] if report else []
    return Edited(items, tuple(applied))


def _last_spoken(items: Sequence[Item]) -> int:
    """The last message in which the user says something besides tool results."""
    spoken = (item.message for item in items if item.role == "user" and item.kind != "tool_result")
    return max(spoken, default=-1)


def _clear_thinking(
    items: tuple[Item, ...], edit: Json, profile: Profile
) -> tuple[tuple[Item, ...], Json | None]:
    keep = edit.get("keep") or ("all" if profile.thinking.kept else {"value": 1})
    if not isinstance(keep, dict) or keep.get("type") == "all":
        return items, None
    turns = sorted({item.message for item in items if item.is_thinking})
    kept_turns = set(turns[-int(keep["value"]) :])
    kept = tuple(item for item in items if not item.is_thinking or item.message in kept_turns)
    if len(kept) == len(items):
        return items, None
    return kept, {
        "type": edit["type"],
        "cleared_thinking_turns": len(turns) - len(kept_turns),
        "cleared_input_tokens": total(items) - total(kept),
    }


def _clear_tool_uses(
    head: int, items: tuple[Item, ...], edit: Json, profile: Profile, scales: Scales
) -> tuple[tuple[Item, ...], Json | None]:
    calls = {item.block["id"]: item for item in items if item.kind == "tool_use"}
    trigger = edit.get("trigger") or {"type": "input_tokens", "value": DEFAULT_TRIGGER}
    reached = len(calls) if trigger["type"] == "tool_uses" else head + total(items)
    keep = (edit.get("keep") or {}).get("value", DEFAULT_KEEP)
    old = list(calls)[: max(0, len(calls) - keep)]
    excluded = set(edit.get("exclude_tools") or ())
    targets = {name for name in old if calls[name].block["name"] not in excluded}
    if reached <= trigger["value"] or not targets:
        return items, None
    cleared = tuple(_cleared(item, targets, calls, edit, profile, scales) for item in items)
    freed = total(items) - total(cleared)
    if freed < ((edit.get("clear_at_least") or {}).get("value") or 1):
        return items, None
    return cleared, {
        "type": edit["type"],
        "cleared_tool_uses": len(targets),
        "cleared_input_tokens": freed,
    }


def _cleared(
    item: Item, targets: set[str], calls: Mapping[str, Item], edit: Json, profile: Profile, scales: Scales
) -> Item:
    if item.kind == "tool_result" and item.block["tool_use_id"] in targets:
        return _saying(item, {**item.block, "content": CLEARED}, profile, scales)
    inputs = edit.get("clear_tool_inputs") or False
    named = inputs is True or (item.kind == "tool_use" and inputs and item.block["name"] in inputs)
    if item.kind == "tool_use" and named and item.block["id"] in targets:
        return _saying(item, {**item.block, "input": {}}, profile, scales)
    return item


def _saying(item: Item, block: Json, profile: Profile, scales: Scales) -> Item:
    """The item with other content; what a cleared block no longer says it no longer costs."""
    piece = scales.weigh(block, profile.tokenizer, item.role)
    opens = scales.counter.per_message if item.index == 0 else 0
    return replace(item, block=block, piece=replace(piece, tokens=piece.tokens + opens))
