"""What callers used to OpenAI's APIs hand in, parts of a message and results of tools, as the Messages API has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_DATA = re.compile(r"data:(?P<media_type>[^;,]+);base64,(?P<data>.*)", re.S)


def part(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of a message as a content block; what is one already, or is none of theirs, as it is."""
    match given:
        case {"type": "input_text" | "output_text", "text": text}:
            return {"type": "text", "text": text}
        case {"type": "image_url", "image_url": {"url": str() as url}}:
            return _image(url)
        case {"type": "input_image", "image_url": str() as url}:
            return _image(url)
        case _:
            return given


def result(given: object) -> tuple[str, Any] | None:
    """The call and the content of a tool's message, or of a function's output; None if it is neither."""
    match given:
        case {"role": "tool", "tool_call_id": str() as call, **rest}:
            return call, _content(rest.get("content"))
        case {"type": "function_call_output", "call_id": str() as call, **rest}:
            return call, _content(rest.get("output"))
        case _:
            return None


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [part(one) if isinstance(one, Mapping) else one for one in content]


def _image(url: str) -> Mapping[str, Any]:
    if held := _DATA.fullmatch(url):
        return {"type": "image", "source": {"type": "base64", **held.groupdict()}}
    return {"type": "image", "source": {"type": "url", "url": url}}
