"""The Messages API: writes a finished message as the events of a stream.

Texts and tool inputs are sent in small pieces, hidden thinking as a signature only, an on-demand summary in one piece.
A client that reads the stream gets exactly the message that was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sevenfold.wire.event_stream import named_event, pieces

Json = Mapping[str, Any]

# What the server knows only at the end comes with the last events.
_LATE = ("context_management",)
_LATE_USAGE = ("iterations", "output_tokens_details")
_CLOSING_USAGE = (
    *("output_tokens", "output_tokens_details", "iterations"),
    *("cache_creation_input_tokens", "cache_read_input_tokens", "input_tokens"),
)


def message_events(message: Json, piece_length: int) -> Iterator[bytes]:
    """Yield the events of a message, with texts in pieces of ``piece_length`` characters."""
    usage = message["usage"]
    early_usage = {name: value for name, value in usage.items() if name not in _LATE_USAGE}
    opening = {name: value for name, value in message.items() if name not in _LATE}
    opening |= {"content": [], "stop_reason": None, "stop_sequence": None}
    opening |= {"usage": {**early_usage, "output_tokens": 1}}
    yield named_event("message_start", {"message": opening})
    yield named_event("ping", {})
    for index, block in enumerate(message["content"]):
        opened, deltas = _opened(block, piece_length)
        yield named_event("content_block_start", {"index": index, "content_block": opened})
        for delta in deltas:
            yield named_event("content_block_delta", {"index": index, "delta": delta})
        yield named_event("content_block_stop", {"index": index})
    stop = {name: message[name] for name in ("stop_reason", "stop_sequence")}
    closing: dict[str, Any] = {
        "delta": {**stop, "stop_details": message.get("stop_details"), "container": None},
        "usage": {name: usage[name] for name in _CLOSING_USAGE if name in usage},
    }
    late = {name: message[name] for name in _LATE if name in message}
    yield named_event("message_delta", closing | late)
    yield named_event("message_stop", {})


def _opened(block: Json, piece_length: int) -> tuple[Json, Sequence[Json]]:
    """A block as it starts in the stream, and the deltas that complete it."""
    match block["type"]:
        case "text":
            texts = pieces(block["text"], piece_length)
            return {**block, "text": ""}, [{"type": "text_delta", "text": text} for text in texts]
        case "thinking":
            texts = pieces(block["thinking"], piece_length)
            shown = [{"type": "thinking_delta", "thinking": text} for text in texts]
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*shown, signature]
        case "tool_use" | "server_tool_use":
            # The real server sends an empty piece first.
            texts = ["", *pieces(msgspec.json.encode(block["input"]).decode(), piece_length)]
            deltas = [{"type": "input_json_delta", "partial_json": text} for text in texts]
            return {**block, "input": {}}, deltas
        case "compaction" if "signature" not in block:
            delta = {"type": "compaction_delta", "content": block["content"]}
            return {"type": "compaction", "content": None}, [delta]
        case _:
            return block, []
