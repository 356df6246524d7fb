"""Converts the context file of a Kimi session into records of the shared format.

Each line is a message in the shape of Chat Completions, or a mark: the system prompt, a checkpoint, or the size of the
context. A compaction or a revert starts a new file, so a file holds one conversation from its beginning to its end.
Usage is not recorded, so sizes are estimated and costs unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sevenfold.archive.readers.linked import (
    DAMAGED,
    Json,
    LinkedRecords,
    decode_line,
    encode_record,
    string,
    text_block,
)
from sevenfold.wire import foreign

FORMAT = "kimi"
_MARKS = frozenset({"_system_prompt", "_checkpoint", "_usage"})
_PROGRAM = "<system>"
"""How a text begins that the program put into a message of the user."""


def recognises(record: Mapping[str, Any]) -> bool:
    """Whether a decoded line is one of the marks by which such a file is known."""
    return isinstance(role := record.get("role"), str) and role in _MARKS


def unsupported(record: Mapping[str, Any]) -> str:
    """Nothing: these files name no version."""
    return ""


def convert(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the records of a session as lines; a damaged line gives a damaged record."""
    records = LinkedRecords()
    records.begin("", "", "kimi")
    for number, line in enumerate(lines):
        message = decode_line(line)
        if message is not None:
            yield from map(encode_record, _converted(records, f"line-{number + 1}", message))
        elif not line or line.strip():
            yield DAMAGED


def _converted(records: LinkedRecords, name: str, message: Json) -> Iterator[dict[str, Any]]:
    role = message.get("role")
    content = _blocks(message.get("content"))
    match role:
        case "user" | "system":
            by_program = {"isMeta": True} if _is_programs(content) else {}
            converted = {"role": role, "content": content}
            yield records.record("user", name, "", message=converted, **by_program)
        case "tool":
            result = {
                "type": "tool_result",
                "tool_use_id": string(message.get("tool_call_id")),
                "content": content,
            }
            yield records.record("user", name, "", message={"role": "user", "content": [result]})
        case "assistant":
            calls = _calls(message.get("tool_calls"))
            answer = {"role": "assistant", "id": f"answer-{name}", "content": [*content, *calls]}
            answer["stop_reason"] = "tool_use" if calls else "end_turn"
            yield records.record("assistant", name, "", message=answer)
        case str() if role not in _MARKS:
            yield {"type": role}


def _is_programs(content: list[Json]) -> bool:
    """Whether every text of a message was put in by the program."""
    texts = [string(block.get("text")) for block in content if block["type"] == "text"]
    return bool(texts) and all(text.lstrip().startswith(_PROGRAM) for text in texts)


def _blocks(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [text_block(content)] if content else []
    blocks: list[Json] = []
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "text", "text": str() as text}:
                blocks.append(text_block(text))
            case {"type": "think", "think": str() as thought}:
                blocks.append({"type": "thinking", "thinking": thought, "signature": ""})
            case {"type": "image_url"}:
                blocks.append(foreign.part(part))
    return blocks


def _call(call: Json) -> Json:
    function_field = call.get("function")
    function = function_field if isinstance(function_field, dict) else {}
    arguments = decode_line(string(function.get("arguments")).encode(errors="replace"))
    return {
        "type": "tool_use",
        "id": string(call.get("id")),
        "name": string(function.get("name")),
        "input": arguments or {},
    }


def _calls(listed: Any) -> list[Json]:
    """The calls of an answer; none where a damaged file has anything but a list of them."""
    return [_call(call) for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
