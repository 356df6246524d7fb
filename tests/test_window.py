"""The levels in a window, and how full it is."""

from __future__ import annotations

from math import floor, inf, nan

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.profiles import Listing, find
from sevenfold.record.window import Window

HAIKU = find("claude-haiku-4-5")  # 200,000 tokens, 64,000 output
OPUS = find("claude-opus-5-5")  # 1,000,000 tokens
STRANGE = find("house-model")  # nobody knows

NO_NUMBER = [None, 0, -1, -0.5, nan, inf, -inf, True, False, "120000", "", [1], b"1"]

windows = st.integers(4_000, 10_000_000)
outputs = st.integers(-5, 2_000_000)
percents = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.integers(-10, 200))


# ---------------------------------------------------------------- levels


@pytest.mark.spec("S0.2", "S0.3", "S0.4")
def test_the_levels_of_a_window_of_two_hundred_thousand() -> None:
    window = Window.of(HAIKU)
    assert (window.context, window.effective, window.threshold) == (200_000, 180_000, 167_000)
    assert (window.warning, window.error, window.blocking) == (147_000, 147_000, 177_000)
    assert (window.limit, window.reserve, window.scale) == (167_000, 20_000, 1.0)


@pytest.mark.spec("S0.4")
def test_without_auto_compact_the_levels_hang_on_the_effective_window() -> None:
    window = Window.of(HAIKU, auto_compact=False)
    assert (window.limit, window.warning, window.error, window.blocking) == (
        180_000,
        160_000,
        160_000,
        177_000,
    )


@pytest.mark.spec("S0.2")
@pytest.mark.parametrize(
    ("max_output", "effective"), [(8_192, 191_808), (20_000, 180_000), (128_000, 180_000)]
)
def test_the_reserve_is_no_larger_than_what_the_model_can_write(max_output: int, effective: int) -> None:
    assert Window.of(HAIKU, max_output=max_output).effective == effective


@pytest.mark.spec("S0.2")
def test_the_reserve_follows_the_profile_when_no_output_limit_is_given() -> None:
    assert Window.of(find("claude-3-opus")).effective == 200_000 - 4_096


@pytest.mark.spec("S0.1")
@pytest.mark.parametrize(
    ("name", "options", "context", "source"),
    [
        ("claude-haiku-4-5[1m]", {"override": 64_000}, 64_000, "setting"),
        ("claude-haiku-4-5[1m]", {}, 1_000_000, "suffix"),
        ("claude-haiku-4-5", {"beta_1m": True}, 200_000, "table"),
        ("claude-opus-5-5", {}, 1_000_000, "table"),
        ("house-model", {"beta_1m": True}, 1_000_000, "beta"),
        ("house-model[1m]", {}, 1_000_000, "suffix"),
        ("house-model", {}, 200_000, "default"),
        ("house-model", {"override": 32_000.7}, 32_000, "setting"),
    ],
)
def test_the_context_window_is_the_first_that_applies(
    name: str, options: dict[str, float], context: int, source: str
) -> None:
    window = Window.of(find(name), override=options.get("override"), beta_1m=bool(options.get("beta_1m")))
    assert (window.context, window.source) == (context, source)


@pytest.mark.spec("S0.1")
def test_a_listed_window_counts_as_the_models_known_capability() -> None:
    window = Window.of(STRANGE.listed(Listing(300_000)), beta_1m=True)
    assert (window.context, window.source) == (300_000, "listing")


@pytest.mark.spec("S0.1")
def test_a_cap_limits_what_compaction_works_with_and_not_the_context_window() -> None:
    window = Window.of(OPUS, cap=200_000)
    assert (window.context, window.capped, window.effective, window.threshold) == (
        1_000_000,
        200_000,
        180_000,
        167_000,
    )
    assert Window.of(HAIKU, cap=500_000) == Window.of(HAIKU)


