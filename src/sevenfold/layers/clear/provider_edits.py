"""The provider's own clearing, as it is asked for: fixed when an epoch opens, because a change breaks the cache.

It is asked for where clearing on our side is not possible without giving up the model's reasoning. There the
provider sees the whole conversation and shortens what reaches the model, and nothing that was sent changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sevenfold.conversation.stock import REPRODUCIBLE
from sevenfold.profiles import CLEAR_THINKING, CLEAR_TOOL_USES, Profile
from sevenfold.record.window import Window
from sevenfold.settings import Settings

BULKY_INPUTS = frozenset({"edit", "write"})
"""Kinds of tools whose calls hold as much as their results."""


def wanted(
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
