"""Whatever a tool gives back, as something every provider takes as the result of a call.

A result that a provider refuses would be in the conversation for good, and no request after it would be answered. So
halves of surrogate pairs, as file names in another encoding have them, are spelled out; empty texts go; and what is no
result at all becomes one that says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.errors import InputError
from sevenfold.record.blocks import encode_json

_HALF = re.compile("[\ud800-\udfff]")
_ESCAPED_BYTES = range(0xDC80, 0xDD00)
"""How Python carries bytes that are no UTF-8 in a text."""
_NEEDS: Mapping[str, tuple[str, type]] = {
    "text": ("text", str),
    "image": ("source", dict),
    "document": ("source", dict),
    "search_result": ("content", list),
    "tool_reference": ("type", str),
    "browser_state": ("type", str),
}
"""The blocks a result may hold, each with what it cannot do without."""


def sound(came: Any, tool: str) -> ToolOutput:
    """What a tool gave back, fit to be sent."""
    if not isinstance(came, ToolOutput):
        return failed(f"{tool} gave back a {type(came).__name__} where a ToolOutput belongs.")
    try:
        content = _clean(came.content)
        encode_json(content)
    except (InputError, RecursionError) as error:
        return failed(f"{tool} gave back something that cannot be sent: {error}")
    if isinstance(content, list) and all(map(_is_block, content)):
        content = [part for part in content if not _empty(part)]
        if came.is_error:
            # A result that says that something failed may hold nothing but words.
            content = "\n".join(str(part.get("text", f"[{part['type']}]")) for part in content)
    elif not isinstance(content, str):
        return failed(f"{tool} gave back something that is neither text nor a list of content blocks.")
    return came if content == came.content else replace(came, content=content)


def _clean(part: Any) -> Any:
    match part:
        case str():
            return _HALF.sub(_spelled, str.__str__(part))
        case Mapping():
            return {_clean(key): _clean(value) for key, value in part.items()}
        case list() | tuple():
            return [_clean(one) for one in part]
        case _:
            return part


def _spelled(half: re.Match[str]) -> str:
    code = ord(half[0])
    return f"\\x{code - 0xDC00:02x}" if code in _ESCAPED_BYTES else f"\\u{code:04x}"


def _empty(part: Any) -> bool:
    match part:
        case {"type": "text", "text": str() as words}:
            return not words.strip()
        case _:
            return False


def _is_block(part: Any) -> bool:
    match part:
        case {"type": str() as kind} if kind in _NEEDS:
            field, needed = _NEEDS[kind]
            return isinstance(part.get(field), needed)
        case _:
            return False
