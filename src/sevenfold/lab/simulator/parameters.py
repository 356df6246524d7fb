"""The settings of a Messages request: their shapes, their combinations, and which of them a model accepts.

Each check raises the error the server would return. The facts about models come from their profiles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import GenericAlias
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from sevenfold.lab.rules.base import Json, blocks_of, kind_of
from sevenfold.lab.simulator.errors import ApiError, extra, invalid, missing, unknown_tag
from sevenfold.profiles import Profile


class ApiFeatures(Struct, frozen=True):
    """What a request may use: API version, beta headers, and extensions of the simulator."""

    version: str
    betas: frozenset[str]
    counting: bool = False
    pinned_edits: bool = False
    extra_blocks: frozenset[str] = frozenset()

    @property
    def strict(self) -> bool:
        """Whether the rules of API version 2026-10-21 apply."""
        return self.version >= "2026-10-21"


def _config(tag: str = "", /, **fields: Any) -> Any:
    """Define a setting with only these fields, and ``tag`` as its `type`; fields that may be None are optional."""
    optional = {name: type(None) in get_args(kind) for name, kind in fields.items()}
    listed = [(name, kind, None) if optional[name] else (name, kind) for name, kind in fields.items()]
    tagged: dict[str, Any] = {"tag_field": "type", "tag": tag} if tag else {}
    return msgspec.defstruct(tag or "Config", listed, forbid_unknown_fields=True, kw_only=True, **tagged)


EFFORTS = ("low", "medium", "high", "xhigh", "max")
_TOKENS = _config(type=Literal["input_tokens"], value=int)
_CLEAR_TOOL_USES = _config(
    "clear_tool_uses_20250919",
    trigger=_config(type=Literal["input_tokens", "tool_uses"], value=int) | None,
    keep=_config(type=Literal["tool_uses"], value=int) | None,
    clear_at_least=_TOKENS | None,
    exclude_tools=list[str] | None,
    clear_tool_inputs=bool | list[str] | None,
)
_CLEAR_THINKING = _config(
    "clear_thinking_20251015",
    keep=_config("thinking_turns", value=int) | _config("all") | Literal["all"] | None,
)
_COMPACT = _config(
    "compact_20260112",
    trigger=_TOKENS | None,
    pause_after_compaction=bool | None,
    instructions=str | None,
)
_SHOWN_THINKING: Mapping[str, Any] = {
    "display": Literal["summarized", "omitted", "updates"] | None,
    "block_binding": _config(prefix_mismatch_behavior=Literal["error", "drop_block"] | None) | None,
}
CONFIGS: Mapping[str, Any] = {
    "context_management": _config(
        edits=GenericAlias(list, _CLEAR_TOOL_USES | _CLEAR_THINKING | _COMPACT) | None
    ),
    "compaction": _config(type=Literal["summarize"], instructions=str | None),
    "thinking": _config("adaptive", **_SHOWN_THINKING)
    | _config("enabled", budget_tokens=int, **_SHOWN_THINKING)
    | _config("disabled")
    | _config("between_tools"),
    "output_config": _config(
        effort=Literal[*EFFORTS] | None,
        format=dict[str, Any] | None,
        task_budget=_config(type=Literal["tokens"], total=int, remaining=int | None) | None,
    ),
    "tool_choice": _config(
        type=Literal["auto", "any", "tool", "none"],
        name=str | None,
        disable_parallel_tool_use=bool | None,
    ),
    "diagnostics": _config(previous_message_id=str | None),
    "cache_control": _config(type=Literal["ephemeral"], ttl=Literal["5m", "1h"] | None),
    "metadata": dict[str, Any],
    "stop_sequences": list[str],
    "speed": Literal["standard", "fast"],
    "service_tier": Literal["auto", "standard_only"],
    "thread": dict[str, Any],
}
_SHOWN = re.compile(r"`([^`]*)`")


def check_configs(body: Mapping[str, Any]) -> None:
    """Raise for the first setting of the wrong shape."""
    for name, shape in CONFIGS.items():
        if body.get(name) is None:
            continue
        try:
            msgspec.convert(body[name], shape)
        except msgspec.ValidationError as error:
            raise _problem(name, body[name], str(error)) from None


def _problem(name: str, value: Any, message: str) -> ApiError:
    """Convert the validator's error to the server's wording."""
    complaint, _, location = message.partition(" - at `$")
    path = _path(name, value, re.findall(r"\w+", location))
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
    """The path of the invalid field; the server puts an object's type between the object and its field."""
    path = name
    for key in [*keys, ""]:
        typed = name == "thinking" or "edits" in path
        if typed and isinstance(value, dict) and path.count(".") in (0, 2) and value.get("type"):
            path += f".{value['type']}"
        if key:
            path += f".{key}"
            value = value[int(key)] if isinstance(value, list) else (value or {}).get(key)
    return path


BINDING = "thinking-binding-controls-2026-08-01"
THRESHOLD = "compact-2026-01-12"
EDITS = "context-management-2025-06-27"
TASK_BUDGETS = "task-budgets-2026-03-13"
MINIMUM_BUDGET = 1_024
MINIMUM_TRIGGER = 50_000
LONGEST_INSTRUCTIONS = 16_384


