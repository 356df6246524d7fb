"""The Responses API: writes blocks of the Messages API as items, and a finished response as the events of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from sevenfold.wire.event_stream import named_event, pieces
from sevenfold.wire.openai import CallKind, call_input

Json = Mapping[str, Any]

ID_PREFIXES = {"text": "msg_", "function": "fc_", "custom": "ctc_"}
"""How the ids of items begin: of a text, and of calls of each kind of tool."""
_INPUTS = {"function_call": "arguments", "custom_tool_call": "input"}
"""The item types of tool calls, each with the field that holds its input."""
_NOT_YET: Mapping[str, Json] = {
    "message": {"content": []},
    **{kind: {field: ""} for kind, field in _INPUTS.items()},
}
"""The fields of an item that are still empty when a stream announces it."""


def text_item(item_id: str, text: str, status: str) -> dict[str, Any]:
    """The item with a text of the model."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "id": item_id, "role": "assistant", "status": status, "content": [part]}


def call_item(item_id: str, block: Json, kind: CallKind, status: str) -> dict[str, Any]:
    """The item with a tool call, whose block must have an id."""
    return {
        "type": "custom_tool_call" if kind == "custom" else "function_call",
        "id": item_id,
        "call_id": block["id"],
        "name": block["name"],
        **call_input(block, kind),
        "status": status,
    }


def response_events(response: Json, piece_length: int) -> Iterator[bytes]:
    """Yield a finished response as the events of a stream, with texts in pieces of ``piece_length`` characters."""
    numbers = count()

    def event(kind: str, **data: Any) -> bytes:
        return named_event(kind, {"sequence_number": next(numbers), **data})

    empty = {**response, "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=empty)
    yield event("response.in_progress", response=empty)
    for index, item in enumerate(response["output"]):
        opening = {**item, "status": "in_progress", **_NOT_YET.get(item["type"], {})}
        yield event("response.output_item.added", output_index=index, item=opening)
        for kind, data in _content_events(item, piece_length):
            yield event(kind, item_id=item["id"], output_index=index, **data)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event(f"response.{response['status']}", response=response)


def _content_events(item: Json, piece_length: int) -> Iterator[tuple[str, Json]]:
    """Yield the kind and the data of the events between the announcement of an item and its end."""
    if item["type"] == "message":
        part = item["content"][0]
        yield "response.content_part.added", {"content_index": 0, "part": {**part, "text": ""}}
        for piece in pieces(part["text"], piece_length):
            yield "response.output_text.delta", {"content_index": 0, "delta": piece, "logprobs": []}
        yield "response.output_text.done", {"content_index": 0, "text": part["text"], "logprobs": []}
        yield "response.content_part.done", {"content_index": 0, "part": part}
    elif item["type"] == "compaction":
        yield "response.compaction.compacting", {}
    elif (field := _INPUTS.get(item["type"])) is not None:
        kind = f"response.{item['type']}_{field}"
        for piece in pieces(item[field], piece_length):
            yield f"{kind}.delta", {"delta": piece}
        name = {"name": item["name"]} if item["type"] == "function_call" else {}
        yield f"{kind}.done", {**name, field: item[field]}
