"""The shape of a Messages request: which fields may be where, and of what type.

Only shapes are checked here, in the words of the server's validator; `parameters` checks what fields mean together, and
`sevenfold.lab.rules` which messages may follow each other. Blocks that only the server writes (results of its own
tools) are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from sevenfold.lab.simulator.errors import ApiError, extra, invalid, missing, unknown_tag
from sevenfold.lab.simulator.parameters import ApiFeatures, check_configs

Json = Mapping[str, Any]

_PROMPT_FIELDS = frozenset(
    {
        *("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"),
        *("cache_control", "speed", "user_profile_id", "workspace_id"),
    }
)
FIELDS = _PROMPT_FIELDS | {
    *("max_tokens", "diagnostics", "stop_sequences", "stream", "metadata", "service_tier"),
    *("inference_geo", "container"),
}
COUNT_FIELDS = _PROMPT_FIELDS | {"context_management", "compaction", "mcp_servers"}
SAMPLING = frozenset({"temperature", "top_p", "top_k"})
BETA_FIELDS = {
    "context_management": ("context-management-2025-06-27", "compact-2026-01-12"),
    "compaction": ("compact-2026-09-04",),
    "thread": ("message-threads-2026-08-12",),
    "mcp_servers": ("mcp-client-2025-04-04", "mcp-client-2025-11-20", "mcp-client-2026-09-15"),
}
SYSTEM_FIELDS = {
    "clear_at": {"mid-conversation-system-clear-at-2026-08-21"},
    # The SDK's name and the one that Claude Code sends.
    "output_config": {"mid-conversation-output-config-2026-07-01", "per-turn-control-2026-07-01"},
}
SERVER_BLOCKS = frozenset(
    {
        *("server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "tool_search_tool_result"),
        *("code_execution_tool_result", "bash_code_execution_tool_result"),
        *("text_editor_code_execution_tool_result", "advisor_tool_result", "fallback"),
        *("mcp_tool_use", "mcp_tool_result", "mcp_tool_listing"),
    }
)
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_NAMES: Mapping[type, str] = {
    str: "a valid string",
    dict: "a valid dictionary",
    list: "a valid list",
    bool: "a valid boolean",
    int: "a valid integer",
}
Types = Mapping[str, type | tuple[type, ...]]


class Shape(Struct, frozen=True):
    """The fields of one kind of object, each with the types it may have."""

    required: Types
    optional: Types = {}


_MARK: Types = {"cache_control": dict}
BLOCKS: Mapping[str, Shape] = {
    "text": Shape({"text": str}, {"citations": list, **_MARK}),
    "image": Shape({"source": dict}, {"transformations": dict, **_MARK}),
    "document": Shape({"source": dict}, {"citations": dict, "context": str, "title": str, **_MARK}),
    "search_result": Shape({"content": list, "source": str, "title": str}, {"citations": dict, **_MARK}),
    "thinking": Shape({"thinking": str, "signature": str}),
    "redacted_thinking": Shape({"data": str}),
    "tool_use": Shape(
        {"id": str, "name": str, "input": dict}, {"caller": dict, "toolset_name": str, **_MARK}
    ),
    "tool_result": Shape(
        {"tool_use_id": str}, {"content": (str, list), "is_error": bool, "toolset_name": str, **_MARK}
    ),
    "container_upload": Shape({"file_id": str}, _MARK),
    "compaction": Shape(
        {}, {"content": str, "encrypted_content": str, "signature": str, "tool_changes": list, **_MARK}
    ),
    "tool_addition": Shape({"tool": dict}, _MARK),
    "tool_removal": Shape({"tool": dict}, _MARK),
}
_TOOL_FLAGS: Types = dict.fromkeys(("strict", "defer_loading", "eager_input_streaming"), bool)
_TOOL_LISTS: Types = dict.fromkeys(("input_examples", "allowed_callers"), list)
TOOL = Shape(
    {"name": str, "input_schema": dict},
    {"description": str, "type": str, **_TOOL_FLAGS, **_TOOL_LISTS, **_MARK},
)
PINNED_EDITS = Shape({"edits": list})
"""The block of the simulator's extension for deleting from a cached prefix."""


def check_shape(body: Any, features: ApiFeatures) -> None:
    """Raise for the first part of a request body that has the wrong shape."""
    if not isinstance(body, dict):
        raise invalid("The request body is not a JSON object")
    for problem in _problems(body, features):
        raise problem
    check_configs(body)


def _problems(body: Json, features: ApiFeatures) -> Iterator[ApiError]:
    for name in ("model", "messages") if features.counting else ("model", "max_tokens", "messages"):
        if name not in body:
            yield missing(name)
    yield from (extra(name) for name in body if not _known(name, features))
    yield from _typed("model", body.get("model"), str)
    yield from _typed("max_tokens", body.get("max_tokens", 0), int)
    yield from _typed("messages", body.get("messages"), list)
    yield from _typed("tools", body.get("tools"), list, null=True)
    yield from _typed("system", body.get("system"), (str, list), null=True)
    yield from _typed("stream", body.get("stream"), bool, null=True)
    for number, message in enumerate(body["messages"]):
        yield from _message(number, message, features)
    for index, block in enumerate(body.get("system") or () if isinstance(body.get("system"), list) else ()):
        yield from _block(f"system.{index}", block, features, ("text",))
    yield from _tools(body.get("tools") or ())


