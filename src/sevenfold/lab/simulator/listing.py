"""The list of models, as each provider gives it."""

from __future__ import annotations

from typing import Any

from sevenfold import profiles
from sevenfold.lab.simulator.errors import ApiError, unknown_model
from sevenfold.lab.simulator.provider import OTHER_MODELS, Simulator
from sevenfold.profiles import CLEAR_THINKING, CLEAR_TOOL_USES, COMPACT, MODES, Profile
from sevenfold.providers.anthropic import MESSAGES

RELEASED = "2026-01-01T00:00:00Z"
LINES = ("haiku", "sonnet", "opus", "fable", "mythos")


def model_list(sim: Simulator, *, anthropic: bool) -> dict[str, Any]:
    """All models on offer, as the client's provider lists them."""
    names = dict.fromkeys([*sim.setup.models, *profiles.names(), *OTHER_MODELS])
    if not anthropic:
        return {"object": "list", "data": [_openai_model(sim, name) for name in names]}
    found = [(name, sim.profile(name)) for name in names]
    listed = [_anthropic_model(sim, name, one) for name, one in found if one and MESSAGES.serves(one)]
    return {"data": listed, "has_more": False, "first_id": listed[0]["id"], "last_id": listed[-1]["id"]}


def model_info(sim: Simulator, name: str, *, anthropic: bool) -> dict[str, Any]:
    """One model; raises for a name that is not served."""
    profile = sim.messages_profile(name) if anthropic else sim.profile(name)
    if profile is None:
        raise ApiError(404, "not_found_error", f"model: {name}") if anthropic else unknown_model(name)
    return _anthropic_model(sim, name, profile) if anthropic else _openai_model(sim, name)


def _openai_model(sim: Simulator, name: str) -> dict[str, Any]:
    """A model as OpenAI lists it; one of the setup's own comes with its window, as on local servers."""
    listed = {"id": name, "object": "model", "created": 1_767_225_600, "owned_by": "simulated"}
    if own := sim.setup.models.get(name):
        listed["max_model_len"] = sim.setup.announced_windows.get(name, own.window)
    return listed


def _anthropic_model(sim: Simulator, name: str, profile: Profile) -> dict[str, Any]:
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
    no, modes = _can(False), profile.thinking.modes
    effort, summarises = _can(profile.effort is not None), _can(profile.on_demand_compaction)
    edits = {name: _can(name in profile.edits) for name in (CLEAR_TOOL_USES, CLEAR_THINKING)}
    edits[COMPACT] = _can(profile.threshold_compaction)
    return {
        "batch": no,
        "citations": no,
        "code_execution": no,
        "compaction": {**summarises, "summarize": summarises},
        "context_management": {**_can(bool(profile.edits) or profile.threshold_compaction), **edits},
        "effort": {**effort, **dict.fromkeys(("low", "medium", "high", "xhigh", "max"), effort)},
        "image_input": _can(True),
        "pdf_input": _can(True),
        "server_tools": {**no, "code_execution": no, "web_search": no},
        "structured_outputs": _can(True),
        "thinking": {
            **_can(bool(set(modes) - {"disabled"})),
            "types": {mode: _can(mode in modes) for mode in MODES},
        },
    }


def _can(supported: bool) -> dict[str, bool]:
    return {"supported": supported}
