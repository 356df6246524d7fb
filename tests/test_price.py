"""What a call used and what it cost."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.profiles import find, names
from sevenfold.record.usage import Account, BilledCall, Iteration, Tally, Usage, ideal_cost

OPUS = find("claude-opus-4-5")  # 5 / 25, write 6.25 or 10, read 0.50
HAIKU = find("claude-haiku-5-5")  # five times the price above 100,000
UNPRICED = find("gpt-5.4")

counts = st.integers(0, 2_000_000)
usages = st.builds(
    Usage,
    input_tokens=counts,
    cache_read_input_tokens=counts,
    cache_creation_5m=counts,
    cache_creation_1h=counts,
    output_tokens=counts,
)


# ---------------------------------------------------------------- usage


@pytest.mark.spec("S0.6")
def test_a_reported_usage_is_read_with_its_cache_split() -> None:
    usage = Usage.of(
        {
            "input_tokens": 2,
            "cache_read_input_tokens": 28_781,
            "cache_creation_input_tokens": 148_599,
            "cache_creation": {"ephemeral_5m_input_tokens": 599, "ephemeral_1h_input_tokens": 148_000},
            "output_tokens": 749,
            "service_tier": "standard",
        }
    )
    assert (usage.cache_creation_5m, usage.cache_creation_1h) == (599, 148_000)
    assert usage.prompt == 2 + 28_781 + 148_599
    assert usage.total == usage.prompt + 749


@pytest.mark.spec("S9.6")
@pytest.mark.parametrize(
    "split", [{}, {"cache_creation": None}, {"cache_creation": {}}, {"cache_creation": 7}]
)
def test_tokens_written_without_a_split_count_as_short_lived(split: dict[str, Any]) -> None:
    usage = Usage.of({"cache_creation_input_tokens": 900, **split})
    assert (usage.cache_creation_5m, usage.cache_creation_1h) == (900, 0)


@pytest.mark.spec("S9.6")
@pytest.mark.parametrize(
    ("total", "short", "long", "read"),
    [(None, 10, 20, (10, 20)), (0, 10, 20, (10, 20)), (50, 10, 20, (30, 20)), (15, 10, 20, (0, 15))],
)
def test_where_split_and_total_disagree_the_total_decides(
    total: int | None, short: int, long: int, read: tuple[int, int]
) -> None:
    split = {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long}
    usage = Usage.of({"cache_creation_input_tokens": total, "cache_creation": split})
    assert (usage.cache_creation_5m, usage.cache_creation_1h) == read


@pytest.mark.parametrize("nothing", [None, -5, "12", True, 1.5, []])
def test_what_is_no_count_is_nothing(nothing: object) -> None:
    keys = (
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "iterations",
    )
    assert Usage.of(dict.fromkeys(keys, nothing)) == Usage() == Usage.of({})


ROUND = {"type": "message", "input_tokens": 10, "cache_read_input_tokens": 40_000, "output_tokens": 100}
SUMMARY = {"type": "compaction", "input_tokens": 90_000, "output_tokens": 3_000}


def test_a_single_round_says_no_more_than_the_totals() -> None:
    assert Usage.of({**ROUND, "iterations": [ROUND]}).iterations == ()
    assert Usage.of({**ROUND, "iterations": None}).iterations == ()


@pytest.mark.spec("S0.6")
def test_rounds_of_the_answer_are_told_from_the_call_that_wrote_a_summary() -> None:
    later = {**ROUND, "cache_read_input_tokens": 41_000}
    totals = {"input_tokens": 20, "cache_read_input_tokens": 81_000, "output_tokens": 200}
    usage = Usage.of({**totals, "iterations": [SUMMARY, ROUND, later, SUMMARY]})
    assert usage.total == 81_220
    assert [part.answers for part in usage.iterations] == [False, True, True, False]


@pytest.mark.spec("S0.6", "S9.4")
def test_an_on_demand_compaction_tells_nothing_of_the_window() -> None:
    usage = Usage.of({"input_tokens": 0, "output_tokens": 0, "iterations": [SUMMARY]})
    assert usage.total == 0
    assert usage.iterations == (Iteration("compaction", Usage(input_tokens=90_000, output_tokens=3_000)),)


def test_a_usage_survives_encoding() -> None:
    usage = Usage.of({**ROUND, "iterations": [SUMMARY, ROUND]})
    assert msgspec.json.decode(msgspec.json.encode(usage), type=Usage) == usage


# ---------------------------------------------------------------- cost


@pytest.mark.spec("S9.6")
def test_each_kind_of_token_has_its_own_price() -> None:
    usage = Usage(
        input_tokens=1_000,
        cache_read_input_tokens=100_000,
        cache_creation_5m=2_000,
        cache_creation_1h=3_000,
        output_tokens=400,
    )
    assert Usage.cost(usage, OPUS) == pytest.approx(0.005 + 0.05 + 0.0125 + 0.03 + 0.01, rel=1e-12)
    assert Usage.uncached_cost(usage, OPUS) == pytest.approx(106_000 * 5e-6 + 0.01, rel=1e-12)


@pytest.mark.spec("S9.6")
def test_a_million_of_everything_costs_the_price_list() -> None:
    usage = Usage(
        input_tokens=10**6,
        cache_read_input_tokens=10**6,
        cache_creation_5m=10**6,
        cache_creation_1h=10**6,
        output_tokens=10**6,
    )
    assert Usage.cost(usage, OPUS) == 5 + 0.5 + 6.25 + 10 + 25
    assert Usage.uncached_cost(usage, OPUS) == 4 * 5 + 25


@pytest.mark.spec("S9.6")
def test_the_price_steps_up_with_the_whole_prompt_cached_tokens_included() -> None:
    below = Usage(input_tokens=50_000, cache_read_input_tokens=50_000, output_tokens=1_000)
    above = Usage(input_tokens=50_000, cache_read_input_tokens=50_001, output_tokens=1_000)
    assert Usage.cost(below, HAIKU) == pytest.approx(0.005 + 0.0005 + 0.0005)
    assert Usage.cost(above, HAIKU) == pytest.approx(0.025 + 50_001 * 0.05e-6 + 0.0025)
    assert Usage.uncached_cost(above, HAIKU) == pytest.approx(100_001 * 0.5e-6 + 0.0025)


@pytest.mark.spec("S9.6")
def test_output_does_not_count_towards_the_price_step() -> None:
    usage = Usage(input_tokens=100_000, output_tokens=100_000)
    assert Usage.cost(usage, HAIKU) == pytest.approx(0.01 + 0.05)


@pytest.mark.spec("S9.6")
def test_rounds_of_one_call_are_priced_each_by_its_own_size() -> None:
    part = {"type": "message", "input_tokens": 60_000, "output_tokens": 0}
    usage = Usage.of({"input_tokens": 120_000, "output_tokens": 0, "iterations": [part, part]})
    assert Usage.cost(usage, HAIKU) == pytest.approx(0.012)


@pytest.mark.spec("S9.6", "S9.4")
def test_a_compaction_inside_a_call_is_billed_on_top_of_the_totals() -> None:
    plain = Usage.of(ROUND)
    summary = Usage.of(SUMMARY)
    expected = (Usage.cost(plain, OPUS) or 0) + (Usage.cost(summary, OPUS) or 0)
    assert Usage.cost(Usage.of({**ROUND, "iterations": [SUMMARY, ROUND]}), OPUS) == pytest.approx(expected)
    assert Usage.cost(Usage.of({**ROUND, "iterations": [SUMMARY]}), OPUS) == pytest.approx(expected)
    assert Usage.cost(Usage.of({"input_tokens": 0, "iterations": [SUMMARY]}), OPUS) == Usage.cost(
        summary, OPUS
    )


@pytest.mark.spec("S9.6")
def test_a_part_run_by_another_model_is_billed_at_that_models_price() -> None:
    advice = {
        "type": "advisor_message",
        "model": "claude-opus-5-5",
        "input_tokens": 1_000_000,
        "output_tokens": 0,
    }
    usage = Usage.of({**ROUND, "iterations": [ROUND, advice]})
    assert Usage.cost(usage, OPUS) == pytest.approx((Usage.cost(Usage.of(ROUND), OPUS) or 0) + 4)


@pytest.mark.spec("S9.1", "S9.6")
def test_unknown_prices_give_no_cost_at_all() -> None:
    usage = Usage(input_tokens=10)
    assert Usage.cost(usage, UNPRICED) is Usage.uncached_cost(usage, UNPRICED) is None
    assert ideal_cost([BilledCall(10, 1, 300)], UNPRICED) is None
    advice = {"type": "advisor_message", "model": "gpt-5.4", "input_tokens": 5, "output_tokens": 0}
    assert Usage.cost(Usage.of({**ROUND, "iterations": [ROUND, advice]}), OPUS) is None


@pytest.mark.spec("S9.6")
@given(usages, st.sampled_from([name for name in names() if find(name).prices]))
def test_reading_saves_and_writing_costs_against_no_cache(usage: Usage, name: str) -> None:
    profile = find(name)
    paid, plain, row = (
        Usage.cost(usage, profile),
        Usage.uncached_cost(usage, profile),
        profile.price(usage.prompt),
    )
    assert paid is not None
    assert plain is not None
    assert row is not None
    saved = usage.cache_read_input_tokens * (row.input - row.read)
    extra = usage.cache_creation_5m * (row.write_5m - row.input) + usage.cache_creation_1h * (
        row.write_1h - row.input
    )
    assert plain - paid == pytest.approx((saved - extra) / 1e6, abs=1e-9)
    assert saved >= 0
    assert extra >= 0


# ---------------------------------------------------------------- ideal


@pytest.mark.spec("S9.6")
def test_ideally_each_prompt_token_is_written_once_and_then_read() -> None:
    calls = [BilledCall(10_000, 100, 300), BilledCall(12_000, 200, 300), BilledCall(15_000, 300, 3_600)]
    written = 10_000 * 6.25 + 2_000 * 6.25 + 3_000 * 10
    read = (10_000 + 12_000) * 0.5
    assert ideal_cost(calls, OPUS) == pytest.approx((written + read + 600 * 25) / 1e6, rel=1e-12)


@pytest.mark.spec("S9.6")
def test_a_shorter_prompt_is_read_whole_and_what_was_written_stays_written() -> None:
    calls = [BilledCall(10_000, 0, 300), BilledCall(4_000, 0, 300), BilledCall(10_000, 0, 300)]
    assert ideal_cost(calls, OPUS) == pytest.approx((10_000 * 6.25 + 14_000 * 0.5) / 1e6)


@pytest.mark.spec("S9.6")
def test_the_ideal_pays_the_price_row_of_each_prompt() -> None:
    calls = [BilledCall(100_000, 0, 300), BilledCall(100_001, 0, 300)]
    assert ideal_cost(calls, HAIKU) == pytest.approx((100_000 * 0.125 + 100_000 * 0.05 + 0.625) / 1e6)


@pytest.mark.spec("S9.6")
def test_a_run_of_no_calls_costs_nothing() -> None:
    assert ideal_cost([], OPUS) == 0


@pytest.mark.spec("S9.6")
@given(st.lists(st.tuples(st.integers(0, 50_000), st.integers(0, 5_000)), min_size=1, max_size=30))
def test_a_session_that_caches_perfectly_pays_the_ideal(turns: list[tuple[int, int]]) -> None:
    prompt, paid, calls = 0, 0.0, []
    for grown, output in turns:
        usage = Usage(cache_read_input_tokens=prompt, cache_creation_1h=grown, output_tokens=output)
        paid += Usage.cost(usage, OPUS) or 0
        prompt += grown
        calls.append(BilledCall(prompt, output, 3_600))
    assert ideal_cost(calls, OPUS) == pytest.approx(paid)


COUNTS = st.none() | st.integers(-5, 10**6)
SPLITS = st.none() | st.dictionaries(
    st.sampled_from(["ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"]), COUNTS
)
ITERATIONS = st.none() | st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["message", "compaction"])}), max_size=2
)
REPORTS = st.fixed_dictionaries(
    {},
    optional={
        "input_tokens": COUNTS,
        "cache_read_input_tokens": COUNTS,
        "cache_creation_input_tokens": COUNTS,
        "output_tokens": COUNTS,
        "cache_creation": SPLITS,
        "iterations": ITERATIONS,
        "service_tier": st.text(max_size=3),
    },
)


@given(REPORTS)
def test_reading_a_report_from_its_bytes_gives_what_reading_it_decoded_gives(reported):
    assert Usage.read(json.dumps(reported).encode()) == Usage.of(reported)


@pytest.mark.spec("S9.6")
def test_a_reported_usage_is_read_from_its_bytes_with_its_cache_split() -> None:
    split = {"ephemeral_5m_input_tokens": 599, "ephemeral_1h_input_tokens": 148_000}
    report = {"input_tokens": 2, "cache_creation_input_tokens": 148_599, "cache_creation": split}
    usage = Usage.read(json.dumps(report).encode())
    assert (usage.cache_creation_5m, usage.cache_creation_1h) == (599, 148_000)
    assert usage.prompt == 148_601


@pytest.mark.spec("S9.6")
def test_an_account_adds_up_what_is_billed_and_one_unknown_price_makes_it_unknown_for_good() -> None:
    paid = Account().billed(0.25).billed(0.5)
    assert paid.usd == 0.75
    unknown = paid.billed(None)
    assert unknown.usd is None
    assert unknown.billed(0.5).usd is None


@pytest.mark.spec("S9.6")
def test_the_share_read_from_the_cache_is_that_of_all_prompts() -> None:
    assert Tally().share is None
    tally = (
        Tally().after(Usage(input_tokens=300)).after(Usage(input_tokens=100, cache_read_input_tokens=400))
    )
    assert tally == Tally(400, 800)
    assert tally.share == 0.5
