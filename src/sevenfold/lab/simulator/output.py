"""The final answer, cut off at the first limit.

It is complete before the first event of a stream is sent, so it is the same with and without streaming by construction.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from sevenfold.lab.simulator.brains import Json, ModelReply
from sevenfold.lab.simulator.tokens import Counter


class Output(Struct, frozen=True):
    """The model's output after all limits."""

    blocks: tuple[Json, ...]
    stop_reason: str
    stop_sequence: str | None
    tokens: int
    thinking_tokens: int


def limit(
    reply: ModelReply, stops: Sequence[str], asked: int, room: int, counter: Counter, generation: str
) -> Output:
    """Cut a reply where a stop sequence, the caller's limit or the room left in the window ends it."""
    blocks, stopped = _stop(reply.blocks, stops)
    most = min(asked, room)
    kept: list[Json] = []
    used = thought = 0
    for block in blocks:
        size = counter.block(block, generation)
        cut = used + size > most
        if cut:
            block = _shorten(block, most - used, counter, generation)
            size = counter.block(block, generation) if block else 0
        if block:
            kept.append(block)
            used += size
            thought += size if block["type"] == "thinking" else 0
        if cut:
            reason = "max_tokens" if asked <= room else "model_context_window_exceeded"
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
        if found:
            place, stop = min(found)
            return [*kept, *([{**block, "text": words[:place]}] if place else [])], stop
        kept.append(block)
    return kept, None


def _shorten(block: Json, most: int, counter: Counter, generation: str) -> Json:
    """As much of a text as fits; empty for other blocks, which make no sense in part."""
    kind = str(block["type"])
    if kind not in ("text", "thinking"):
        return {}
    words = str(block[kind])
    ends = range(1, len(words) + 1)
    fitting = bisect_right(ends, most, key=lambda end: counter.text(words[:end], generation))
    return {**block, kind: words[:fitting]} if fitting else {}
