"""Chat Completions: translates requests of the Messages API.

Chat Completions has no content blocks: tool calls are separate from the text, results are separate messages, and
caching is up to the server. The translation is a pure function of the request: the same history gives the same bytes,
and a longer one begins with them. Fields that only steer the provider (cache markers, thinking settings, metadata) are
dropped; fields that change the question are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from sevenfold.record.blocks import THINKING
from sevenfold.record.sendable import TAKEN_KINDS
from sevenfold.wire.openai import (
    SAME,
    Json,
    blocks_of,
    effort_and_schema,
    encoded,
    expressible,
    image_url,
    inexpressible,
    is_sealed,
    result_parts,
    text_of,
    tool_fields,
)


def chat_request(
    body: bytes, *, stream: bool, room: str, reasoning: str | None, cache_key: str = ""
) -> bytes:
    """The equivalent Chat Completions request body.

    ``room`` is the server's name for the most tokens in an answer; ``reasoning`` is its field for earlier
    reasoning, or None if it accepts none.
    """
    fields = expressible(body, "Chat Completions")
    converted: list[Json] = [{"role": "system", "content": fields["system"]}] if fields["system"] else []
    by_message = (
        _messages(message, f"messages.{index}", reasoning)
        for index, message in enumerate(fields["messages"])
    )
    converted += _results_first(chain.from_iterable(by_message))
    effort, schema = effort_and_schema(fields)
    strict = {"type": "json_schema", "json_schema": {**schema, "strict": True}} if schema else None
    return encoded(
        model=fields["model"],
        **{name: fields.get(name) for name in SAME},
        messages=converted,
        **tool_fields(fields, lambda function: {"type": "function", "function": function}),
        stop=fields.get("stop_sequences") or None,
        reasoning_effort=effort,
        response_format=strict,
        **{room: fields["max_tokens"]},
        prompt_cache_key=cache_key or None,
        stream=stream or None,
        stream_options={"include_usage": True} if stream else None,
    )


def _messages(message: Json, path: str, reasoning: str | None) -> Iterator[Json]:
    content = blocks_of(message["content"])
    match message["role"]:
        case "assistant":
            yield from _assistant(content, path, reasoning)
        case "system":
            yield {"role": "system", "content": text_of(content, path)}
        case _:
            yield from _user(content, path)


def _results_first(messages: Iterable[Json]) -> list[Json]:
    """The messages with all tool results directly after their calls, as this API requires.

    An image in a result becomes a user message, and more results may follow in a later message.
    """
    ordered = list[Json]()
    next_result = 0
    for message in messages:
        if message["role"] == "tool":
            ordered.insert(next_result, message)
            next_result += 1
        else:
            ordered.append(message)
            if message["role"] == "assistant":
                next_result = len(ordered)
    return ordered


def _assistant(content: Sequence[Json], path: str, reasoning: str | None) -> Iterator[Json]:
    texts = []
    calls = []
    thoughts = []
    for index, block in enumerate(content):
        if block["type"] == "text":
            texts.append(str(block["text"]))
        elif block["type"] == "tool_use":
            arguments = msgspec.json.encode(block["input"]).decode()
            called = {"name": block["name"], "arguments": arguments}
            calls.append({"id": block["id"], "type": "function", "function": called})
        elif block["type"] in THINKING:
            thoughts.append(str(block.get("thinking") or ""))
        elif block["type"] in TAKEN_KINDS:
            raise inexpressible(block, f"{path}.content.{index}")
        # Another API's own item, such as a search that it made: the model's text has the outcome.
    converted: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None}
    if calls:
        converted["tool_calls"] = calls
    if reasoning and any(thoughts):
        converted[reasoning] = "".join(thoughts)
    if texts or calls:
        yield converted


def _user(content: Sequence[Json], path: str) -> Iterator[Json]:
    parts: list[Json] = []
    for index, block in enumerate(content):
        block_path = f"{path}.content.{index}"
        if block["type"] == "tool_result":
            text, media = result_parts(block)
            parts += [_part(medium, block_path) for medium in media]
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}
        elif not is_sealed(block):
            parts.append(_part(block, block_path))
    if all(part["type"] == "text" for part in parts):
        # Many servers' chat templates accept only a plain string.
        text = "\n\n".join(str(part["text"]) for part in parts)
        if text:
            yield {"role": "user", "content": text}
    else:
        yield {"role": "user", "content": parts}


def _part(block: Json, path: str) -> Json:
    match block:
        case {"type": "text", "text": text}:
            return {"type": "text", "text": text}
        case {"type": "image", "source": source} if url := image_url(source):
            return {"type": "image_url", "image_url": {"url": url}}
        case {"type": "document", "source": {"type": "file", "file_id": file}}:
            return {"type": "file", "file": {"file_id": file}}
        case {"type": "document", "source": {"type": "base64"} as source}:
            named = {"filename": block.get("title") or "document.pdf"}
            return {"type": "file", "file": {**named, "file_data": image_url(source)}}
        case {"type": "image" | "document" as kind, "source": {"url": where_it_is}} | {
            "type": "image" | "document" as kind,
            "source": {"file_id": where_it_is},
        }:
            # This API cannot follow such a reference, but the model should know that something was there.
            return {"type": "text", "text": f"[{kind}: {where_it_is}]"}
        case _:
            raise inexpressible(block, path)
