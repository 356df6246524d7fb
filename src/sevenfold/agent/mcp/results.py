"""What an MCP server answers, as content for the model.

The answer is a stranger's JSON: whatever has not the shape it should have is named, never passed on. Text is bounded by
the session, which puts away what is too big; pictures are bounded here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sevenfold.agent.tools.output import ToolOutput

MOST_IMAGE_CHARACTERS = 5_000_000
"""Of one picture, as base64."""
MOST_IMAGES = 20
MOST_TOGETHER = 10_000_000
"""Characters of all pictures of a result."""
_SIGNATURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}

Block = dict[str, Any]


def output_of(result: Any) -> ToolOutput:
    """A result as the protocol has it, for the model."""
    if not isinstance(result, Mapping):
        return ToolOutput("The server gave an answer that is none.", is_error=True)
    content = result.get("content")
    blocks = _few_pictures([_block(one) for one in content] if isinstance(content, list) else [])
    structured = result.get("structuredContent")
    if not blocks and structured is not None:
        blocks = [_text(_json(structured))]
    failed = result.get("isError") is True
    if failed or all(block["type"] == "text" for block in blocks):
        # A result that says that something failed may hold nothing but words.
        return ToolOutput("\n".join(_words(blocks)), is_error=failed)
    return ToolOutput(blocks)


def _block(part: Any) -> Block:
    match part:
        case {"type": "text", "text": str() as words}:
            return _text(words)
        case {"type": "image", "data": str() as data, "mimeType": str() as kind}:
            return _picture(data, kind)
        case {"type": "audio", "mimeType": str() as kind}:
            return _text(f"[sound, {kind}: it cannot be shown]")
        case {"type": "resource_link", "uri": str() as uri}:
            about = [part.get(key) for key in ("title", "name", "mimeType", "description")]
            told = ", ".join(dict.fromkeys(one for one in about if isinstance(one, str) and one))
            return _text(f"[resource {uri}{': ' + told if told else ''}]")
        case {"type": "resource", "resource": Mapping() as resource}:
            return _resource(resource)
        case _:
            return _text("[a part of the answer that is of no known kind]")


def _resource(resource: Mapping[str, Any]) -> Block:
    uri, kind = resource.get("uri"), resource.get("mimeType")
    match resource:
        case {"text": str() as words}:
            return _text(f"[resource {uri}]\n{words}")
        case {"blob": str() as data} if kind in _SIGNATURES:
            return _picture(data, str(kind))
        case {"blob": str() as data}:
            return _text(
                f"[resource {uri}, {kind or 'of no known kind'}, about {len(data) * 3 // 4:,} bytes]"
            )
        case _:
            return _text(f"[resource {uri} without content]")


def _picture(data: str, kind: str) -> Block:
    if kind not in _SIGNATURES:
        return _text(f"[picture, {kind[:80]}: only PNG, JPEG, GIF and WebP can be shown]")
    if len(data) > MOST_IMAGE_CHARACTERS:
        return _text(f"[picture of {len(data):,} characters; {MOST_IMAGE_CHARACTERS:,} can be shown]")
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return _text("[picture that is damaged]")
    if not raw.startswith(_SIGNATURES[kind]):
        return _text(f"[picture that is no {kind}]")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def _few_pictures(blocks: list[Block]) -> list[Block]:
    """Those that fit; of the others it is said that they were there."""
    kept, number, size = [], 0, 0
    for block in blocks:
        if block["type"] == "image":
            number, size = number + 1, size + len(block["source"]["data"])
            if number > MOST_IMAGES or size > MOST_TOGETHER:
                size -= len(block["source"]["data"])
                block = _text("[a picture too many; ask for fewer at a time]")
        kept.append(block)
    return kept


def _words(blocks: list[Block]) -> Iterator[str]:
    for block in blocks:
        yield block["text"] if block["type"] == "text" else "[picture]"


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return "[structured content that cannot be written as JSON]"


def _text(words: str) -> Block:
    """Without halves of surrogate pairs, which no request may hold."""
    return {"type": "text", "text": words.encode(errors="replace").decode()}
