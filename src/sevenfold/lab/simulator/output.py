"""How far an answer gets: stop sequences, the caller's limit, and the end of the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from sevenfold.lab.simulator.brains import Reply
from sevenfold.lab.simulator.tokens import Counter

Json = Mapping[str, Any]


class Output(Struct, frozen=True):
    """An answer as it goes out."""

    blocks: tuple[Json, ...]
    stop_reason: str
    stop_sequence: str | None
    tokens: int
    thinking_tokens: int


class Room(Struct, frozen=True):
    """How many tokens an answer may have."""

    asked: int
    """The caller's `max_tokens`."""
    window: int
    """What is left of the window."""


def limit(reply: Reply, stops: Sequence[str], room: Room, counter: Counter, generation: str) -> Output:
    """Cut a reply where a stop sequence, the caller or the window ends it."""
    blocks, stopped = _stop(reply.blocks, stops)
    most = min(room.asked, room.window)
    kept: list[Json] = []
    used = thought = 0
    cut = False
    for block in blocks:
        size = counter.tokens(counter.measure(block), generation)
        if used + size > most:
            cut = True
            block = _shorten(block, most - used, counter, generation)
            size = counter.tokens(counter.measure(block), generation) if block else 0
        if block:
            kept.append(block)
            used += size
            thought += size if block["type"] == "thinking" else 0
        if cut:
            reason = "max_tokens" if room.asked <= room.window else "model_context_window_exceeded"
            return Output(tuple(kept), reason, None, used, thought)
    if stopped is not None:
        return Output(tuple(kept), "stop_sequence", stopped, used, thought)
    calls = any(block["type"] == "tool_use" for block in kept)
    reason = reply.stop_reason or ("tool_use" if calls else "end_turn")
    return Output(tuple(kept), reason, None, used, thought)


def _stop(blocks: Sequence[Json], stops: Sequence[str]) -> tuple[list[Json], str | None]:
    kept: list[Json] = []
    for block in blocks:
        words = str(block.get("text", "")) if block["type"] == "text" else ""
        found = [(words.index(stop), stop) for stop in stops if stop and stop in words]
        if not found:
            kept.append(block)
            continue
        place, stop = min(found)
        return [*kept, *([{**block, "text": words[:place]}] if place else [])], stop
    return kept, None


def _shorten(block: Json, most: int, counter: Counter, generation: str) -> Json:
    """As much of a text as fits; other blocks make no sense in part and are left out."""
    key = {"text": "text", "thinking": "thinking"}.get(str(block["type"]))
    if key is None:
        return {}
    words = str(block[key])
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if counter.text(words[:middle], generation) <= most:
            low = middle
        else:
            high = middle - 1
    return {**block, key: words[:low]} if low else {}
