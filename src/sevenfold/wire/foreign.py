"""Converts input in the shapes of OpenAI's APIs to the shape of the Messages API.

Chat Completions has messages of the roles system, developer, user, assistant and tool; the Responses API has items.
Both are recognised by their shape, so a caller need not say which API a list comes from. Input in the shape of the
Messages API stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Raw

from sevenfold.record.blocks import tool_input

Json = Mapping[str, Any]
_DATA = re.compile(r"data:(?P<media_type>[^;,]+);base64,(?P<data>.*)", re.S)


def part(foreign_part: Json) -> Json:
    """Convert a part of an OpenAI message to a content block; anything else is returned unchanged."""
    match foreign_part:
        case {"type": "input_text" | "output_text", "text": text} | {"type": "refusal", "refusal": text}:
            return {"type": "text", "text": text}
        case {"type": "image_url", "image_url": {"url": str() as url}}:
            return {"type": "image", "source": _source(url)}
        case {"type": "input_image", "image_url": str() as url}:
            return {"type": "image", "source": _source(url)}
        case {"type": "input_image" | "input_file" as kind, "file_id": str() as file}:
            source = {"type": "file", "file_id": file}
            return {"type": "image" if kind == "input_image" else "document", "source": source}
        case {"type": "file", "file": Mapping() as file}:
            return part({"type": "input_file", **file})
        case {"type": "input_file", "file_data": str() as url} | {
            "type": "input_file",
            "file_url": str() as url,
        }:
            named = {"title": foreign_part["filename"]} if foreign_part.get("filename") else {}
            return {"type": "document", "source": _source(url), **named}
        case _:
            return foreign_part


def result(entry: object) -> tuple[str, Any] | None:
    """The call id and content of a tool message or function output; None if it is neither."""
    match entry:
        case {"role": "tool", "tool_call_id": str() as call, **rest}:
            return call, rest.get("content")
        case {"type": "function_call_output" | "custom_tool_call_output", "call_id": str() as call, **rest}:
            return call, rest.get("output")
        case _:
            return None


def messages(entries: Iterable[Any]) -> Iterator[Any]:
    """Convert each entry of a list to a message of the Messages API; unknown entries stay unchanged."""
    for entry in entries:
        match entry:
            case {"role": "developer"}:
                yield {**entry, "role": "system"}
            case {"role": "assistant"}:
                yield {"role": "assistant", "content": list(_answer(entry))}
            case {"type": "function_call" | "custom_tool_call", "call_id": str() as call, "name": name}:
                yield _said(_call(call, name, entry.get("arguments", entry.get("input"))))
            case {"type": "reasoning"}:
                sealed = entry.get("encrypted_content")
                name = entry.get("id") or ""
                yield _said({"type": "redacted_thinking", "data": sealed, "id": name} if sealed else None)
            case {"type": "compaction"}:
                yield {"role": "user", "content": [entry]}
            case _ if (answered := result(entry)) is not None:
                call, content = answered
                block = {"type": "tool_result", "tool_use_id": call, "content": content}
                yield {"role": "user", "content": [block]}
            case _:
                yield entry


def _said(block: Json | None) -> Json:
    return {"role": "assistant", "content": [] if block is None else [block]}


def _answer(message: Json) -> Iterator[Any]:
    """The blocks of an answer: thinking, text, tool calls."""
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thought, str):
        yield {"type": "thinking", "thinking": thought, "signature": ""}
    content = message.get("content") or message.get("refusal") or ()
    yield from _parts(content)
    for called in _parts(message.get("tool_calls") or ()):
        match called:
            case {"id": str() as call, "function": {"name": name, **rest}}:
                yield _call(call, name, rest.get("arguments"))
            case {"id": str() as call, "custom": {"name": name, **rest}}:
                yield _call(call, name, rest.get("input"))
            case _:
                yield called


def _parts(content: Any) -> Iterable[Any]:
    """The parts of a content; what is no list of parts is one, and is refused with its name where blocks are read."""
    plain = isinstance(content, str | bytes | Mapping)
    return [content] if plain or not isinstance(content, Iterable) else content


def _call(call: str, name: Any, arguments: Any) -> Json:
    tool_arguments = arguments if isinstance(arguments, Mapping) else Raw(tool_input(str(arguments or "")))
    return {"type": "tool_use", "id": call, "name": name, "input": tool_arguments}


def _source(url: str) -> Json:
    held = _DATA.fullmatch(url)
    return {"type": "base64", **held.groupdict()} if held else {"type": "url", "url": url}
