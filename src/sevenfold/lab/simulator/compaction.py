"""Summaries the server makes: on demand, as a signed block, and at a threshold, unsigned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sevenfold.lab.rules.base import Json, Turn, blocks_of, is_directive, turns
from sevenfold.lab.rules.tools import pending_server_calls
from sevenfold.lab.simulator.errors import invalid
from sevenfold.lab.simulator.prompt import RequestPrompt
from sevenfold.lab.simulator.thinking import Binder, Bindings, SummarySeal
from sevenfold.lab.simulator.tokens import digest, value_digest
from sevenfold.profiles import COMPACT, Profile

DEFAULT_TRIGGER = 150_000
MOST_TOOLS = 1_000


def check_range(messages: Sequence[Json]) -> None:
    """Raise when the messages of a compaction request cannot be summarised."""
    found = turns(messages)
    spoken = [
        part for turn in found if turn.role != "system" for part in turn.blocks if part.kind != "compaction"
    ]
    if not spoken:
        code = "nothing_to_summarize"
        words = "`messages` holds no `user` or `assistant` content to summarize."
    elif _unfinished(found[-1]):
        code = "incomplete_turn"
        words = "The compaction request ends on an `assistant` turn that is not finished."
    elif len({part.block.get("name") for part in spoken if part.kind == "tool_use"}) > MOST_TOOLS:
        code = "too_many_tool_references"
        words = "The conversation references more distinct tools than a `compaction` block can record."
    else:
        return
    raise invalid(words, code=f"compaction_{code}")


def check_signed_block(prompt: RequestPrompt, binder: Binder) -> None:
    """Raise when a request continues from a summary that is not the one the server gave."""
    for item in prompt.items:
        if item.kind != "compaction" or not item.block.get("signature"):
            continue
        seal = binder.open(item.block["signature"], SummarySeal)
        if seal is None:
            code, words = "signature_invalid", "`signature` does not verify."
        elif seal.content != digest(str(item.block.get("content")).encode()):
            code, words = "content_mismatch", "`content` differs from the text its `signature` recorded."
        elif seal.changes != value_digest(item.block.get("tool_changes")):
            code = "tool_changes_mismatch"
            words = "`tool_changes` differs from what was returned with the block."
        else:
            continue
        raise invalid(f"{item.path}: The `compaction` block's {words}", code=f"compaction_{code}")


def signed_block(
    summary: str, prompt: RequestPrompt, at: Bindings, binder: Binder, profile: Profile
) -> dict[str, Any]:
    """The block that can replace everything a request said."""
    changes = tool_changes(prompt.messages)
    spoken = [message for message in prompt.messages if not is_directive(message)]
    seal = SummarySeal(
        profile.name,
        binder.organisation,
        profile.thinking.bound,
        digest(summary.encode()),
        value_digest(changes),
        *prompt.seals,
        at.prefixes,
        str(spoken[-1]["role"]),
    )
    return {
        "type": "compaction",
        "content": summary,
        "signature": binder.seal(seal),
        "tool_changes": changes,
    }


def tool_changes(messages: Sequence[Json]) -> list[Json]:
    """The latest addition or removal of each tool in a range of messages."""
    last: dict[str, Json] = {}
    for message in messages:
        for block in blocks_of(message):
            earlier = block.get("tool_changes") or () if block.get("type") == "compaction" else ()
            for change in (*earlier, block):
                if change.get("type") in ("tool_addition", "tool_removal"):
                    tool = change["tool"]
                    name = str(tool.get("name") or (tool.get("definition") or {}).get("name"))
                    last.pop(name, None)
                    last[name] = {key: value for key, value in change.items() if key != "cache_control"}
    return list(last.values())


def due_summary(config: Json | None, tokens: int) -> Json | None:
    """The edit that asks for a summary at a threshold, if a prompt of so many tokens has reached it."""
    for edit in (config or {}).get("edits") or ():
        if edit["type"] == COMPACT:
            return edit if tokens >= (edit.get("trigger") or {}).get("value", DEFAULT_TRIGGER) else None
    return None


def _unfinished(turn: Turn) -> bool:
    """Whether an answer waits for a tool, of the client or of the server."""
    if turn.role != "assistant":
        return False
    return bool(pending_server_calls(turn)) or any(part.kind == "tool_use" for part in turn.blocks)
