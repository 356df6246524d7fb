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
    reply: ModelReply, stops: Sequence[str], max_tokens: int, room: int, counter: Counter, generation: str
) -> Output:
    """Cut a reply where a stop sequence, the caller's limit or the room left in the window ends it."""
    blocks, stopped = _stop(reply.blocks, stops)
    allowed = min(max_tokens, room)
    kept: list[Json] = []
    used = thought = 0
    for block in blocks:
        size = counter.block(block, generation)
        cut = used + size > allowed
        if cut:
            block = _shorten(block, allowed - used, counter, generation)
            size = counter.block(block, generation) if block else 0
        if block:
            kept.append(block)
            used += size
            thought += size if block["type"] == "thinking" else 0
        if cut:
            reason = "max_tokens" if max_tokens <= room else "model_context_window_exceeded"
            return Output(tuple(kept), reason, None, used, thought)
    if stopped is not None:
        return Output(tuple(kept), "stop_sequence", stopped, used, thought)
    calls = any(block["type"] == "tool_use" for block in kept)
    reason = reply.stop_reason or ("tool_use" if calls else "end_turn")
    return Output(tuple(kept), reason, None, used, thought)


def _stop(blocks: Sequence[Json], stops: Sequence[str]) -> tuple[list[Json], str | None]:
    blocks_before: list[Json] = []
    for block in blocks:
        text = str(block.get("text", "")) if block["type"] == "text" else ""
        stops_found = [(text.index(stop), stop) for stop in stops if stop and stop in text]
        if stops_found:
            position, stop = min(stops_found)
            return [*blocks_before, *([{**block, "text": text[:position]}] if position else [])], stop
        blocks_before.append(block)
    return blocks_before, None


def _shorten(block: Json, limit: int, counter: Counter, generation: str) -> Json:
    """As much of a text as fits; empty for other blocks, which make no sense in part."""
    kind = str(block["type"])
    if kind not in ("text", "thinking"):
        return {}
    text = str(block[kind])
    ends = range(1, len(text) + 1)
    fitting = bisect_right(ends, limit, key=lambda end: counter.text(text[:end], generation))
    return {**block, kind: text[:fitting]} if fitting else {}
