"""The shapes of a request's settings: every field named and typed, everything else refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from sevenfold.lab.simulator.errors import ApiError, extra, invalid, missing, unknown_tag


class _Config(Struct, forbid_unknown_fields=True):
    """A setting that takes no fields but its own."""


class _Tokens(_Config):
    type: Literal["input_tokens"]
    value: int


class _Trigger(_Config):
    type: Literal["input_tokens", "tool_uses"]
    value: int


class _KeepUses(_Config):
    type: Literal["tool_uses"]
    value: int


class _KeepTurns(_Config, tag_field="type", tag="thinking_turns"):
    value: int


class _KeepAll(_Config, tag_field="type", tag="all"):
    pass


class ClearToolUses(_Config, tag_field="type", tag="clear_tool_uses_20250919"):
    """Clear old tool results."""

    trigger: _Trigger | None = None
    keep: _KeepUses | None = None
    clear_at_least: _Tokens | None = None
    exclude_tools: list[str] | None = None
    clear_tool_inputs: bool | list[str] | None = None


class ClearThinking(_Config, tag_field="type", tag="clear_thinking_20251015"):
    """Clear old thinking."""

    keep: _KeepTurns | _KeepAll | Literal["all"] | None = None


class Compact(_Config, tag_field="type", tag="compact_20260112"):
    """Summarise at a threshold."""

    trigger: _Tokens | None = None
    pause_after_compaction: bool | None = None
    instructions: str | None = None


class ContextManagement(_Config):
    """Edits the server makes by itself."""

    edits: list[ClearToolUses | ClearThinking | Compact] | None = None


class Compaction(_Config):
    """A summary on demand."""

    type: Literal["summarize"]
    instructions: str | None = None


class _TaskBudget(_Config):
    type: Literal["tokens"]
    total: int
    remaining: int | None = None


class OutputConfig(_Config):
    """How the answer is to be."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: dict[str, Any] | None = None
    task_budget: _TaskBudget | None = None


class _Binding(_Config):
    prefix_mismatch_behavior: Literal["error", "drop_block"] | None = None


class _Adaptive(_Config, tag_field="type", tag="adaptive"):
    display: Literal["summarized", "omitted", "updates"] | None = None
    block_binding: _Binding | None = None


class _Enabled(_Config, tag_field="type", tag="enabled"):
    budget_tokens: int
    display: Literal["summarized", "omitted", "updates"] | None = None
    block_binding: _Binding | None = None


class _Disabled(_Config, tag_field="type", tag="disabled"):
    pass


class _BetweenTools(_Config, tag_field="type", tag="between_tools"):
    pass


class ToolChoice(_Config):
    """How tools are to be used."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Diagnostics(_Config):
    previous_message_id: str | None = None


class _CacheControl(_Config):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


CONFIGS: Mapping[str, Any] = {
    "context_management": ContextManagement,
    "compaction": Compaction,
    "thinking": _Adaptive | _Enabled | _Disabled | _BetweenTools,
    "output_config": OutputConfig,
    "tool_choice": ToolChoice,
    "diagnostics": _Diagnostics,
    "cache_control": _CacheControl,
    "metadata": dict[str, Any],
    "stop_sequences": list[str],
    "speed": Literal["standard", "fast"],
    "service_tier": Literal["auto", "standard_only"],
    "thread": dict[str, Any],
}
_SHOWN = re.compile(r"`([^`]*)`")


def check_configs(body: Mapping[str, Any]) -> None:
    """Raise for the first setting that has not the shape it should have."""
    for name, shape in CONFIGS.items():
        if body.get(name) is None:
            continue
        try:
            msgspec.convert(body[name], shape)
        except msgspec.ValidationError as error:
            raise _problem(name, body[name], str(error)) from None


def _problem(name: str, value: Any, words: str) -> ApiError:
    """The validator's complaint in the server's way of speaking."""
    complaint, _, place = words.partition(" - at `$")
    path = _path(name, value, re.findall(r"\w+", place))
    named = _SHOWN.findall(complaint)
    if "unknown field" in complaint:
        return extra(f"{path}.{named[0]}")
    if "missing required field" in complaint:
        return missing(f"{path}.{named[0]}")
    if complaint.startswith("Invalid enum value"):
        return invalid(f"{path}: Input is not one of the values known here: {complaint.split()[-1]}")
    if complaint.startswith("Invalid value"):
        tag = complaint.split()[-1].strip("'")
        return unknown_tag(path.removesuffix(f".{tag}.type"), tag)
    return invalid(f"{path}: {complaint}")


def _path(name: str, value: Any, keys: list[str]) -> str:
    """Where a complaint is about; the server puts an object's type between the object and its field."""
    path = name
    for key in [*keys, ""]:
        typed = name == "thinking" or "edits" in path
        if typed and isinstance(value, dict) and path.count(".") in (0, 2) and value.get("type"):
            path += f".{value['type']}"
        if key:
            path += f".{key}"
            value = value[int(key)] if isinstance(value, list) else (value or {}).get(key)
    return path
