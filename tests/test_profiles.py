"""What is true of a model, and finding it under any of its names."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.profiles import CLEAR_THINKING, CLEAR_TOOL_USES, Listing, Price, find, names
from sevenfold.providers.anthropic import MESSAGES
from sevenfold.providers.models import read_listing
from sevenfold.providers.openai.client import CHAT

PRESERVED = "fable-5-2 mythos-5-2 fable-5-1 mythos-5-1 opus-5-5 sonnet-5-5 haiku-5-5"
BOUND = {f"claude-{name}" for name in PRESERVED.split()}


def of_name(prefix: str) -> list[str]:
    return [name for name in names() if name.startswith(prefix)]


# ---------------------------------------------------------------- names


@pytest.mark.spec("S9.1")
@pytest.mark.parametrize("name", names())
def test_every_model_of_the_table_is_found_by_its_own_name_as_a_known_one(name: str) -> None:
    profile = find(name)
    assert (profile.name, profile.model, profile.known, profile.note) == (name, name, True, "")


@pytest.mark.spec("S9.1")
@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-opus-4-0", "claude-opus-4"),
        ("claude-opus-4-1-20250805", "claude-opus-4-1"),
        ("CLAUDE-Opus-5-5", "claude-opus-5-5"),
        (" claude-opus-5-5 ", "claude-opus-5-5"),
        ("claude-haiku-4-5-latest", "claude-haiku-4-5"),
        ("claude-3-5-haiku-20241022", "claude-3-5-haiku"),
        ("claude-3.5-haiku", "claude-3-5-haiku"),
        ("claude-3-opus-latest", "claude-3-opus"),
        ("claude-4.5-sonnet", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-5-5", "claude-sonnet-5-5"),
        ("anthropic:claude-opus-4.5", "claude-opus-4-5"),
        ("openrouter/anthropic/claude-3.7-sonnet:thinking", "claude-3-7-sonnet"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("us-gov.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("bedrock/global.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
        (
            "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-sonnet-4-6",
            "claude-sonnet-4-6",
        ),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet"),
    ],
)
def test_a_model_is_found_under_any_spelling_of_its_name(spelling: str, name: str) -> None:
    profile = find(spelling)
    assert (profile.name, profile.known) == (name, True)
    assert profile.model == spelling.strip()


@pytest.mark.spec("S0.1", "S9.1")
@pytest.mark.parametrize("spelling", ["claude-sonnet-4-5[1m]", "anthropic/claude-sonnet-4.5[1M]"])
def test_the_long_window_suffix_sets_the_window_and_is_not_part_of_the_name_to_send(spelling: str) -> None:
    profile = find(spelling)
    assert (profile.name, profile.window, profile.window_source) == (
        "claude-sonnet-4-5",
        1_000_000,
        "suffix",
    )
    assert profile.model == spelling[:-4]


@pytest.mark.spec("S9.1")
@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("claude-opus-9", "anthropic"),
        ("sonnet", "anthropic"),
        ("gpt-5.4", "openai"),
        ("gpt-oss:20b", "openai"),
        ("llama3.1:8b", "openai"),
        ("house-model", "openai"),
        ("", "openai"),
        ("<synthetic>", "openai"),
    ],
)
def test_an_unknown_model_gets_careful_defaults_no_price_and_a_note(name: str, provider: str) -> None:
    profile = find(name)
    assert (profile.known, profile.name, profile.provider) == (False, name, provider)
    assert profile.prices == ()
    assert profile.price(1) is None
    assert repr(name) in profile.note
    assert profile.note.endswith(".")


@pytest.mark.spec("S9.1", "S9.2")
def test_an_unknown_claude_is_treated_as_strictly_as_the_strictest() -> None:
    profile = find("claude-opus-9")
    assert profile.thinking.bound
    assert not (profile.prefill)
    assert not (profile.forced_tools)
    assert not (profile.system_messages)
    assert profile.edits == ()
    assert not profile.on_demand_compaction
    assert profile.cache.minimum == max(find(name).cache.minimum for name in of_name("claude-"))


@given(st.text(max_size=60))
def test_no_name_whatsoever_fails(name: str) -> None:
    profile = find(name)
    assert profile.window > 0
    assert profile.max_output > 0
    assert profile.known or profile.note


def test_profiles_are_looked_up_once_and_cannot_be_changed() -> None:
    profile = find("claude-opus-5-5")
    assert find("claude-opus-5-5") is profile
    with pytest.raises(AttributeError):
        profile.window = 1  # type: ignore[misc]  # the point of the test
    assert hash(profile) == hash(find("claude-opus-5-5"))


def test_the_table_is_not_read_at_import() -> None:
    forget, ask = "sys.modules.pop('tomllib', None)", "print('tomllib' in sys.modules)"
    code = f"import sys; {forget}; import sevenfold.profiles; {ask}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# ---------------------------------------------------------------- facts


@pytest.mark.spec("S9.1", "S9.6")
@pytest.mark.parametrize(
    ("name", "window", "max_output", "prices"),
    [
        ("claude-fable-5-2", 1_000_000, 128_000, (8, 40, 10, 16, 0.20)),
        ("claude-mythos-5-2", 1_000_000, 128_000, (8, 40, 10, 16, 0.20)),
        ("claude-fable-5-1", 1_000_000, 128_000, (10, 50, 12.5, 20, 0.25)),
        ("claude-mythos-5-1", 1_000_000, 128_000, (10, 50, 12.5, 20, 0.25)),
        ("claude-opus-5-5", 1_000_000, 128_000, (4, 20, 5, 8, 0.20)),
        ("claude-sonnet-5-5", 1_000_000, 128_000, (2, 10, 2.5, 4, 0.10)),
        ("claude-haiku-5-5", 1_000_000, 128_000, (0.10, 0.50, 0.125, 0.20, 0.01)),
        ("claude-opus-5", 1_000_000, 128_000, (5, 25, 6.25, 10, 0.50)),
        ("claude-sonnet-5", 1_000_000, 128_000, (2, 10, 2.5, 4, 0.20)),
        ("claude-fable-5", 1_000_000, 128_000, (10, 50, 12.5, 20, 1)),
        ("claude-mythos-5", 1_000_000, 128_000, (10, 50, 12.5, 20, 1)),
        ("claude-opus-4-8", 1_000_000, 128_000, (5, 25, 6.25, 10, 0.50)),
        ("claude-opus-4-7", 1_000_000, 128_000, (5, 25, 6.25, 10, 0.50)),
        ("claude-opus-4-6", 1_000_000, 128_000, (5, 25, 6.25, 10, 0.50)),
        ("claude-opus-4-5", 200_000, 64_000, (5, 25, 6.25, 10, 0.50)),
        ("claude-sonnet-4-6", 1_000_000, 128_000, (3, 15, 3.75, 6, 0.30)),
        ("claude-sonnet-4-5", 200_000, 64_000, (3, 15, 3.75, 6, 0.30)),
        ("claude-haiku-4-5", 200_000, 64_000, (1, 5, 1.25, 2, 0.10)),
    ],
)
def test_window_output_and_prices_are_those_of_the_price_list(
    name: str, window: int, max_output: int, prices: tuple[float, ...]
) -> None:
    profile = find(name)
    assert (profile.window, profile.window_source, profile.max_output) == (window, "table", max_output)
    row = profile.price(1)
    assert row is not None
    assert (row.input, row.output, row.write_5m, row.write_1h, row.read) == prices


@pytest.mark.spec("S9.6")
@pytest.mark.parametrize("name", of_name("claude-"))
def test_cache_prices_are_the_stated_multiples_of_the_input_price(name: str) -> None:
    for row in find(name).prices:
        assert row.write_5m == pytest.approx(1.25 * row.input, rel=0.05)
        assert row.write_1h == pytest.approx(2 * row.input)
        assert row.read / row.input == pytest.approx(0.1, rel=0.21) or row.read / row.input in (0.05, 0.025)


@pytest.mark.spec("S9.6")
@pytest.mark.parametrize("name", names())
def test_price_rows_start_at_zero_and_rise(name: str) -> None:
    steps = [row.above for row in find(name).prices]
    assert steps == sorted(set(steps))
    assert steps[:1] in ([], [0])


@pytest.mark.spec("S9.6")
def test_a_price_row_holds_from_the_first_token_above_its_step() -> None:
    profile = find("claude-haiku-5-5")
    below, above = profile.prices
    assert [profile.price(size) for size in (0, 100_000, 100_001)] == [below, below, above]
    assert (above.input, above.output, above.write_5m, above.write_1h, above.read) == (
        0.5,
        2.5,
        0.625,
        1,
        0.05,
    )
    assert profile.economic_window == 100_000


@pytest.mark.spec("S9.6")
def test_the_price_of_a_write_follows_the_lifetime() -> None:
    row = Price(input=1, output=5, write_5m=1.25, write_1h=2, read=0.1)
    assert [row.write(seconds) for seconds in (300, 1_800, 3_600, 43_200)] == [1.25, 1.25, 2, 2]


@pytest.mark.spec("S9.2")
def test_exactly_the_models_with_preserved_thinking_are_bound() -> None:
    assert {name for name in names() if find(name).thinking.bound} == BOUND
    assert all((find(name).thinking.on_mismatch == "ignored") == (name not in BOUND) for name in names())


@pytest.mark.spec("S9.1", "S9.2")
@pytest.mark.parametrize(
    ("name", "modes", "off"),
    [
        ("claude-sonnet-4-5", {"enabled", "disabled"}, "disabled"),
        ("claude-opus-4-6", {"adaptive", "enabled", "disabled"}, "disabled"),
        ("claude-opus-4-7", {"adaptive", "disabled"}, "disabled"),
        ("claude-opus-5", {"adaptive", "disabled"}, "disabled"),
        ("claude-fable-5", {"adaptive"}, None),
        ("claude-opus-5-5", {"adaptive"}, None),
        ("claude-sonnet-5-5", {"adaptive", "between_tools"}, "between_tools"),
        ("claude-haiku-5-5", {"adaptive", "disabled"}, "disabled"),
        ("gpt-5.4", set(), None),
    ],
)
def test_thinking_modes_and_how_to_switch_it_off(name: str, modes: set[str], off: str | None) -> None:
    thinking = find(name).thinking
    assert (set(thinking.modes), thinking.off) == (modes, off)


@pytest.mark.spec("S9.1")
def test_thinking_of_earlier_turns_stays_from_opus_4_5_and_sonnet_4_6_on() -> None:
    dropping = {name for name in of_name("claude-") if not find(name).thinking.kept}
    assert {"claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-1"} <= dropping
    assert not dropping & {*BOUND, "claude-opus-4-5", "claude-sonnet-4-6", "claude-fable-5"}


@pytest.mark.spec("S9.1")
@pytest.mark.parametrize(
    ("minimum", "model_names"),
    [
        (512, [*sorted(BOUND), "claude-opus-5", "claude-fable-5", "claude-mythos-5"]),
        (1_024, ["claude-opus-4-8", "claude-sonnet-5", "claude-sonnet-4-6", "claude-sonnet-4-5"]),
        (2_048, ["claude-opus-4-7", "claude-mythos-preview"]),
        (4_096, ["claude-opus-4-6", "claude-opus-4-5", "claude-haiku-4-5"]),
        (1_024, ["gpt-5.4", "gpt-6.1-sol"]),
    ],
)
def test_the_smallest_prefix_that_is_cached(minimum: int, model_names: list[str]) -> None:
    assert {find(name).cache.minimum for name in model_names} == {minimum}


@pytest.mark.spec("S9.1", "S6.3")
@pytest.mark.parametrize("name", of_name("claude-"))
def test_claude_caches_at_four_markers_with_a_look_back_of_twenty_for_five_minutes_or_an_hour(
    name: str,
) -> None:
    cache = find(name).cache
    assert (cache.automatic, cache.markers, cache.look_back, cache.lifetimes) == (
        False,
        4,
        20,
        (300, 3_600),
    )
    assert cache.runs_collapse


@pytest.mark.spec("S9.4", "S9.7")
def test_a_summary_nobody_can_read_comes_behind_those_that_can_be_checked() -> None:
    assert find("claude-sonnet-5-5").engines == ("provider", "fork", "plain")
    for name in ("gpt-5.6-terra", "gpt-6.1-sol"):
        assert find(name).on_demand_compaction
        assert find(name).engines == ("fork", "plain", "provider")


@pytest.mark.spec("S9.7")
def test_openai_compatible_servers_cache_by_themselves_and_newer_gpt_models_take_markers_too() -> None:
    assert all(find(name).cache.automatic for name in ("gpt-4o", "gpt-5.4", "gpt-6.1-sol", "qwen3:8b"))
    assert [find(name).cache.markers for name in ("gpt-5.4", "gpt-5.6-terra", "gpt-6-luna")] == [0, 4, 4]
    assert find("gpt-5.6-terra").cache.look_back is None
    assert [find(name).wire for name in ("qwen3:8b", "gpt-5.4", "gpt-5.6-terra")] == [
        "chat",
        "chat",
        "responses",
    ]
    assert find("meta-llama/Llama-3.1-8B").window == 8_192


@pytest.mark.spec("S9.1")
def test_the_tokenizer_changes_with_claude_4_7() -> None:
    older = {name for name in of_name("claude-") if find(name).tokenizer == "claude-a"}
    assert {"claude-sonnet-4-6", "claude-opus-4-6", "claude-haiku-4-5"} <= older
    assert not older & {*BOUND, "claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5", "claude-opus-5"}


@pytest.mark.spec("S9.3")
def test_which_models_take_changes_inside_a_conversation() -> None:
    taking = {name for name in of_name("claude-") if find(name).system_messages}
    unbound = {f"claude-{name}" for name in ("opus-4-8", "opus-5", "fable-5", "mythos-5")}
    assert taking == BOUND - {"claude-haiku-5-5"} | unbound
    assert {name for name in of_name("claude-") if find(name).tool_changes} == taking


@pytest.mark.spec("S9.1")
def test_which_requests_a_model_refuses() -> None:
    claude = [find(name) for name in of_name("claude-")]
    assert {p.name for p in claude if not p.forced_tools} == BOUND - {"claude-haiku-5-5"}
    assert {p.window for p in claude if p.prefill} == {200_000}
    assert {p.window for p in claude if not p.prefill} == {1_000_000}
    assert {(p.images, p.window) for p in claude} == {(100, 200_000), (600, 1_000_000)}
    assert {p.body_bytes for p in claude} == {32_000_000}


@pytest.mark.spec("S2.6", "S9.4")
def test_which_models_the_server_edits_and_compacts_for() -> None:
    assert find("claude-haiku-4-5").edits == (CLEAR_TOOL_USES, CLEAR_THINKING)
    assert find("claude-3-5-haiku").edits == find("gpt-5.4").edits == ()
    compacting = {name for name in of_name("claude-") if find(name).on_demand_compaction}
    assert compacting == {name for name in of_name("claude-") if find(name).window == 1_000_000}
    assert compacting - {name for name in names() if find(name).threshold_compaction} == {
        "claude-haiku-5-5"
    }
    assert not any(find(name).pinned_edits for name in names())
    betas = find("claude-opus-5-5").betas
    assert (betas.edits, betas.on_demand_compaction) == (
        "context-management-2025-06-27",
        "compact-2026-09-04",
    )


# ---------------------------------------------------------------- a live listing


def capability(supported: bool) -> dict[str, bool]:
    return {"supported": supported}


@pytest.mark.spec("S9.1")
def test_a_live_listing_overrides_window_output_and_abilities() -> None:
    listing = Listing(
        window=400_000,
        answer=96_000,
        capabilities={
            "thinking": {
                "supported": True,
                "types": {
                    "adaptive": capability(True),
                    "enabled": capability(False),
                    "disabled": capability(True),
                },
            },
            "context_management": {
                "supported": True,
                CLEAR_TOOL_USES: capability(True),
                CLEAR_THINKING: capability(False),
                "compact_20260112": capability(True),
            },
            "compaction": {"supported": True, "summarize": capability(True)},
        },
    )
    listed = find("claude-opus-4-5").listed(listing)
    assert (listed.window, listed.window_source, listed.max_output) == (400_000, "listing", 96_000)
    assert listed.thinking.modes == ("adaptive", "disabled")
    assert listed.thinking.kept
    assert listed.edits == (CLEAR_TOOL_USES,)
    assert listed.threshold_compaction
    assert listed.on_demand_compaction
    assert listed.prices == find("claude-opus-4-5").prices


@pytest.mark.spec("S9.1")
@pytest.mark.parametrize(
    "capabilities",
    [None, [], {}, {"thinking": None}, {"compaction": None, "context_management": {"supported": True}}],
)
def test_what_a_listing_leaves_out_stays_as_the_table_has_it(capabilities: object) -> None:
    profile = find("claude-sonnet-5-5")
    listing = read_listing(msgspec.json.encode({"id": "m", "capabilities": capabilities}), "m")
    assert listing is not None
    assert profile.listed(listing) == profile


@pytest.mark.spec("S9.1")
def test_a_listing_can_deny_a_whole_group_of_abilities() -> None:
    denied = {"context_management": capability(False), "compaction": capability(False)}
    listed = find("claude-sonnet-5-5").listed(Listing(capabilities=denied))
    assert (listed.edits, listed.threshold_compaction, listed.on_demand_compaction) == ((), False, False)


@pytest.mark.spec("S0.1")
def test_a_listing_does_not_take_back_the_window_the_user_asked_for_by_suffix() -> None:
    listed = find("claude-sonnet-4-5[1m]").listed(Listing(200_000, 1_000))
    assert (listed.window, listed.window_source, listed.max_output) == (1_000_000, "suffix", 1_000)


def test_a_listing_makes_an_unknown_window_a_known_one() -> None:
    listed = find("house-model").listed(Listing(32_768))
    assert (listed.window, listed.window_source) == (32_768, "listing")


@pytest.mark.spec("S9.1", "S9.7")
def test_behind_another_api_a_model_has_nothing_that_only_its_own_has():
    claude = find("claude-sonnet-5-5")
    assert MESSAGES.profile(claude) == claude
    behind = CHAT.profile(claude)
    assert (behind.wire, behind.window, behind.prices) == ("chat", claude.window, claude.prices)
    assert (behind.edits, behind.cache.markers) == ((), 0)
    assert (behind.on_demand_compaction, behind.thinking.bound) == (False, False)
    gpt = find("gpt-5.6")
    assert gpt.on_demand_compaction
    assert not CHAT.profile(gpt).on_demand_compaction
    assert MESSAGES.profile(find("house-model")).thinking.bound