@pytest.mark.spec("S0.1", "S9.6")
def test_the_economic_window_of_a_model_is_a_cap_unless_another_is_set_or_nothing_compacts() -> None:
    profile = find("claude-haiku-5-5")
    assert Window.of(profile).capped == 100_000
    assert Window.of(profile).threshold == 67_000
    assert Window.of(profile, cap=1_000_000).capped == 1_000_000
    assert Window.of(profile, auto_compact=False).capped == 1_000_000


@pytest.mark.spec("S0.3")
@pytest.mark.parametrize(
    ("percent", "threshold"),
    [(50, 90_000), (33.3, 59_940), (12.34567, 22_222), (92, 165_600), (93, 167_000), (100, 167_000)],
)
def test_a_percentage_can_only_lower_the_threshold(percent: float, threshold: int) -> None:
    assert Window.of(HAIKU, percent=percent).threshold == threshold


@pytest.mark.spec("S0.3")
@pytest.mark.parametrize("percent", [*NO_NUMBER, 100.5, 101, "50"])
def test_what_is_no_percentage_is_ignored(percent: object) -> None:
    assert Window.of(HAIKU, percent=percent) == Window.of(HAIKU)


@pytest.mark.spec("S0.4")
@pytest.mark.parametrize("value", [*NO_NUMBER, 0.5])
def test_overrides_count_only_if_they_are_positive_numbers(value: object) -> None:
    assert Window.of(HAIKU, override=value, cap=value, max_output=value, blocking=value) == Window.of(HAIKU)


@pytest.mark.spec("S0.4")
def test_the_blocking_limit_can_be_overridden_and_moves_nothing_else() -> None:
    window = Window.of(HAIKU, blocking=120_000)
    assert window == msgspec.structs.replace(Window.of(HAIKU), blocking=120_000)


@pytest.mark.spec("S0.4")
def test_a_percentage_moves_the_warning_with_the_threshold() -> None:
    window = Window.of(HAIKU, percent=20)
    assert (window.threshold, window.warning, window.blocking) == (36_000, 16_000, 177_000)


# ---------------------------------------------------------------- any window


@pytest.mark.spec("S0.5")
@given(windows, outputs, percents)
def test_the_levels_of_any_window_are_positive_and_in_order(
    context: int, max_output: int, percent: object
) -> None:
    window = Window.of(HAIKU, override=context, max_output=max_output, percent=percent)
    assert (
        0
        < window.warning
        < window.threshold
        < window.blocking
        < window.effective
        <= window.context
        == context
    )
    assert window.error == window.warning


@pytest.mark.spec("S0.5")
@given(windows, outputs, percents)
def test_the_levels_are_in_order_with_auto_compact_off_too(
    context: int, max_output: int, percent: object
) -> None:
    window = Window.of(HAIKU, override=context, max_output=max_output, percent=percent, auto_compact=False)
    assert 0 < window.warning < window.blocking < window.effective == window.limit


@pytest.mark.spec("S0.5")
@given(st.integers(1, 4_000), st.integers(1, 4_000), outputs)
def test_not_even_an_absurdly_small_window_turns_the_levels_round(
    context: int, cap: int, max_output: int
) -> None:
    window = Window.of(HAIKU, override=context, cap=cap, max_output=max_output)
    assert 0 < window.warning < window.threshold < window.blocking < window.effective <= window.capped


@pytest.mark.spec("S0.2", "S0.3", "S0.4", "S0.5")
@given(st.integers(100_000, 10_000_000), st.integers(20_000, 200_000), st.booleans())
def test_from_a_hundred_thousand_tokens_on_the_distances_are_exact(
    context: int, max_output: int, auto: bool
) -> None:
    window = Window.of(HAIKU, override=context, max_output=max_output, auto_compact=auto)
    assert window.effective == context - 20_000
    assert window.threshold == window.effective - 13_000
    assert window.warning == window.limit - 20_000
    assert window.blocking == window.effective - 3_000
    assert window.scale == 1.0
    assert window.budget(40_000) == 40_000


