"""A request's prompt taken apart: tools, system and messages as items that can be weighed and hashed.

---

Edits the server makes to a prompt before the model sees it; the client's history stays as it is.

First what always happens: a summary replaces what stands before it, reminders for one turn vanish, and
older models lose the thinking of finished turns. Then the edits a request asks for: thinking cleared, tool
results cleared. What was cleared is reported with the tokens it freed.


---

An extension of the simulator's own, off unless switched on: deleting from a cached prefix by reference.

No public API has this. A tool result may carry a `cache_reference`; a `cache_edits` block in a later
message names references to delete. What is deleted is no longer shown or charged, while the prefix keeps
its hash, so the cache holds. The block has to be sent again at its place, or the prefix is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.lab.simulator.errors import invalid
from sevenfold.lab.simulator.tokens import BlockDigest, Scales, digest
from sevenfold.profiles import Profile
from sevenfold.record.rules.base import THINKING, blocks_of
from sevenfold.record.rules.cache import lifetime

Json = Mapping[str, Any]


class PromptPart(Struct, frozen=True):
    """One part of a prompt: a tool, a system block or a content block."""

    path: str
    role: str
    """``tools``, ``system`` or the role of the message."""
    kind: str
    block: Json
    piece: BlockDigest
    ttl: str | None = None
    """The lifetime its cache marker asks for."""
    message: int = -1
    index: int = -1

    @property
    def tokens(self) -> int:
        """What it costs in the window."""
        return self.piece.tokens

    @property
    def is_thinking(self) -> bool:
        """Whether it is reasoning, readable or not."""
        return self.kind in THINKING


class RequestPrompt(Struct, frozen=True):
    """Everything a request says, in the order it is hashed."""

    tools: tuple[PromptPart, ...]
    system: tuple[PromptPart, ...]
    items: tuple[PromptPart, ...]
    """The blocks of all messages."""
    messages: Sequence[Json]
    seals: tuple[bytes, bytes]
    """Digests of system and tools, as thinking is bound to them."""


def read_conversation(body: Json, scales: Scales, generation: str) -> RequestPrompt:
    """Take a request body apart; blocks are weighed in the tokens of one generation."""
    tools = tuple(_tools(body.get("tools") or (), scales, generation))
    system = tuple(_system(body.get("system") or (), scales, generation))
    messages: Sequence[Json] = body.get("messages") or ()
    items = tuple(_content(messages, scales, generation))
    seals = (
        digest(*[item.piece.digest for item in system]),
        digest(*[item.piece.digest for item in tools]),
    )
    return RequestPrompt(tools, system, items, messages, seals)


def marker(block: Json) -> str | None:
    """The lifetime a block's marker asks for, or that of a marker inside its content."""
    if (control := block.get("cache_control")) is not None:
        return lifetime(control)
    if block.get("type") == "tool_result" and isinstance(content := block.get("content"), list):
        for inner in content:
            if isinstance(inner, dict) and inner.get("cache_control") is not None:
                return lifetime(inner["cache_control"])
    return None


def last_compaction(items: Sequence[PromptPart]) -> int:
    """The place of the last summary that replaces what stands before it; -1 when there is none."""
    for place in reversed(range(len(items))):
        if items[place].kind == "compaction" and items[place].block.get("content"):
            return place
    return -1


def total(items: Iterable[PromptPart]) -> int:
    """The tokens of some items."""
    return sum(item.tokens for item in items)


def _tools(tools: Iterable[Json], scales: Scales, generation: str) -> Iterator[PromptPart]:
    """Deferred tools are not part of the prompt until something refers to them."""
    loaded = [(index, tool) for index, tool in enumerate(tools) if not tool.get("defer_loading")]
    for place, (index, tool) in enumerate(loaded):
        piece = scales.weigh({**tool, "type": str(tool.get("type") or "custom")}, generation, "tools")
        if place == 0:
            piece = replace(piece, tokens=piece.tokens + scales.counter.tool_prompt)
        yield PromptPart(f"tools.{index}", "tools", "tool", tool, piece, marker(tool))


def _system(system: str | Sequence[Json], scales: Scales, generation: str) -> Iterator[PromptPart]:
    for index, block in enumerate(blocks_of({"content": system})):
        piece = scales.weigh(block, generation, "system")
        yield PromptPart(f"system.{index}", "system", "text", block, piece, marker(block))