def _known(name: str, features: ApiFeatures) -> bool:
    if name in SAMPLING:
        return not features.strict and not features.counting
    if name in BETA_FIELDS and (name in COUNT_FIELDS or not features.counting):
        return any(beta in features.betas for beta in BETA_FIELDS[name])
    return name in (COUNT_FIELDS if features.counting else FIELDS)


def _message(number: int, message: Any, features: ApiFeatures) -> Iterator[ApiError]:
    path = f"messages.{number}"
    if not isinstance(message, dict):
        yield invalid(f"{path}: Input should be a valid dictionary")
        return
    role = message.get("role")
    if role is None:
        yield missing(f"{path}.role")
    fields = {"role", "content"}
    if role == "system":
        fields |= _system_fields(features)
    elif "content" not in message:
        yield missing(f"{path}.content")
    yield from (extra(f"{path}.{name}") for name in message if name not in fields)
    content = message.get("content", "")
    yield from _typed(f"{path}.content", content, (str, list))
    for index, block in enumerate(content if isinstance(content, list) else ()):
        yield from _block(f"{path}.content.{index}", block, features, None)


def _system_fields(features: ApiFeatures) -> set[str]:
    return {name for name, betas in SYSTEM_FIELDS.items() if features.betas & betas}


def _block(path: str, block: Any, features: ApiFeatures, kinds: Sequence[str] | None) -> Iterator[ApiError]:
    if not isinstance(block, dict):
        yield invalid(f"{path}: Input should be a valid dictionary")
        return
    kind = block.get("type")
    if not isinstance(kind, str):
        yield missing(f"{path}.type")
        return
    if kind == "cache_edits" and features.pinned_edits:
        yield from _fields(f"{path}.{kind}", block, PINNED_EDITS)
        return
    if (kinds is None and kind in SERVER_BLOCKS) or kind in features.extra_blocks:
        return
    shape = BLOCKS.get(kind) if kinds is None or kind in kinds else None
    if shape is None or not _allowed(kind, block, features):
        tags = ", ".join(f"'{name}'" for name in kinds or (*BLOCKS, *sorted(SERVER_BLOCKS)))
        yield unknown_tag(path, kind, tags)
        return
    allowed = {"cache_reference"} if features.pinned_edits and kind == "tool_result" else set()
    yield from _fields(f"{path}.{kind}", block, shape, allowed)
    if kind == "tool_result" and isinstance(content := block.get("content"), list):
        for index, inner in enumerate(content):
            inside = ("text", "image", "search_result", "document")
            if not (isinstance(inner, dict) and inner.get("type") in ("tool_reference", "browser_state")):
                yield from _block(f"{path}.tool_result.content.{index}", inner, features, inside)


def _allowed(kind: str, block: Json, features: ApiFeatures) -> bool:
    """Some blocks exist only with a beta header."""
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


def _fields(path: str, block: Json, shape: Shape, allowed: set[str] | None = None) -> Iterator[ApiError]:
    for name, types in shape.required.items():
        if name not in block:
            yield missing(f"{path}.{name}")
        else:
            yield from _typed(f"{path}.{name}", block[name], types)
    signed = "signature" in block and path.endswith(".compaction")
    for name, value in block.items():
        if name == "type" or name in shape.required or name in (allowed or ()):
            continue
        # A signed summary comes back exactly as it went out: a null where there was nothing is too much.
        if name not in shape.optional or (signed and value is None and name != "cache_control"):
            yield extra(f"{path}.{name}")
        else:
            yield from _typed(f"{path}.{name}", value, shape.optional[name], null=True)


def _typed(
    path: str, value: Any, types: type | tuple[type, ...], *, null: bool = False
) -> Iterator[ApiError]:
    allowed = types if isinstance(types, tuple) else (types,)
    if value is None and null:
        return
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        yield invalid(f"{path}: Input should be {' or '.join(_NAMES[kind] for kind in allowed)}")


def _tools(tools: Sequence[Any]) -> Iterator[ApiError]:
    names: set[str] = set()
    for index, tool in enumerate(tools):
        path = f"tools.{index}"
        if not isinstance(tool, dict):
            yield invalid(f"{path}: Input should be a valid dictionary")
            return
        kind = tool.get("type") or "custom"
        if kind == "custom":
            yield from _fields(f"{path}.custom", {**tool, "type": "custom"}, TOOL)
        name = str(tool.get("name") or kind)
        if not _TOOL_NAME.fullmatch(name):
            yield invalid(f"{path}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if name in names:
            yield invalid("tools: Tool names must be unique.")
        names.add(name)
