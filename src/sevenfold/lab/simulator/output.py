"""How far an answer gets: stop sequences, the caller's limit, and the end of the window.

---

A finished message told as server-sent events.

The answer is complete before the first event goes out, so streaming and not streaming say the same by
construction. Texts and tool inputs come in small pieces, thinking that is not shown as a signature alone, a
summary on demand whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.lab.simulator.brains import ModelReply
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


def limit(reply: ModelReply, stops: Sequence[str], room: Room, counter: Counter, generation: str) -> Output:
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


_AT_START = ("cache_creation_input_tokens", "cache_read_input_tokens", "input_tokens")


def event(kind: str, data: Json) -> bytes:
    """One server-sent event."""
    return f"event: {kind}\n".encode() + b"data: " + msgspec.json.encode({"type": kind, **data}) + b"\n\n"


def events(message: Json, chunk: int) -> Iterator[bytes]:
    """The events a message consists of; texts come in pieces of ``chunk`` characters."""
    late = ("context_management",)
    opening = {key: value for key, value in message.items() if key not in late}
    unknown = ("iterations", "output_tokens_details")
    usage = {key: value for key, value in message["usage"].items() if key not in unknown}
    opening |= {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    yield event("message_start", {"message": opening})
    yield event("ping", {})
    for index, block in enumerate(message["content"]):
        yield from _block(index, block, chunk)
    told = ("output_tokens", "output_tokens_details", "iterations", *_AT_START)
    closing: dict[str, Any] = {
        "delta": {
            "stop_reason": message["stop_reason"],
            "stop_sequence": message["stop_sequence"],
            "stop_details": message.get("stop_details"),
            "container": None,
        },
        "usage": {key: message["usage"][key] for key in told if key in message["usage"]},
    }
    if "context_management" in message:
        closing["context_management"] = message["context_management"]
    yield event("message_delta", closing)
    yield event("message_stop", {})


def _block(index: int, block: Json, chunk: int) -> Iterator[bytes]:
    opening, deltas = _parts(block, chunk)
    yield event("content_block_start", {"index": index, "content_block": opening})
    for delta in deltas:
        yield event("content_block_delta", {"index": index, "delta": delta})
    yield event("content_block_stop", {"index": index})


def _parts(block: Json, chunk: int) -> tuple[Json, Sequence[Json]]:
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"], chunk)]
            return {**block, "text": ""}, deltas
        case "thinking":
            shown = [
                {"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"], chunk)
            ]
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*shown, signature]
        case "tool_use" | "server_tool_use":
            given = msgspec.json.encode(block["input"]).decode()
            deltas = [
                {"type": "input_json_delta", "partial_json": piece} for piece in _pieces(given, chunk)
            ]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": ""}, *deltas]
        case "compaction" if "signature" not in block:
            return {"type": "compaction", "content": None}, [
                {"type": "compaction_delta", "content": block["content"]}
            ]
        case _:
            return block, []


def _pieces(text: str, chunk: int) -> list[str]:
    return [text[place : place + chunk] for place in range(0, len(text), chunk)]
