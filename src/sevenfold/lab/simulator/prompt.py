"""The prompt of a Messages request: its parts, and the edits the server makes before the model sees them.

Some edits always apply: a summary replaces everything before it, reminders for one turn disappear, and older models
lose the thinking of finished turns. Others are made on request: they clear old thinking or old tool results, and the
answer reports how many tokens they freed. The client's history is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.lab.rules.base import Json, blocks_of, kind_of, placed
from sevenfold.lab.rules.cache import Prompt, controls, last_markable, lifetime
from sevenfold.lab.simulator.errors import invalid
from sevenfold.lab.simulator.tokens import Scales, digest
from sevenfold.lab.simulator.tool_search import references
from sevenfold.profiles import Profile
from sevenfold.record.blocks import THINKING

CLEARED = "[Old tool result content cleared by the simulated server]"
DEFAULT_TRIGGER = 100_000
DEFAULT_KEEP = 3


class PromptPart(Struct, frozen=True):
    """One part of a prompt: a tool, a system block or a content block."""

    path: str
    role: str
    """``tools``, ``system`` or the role of the message."""
    kind: str
    block: Json
    digest: bytes
    tokens: int
    ttl: str | None = None
    """The lifetime its cache marker asks for; None without a marker."""
    message: int = -1
    index: int = -1

    @property
    def is_thinking(self) -> bool:
        """Whether the part is thinking, redacted or not."""
        return self.kind in THINKING


Parts = tuple[PromptPart, ...]


class RequestPrompt(Struct, frozen=True):
    """The parts of a request, in the order they are hashed."""

    tools: Parts
    system: Parts
    items: Parts
    """The blocks of all messages."""
    messages: Sequence[Json]
    seals: tuple[bytes, bytes]
    """Digests of system and tools, to which thinking is bound."""


def read_prompt(body: Json, scales: Scales, generation: str) -> RequestPrompt:
    """Split a request body into parts, sized in tokens of one tokenizer generation."""
    messages: Sequence[Json] = body.get("messages") or ()
    automatic = body.get("cache_control")
    last = ""
    if automatic is not None:
        last = last_markable(Prompt(messages, body.get("tools") or (), body.get("system") or ()))

    deferred = {str(tool["name"]): tool for tool in body.get("tools") or () if tool.get("defer_loading")}

    def part(
        path: str,
        role: str,
        block: Json,
        *,
        tag: str = "",
        extra_tokens: int = 0,
        at: tuple[int, int] = (-1, -1),
    ) -> PromptPart:
        loaded = [deferred[name] for name in references(block) if name in deferred]
        for tool in loaded:
            # The definition is read where it is referred to, so it counts there, and a change of it breaks the cache.
            definition = scales.weigh(tool, generation, "tools")
            extra_tokens += definition.tokens
            tag = f"{tag or role} {definition.digest.hex()}"
        name, tokens = scales.weigh(block, generation, tag or role)
        marks = [automatic] if path == last else controls(block)
        ttl = lifetime(marks[0]) if marks else None
        return PromptPart(path, role, kind_of(block), block, name, tokens + extra_tokens, ttl, *at)

    # Deferred tools are not part of the prompt until something refers to them.
    loaded = [pair for pair in enumerate(body.get("tools") or ()) if not pair[1].get("defer_loading")]
    typed = [(index, {**tool, "type": tool.get("type") or "custom"}) for index, tool in loaded]
    tools = tuple(
        part(f"tools.{index}", "tools", tool, extra_tokens=0 if position else scales.counter.tool_prompt)
        for position, (index, tool) in enumerate(typed)
    )
    blocks = enumerate(blocks_of({"content": body.get("system")}))
    system = tuple(part(f"system.{index}", "system", block) for index, block in blocks)
    items = []
    for placed_block in placed(enumerate(messages)):
        if placed_block.kind == "compaction" and placed_block.block.get("content") is None:
            continue  # A failed summary replaces nothing.
        message = messages[placed_block.message]
        opens = scales.counter.per_message if placed_block.index == 0 else 0
        role = tag = str(message["role"])
        if role == "system":
            tag = f"system {message.get('clear_at')} {message.get('output_config')}"
        items.append(
            part(
                placed_block.path,
                role,
                placed_block.block,
                tag=tag,
                extra_tokens=opens,
                at=(placed_block.message, placed_block.index),
            )
        )
    seals = digest(*[part.digest for part in system]), digest(*[part.digest for part in tools])
    return RequestPrompt(tools, system, tuple(items), messages, seals)


def last_compaction(items: Sequence[PromptPart]) -> int:
    """The index of the last summary that has content and so replaces everything before it; -1 if there is none."""
    summaries = (
        index for index, item in enumerate(items) if item.kind == "compaction" and item.block.get("content")
    )
    return max(summaries, default=-1)


def total(parts: Iterable[PromptPart]) -> int:
    """The total tokens of some parts."""
    return sum(part.tokens for part in parts)


def visible(items: Parts, messages: Sequence[Json], profile: Profile) -> tuple[Parts, int]:
    """The message parts the model sees before any requested edit, and the tokens saved by deletions."""
    last_user = max(
        (index for index, message in enumerate(messages) if message["role"] == "user"), default=-1
    )
    spoken = (item.message for item in items if item.role == "user" and item.kind != "tool_result")
    forgotten = -1 if profile.thinking.kept else max(spoken, default=-1)

    def shown(item: PromptPart) -> bool:
        if item.role == "system" and messages[item.message].get("clear_at") == "next_user_message":
            return item.message > last_user
        return not (item.is_thinking and item.message < forgotten)

    visible_items = tuple(item for item in items[max(0, last_compaction(items)) :] if shown(item))
    return _without_deleted(visible_items, items)


def apply_edits(
    head: int, items: Parts, config: Json | None, profile: Profile, scales: Scales, *, holds: bool = False
) -> tuple[Parts, tuple[Json, ...]]:
    """Apply the edits a request asks for; returns the edited parts and a report of each edit that cleared anything.

    ``head`` is the size of system and tools; ``holds`` is `Setup.edits_hold`.
    """
    applied: list[Json] = []
    for edit in (config or {}).get("edits") or ():
        unedited = items
        report = dict[str, int]()
        if edit["type"] == "clear_thinking_20251015":
            items, report = _clear_thinking(items, edit, profile)
        elif edit["type"] == "clear_tool_uses_20250919":
            smaller = [_smaller(item, edit, profile, scales) for item in items]
            items, report = _clear_tool_uses(head, items, smaller, edit, holds=holds)
        if report:
            freed = total(unedited) - total(items)
            applied.append({"type": edit["type"], **report, "cleared_input_tokens": freed})
    return items, tuple(applied)


def _clear_thinking(items: Parts, edit: Json, profile: Profile) -> tuple[Parts, dict[str, int]]:
    keep = edit.get("keep") or ("all" if profile.thinking.kept else {"value": 1})
    if not isinstance(keep, dict) or keep.get("type") == "all":
        return items, {}
    turns = sorted({item.message for item in items if item.is_thinking})
    kept_turns = set(turns[-int(keep["value"]) :])
    remaining = tuple(item for item in items if not item.is_thinking or item.message in kept_turns)
    report = {"cleared_thinking_turns": len(turns) - len(kept_turns)}
    return remaining, report if len(remaining) < len(items) else {}


def _clear_tool_uses(
    head: int, items: Parts, smaller: Sequence[PromptPart], edit: Json, *, holds: bool
) -> tuple[Parts, dict[str, int]]:
    """The parts after the edit, and its report, which is empty if it cleared nothing."""
    trigger = edit.get("trigger") or {"type": "input_tokens", "value": DEFAULT_TRIGGER}
    keep = (edit.get("keep") or {}).get("value", DEFAULT_KEEP)
    least_gain = (edit.get("clear_at_least") or {}).get("value") or 1
    gains: dict[str | None, int] = {}
    for part, cleared in zip(items, smaller, strict=True):
        gains[_call(part)] = gains.get(_call(part), 0) + part.tokens - cleared.tokens
    size = head
    calls = dict[str, str]()
    """The tool of each call so far, by the call's id."""
    targets = list[str]()
    """The calls that are cleared."""
    freed = 0
    for index, item in enumerate((*items, None)):
        # An earlier request ended before each assistant turn, so what each of them cleared can be recomputed.
        answered = item is not None and item.role == "assistant" and index > 0
        ends = item is None or (holds and answered and items[index - 1].role != "assistant")
        reached = len(calls) - len(targets) if trigger["type"] == "tool_uses" else size - freed
        if ends and reached > trigger["value"]:
            clearable = list(calls)[: max(0, len(calls) - keep)]
            allowed = [call for call in clearable if calls[call] not in (edit.get("exclude_tools") or ())]
            gain = sum(gains[call] for call in allowed)
            if gain - freed >= least_gain:
                targets = allowed
                freed = gain
        size += item.tokens if item else 0
        if item and item.kind == "tool_use":
            calls[item.block["id"]] = item.block["name"]
    cleared_calls = set(targets)
    edited = (
        cleared if _call(part) in cleared_calls else part
        for part, cleared in zip(items, smaller, strict=True)
    )
    return tuple(edited), {"cleared_tool_uses": len(targets)} if targets else {}


