"""A Messages request as one of the Responses API, the stateless way.

The whole history goes along each time and nothing is stored at the provider. What a model reasoned comes
back encrypted, as a redacted thinking block under its own id, and is returned as it came; so is a summary the
provider made, a compaction item. Tools, histories and structures that Chat Completions cannot express are
refused here for the same reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from sevenfold.errors import RequestRefused
from sevenfold.providers.openai.chat import (
    CHOICES,
    Json,
    blocks_of,
    decoded,
    function,
    image_url,
    inexpressible,
    is_sealed,
    result_parts,
    text_of,
)


def responses_request(body: bytes, *, stream: bool) -> bytes:
    """The body of the Responses request that asks the same."""
    asked = decoded(body, "The Responses API")
    if asked.get("stop_sequences"):
        raise RequestRefused("The Responses API has no stop sequences: leave them out for this model")
    request: dict[str, Any] = {"model": asked["model"], "store": False}
    request["include"] = ["reasoning.encrypted_content"]
    if system := text_of(asked.get("system") or "", "system"):
        request["instructions"] = system
    if asked.get("tools"):
        request["tools"] = [
            {"type": "function", "strict": False, **function(tool)} for tool in asked["tools"]
        ]
    choice = asked.get("tool_choice") or {}
    if choice:
        named = {"type": "function", "name": choice.get("name")}
        request["tool_choice"] = CHOICES.get(choice["type"]) or named
    if choice.get("disable_parallel_tool_use"):
        request["parallel_tool_calls"] = False
    wanted = asked.get("output_config") or {}
    if wanted.get("effort"):
        request["reasoning"] = {"effort": wanted["effort"]}
    if wanted.get("format"):
        schema = {"type": "json_schema", "name": "answer", "schema": wanted["format"]["schema"]}
        request["text"] = {"format": schema}
    request["max_output_tokens"] = asked["max_tokens"]
    request["input"] = _input(asked)
    return msgspec.json.encode(request | ({"stream": True} if stream else {}))


def compact_request(body: bytes) -> bytes:
    """The body of the request that has the provider summarise the same conversation.

    It takes neither tools nor wishes: what becomes of the conversation is the provider's affair.
    """
    asked = decoded(body, "The Responses API", frozenset({"compaction"}))
    if asked["compaction"].get("instructions"):
        raise RequestRefused("The Responses API's compaction takes no instructions: leave them out")
    request: dict[str, Any] = {"model": asked["model"]}
    if system := text_of(asked.get("system") or "", "system"):
        request["instructions"] = system
    return msgspec.json.encode(request | {"input": _input(asked)})


def _input(asked: Json) -> list[Json]:
    return [
        item
        for place, message in enumerate(asked["messages"])
        for item in _items(message, f"messages.{place}")
    ]


def _items(message: Json, where: str) -> Iterator[Json]:
    """The items a message becomes: neighbouring words and images are one, everything else is its own."""
    role = message["role"]
    content: list[Json] = []
    for place, block in enumerate(blocks_of(message)):
        path = f"{where}.content.{place}"
        if (part := _part(block, role, path)) is not None:
            content.append(part)
            continue
        if content:
            yield {"role": role, "content": content}
            content = []
        yield from _item(block, path)
    if content:
        yield {"role": role, "content": content}


def _part(block: Json, role: str, where: str) -> Json | None:
    if block["type"] == "text":
        return {"type": "output_text" if role == "assistant" else "input_text", "text": block["text"]}
    if block["type"] == "image":
        return {"type": "input_image", "image_url": image_url(block, where), "detail": "auto"}
    return None


def _item(block: Json, where: str) -> Iterator[Json]:
    match block["type"]:
        case "tool_use":
            given = msgspec.json.encode(block["input"]).decode()
            named = {"call_id": block["id"], "name": block["name"]}
            yield {"type": "function_call", **named, "arguments": given}
        case "tool_result":
            words, images = result_parts(block, where)
            output: str | list[Json] = words
            if images:
                shown = [_part(image, "user", where) for image in images]
                output = [{"type": "input_text", "text": words}, *filter(None, shown)]
            yield {"type": "function_call_output", "call_id": block["tool_use_id"], "output": output}
        case "redacted_thinking" if "id" in block:
            reasoned = {"id": block["id"], "encrypted_content": block["data"]}
            yield {"type": "reasoning", **reasoned, "summary": []}
        case "thinking" | "redacted_thinking":
            return
        case "compaction" if is_sealed(block):
            yield {name: value for name, value in block.items() if name != "cache_control"}
        case _:
            raise inexpressible(block, where)