def _content(messages: Sequence[Json], scales: Scales, generation: str) -> Iterator[PromptPart]:
    extra = scales.counter.per_message
    for number, message in enumerate(messages):
        role = str(message["role"])
        tag = (
            role if role != "system" else f"system {message.get('clear_at')} {message.get('output_config')}"
        )
        for index, block in enumerate(blocks_of(message)):
            if block.get("type") == "compaction" and block.get("content") is None:
                continue  # a summary that failed stands for nothing
            piece = scales.weigh(block, generation, tag)
            if index == 0:
                piece = BlockDigest(piece.digest, piece.tokens + extra)
            path = f"messages.{number}.content.{index}"
            yield PromptPart(
                path, role, str(block.get("type", "")), block, piece, marker(block), number, index
            )


CLEARED = "[Old tool result content cleared by the simulated server]"
DEFAULT_TRIGGER = 100_000
DEFAULT_KEEP = 3


class Edited(Struct, frozen=True):
    """Messages as the model sees them, and the account of what was cleared."""

    items: tuple[PromptPart, ...]
    applied: tuple[Json, ...] = ()


def visible(
    items: Sequence[PromptPart], messages: Sequence[Json], profile: Profile
) -> tuple[PromptPart, ...]:
    """What of the messages is shown to the model before any requested edit."""
    begin = max(0, last_compaction(items))
    last_user = max((n for n, message in enumerate(messages) if message["role"] == "user"), default=-1)
    forgotten = -1 if profile.thinking.kept else _last_spoken(items)

    def shown(item: PromptPart) -> bool:
        if item.role == "system" and messages[item.message].get("clear_at") == "next_user_message":
            return item.message > last_user
        return not (item.is_thinking and item.message < forgotten)

    return tuple(item for item in items[begin:] if shown(item))


def apply_edits(
    head: int, items: tuple[PromptPart, ...], config: Json | None, profile: Profile, scales: Scales
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


def _last_spoken(items: Sequence[PromptPart]) -> int:
    """The last message in which the user says something besides tool results."""
    spoken = (item.message for item in items if item.role == "user" and item.kind != "tool_result")
    return max(spoken, default=-1)


def _clear_thinking(
    items: tuple[PromptPart, ...], edit: Json, profile: Profile
) -> tuple[tuple[PromptPart, ...], Json | None]:
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
    head: int, items: tuple[PromptPart, ...], edit: Json, profile: Profile, scales: Scales
) -> tuple[tuple[PromptPart, ...], Json | None]:
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
    item: PromptPart,
    targets: set[str],
    calls: Mapping[str, PromptPart],
    edit: Json,
    profile: Profile,
    scales: Scales,
) -> PromptPart:
    if item.kind == "tool_result" and item.block["tool_use_id"] in targets:
        return _saying(item, {**item.block, "content": CLEARED}, profile, scales)
    inputs = edit.get("clear_tool_inputs") or False
    named = inputs is True or (item.kind == "tool_use" and inputs and item.block["name"] in inputs)
    if item.kind == "tool_use" and named and item.block["id"] in targets:
        return _saying(item, {**item.block, "input": {}}, profile, scales)
    return item


def _saying(item: PromptPart, block: Json, profile: Profile, scales: Scales) -> PromptPart:
    """The item with other content; what a cleared block no longer says it no longer costs."""
    piece = scales.weigh(block, profile.tokenizer, item.role)
    opens = scales.counter.per_message if item.index == 0 else 0
    return replace(item, block=block, piece=replace(piece, tokens=piece.tokens + opens))


def deleted_references(items: Sequence[PromptPart]) -> frozenset[str]:
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


def without_deleted(
    items: Sequence[PromptPart], gone: frozenset[str]
) -> tuple[tuple[PromptPart, ...], int]:
    """The items with deleted results at no cost, and how many tokens that saves."""
    kept = tuple(
        replace(item, piece=replace(item.piece, tokens=0))
        if item.block.get("cache_reference") in gone
        else item
        for item in items
    )
    saved = sum(one.tokens - other.tokens for one, other in zip(items, kept, strict=True))
    return kept, saved