def check_parameters(body: Json, profile: Profile, features: ApiFeatures) -> None:
    """Raise for the first setting that this model or set of beta headers does not allow."""
    if not features.counting:
        _check_max_tokens(body, profile)
    _check_thinking(body, profile, features)
    _check_task_budget(body, features)
    _check_tool_choice(body, profile)
    _check_edits(body, profile, features)
    if body.get("compaction") is not None and not features.counting:
        _check_compaction(body, profile)
    if body.get("thread") is not None:
        message = "thread: message threads are not simulated. Send the full conversation without `thread`."
        raise invalid(message, code="thread_unsupported_request")
    _check_system_fields(body)


def _check_max_tokens(body: Json, profile: Profile) -> None:
    max_tokens = body["max_tokens"]
    maximum = profile.max_output
    if max_tokens < 0:
        raise invalid("max_tokens: Input should be greater than or equal to 0")
    if max_tokens > maximum:
        raise invalid(
            f"max_tokens: {max_tokens} > {maximum}, which is the maximum allowed number of output tokens for "
            f"{body['model']}"
        )


def _check_thinking(body: Json, profile: Profile, features: ApiFeatures) -> None:
    thinking = body.get("thinking")
    if thinking is None:
        return
    mode = thinking["type"]
    if "block_binding" in thinking and BINDING not in features.betas:
        raise extra(f"thinking.{mode}.block_binding")
    if mode not in profile.thinking.modes:
        advice = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        message = f'"thinking.type.{mode}" is not supported for this model. {advice}'
        raise invalid("adaptive thinking is not supported on this model" if mode == "adaptive" else message)
    if mode == "enabled":
        budget = thinking["budget_tokens"]
        if budget < MINIMUM_BUDGET:
            raise invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if budget >= body.get("max_tokens", budget + 1):
            raise invalid("`max_tokens` must be greater than `thinking.budget_tokens`.")
    limit = profile.thinking.disabled_up_to
    effort = (body.get("output_config") or {}).get("effort") or profile.effort or "high"
    if mode == "disabled" and limit and EFFORTS.index(effort) > EFFORTS.index(limit):
        raise invalid(
            f'"thinking.type.disabled" is not supported with effort above "{limit}" for this model.'
        )


def _check_task_budget(body: Json, features: ApiFeatures) -> None:
    budget = (body.get("output_config") or {}).get("task_budget")
    if budget is None:
        return
    if TASK_BUDGETS not in features.betas:
        raise extra("output_config.task_budget")
    opening = blocks_of(body["messages"][0])[:1] if body["messages"] else []
    summary = any(kind_of(block) == "compaction" and block.get("signature") for block in opening)
    if summary and budget.get("remaining") is not None:
        raise invalid("output_config.task_budget.remaining: not allowed with a `compaction` block")


def _check_tool_choice(body: Json, profile: Profile) -> None:
    choice = body.get("tool_choice") or {"type": "auto"}
    if choice["type"] in ("any", "tool") and not profile.forced_tools:
        raise invalid('tool_choice: type "tool" and "any" are not supported for this model.')
    names = [tool.get("name") for tool in body.get("tools") or ()]
    if choice["type"] == "tool" and choice.get("name") not in names:
        raise invalid(f"Tool '{choice.get('name')}' not found in provided tools")


def _check_edits(body: Json, profile: Profile, features: ApiFeatures) -> None:
    edits = (body.get("context_management") or {}).get("edits") or ()
    for index, edit in enumerate(edits):
        kind = edit["type"]
        path = f"context_management.edits.{index}"
        compacts = kind == "compact_20260112"
        if (THRESHOLD if compacts else EDITS) not in features.betas:
            raise unknown_tag(path, kind)
        if not (profile.threshold_compaction if compacts else kind in profile.edits):
            raise invalid(f"{path}: {kind} is not supported for this model.")
        if kind == "clear_thinking_20251015" and index:
            raise invalid("context_management.edits: clear_thinking_20251015 must be the first edit")
        if compacts and (edit.get("trigger") or {}).get("value", MINIMUM_TRIGGER) < MINIMUM_TRIGGER:
            raise invalid(f"{path}.{kind}.trigger.value: Input should be greater than or equal to 50000")


def _check_compaction(body: Json, profile: Profile) -> None:
    if len(body["compaction"].get("instructions") or "") > LONGEST_INSTRUCTIONS:
        raise invalid(
            f"compaction.instructions: String should have at most {LONGEST_INSTRUCTIONS} characters"
        )
    if not profile.on_demand_compaction:
        raise invalid("compaction: not supported for this model.")
    output = body.get("output_config") or {}
    remaining = (output.get("task_budget") or {}).get("remaining")
    clashes = {
        "context_management": body.get("context_management") is not None,
        "stop_sequences": bool(body.get("stop_sequences")),
        "output_config.format": output.get("format") is not None,
        "tool_choice": (body.get("tool_choice") or {}).get("type") in ("any", "tool"),
        "output_config.task_budget.remaining": remaining is not None,
    }
    for name, clash in clashes.items():
        if clash:
            raise invalid(f"{name}: cannot be combined with `compaction`")


def _check_system_fields(body: Json) -> None:
    for number, message in enumerate(body["messages"]):
        if message.get("role") != "system":
            continue
        if message.get("clear_at") not in (None, "next_user_message", "never"):
            raise invalid(f"messages.{number}.clear_at: Input should be 'next_user_message' or 'never'")
        vanishes = message.get("clear_at") == "next_user_message"
        if vanishes and any(block.get("type") != "text" for block in blocks_of(message)):
            raise invalid(f"messages.{number}.clear_at: only text content can be cleared")
