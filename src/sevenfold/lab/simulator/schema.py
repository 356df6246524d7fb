"""The shape of a Messages request: which fields are allowed where, and their types.

Only shapes are checked here, with the error wording of the server's validator; `parameters` checks how fields combine,
and `sevenfold.lab.rules` which messages may follow each other. Blocks that only the server writes (results of its own
tools) are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.lab.rules.base import Json
from sevenfold.lab.simulator.errors import extra, invalid, missing, unknown_tag
from sevenfold.lab.simulator.parameters import ApiFeatures, check_configs

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TYPES: Mapping[str, type] = {
    "string": str,
    "dictionary": dict,
    "list": list,
    "boolean": bool,
    "integer": int,
}


class Shape(Struct, frozen=True):
    """The fields of one kind of object, each with the types it may have."""

    required: Mapping[str, str] = {}
    optional: Mapping[str, str] = {}


class Schema(Struct, frozen=True):
    """The content of `schema.toml`, which explains each part."""

    prompt: frozenset[str]
    answer: frozenset[str]
    counting: frozenset[str]
    sampling: frozenset[str]
    server_blocks: frozenset[str]
    betas: Mapping[str, frozenset[str]]
    system: Mapping[str, frozenset[str]]
    blocks: Mapping[str, Shape]
    pinned_edits: Shape
    tool: Shape


SCHEMA = msgspec.toml.decode(Path(__file__).with_name("schema.toml").read_bytes(), type=Schema)


def check_shape(body: Any, features: ApiFeatures) -> None:
    """Raise for the first part of a request body that has the wrong shape."""
    if not isinstance(body, dict):
        raise invalid("The request body is not a JSON object")
    for name in ("model", "messages") if features.counting else ("model", "max_tokens", "messages"):
        if name not in body:
            raise missing(name)
    for name in body:
        if not _known(name, features):
            raise extra(name)
    _check_type("model", body.get("model"), "string")
    _check_type("max_tokens", body.get("max_tokens", 0), "integer")
    _check_type("messages", body.get("messages"), "list")
    _check_type("tools", body.get("tools"), "list", null=True)
    _check_type("system", body.get("system"), "string list", null=True)
    _check_type("stream", body.get("stream"), "boolean", null=True)
    for number, message in enumerate(body["messages"]):
        _check_message(number, message, features)
    for index, block in enumerate(body.get("system") or () if isinstance(body.get("system"), list) else ()):
        _check_block(f"system.{index}", block, features, ("text",))
    _check_tools(body.get("tools") or ())
    check_configs(body)


def _known(name: str, features: ApiFeatures) -> bool:
    if name in SCHEMA.sampling:
        return not features.strict and not features.counting
    fields = SCHEMA.prompt | (SCHEMA.counting if features.counting else SCHEMA.answer)
    if name in SCHEMA.betas and (name in fields or not features.counting):
        return bool(SCHEMA.betas[name] & features.betas)
    return name in fields


def _check_message(number: int, message: Any, features: ApiFeatures) -> None:
    path = f"messages.{number}"
    if not isinstance(message, dict):
        raise invalid(f"{path}: Input should be a valid dictionary")
    role = message.get("role")
    if role is None:
        raise missing(f"{path}.role")
    fields = {"role", "content"}
    if role == "system":
        fields |= {name for name, betas in SCHEMA.system.items() if features.betas & betas}
    elif "content" not in message:
        raise missing(f"{path}.content")
    for name in message:
        if name not in fields:
            raise extra(f"{path}.{name}")
    content = message.get("content", "")
    _check_type(f"{path}.content", content, "string list")
    for index, block in enumerate(content if isinstance(content, list) else ()):
        _check_block(f"{path}.content.{index}", block, features, None)


def _check_block(path: str, block: Any, features: ApiFeatures, kinds: Sequence[str] | None) -> None:
    if not isinstance(block, dict):
        raise invalid(f"{path}: Input should be a valid dictionary")
    kind = block.get("type")
    if not isinstance(kind, str):
        raise missing(f"{path}.type")
    if kind == "cache_edits" and features.pinned_edits:
        _check_fields(f"{path}.{kind}", block, SCHEMA.pinned_edits)
        return
    if (kinds is None and kind in SCHEMA.server_blocks) or kind in features.extra_blocks:
        return
    shape = SCHEMA.blocks.get(kind) if kinds is None or kind in kinds else None
    if shape is None or not _allowed(kind, block, features):
        tags = ", ".join(f"'{name}'" for name in kinds or (*SCHEMA.blocks, *sorted(SCHEMA.server_blocks)))
        raise unknown_tag(path, kind, tags)
    allowed = {"cache_reference"} if features.pinned_edits and kind == "tool_result" else set()
    _check_fields(f"{path}.{kind}", block, shape, allowed)
    if kind == "tool_result" and isinstance(content := block.get("content"), list):
        for index, inner in enumerate(content):
            inside = ("text", "image", "search_result", "document")
            if not (isinstance(inner, dict) and inner.get("type") in ("tool_reference", "browser_state")):
                _check_block(f"{path}.tool_result.content.{index}", inner, features, inside)


def _allowed(kind: str, block: Json, features: ApiFeatures) -> bool:
    """Whether the request has the beta header that some blocks need."""
    if kind == "compaction":
        return ("compact-2026-09-04" if block.get("signature") else "compact-2026-01-12") in features.betas
    if kind in ("tool_addition", "tool_removal"):
        tool = block.get("tool")
        inline = isinstance(tool, dict) and tool.get("type") == "tool_definition"
        changes = {"inline-tools-2026-09-15"} | (
            set() if inline else {"mid-conversation-tool-changes-2026-07-01"}
        )
        return bool(changes & features.betas)
    return True


def _check_fields(path: str, block: Json, shape: Shape, allowed: set[str] | None = None) -> None:
    for name, types in shape.required.items():
        if name not in block:
            raise missing(f"{path}.{name}")
        _check_type(f"{path}.{name}", block[name], types)
    signed = "signature" in block and path.endswith(".compaction")
    for name, value in block.items():
        if name == "type" or name in shape.required or name in (allowed or ()):
            continue
        # A signed summary must be sent back exactly as returned: even an added null field is refused.
        if name not in shape.optional or (signed and value is None and name != "cache_control"):
            raise extra(f"{path}.{name}")
        _check_type(f"{path}.{name}", value, shape.optional[name], null=True)


def _check_type(path: str, value: Any, types: str, *, null: bool = False) -> None:
    allowed = tuple(_TYPES[name] for name in types.split())
    if value is None and null:
        return
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        raise invalid(f"{path}: Input should be {' or '.join(f'a valid {name}' for name in types.split())}")


def _check_tools(tools: Sequence[Any]) -> None:
    names: set[str] = set()
    for index, tool in enumerate(tools):
        path = f"tools.{index}"
        if not isinstance(tool, dict):
            raise invalid(f"{path}: Input should be a valid dictionary")
        kind = tool.get("type") or "custom"
        if kind == "custom":
            _check_fields(f"{path}.custom", {**tool, "type": "custom"}, SCHEMA.tool)
        name = str(tool.get("name") or kind)
        if not _TOOL_NAME.fullmatch(name):
            raise invalid(f"{path}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if name in names:
            raise invalid("tools: Tool names must be unique.")
        names.add(name)
