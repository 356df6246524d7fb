"""Rules about tool calls and their results: every call answered at once, every result asked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from sevenfold.lab.rules.base import Placed, Refusal, Turn, is_server_result
from sevenfold.record.wire import SERVER_CALLS


def tool_refusals(turns: list[Turn]) -> Iterator[Refusal]:
    """Everything the server would refuse about calls and results."""
    yield from _doubled_calls(turns)
    yield from _orphan_server_results(turns)
    for number, turn in enumerate(turns):
        before = turns[number - 1] if number else None
        after = turns[number + 1] if number + 1 < len(turns) else None
        if turn.role == "assistant":
            yield from _unanswered(turn, after)
            yield from _talk_while_pending(turn, after)
        if turn.role == "user":
            yield from _unasked(turn, before)


def _calls_of(turn: Turn | None) -> dict[str, Placed]:
    """The tool calls of a turn by id."""
    parts = turn.blocks if turn is not None and turn.role == "assistant" else ()
    return {part.id: part for part in parts if part.kind == "tool_use"}


def pending_server_calls(turn: Turn) -> list[Placed]:
    """Calls to the server's own tools that have no result in the same turn."""
    answered = {part.id for part in turn.blocks if is_server_result(part.kind)}
    return [part for part in turn.blocks if part.kind in SERVER_CALLS and part.id not in answered]


def _doubled_calls(turns: list[Turn]) -> Iterator[Refusal]:
    seen: set[str] = set()
    for part in (part for turn in turns for part in turn.blocks if part.kind == "tool_use"):
        if part.id in seen:
            yield Refusal.at(part.path, "`tool_use` ids must be unique", "tool_use_doubled")
        seen.add(part.id)


def _orphan_server_results(turns: list[Turn]) -> Iterator[Refusal]:
    """Results of the server's own tools that no earlier call asked for."""
    asked: set[str] = set()
    for part in (part for turn in turns if turn.role == "assistant" for part in turn.blocks):
        if part.kind in SERVER_CALLS:
            asked.add(part.id)
        elif is_server_result(part.kind) and part.id not in asked:
            call = "mcp_tool_use" if part.kind == "mcp_tool_result" else "server_tool_use"
            yield Refusal.at(
                part.path,
                f"unexpected `tool_use_id` found in `{part.kind}` blocks: {part.id}. "
                f"Each `{part.kind}` block must have a corresponding `{call}` block before it.",
                "server_result_orphan",
            )


def _unanswered(turn: Turn, after: Turn | None) -> Iterator[Refusal]:
    replies = after.blocks if after is not None and after.role == "user" else ()
    # Only the results that the reply opens with count as answers.
    answered = {part.id for part in takewhile(lambda part: part.kind == "tool_result", replies)}
    missing: dict[int, list[str]] = {}
    for name, part in _calls_of(turn).items():
        if name not in answered:
            missing.setdefault(part.message, []).append(name)
    for message, names in missing.items():
        yield Refusal.at(
            f"messages.{message}",
            "`tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(names)}. Each `tool_use` block must have a corresponding `tool_result` block "
            "in the next message.",
            "tool_use_unanswered",
        )


def _unasked(turn: Turn, before: Turn | None) -> Iterator[Refusal]:
    calls = _calls_of(before)
    seen: set[str] = set()
    for part in (part for part in turn.blocks if part.kind == "tool_result"):
        name = part.id
        call = calls.get(name)
        if call is None:
            yield Refusal.at(
                part.path,
                f"unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
                "tool_result_orphan",
            )
        elif name in seen:
            words = "each tool_use must have a single result. Found multiple `tool_result` blocks with id"
            yield Refusal.at(part.path, f"{words}: {name}", "tool_result_doubled")
        elif (found := part.block.get("toolset_name")) != (wanted := call.block.get("toolset_name")):
            words = f"must repeat the `toolset_name` of its `tool_use` block: expected {wanted!r}, found {found!r}"
            yield Refusal.at(f"{part.path}.toolset_name", words, "toolset_name")
        seen.add(name)


def _talk_while_pending(turn: Turn, after: Turn | None) -> Iterator[Refusal]:
    replies = after.blocks if after is not None and after.role == "user" else ()
    said = [part for part in replies if part.kind != "tool_result"]
    if said and pending_server_calls(turn):
        words = "while a `server_tool_use` is pending, the reply may contain only `tool_result` blocks"
        yield Refusal.at(said[0].path, words, "server_tool_pending")
