"""Chat Completions: translates requests of the Messages API.

Chat Completions has no content blocks: tool calls are separate from the text, results are separate messages, and
caching is up to the server. The translation is a pure function of the request: the same history gives the same bytes,
and a longer one begins with them. Fields that only steer the provider (cache markers, thinking settings, metadata) are
dropped; fields that change the question are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    asked = expressible(body, "Chat Completions")
    said: list[Json] = [{"role": "system", "content": asked["system"]}] if asked["system"] else []
    said += _results_first(
        one
        for place, message in enumerate(asked["messages"])
        for one in _messages(message, f"messages.{place}", reasoning)
    )
    effort, schema = effort_and_schema(asked)
    strict = {"type": "json_schema", "json_schema": {**schema, "strict": True}} if schema else None
    return encoded(
        model=asked["model"],
        **{name: asked.get(name) for name in SAME},
        messages=said,
        **tool_fields(asked, lambda made: {"type": "function", "function": made}),
        stop=asked.get("stop_sequences") or None,
        reasoning_effort=effort,
        response_format=strict,
        **{room: asked["max_tokens"]},
        prompt_cache_key=cache_key or None,
        stream=stream or None,
        stream_options={"include_usage": True} if stream else None,
    )


def _messages(message: Json, where: str, reasoning: str | None) -> Iterator[Json]:
    content = blocks_of(message["content"])
    match message["role"]:
        case "assistant":
            yield from _assistant(content, where, reasoning)
        case "system":
            yield {"role": "system", "content": text_of(content, where)}
        case _:
            yield from _user(content, where)


def _results_first(messages: Iterable[Json]) -> list[Json]:
    """The messages with all tool results directly after their calls, as this API requires.

    An image in a result becomes a user message, and more results may follow in a later message.
    """
    found = list[Json]()
    next_result = 0
    for message in messages:
        if message["role"] == "tool":
            found.insert(next_result, message)
            next_result += 1
        else:
            found.append(message)
            if message["role"] == "assistant":
                next_result = len(found)
    return found


def _assistant(content: Sequence[Json], where: str, reasoning: str | None) -> Iterator[Json]:
    texts = []
    calls = []
    thoughts = []
    for place, block in enumerate(content):
        if block["type"] == "text":
            texts.append(str(block["text"]))
        elif block["type"] == "tool_use":
            given = msgspec.json.encode(block["input"]).decode()
            called = {"name": block["name"], "arguments": given}
            calls.append({"id": block["id"], "type": "function", "function": called})
        elif block["type"] in THINKING:
            thoughts.append(str(block.get("thinking") or ""))
        elif block["type"] in TAKEN_KINDS:
            raise inexpressible(block, f"{where}.content.{place}")
        # Another API's own item, such as a search that it made: the model's text has the outcome.
    said: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None}
    if calls:
        said["tool_calls"] = calls
    if reasoning and any(thoughts):
        said[reasoning] = "".join(thoughts)
    if texts or calls:
        yield said


def _user(content: Sequence[Json], where: str) -> Iterator[Json]:
    parts: list[Json] = []
    for place, block in enumerate(content):
        path = f"{where}.content.{place}"
        if block["type"] == "tool_result":
            words, others = result_parts(block)
            parts += [_part(one, path) for one in others]
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": words}
        elif not is_sealed(block):
            parts.append(_part(block, path))
    if all(part["type"] == "text" for part in parts):
        # Many servers' chat templates accept only a plain string.
        words = "\n\n".join(str(part["text"]) for part in parts)
        if words:
            yield {"role": "user", "content": words}
    else:
        yield {"role": "user", "content": parts}


def _part(block: Json, where: str) -> Json:
    match block:
        case {"type": "text", "text": words}:
            return {"type": "text", "text": words}
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
            raise inexpressible(block, where)
