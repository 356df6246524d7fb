"""Chat Completions: writes blocks of the Messages API as a message, and a finished completion as events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sevenfold.wire.event_stream import DONE, pieces, plain_event
from sevenfold.wire.openai import CALL_INPUTS, CallKind, call_input

Json = Mapping[str, Any]

_FINISH_REASONS = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


def finish_reason(stop_reason: str) -> str:
    """Why an answer ended, as this API says it."""
    return _FINISH_REASONS.get(stop_reason, "stop")


def assistant_message(blocks: Sequence[Json], kind_of: Callable[[Json], CallKind]) -> dict[str, Any]:
    """The message with an answer's text and tool calls; ``kind_of`` tells the kind of the tool that a call names.

    Every call must have an id. Blocks of other kinds have no place in this API and are left out.
    """
    text_blocks = (block for block in blocks if block["type"] == "text")
    text = "".join(str(block["text"]) for block in text_blocks)
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    calls = []
    for block in blocks:
        if block["type"] == "tool_use":
            kind = kind_of(block)
            called = {"name": block["name"], **call_input(block, kind)}
            calls.append({"id": block["id"], "type": kind, kind: called})
    if calls:
        message["tool_calls"] = calls
    return message


def completion_events(completion: Json, piece_length: int, *, with_usage: bool) -> Iterator[bytes]:
    """Yield a finished completion as the events of a stream, with texts in pieces of ``piece_length`` characters."""
    choice = completion["choices"][0]
    message = choice["message"]
    base = {name: completion[name] for name in ("id", "created", "model", "system_fingerprint")}
    base["object"] = "chat.completion.chunk"
    # A client that asks for usage gets the field in every event, and its value in the last.
    no_usage_yet = {"usage": None} if with_usage else {}

    def chunk(delta: Json, reason: str | None = None) -> bytes:
        choice_part = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return plain_event({**base, "choices": [choice_part], **no_usage_yet})

    yield chunk({"role": "assistant", "content": "" if message["content"] is not None else None})
    for piece in pieces(message["content"] or "", piece_length):
        yield chunk({"content": piece})
    for index, call in enumerate(message.get("tool_calls") or ()):
        kind = call["type"]
        called = call[kind]
        field = CALL_INPUTS[kind]
        opening = {"index": index, "id": call["id"], "type": kind}
        yield chunk({"tool_calls": [{**opening, kind: {"name": called["name"], field: ""}}]})
        for piece in pieces(called[field], piece_length):
            yield chunk({"tool_calls": [{"index": index, kind: {field: piece}}]})
    yield chunk({}, choice["finish_reason"])
    if with_usage:
        yield plain_event({**base, "choices": [], "usage": completion["usage"]})
    yield DONE
