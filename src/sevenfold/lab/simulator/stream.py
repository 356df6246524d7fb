"""A finished message told as server-sent events.

The answer is complete before the first event goes out, so streaming and not streaming say the same by
construction. Texts and tool inputs come in small pieces, thinking that is not shown as a signature alone, a
summary on demand whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

Json = Mapping[str, Any]
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
