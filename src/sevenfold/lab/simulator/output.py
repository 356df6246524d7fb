"""The final answer: cut off at the first limit, and streamed as server-sent events.

The answer is complete before the first event is sent, so it is the same with and without streaming by construction.
Texts and tool inputs are sent in small pieces, hidden thinking as a signature only, an on-demand summary in one piece.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.lab.simulator.brains import Json, ModelReply
from sevenfold.lab.simulator.tokens import Counter

_LATE = ("context_management",)
_LATE_USAGE = ("iterations", "output_tokens_details")
_CLOSING_USAGE = (
    *("output_tokens", "output_tokens_details", "iterations"),
    *("cache_creation_input_tokens", "cache_read_input_tokens", "input_tokens"),
)


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


def event(kind: str, data: Json) -> bytes:
    """Encode one server-sent event."""
    return f"event: {kind}\n".encode() + b"data: " + msgspec.json.encode({"type": kind, **data}) + b"\n\n"


def pieces(text: str, size: int) -> list[str]:
    """Split a text into pieces of ``size`` characters."""
    return [text[place : place + size] for place in range(0, len(text), size)]


def events(message: Json, chunk: int) -> Iterator[bytes]:
    """Yield the events of a message, with texts in pieces of ``chunk`` characters."""
    usage = message["usage"]
    early = {key: value for key, value in usage.items() if key not in _LATE_USAGE}
    opening = {key: value for key, value in message.items() if key not in _LATE}
    opening |= {"content": [], "stop_reason": None, "stop_sequence": None}
    yield event("message_start", {"message": {**opening, "usage": {**early, "output_tokens": 1}}})
    yield event("ping", {})
    for index, block in enumerate(message["content"]):
        started, deltas = _deltas(block, chunk)
        yield event("content_block_start", {"index": index, "content_block": started})
        for delta in deltas:
            yield event("content_block_delta", {"index": index, "delta": delta})
        yield event("content_block_stop", {"index": index})
    delta = {key: message[key] for key in ("stop_reason", "stop_sequence")}
    closing: dict[str, Any] = {
        "delta": {**delta, "stop_details": message.get("stop_details"), "container": None},
        "usage": {key: usage[key] for key in _CLOSING_USAGE if key in usage},
    }
    yield event("message_delta", closing | {key: message[key] for key in _LATE if key in message})
    yield event("message_stop", {})


def _deltas(block: Json, chunk: int) -> tuple[Json, Sequence[Json]]:
    """A block as it starts in the stream, and the deltas that complete it."""
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"], chunk)]
            return {**block, "text": ""}, deltas
        case "thinking":
            shown = pieces(block["thinking"], chunk)
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in shown]
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*deltas, signature]
        case "tool_use" | "server_tool_use":
            given = ["", *pieces(msgspec.json.encode(block["input"]).decode(), chunk)]
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": piece} for piece in given
            ]
        case "compaction" if "signature" not in block:
            delta = {"type": "compaction_delta", "content": block["content"]}
            return {"type": "compaction", "content": None}, [delta]
        case _:
            return block, []
