"""The planner of clearings: what goes when, and what never goes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sevenfold.conversation.room import Limits
from sevenfold.layers.clear import policy as clear
from sevenfold.layers.clear.ledger import SHARE, CostLedger
from sevenfold.layers.clear.policy import ClearingMoment, OldResult, Plan, ProviderCut
from sevenfold.profiles import find
from sevenfold.record.window import Window
from sevenfold.settings import Settings

PROFILE = find("claude-opus-4-6")
WINDOW = Window.of(PROFILE, override=200_000)
PRICE = PROFILE.prices[0]


def moment(*tokens: int, results: list[OldResult] | None = None, **known: Any) -> ClearingMoment:
    """A warm session that has cost a lot; results of these sizes, oldest first."""
    held = (
        results
        if results is not None
        else [OldResult(f"t{n}", size, wire=3 * size) for n, size in enumerate(tokens)]
    )
    total = sum(one.tokens for one in held)
    usual: dict[str, Any] = {
        "results": held,
        "size": total + 10_000,
        "fixed": 5_000,
        "window": WINDOW,
        "settings": Settings(),
        "price": PRICE,
        "lifetime": 300,
        "idle": 10.0,
        "expected": 50,
        "spent": 1_000.0,
    }
    made = {**usual, **known}
    return ClearingMoment(**{"upper_size": made["size"], **made})


def after(was: ClearingMoment, made: Plan) -> ClearingMoment:
    """The session once the plan was carried out."""
    left = [one for one in was.results if one.call not in made.targets]
    return replace(was, results=left, size=was.size - made.tokens, upper_size=was.upper_size - made.tokens)


held = st.builds(
    OldResult,
    call=st.uuids().map(str),
    tokens=st.integers(0, 30_000),
    error=st.booleans(),
    kept=st.booleans(),
    images=st.integers(0, 3),
    wire=st.integers(0, 2_000_000),
)


@st.composite
def moments(draw: st.DrawFn) -> ClearingMoment:
    results = draw(st.lists(held, max_size=25, unique_by=lambda one: one.call))
    return moment(
        results=results,
        size=sum(one.tokens for one in results) + draw(st.integers(5_000, 120_000)),
        idle=draw(st.none() | st.floats(0, 10_000)),
        lifetime=draw(st.sampled_from([300, 3_600])),
        spent=draw(st.floats(0, 100)),
        ledger=CostLedger(owed=draw(st.floats(0, 1))),
        expected=draw(st.integers(1, 60)),
        bound=draw(st.booleans()),
        mid_turn=draw(st.booleans()),
        provider=draw(st.booleans()),
        compacts=draw(st.booleans()),
        thinking=draw(st.integers(0, 5_000)),
        reasoning=draw(st.integers(0, 9_000)),
        price=draw(st.sampled_from([PRICE, None])),
        wire=sum(one.wire for one in results),
        limits=Limits(
            draw(st.none() | st.integers(1_000, 20_000_000)), draw(st.none() | st.integers(0, 20))
        ),
        images=sum(one.images for one in results),
    )


@st.composite
def large(draw: st.DrawFn) -> ClearingMoment:
    """Sessions whose results have grown large, warm or after a pause."""
    return moment(
        *draw(st.lists(st.integers(4_000, 8_000), min_size=12, max_size=16)),
        idle=draw(st.sampled_from([10.0, 400.0])),
        spent=draw(st.floats(1, 2_000)),
        ledger=CostLedger(owed=draw(st.sampled_from([0.0, 0.05, 0.3]))),
        expected=draw(st.integers(10, 50)),
    )


@pytest.mark.spec("S2.4")
@given(moments())
def test_what_must_stay_stays_and_errors_use_up_no_slot(now: ClearingMoment) -> None:
    made = clear.plan(now)
    stays = {one.call for one in now.results if one.kept}
    keep = {"pause": 5, "full": 3, "size": 3, "room": 1}.get(made.cause, 0)
    good = [one.call for one in now.results if not one.error]
    stays |= set(good[len(good) - min(keep, len(good)) :])
    assert stays.isdisjoint(made.targets)
    assert len(set(made.targets)) == len(made.targets)
    assert (made.chosen == "clear") == bool(made.targets or made.drops_thinking)


@pytest.mark.spec("S8.2")
@given(moments())
def test_with_both_switches_off_nothing_is_ever_cleared(now: ClearingMoment) -> None:
    off = Settings(size_clearing=False, gap_clearing=False)
    assert clear.plan(replace(now, settings=off)).chosen == "nothing"


@pytest.mark.spec("S2.2", "S8.2")
@given(moments())
def test_each_switch_alone_turns_its_own_rules_off(now: ClearingMoment) -> None:
    by_size = replace(now, settings=Settings(gap_clearing=False))
    assert clear.plan(by_size).cause in ("", "room", "full", "size")
    by_gap = replace(now, settings=Settings(size_clearing=False))
    assert clear.plan(by_gap).cause in ("", "pause")


@pytest.mark.spec("S2.5", "S2.12", "S9.6")
@given(large())
def test_a_clearing_for_its_own_sake_never_costs_more_than_the_session_can_bear(
    now: ClearingMoment,
) -> None:
    made = clear.plan(replace(now, idle=10.0))
    if made.chosen == "clear":
        assert made.cause == "size"
        assert made.usd is not None
        assert made.usd + now.ledger.owed <= SHARE * now.spent
        assert made.tokens * PRICE.read * now.expected / 1e6 > made.usd
    else:
        assert made.options, "what was considered is told"


@pytest.mark.spec("S9.2")
@given(moments())
def test_bound_reasoning_is_given_up_only_where_something_forces_or_repays_it(now: ClearingMoment) -> None:
    made = clear.plan(replace(now, bound=True))
    assert made.cause != "size"
    if made.targets:
        assert made.drops_all_thinking
    if made.cause == "pause" and now.mid_turn:
        assert not made.targets


@pytest.mark.spec("S2.4")
@given(large())
def test_planning_again_changes_nothing(now: ClearingMoment) -> None:
    made = clear.plan(now)
    again = clear.plan(after(now, made))
    assert again.chosen == "nothing", again


@pytest.mark.spec("S2.4")
def test_clearing_by_size_goes_well_below_its_trigger() -> None:
    made = clear.plan(moment(*[6_000] * 10))
    assert made.cause == "size"
    assert made.targets == tuple(f"t{n}" for n in range(7))
    left = 10 - len(made.targets)
    assert left == 3, "the newest three stay even if they are more than the target"
    many = clear.plan(moment(*[2_000] * 30))
    assert 60_000 - len(many.targets) * 2_000 <= 20_000 + 2_000
    assert many.targets == tuple(f"t{n}" for n in range(len(many.targets))), "oldest first"


@pytest.mark.spec("S2.4")
@pytest.mark.parametrize(
    ("tokens", "because"),
    [([3_000] * 10, ""), ([1_000] * 5 + [12_000] * 3, "too little to be worth it")],
)
def test_under_the_trigger_or_for_little_nothing_is_cleared(tokens: list[int], because: str) -> None:
    made = clear.plan(moment(*tokens))
    assert made.chosen == "nothing"
    assert [one.because for one in made.options] == ([because] if because else [])


@pytest.mark.spec("S2.4")
def test_error_results_leave_the_slots_to_others() -> None:
    results = [OldResult(f"t{n}", 8_000) for n in range(6)] + [
        OldResult(f"e{n}", 8_000, error=True) for n in range(3)
    ]
    made = clear.plan(moment(results=results))
    assert made.targets == ("t0", "t1", "t2")


@pytest.mark.spec("S2.5")
@pytest.mark.parametrize(
    ("known", "because"),
    [
        ({"expected": 3}, "costs more than 3 requests would save"),
        ({"spent": 1.0}, "more than the session can bear"),
        ({"spent": 10.0, "ledger": CostLedger(owed=0.25)}, "more than the session can bear"),
        ({"provider": True}, "it clears by itself"),
        ({"bound": True}, "invalidate the reasoning in view"),
    ],
)
def test_a_warm_cache_is_spoilt_only_when_that_pays(known: dict[str, Any], because: str) -> None:
    made = clear.plan(moment(*[6_000] * 10, **known))
    assert made.chosen == "nothing"
    assert because in made.options[-1].because
    assert clear.plan(moment(*[6_000] * 10)).cause == "size"


@pytest.mark.spec("S2.2")
@pytest.mark.parametrize(
    ("lifetime", "idle", "margin", "clears"),
    [
        (300, 299.0, 0, False),
        (300, 301.0, 0, True),
        (300, 301.0, 60, False),
        (3_600, 3_599.0, 0, False),
        (3_600, 3_601.0, 0, True),
    ],
)
def test_a_pause_counts_from_the_end_of_the_caches_lifetime(
    lifetime: int, idle: float, margin: int, clears: bool
) -> None:
    settings = Settings(gap_margin_seconds=margin)
    made = clear.plan(moment(*[1_000] * 9, lifetime=lifetime, idle=idle, settings=settings))
    assert made.targets == (("t0", "t1", "t2", "t3") if clears else ())
    if clears:
        assert made.usd == pytest.approx(-made.tokens * PRICE.write(lifetime) / 1e6)


@pytest.mark.spec("S2.2")
def test_before_the_first_answer_there_is_no_pause() -> None:
    assert clear.plan(moment(*[1_000] * 9, idle=None)).chosen == "nothing"


@pytest.mark.spec("S2.2", "S2.6", "S9.2")
def test_after_a_pause_old_reasoning_alone_may_go_even_where_it_is_bound() -> None:
    made = clear.plan(moment(1_000, idle=4_000.0, bound=True, thinking=3_000, reasoning=5_000))
    assert (made.targets, made.tokens) == ((), 3_000)
    assert made.drops_thinking
    assert not made.drops_all_thinking


@pytest.mark.spec("S2.8", "S17.1")
def test_at_the_threshold_results_go_if_that_is_enough_and_else_it_is_left_to_compaction() -> None:
    enough = clear.plan(moment(*[10_000] * 10, size=170_000, compacts=True))
    assert enough.cause == "full"
    assert 170_000 - enough.tokens <= 127_000
    too_little = clear.plan(moment(*[2_000] * 5, size=175_000, compacts=True))
    assert too_little.chosen == "compact"
    assert "at most 127,000 may be left" in too_little.options[0].because
    alone = clear.plan(moment(*[2_000] * 5, size=175_000))
    assert alone.chosen == "nothing"


@pytest.mark.spec("S2.8")
def test_whatever_lets_a_request_be_sent_at_all_is_done_where_nothing_else_can() -> None:
    blocked = WINDOW.blocking + 500
    assert clear.plan(moment(*[1_500] * 5, size=blocked)).cause == "full"
    assert clear.plan(moment(*[1_500] * 5, size=blocked, compacts=True)).chosen == "compact"


@pytest.mark.spec("S2.4")
def test_too_many_bytes_and_too_many_pictures_are_mended_in_one_batch_pictures_first() -> None:
    results = [OldResult("text", 900, wire=400_000)]
    results += [OldResult(f"p{n}", 2_000, images=1, wire=1_000_000) for n in range(8)]
    results += [OldResult("new", 100, wire=500)]
    now = moment(results=results, wire=8_500_000, images=8, limits=Limits(6_000_000, 4))
    made = clear.plan(now)
    assert made.cause == "room"
    assert "bytes" in made.rule
    assert "pictures" in made.rule
    assert made.targets == ("p0", "p1", "p2", "p3", "p4"), (
        "pictures to 80% of 4, which is enough bytes as well"
    )
    only_bytes = clear.plan(replace(now, limits=Limits(now.limits.wire, None)))
    assert only_bytes.targets == ("p0", "p1", "p2", "p3")
    nobody = clear.plan(replace(now, results=[OldResult("new", 100, images=9)], images=9))
    assert nobody.chosen == "nothing"
    assert "no result that may go" in nobody.options[0].because


@pytest.mark.spec("S2.12")
def test_a_compaction_that_clearing_put_off_is_made_once_the_session_cannot_bear_to_wait() -> None:
    larger = CostLedger(owed=-0.30, ahead=60_000)
    now = moment(*[2_000] * 5, size=90_000, spent=5.0, ledger=larger, compacts=True)
    made = clear.plan(now)
    assert (made.chosen, made.cause) == ("compact", "overdue")
    assert clear.could_matter(now, 10_000)
    saved = replace(now, ledger=replace(larger, owed=-3.0))
    assert clear.plan(saved).chosen == "nothing"
    assert clear.plan(replace(now, compacts=False)).chosen == "nothing"
    assert clear.plan(replace(now, price=None)).chosen == "nothing"


@pytest.mark.spec("S0.5")
@given(moments(), st.integers(8_000, 100_000))
def test_in_small_windows_the_same_rules_hold_in_proportion(now: ClearingMoment, context: int) -> None:
    window = Window.of(PROFILE, override=context)
    scale = context / 100_000
    results = [replace(one, tokens=int(one.tokens * scale)) for one in now.results]
    small = replace(
        now,
        window=window,
        results=results,
        size=int(now.size * scale),
        upper_size=int(now.upper_size * scale),
    )
    made = clear.plan(small)
    if made.cause == "size":
        assert small.total > 40_000 * scale - 1
        assert made.tokens >= 20_000 * scale - 1


@pytest.mark.spec("S2.4")
def test_a_clearing_that_frees_little_does_not_put_off_a_compaction() -> None:
    full = moment(*[3_000] * 8, size=WINDOW.threshold + 100)
    assert clear.plan(full).chosen == "clear", "with nobody to compact, it is all there is"
    assert clear.plan(replace(full, compacts=True)).chosen == "compact"
    rich = moment(*[3_000] * 17, size=WINDOW.threshold + 100, compacts=True)
    assert clear.plan(rich).chosen == "clear", "what frees enough for a while"


@pytest.mark.spec("S17.1", "S2.4")
@pytest.mark.parametrize(("context", "low"), [(200_000, 127_000), (100_000, 47_000), (30_000, 14_100)])
@pytest.mark.parametrize("over", [0, 1])
def test_a_fifth_of_the_window_below_the_threshold_must_become_free(
    context: int, low: int, over: int
) -> None:
    window = Window.of(PROFILE, override=context)
    results = [OldResult("old", window.threshold - low - over + 25), OldResult("kept", 10, kept=True)]
    results += [OldResult(f"new{number}", 100) for number in range(3)]
    now = moment(results=results, size=window.threshold, window=window, compacts=True)
    made = clear.plan(now)
    assert made.chosen == ("compact" if over else "clear")
    if not over:
        assert made.targets == ("old",), "the newest three stay"
        assert now.upper_size - made.tokens == low


@pytest.mark.spec("S17.1", "S4.1")
@given(moments(), st.integers(1, 2_000_000), st.floats(0, 1_000))
def test_no_price_makes_the_planner_compact_where_clearing_is_enough(
    now: ClearingMoment, growth: int, spent: float
) -> None:
    full = replace(
        now, size=170_000, upper_size=170_000, compacts=True, bound=False, limits=Limits(None, None)
    )
    free = clear.plan(replace(full, price=None))
    dear = clear.plan(replace(full, growth=growth, spent=spent, ledger=CostLedger(ahead=100_000)))
    assert (free.chosen, free.targets) == (dear.chosen, dear.targets)


@pytest.mark.spec("S17.1", "S2.12")
def test_a_compaction_that_was_put_off_gives_way_to_clearing_that_is_enough() -> None:
    larger = CostLedger(owed=-0.30, ahead=60_000)
    now = moment(*[4_000] * 12, size=90_000, spent=5.0, ledger=larger, owed=-0.30, compacts=True)
    made = clear.plan(now)
    assert (made.chosen, made.cause) == ("clear", "overdue")
    assert (made.ledger.owed, made.ledger.ahead) == (-0.30, 0), "it is not due again at the next request"
    little = clear.plan(replace(now, results=now.results[:4]))
    assert (little.chosen, little.cause) == ("compact", "overdue")
    assert "too little" in little.options[0].because


BOUND: dict[str, Any] = {"size": 170_000, "bound": True, "reasoning": 500, "compacts": True}


@pytest.mark.spec("S17.1", "S9.2", "S2.6")
def test_where_reasoning_is_bound_the_provider_is_asked_before_anything_is_given_up() -> None:
    cut = ProviderCut(70_000, 9_000, 0.1)
    asked = clear.plan(moment(*[10_000] * 10, **BOUND, near=True, cut=cut))
    assert (asked.chosen, asked.cause, asked.targets) == ("provider", "full", ())
    assert not asked.drops_thinking
    assert asked.usd is not None
    small = clear.plan(moment(*[10_000] * 10, **BOUND, near=True, cut=ProviderCut(30_000, 9_000, 0.1)))
    assert (small.chosen, small.drops_all_thinking) == ("clear", True)
    assert [option.name for option in small.options] == ["provider", "clear"]
    sendable = {**BOUND, "size": WINDOW.blocking + 10}
    blocked = clear.plan(moment(*[10_000] * 10, **sendable, near=True, cut=cut, running=True))
    assert blocked.chosen == "compact"
    assert "too large to be sent" in blocked.options[0].because


@pytest.mark.spec("S17.1", "S2.6")
def test_an_edit_whose_cut_moves_with_every_call_does_not_take_the_place_of_a_compaction() -> None:
    moving = ProviderCut(70_000, 9_000, 1.0)
    made = clear.plan(moment(*[10_000] * 10, **BOUND, near=True, cut=moving, running=True))
    assert made.chosen == "compact"
    assert made.options[0].because == "its cut would move with every call"


@pytest.mark.spec("S17.1", "S9.2")
def test_the_reasoning_of_a_turn_that_goes_on_is_never_given_up_to_spare_a_compaction() -> None:
    now = moment(*[10_000] * 10, **BOUND, mid_turn=True, running=True)
    made = clear.plan(now)
    assert (made.chosen, made.options[0].because) == ("compact", clear.RUNNING_TURN)
    assert clear.plan(replace(now, running=False)).chosen == "clear"
    assert clear.plan(replace(now, compacts=False)).chosen == "clear", "there is no other way to go on"


@pytest.mark.spec("S17.1", "S9.5")
def test_no_summary_will_be_needed_as_long_as_what_stays_is_small_enough() -> None:
    read = moment(*[10_000] * 10, size=140_000)
    assert clear.suffices(read)
    assert not clear.suffices(replace(read, results=read.results[:4])), "10,000 tokens, the rest stays"
    assert not clear.suffices(replace(read, settings=Settings(size_clearing=False)))
    bound = replace(read, bound=True)
    assert not clear.suffices(bound)
    assert clear.suffices(replace(bound, near=True, cut=ProviderCut(70_000, 9_000, 1.0)))


@given(moments(), st.integers(0, 150_000))
@pytest.mark.spec("S2.2")
def test_what_the_provider_leaves_out_already_is_not_freed_again(
    now: ClearingMoment, left_out: int
) -> None:
    now = replace(now, provider=True, edited=left_out, thinking=0, reasoning=0)
    made = clear.plan(now)
    held = {one.call: one.tokens - one.remaining for one in now.results}
    assert made.tokens == max(0, sum(held[call] for call in made.targets) - left_out)


def test_at_the_threshold_so_much_goes_that_enough_is_gone_beside_what_the_provider_leaves_out() -> None:
    full = moment(*[10_000] * 16, size=WINDOW.threshold + 5_000)
    alone, beside = clear.plan(full), clear.plan(replace(full, provider=True, edited=60_000))
    assert alone.chosen == beside.chosen == "clear"
    assert len(beside.targets) == len(alone.targets)
    assert full.upper_size - beside.tokens < WINDOW.threshold
    assert beside.tokens == alone.tokens - 60_000
    assert clear.plan(replace(full, provider=True, edited=155_000, compacts=True)).chosen == "compact"
