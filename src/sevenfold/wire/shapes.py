"""The content blocks a caller may send, in the shapes the Messages API accepts.

A block of another shape would be recorded, sent with every later request, and refused each time. So shapes are checked
before anything is recorded. Cache markers are removed, because the engine decides where they go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct


class _Shape(Struct, tag_field="type", forbid_unknown_fields=True):
    """A block; its tag is the block's type, and its class name means nothing."""


class _Base64(_Shape, tag="base64"):
    media_type: str
    data: str


class _Url(_Shape, tag="url"):
    url: str


class _File(_Shape, tag="file"):
    file_id: str


class _PlainText(_Shape, tag="text"):
    data: str
    media_type: str = "text/plain"


class _Text(_Shape, tag="text"):
    text: str


class _Image(_Shape, tag="image"):
    source: _Base64 | _Url | _File
    transformations: dict[str, Any] = {}


class _Parts(_Shape, tag="content"):
    content: str | list[_Text | _Image]


class _Document(_Shape, tag="document"):
    source: _Base64 | _Url | _File | _PlainText | _Parts
    title: str = ""
    context: str = ""
    citations: dict[str, Any] = {}


class _SearchResult(_Shape, tag="search_result"):
    source: str
    title: str
    content: list[_Text]
    citations: dict[str, Any] = {}


class _Upload(_Shape, tag="container_upload"):
    file_id: str


class _ToolReference(_Shape, tag="tool_reference"):
    tool_name: str


class _BrowserState(Struct, tag_field="type", tag="browser_state"):
    """Passed on unchecked."""


class _Answered(_Shape, tag="text"):
    text: str
    citations: list[Raw] = []


class _ToolUse(_Shape, tag="tool_use"):
    id: str
    name: str
    input: dict[str, Raw]
    caller: dict[str, Any] = {}
    toolset_name: str = ""


Shapes = msgspec.json.Decoder[Any]
USER: Shapes = msgspec.json.Decoder(_Text | _Image | _Document | _SearchResult | _Upload)
"""The blocks that a user message may contain."""
RESULT: Shapes = msgspec.json.Decoder(
    _Text | _Image | _Document | _SearchResult | _ToolReference | _BrowserState
)
"""The blocks that a tool result may contain."""
ANSWER: Shapes = msgspec.json.Decoder(_Answered | _ToolUse)
"""The blocks of a model's answer that are checked; all others are the provider's own."""


def problem(raw: bytes, shapes: Shapes) -> str:
    """Why an encoded block matches none of these shapes; empty if it matches one."""
    try:
        shapes.decode(raw)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def bare(block: Mapping[str, Any], *, said_by_model: bool = False) -> dict[str, Any]:
    """The block without cache markers, nested ones included, and without null fields."""
    fields = {name: value for name, value in block.items() if value is not None and name != "cache_control"}
    if not said_by_model and isinstance(fields.get("citations"), list):
        # A model's text may cite its sources; in a user message the provider refuses such citations.
        del fields["citations"]
    for name in ("content", "source"):
        if name in fields:
            fields[name] = _bare_inside(fields[name])
    return fields


def _bare_inside(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [bare(inner) if isinstance(inner, Mapping) else inner for inner in value]
    return bare(value) if isinstance(value, Mapping) else value
