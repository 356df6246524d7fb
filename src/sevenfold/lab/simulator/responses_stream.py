"""A finished response of the Responses API as a stream of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sevenfold.lab.simulator.output import pieces

Json = Mapping[str, Any]
INPUTS = {"function_call": "arguments", "custom_tool_call": "input"}
EMPTY: Mapping[str, Json] = {
    "message": {"content": []},
    **{kind: {field: ""} for kind, field in INPUTS.items()},
}
"""The fields of an item that are still empty when a stream announces it."""


def response_events(response: Json, _: Json, size: int) -> Iterator[bytes]:
    """A finished response as the events of a stream."""
    number = 0

    def event(kind: str, **data: Any) -> bytes:
        nonlocal number
        number += 1
        payload = msgspec.json.encode({"type": kind, "sequence_number": number - 1, **data})
        return f"event: {kind}\n".encode() + b"data: " + payload + b"\n\n"

    empty = {**response, "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=empty)
    yield event("response.in_progress", response=empty)
    for place, item in enumerate(response["output"]):
        opening = {**item, "status": "in_progress", **EMPTY.get(item["type"], {})}
        yield event("response.output_item.added", output_index=place, item=opening)
        where = {"item_id": item["id"], "output_index": place}
        if item["type"] == "message":
            part = item["content"][0]
            yield event("response.content_part.added", **where, content_index=0, part={**part, "text": ""})
            for piece in pieces(part["text"], size):
                yield event(
                    "response.output_text.delta", **where, content_index=0, delta=piece, logprobs=[]
                )
            yield event(
                "response.output_text.done", **where, content_index=0, text=part["text"], logprobs=[]
            )
            yield event("response.content_part.done", **where, content_index=0, part=part)
        elif item["type"] == "compaction":
            yield event("response.compaction.compacting", **where)
        elif (field := INPUTS.get(item["type"])) is not None:
            kind = f"response.{item['type']}_{field}"
            for piece in pieces(item[field], size):
                yield event(f"{kind}.delta", **where, delta=piece)
            named = {"name": item["name"]} if item["type"] == "function_call" else {}
            yield event(f"{kind}.done", **where, **named, **{field: item[field]})
        yield event("response.output_item.done", output_index=place, item=item)
    yield event(f"response.{response['status']}", response=response)
