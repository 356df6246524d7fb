"""The provider's own clearing: how it is asked for, and what it did, as an answer reports.

It is asked for where clearing on our side is not possible without giving up the model's reasoning. The provider sees
the whole conversation and shortens what reaches the model; nothing that was sent changes. It is fixed when an epoch
opens, because a change breaks the cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sevenfold.ports import Reply
from sevenfold.profiles import CLEAR_THINKING, CLEAR_TOOL_USES, Profile
from sevenfold.record.blocks import read_fields
from sevenfold.record.usage import counted
from sevenfold.record.window import Window
from sevenfold.record.wire import Message
from sevenfold.request.frame import Frame
from sevenfold.request.plan import Tail, edge_of
from sevenfold.settings import Settings

_EDITS = "context_management"
REPRODUCIBLE = frozenset({"read", "shell", "search", "web", "edit", "write"})
"""Kinds of tools whose results can be had again; what any other tool said stays."""
BULKY_INPUTS = frozenset({"edit", "write"})
"""Kinds of tools whose calls hold as much as their results."""


def requested_edits(
    profile: Profile, window: Window, settings: Settings, kinds: Mapping[str, str]
) -> dict[str, Any] | None:
    """The field ``context_management`` of an epoch's requests, or None for none."""
    may_go = [name for name, kind in kinds.items() if kind in REPRODUCIBLE]
    if not (
        settings.provider_edits and profile.thinking.bound and CLEAR_TOOL_USES in profile.edits and may_go
    ):
        return None
    trigger = max(1, int(window.threshold * settings.edits_trigger_share))
    target = min(window.budget(settings.edits_target_tokens), trigger - 1)
    clearing: dict[str, Any] = {
        "type": CLEAR_TOOL_USES,
        "trigger": {"type": "input_tokens", "value": trigger},
        "keep": {"type": "tool_uses", "value": settings.size_keep},
        "clear_at_least": {
            "type": "input_tokens",
            "value": max(1, int((trigger - target) * settings.edits_least_share)),
        },
    }
    if others := sorted(set(kinds) - set(may_go)):
        clearing["exclude_tools"] = others
    if bulky := sorted(name for name in may_go if kinds[name] in BULKY_INPUTS):
        clearing["clear_tool_inputs"] = bulky
    # A window of the newest turn only would move on with every turn, and each time the cache would break there. After
    # an hour the reasoning of earlier turns is left out on our side instead, once: see `sevenfold.layers.clear.policy`.
    thinking = {"type": CLEAR_THINKING, "keep": "all"}
    edits = [thinking, clearing] if CLEAR_THINKING in profile.edits else [clearing]
    return {"edits": edits}


def taken_out(reply: Reply) -> int:
    """Tokens the provider's own edits took out, and those deleted from the cached prefix by reference."""
    deleted = counted(read_fields(reply.answer.usage), "cache_deleted_input_tokens")
    return deleted + sum(counted(edit, "cleared_input_tokens") for edit in _applied(reply))


def cleared_uses(reply: Reply) -> int:
    """How many tool calls the provider's edits cleared."""
    return sum(counted(edit, "cleared_tool_uses") for edit in _applied(reply))


def _applied(reply: Reply) -> list[dict[str, Any]]:
    edits = read_fields(reply.context_management).get("applied_edits")
    return [edit for edit in edits if isinstance(edit, dict)] if isinstance(edits, list) else []


def edge(frame: Frame, messages: Sequence[Message], uses: int) -> Tail | None:
    """The last result the provider cleared when it cleared so many; None if it clears nothing."""
    if not uses:
        return None
    managed = msgspec.json.decode(dict(frame.settings).get(_EDITS, b"{}"))
    excluded = {name for edit in managed.get("edits", ()) for name in edit.get("exclude_tools") or ()}
    return edge_of(messages, uses, excluded)
