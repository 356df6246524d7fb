"""What the provider is asked to clear by itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.conversation import provider_edits as edits
from sevenfold.profiles import find
from sevenfold.record.window import Window
from sevenfold.settings import Settings

KINDS = {"Read": "read", "Edit": "edit", "Write": "write", "Ask": "", "Todo": ""}
BOUND = find("claude-sonnet-5-5")


def wanted(
    override: int | None = 200_000, model: str = "claude-sonnet-5-5", **settings: Any
) -> dict[str, Any] | None:
    profile = find(model)
    return edits.requested_edits(
        profile, Window.of(profile, override=override), Settings(**settings), KINDS
    )


@pytest.mark.spec("S2.6")
def test_thinking_comes_first_and_everything_that_cannot_be_had_again_is_excluded() -> None:
    assert wanted() == {
        "edits": [
            {"type": "clear_thinking_20251015", "keep": "all"},
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": 133_600},
                "keep": {"type": "tool_uses", "value": 3},
                "clear_at_least": {"type": "input_tokens", "value": 46_800},
                "exclude_tools": ["Ask", "Todo"],
                "clear_tool_inputs": ["Edit", "Write"],
            },
        ]
    }


@pytest.mark.spec("S2.6", "S0.5")
@given(st.integers(8, 2_000_000), st.floats(0.01, 0.99), st.integers(1, 500_000), st.floats(0, 1))
def test_the_trigger_is_always_below_the_threshold_and_every_figure_positive(
    context: int, share: float, target: int, least: float
) -> None:
    settings = Settings(edits_trigger_share=share, edits_target_tokens=target, edits_least_share=least)
    window = Window.of(BOUND, override=context)
    asked = edits.requested_edits(BOUND, window, settings, KINDS)
    assert asked is not None
    clearing = asked["edits"][1]
    assert 0 < clearing["trigger"]["value"] < window.threshold
    assert 0 < clearing["clear_at_least"]["value"] <= clearing["trigger"]["value"]


@pytest.mark.spec("S2.6", "S8.2")
def test_nothing_is_asked_for_where_it_is_off_not_offered_or_not_needed() -> None:
    assert wanted(provider_edits=False) is None
    assert wanted(model="claude-opus-4-6") is None, "results can be cleared on our side there"
    assert wanted(model="gpt-5") is None
    only_others = edits.requested_edits(BOUND, Window.of(BOUND), Settings(), {"Ask": "", "Todo": ""})
    assert only_others is None
