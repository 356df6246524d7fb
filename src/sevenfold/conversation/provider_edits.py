"""The provider's own clearing, and how to request it.

It is for models that would lose their thinking if we cleared results ourselves. The provider receives the whole
conversation and shortens what reaches the model; nothing that was sent changes. Requesting it breaks the cache, so it
opens an epoch and stays the same until the next one. `sevenfold.layers.clear` decides whether it pays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sevenfold.conversation.room import REPRODUCIBLE
from sevenfold.profiles import CLEAR_THINKING, CLEAR_TOOL_USES, Profile
from sevenfold.record.blocks import encode_json
from sevenfold.record.decisions import Epoch
from sevenfold.record.window import Window
from sevenfold.request.frame import EDITS, Frame, excluded_tools
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

BULKY_INPUTS = frozenset({"edit", "write"})
"""Kinds of tools whose calls are as large as their results."""


def requested_edits(
    profile: Profile, window: Window, settings: Settings, kinds: Mapping[str, str]
) -> dict[str, Any] | None:
    """The ``context_management`` field with which the provider clears; None if it cannot or may not."""
    may_go = [name for name, kind in kinds.items() if kind in REPRODUCIBLE]
    offered = settings.provider_edits and profile.thinking.bound and CLEAR_TOOL_USES in profile.edits
    if not (offered and may_go):
        return None
    value = settings.edits_trigger(window.threshold)
    target = min(window.budget(settings.edits_target_tokens), value - 1)
    clearing: dict[str, Any] = {
        "type": CLEAR_TOOL_USES,
        "trigger": {"type": "input_tokens", "value": value},
        "keep": {"type": "tool_uses", "value": settings.size_keep},
        "clear_at_least": {
            "type": "input_tokens",
            "value": max(1, int((value - target) * settings.edits_least_share)),
        },
    }
    if kept_tools := sorted(set(kinds) - set(may_go)):
        clearing["exclude_tools"] = kept_tools
    if bulky := sorted(name for name in may_go if kinds[name] in BULKY_INPUTS):
        clearing["clear_tool_inputs"] = bulky
    # Keeping only the newest turn's thinking would break the cache at every turn. Instead, after an hour, we leave out
    # the thinking of earlier turns ourselves, once: see `sevenfold.layers.clear.policy`.
    thinking = {"type": CLEAR_THINKING, "keep": "all"}
    edits = [thinking, clearing] if CLEAR_THINKING in profile.edits else [clearing]
    return {"edits": edits}


def with_edits(c: Conversation, frame: Frame) -> Frame:
    """The frame with provider clearing requested; unchanged if that is impossible or the caller sets its own edits."""
    managed = requested_edits(c.profile, c.window, c.settings, c.kinds)
    if managed is None or frame.edits is not None:
        return frame
    settings = sorted([*frame.settings, (EDITS, encode_json(managed))])
    betas = {*frame.betas, c.profile.betas.edits} - {None}
    return replace(frame, settings=tuple(settings), betas=tuple(sorted(betas)))


def open_epoch(c: Conversation, reason: str = "provider edits") -> Epoch:
    """Open an epoch in which the provider clears results, based on the current kinds of tools."""
    other_settings = tuple(setting for setting in c.epoch.frame.settings if setting[0] != EDITS)
    c.set_epoch(replace(c.epoch, frame=with_edits(c, replace(c.epoch.frame, settings=other_settings))))
    # Thinking is not bound to how a provider shortens what reaches the model.
    return c.open_epoch(reason, thinking_stays_valid=True)


def protect_results(c: Conversation) -> None:
    """If the provider clears, make it spare the results of newly added tools that cannot be obtained again."""
    edits = requested_edits(c.profile, c.window, c.settings, c.kinds)
    held = c.epoch.frame.edits
    if edits is not None and held is not None and excluded_tools(encode_json(edits)) - excluded_tools(held):
        open_epoch(c, "settings")
