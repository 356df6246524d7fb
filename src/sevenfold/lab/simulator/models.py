"""The lists of models, in the shape of whichever provider's client asks."""

from __future__ import annotations

from typing import Any

from sevenfold.lab.simulator.errors import ApiError
from sevenfold.lab.simulator.openai_common import unknown_model
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.profiles import CLEAR_THINKING, CLEAR_TOOL_USES, COMPACT, MODES, Profile
from sevenfold.providers.anthropic import MESSAGES

RELEASED = "2026-01-01T00:00:00Z"
LINES = ("haiku", "sonnet", "opus", "fable", "mythos")


def model_list(sim: Simulator, *, anthropic: bool) -> dict[str, Any]:
    """Every model on offer."""
    if not anthropic:
        return {"object": "list", "data": [_openai(sim, name) for name in sim.served()]}
    found = [(name, sim.profile(name)) for name in sim.served()]
    listed = [_anthropic(sim, name, facts) for name, facts in found if facts and MESSAGES.serves(facts)]
    return {"data": listed, "has_more": False, "first_id": listed[0]["id"], "last_id": listed[-1]["id"]}


def model_info(sim: Simulator, name: str, *, anthropic: bool) -> dict[str, Any]:
    """One model; raises for a name that is not served."""
    profile = sim.profile(name)
    if profile is None:
        raise ApiError(404, "not_found_error", f"model: {name}") if anthropic else unknown_model(name)
    return _anthropic(sim, name, profile) if anthropic else _openai(sim, name)


def _openai(sim: Simulator, name: str) -> dict[str, Any]:
    """As OpenAI lists a model; for one of the caller's own with its window, as local servers do."""
    listed = {"id": name, "object": "model", "created": 1_767_225_600, "owned_by": "simulated"}
    if own := sim.setup.models.get(name):
        listed["max_model_len"] = sim.setup.announced_windows.get(name, own.window)
    return listed


def _anthropic(sim: Simulator, name: str, profile: Profile) -> dict[str, Any]:
    return {
        "type": "model",
        "id": name,
        "display_name": f"{name} (simulated)",
        "created_at": RELEASED,
        "deprecated_at": None,
        "retires_at": None,
        "lifecycle": "active",
        "line": next((line for line in LINES if line in name), None),
        "max_input_tokens": sim.setup.announced_windows.get(name, profile.window),
        "max_tokens": profile.max_output,
        "allowed_fallback_models": [],
        "capabilities": _capabilities(profile),
    }


def _capabilities(profile: Profile) -> dict[str, Any]:
    thinks = bool(set(profile.thinking.modes) - {"disabled"})
    edits = {name: _can(name in profile.edits) for name in (CLEAR_TOOL_USES, CLEAR_THINKING)}
    managed = bool(profile.edits) or profile.threshold_compaction
    summarises = profile.on_demand_compaction
    efforts = {
        level: _can(profile.effort is not None) for level in ("low", "medium", "high", "xhigh", "max")
    }
    return {
        "batch": _can(False),
        "citations": _can(False),
        "code_execution": _can(False),
        "compaction": {**_can(summarises), "summarize": _can(summarises)},
        "context_management": {**_can(managed), **edits, COMPACT: _can(profile.threshold_compaction)},
        "effort": {**_can(profile.effort is not None), **efforts},
        "image_input": _can(True),
        "pdf_input": _can(True),
        "server_tools": {**_can(False), "code_execution": _can(False), "web_search": _can(False)},
        "structured_outputs": _can(False),
        "thinking": {
            **_can(thinks),
            "types": {mode: _can(mode in profile.thinking.modes) for mode in MODES},
        },
    }


def _can(supported: bool) -> dict[str, bool]:
    return {"supported": supported}