@pytest.mark.spec("S0.5")
@given(st.integers(4_000, 100_000))
def test_below_that_everything_shrinks_in_proportion(context: int) -> None:
    window, full = Window.of(HAIKU, override=context), Window.of(HAIKU, override=100_000)
    for level in ("reserve", "effective", "threshold", "warning", "blocking"):
        assert getattr(window, level) == pytest.approx(getattr(full, level) * window.scale, abs=3)
    assert window.budget(40_000) == floor(40_000 * context / 100_000)


@pytest.mark.spec("S0.3")
@given(windows, st.floats(0, 100, exclude_min=True))
def test_a_percentage_never_raises_the_threshold(context: int, percent: float) -> None:
    plain, lowered = Window.of(HAIKU, override=context), Window.of(HAIKU, override=context, percent=percent)
    share = plain.effective * percent / 100
    assert lowered.threshold <= plain.threshold
    if 3 <= share < plain.threshold:
        assert share - 1 < lowered.threshold <= share + 1e-6
    assert lowered.effective == plain.effective
    assert lowered.blocking == plain.blocking


@pytest.mark.spec("S0.5")
def test_a_budget_never_shrinks_to_nothing() -> None:
    assert Window.of(HAIKU, override=4_000).budget(5) == 1


# ---------------------------------------------------------------- status


@pytest.mark.spec("S0.4")
@pytest.mark.parametrize(
    ("used", "flags"),
    [
        (0, (False, False, False, False)),
        (146_999, (False, False, False, False)),
        (147_000, (True, True, False, False)),
        (166_999, (True, True, False, False)),
        (167_000, (True, True, True, False)),
        (176_999, (True, True, True, False)),
        (177_000, (True, True, True, True)),
        (400_000, (True, True, True, True)),
    ],
)
def test_all_levels_are_inclusive(used: int, flags: tuple[bool, ...]) -> None:
    status = Window.of(HAIKU).status(used)
    assert (
        status.above_warning,
        status.above_error,
        status.above_auto_compact,
        status.at_blocking,
    ) == flags


@pytest.mark.spec("S0.4")
def test_nothing_is_above_auto_compact_while_it_is_off() -> None:
    status = Window.of(HAIKU, auto_compact=False).status(179_000)
    assert (status.above_auto_compact, status.above_error, status.at_blocking) == (False, True, True)


@pytest.mark.spec("S0.4")
@pytest.mark.parametrize(
    ("used", "left"), [(0, 100), (83_500, 50), (165_330, 1), (167_000, 0), (250_000, 0)]
)
def test_percent_left_counts_down_to_the_limit_and_no_further(used: int, left: int) -> None:
    status = Window.of(HAIKU).status(used)
    assert (status.used, status.limit, status.percent_left) == (used, 167_000, left)


@pytest.mark.spec("S0.4")
@given(windows, st.integers(0, 12_000_000), st.integers(0, 500_000))
def test_the_flags_hold_for_the_upper_edge_of_the_error_band(context: int, used: int, band: int) -> None:
    window = Window.of(HAIKU, override=context)
    banded, edge = window.status(used, band=band), window.status(used + band)
    assert banded == msgspec.structs.replace(
        edge, used=used, band=band, percent_left=window.status(used).percent_left
    )


@pytest.mark.spec("S0.4")
@given(windows, st.integers(0, 12_000_000), st.integers(0, 1_000_000))
def test_more_tokens_never_clear_a_flag(context: int, used: int, more: int) -> None:
    window = Window.of(HAIKU, override=context)
    before, after = window.status(used), window.status(used + more)
    assert after.percent_left <= before.percent_left
    for flag in ("above_warning", "above_error", "above_auto_compact", "at_blocking"):
        assert getattr(after, flag) >= getattr(before, flag)


def test_a_negative_band_counts_as_none() -> None:
    window = Window.of(HAIKU)
    assert window.status(147_000, band=-5_000) == window.status(147_000)