def _smaller(item: PromptPart, edit: Json, profile: Profile, scales: Scales) -> PromptPart:
    """A tool call or result as an edit clears it; any other part unchanged."""
    inputs = edit.get("clear_tool_inputs") or ()
    if item.kind == "tool_result":
        block = {**item.block, "content": CLEARED}
    elif item.kind == "tool_use" and (inputs is True or item.block["name"] in inputs):
        block = {**item.block, "input": {}}
    else:
        return item
    name, tokens = scales.weigh(block, profile.tokenizer, item.role)
    opens = scales.counter.per_message if item.index == 0 else 0
    return replace(item, block=block, digest=name, tokens=tokens + opens)


def _call(item: PromptPart) -> str | None:
    """The id of the tool call a part belongs to, if any."""
    name = {"tool_use": "id", "tool_result": "tool_use_id"}.get(item.kind)
    return str(item.block[name]) if name else None


def _without_deleted(shown: Parts, items: Parts) -> tuple[Parts, int]:
    """The parts with deleted results at no cost, and how many tokens that saves; raises for an unknown reference.

    This is an extension of the simulator, off by default, that no public API has: a tool result may carry a
    `cache_reference`, and a `cache_edits` block in a later message deletes results by reference. Deleted results are no
    longer charged (brains still see them), but the prefix keeps its hash, so the cache stays valid. Later requests must
    contain the block in the same place, or their prefix differs.
    """
    references = {item.block["cache_reference"] for item in items if item.block.get("cache_reference")}
    deleted: set[object] = set()
    for item in (item for item in items if item.kind == "cache_edits"):
        for index, edit in enumerate(item.block["edits"]):
            reference = edit.get("cache_reference") if isinstance(edit, dict) else None
            if not isinstance(edit, dict) or edit.get("type") != "delete" or reference not in references:
                raise invalid(f"{item.path}.cache_edits.edits.{index}: no result has that cache_reference")
            deleted.add(reference)
    charged = tuple(
        replace(part, tokens=0) if part.block.get("cache_reference") in deleted else part for part in shown
    )
    return charged, total(shown) - total(charged)
