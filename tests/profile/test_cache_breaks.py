"""Where the cache was lost, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from sevenfold.profiles import find
from tests.profile.making import MODEL, Tape, call, result, text, usage


def warm(**shared: object) -> Tape:
    """A session whose cache holds 50,000 tokens for five minutes."""
    return Tape(**shared).user("go").answer("m1", usage(10, 40_000, 10_000), text("one")).user("on")


def causes(tape: Tape, folder: Path) -> list[tuple[str, int]]:
    return [(one.cause, one.tokens) for one in tape.profile(folder).cache_breaks]


@pytest.mark.spec("S6.6")
@pytest.mark.parametrize(("read", "broken"), [(48_001, False), (47_500, False), (47_499, True), (0, True)])
def test_a_fall_by_more_than_five_per_cent_and_two_thousand_tokens_is_a_break(
    tmp_path: Path, read: int, broken: bool
) -> None:
    tape = warm().answer("m2", usage(10, read, 52_000 - read), text("two"))
    assert causes(tape, tmp_path) == ([("unexplained", 50_000 - read)] if broken else [])


@pytest.mark.spec("S6.6")
def test_small_caches_may_fall_by_two_thousand_tokens(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(0, 0, 5_000), text("one")).user("on")
    assert causes(tape.answer("m2", usage(0, 3_000, 2_500), text("two")), tmp_path) == []
    tape.user("on").answer("m3", usage(0, 3_400, 2_500), text("three"))
    assert causes(tape, tmp_path) == [("unexplained", 2_100)]


@pytest.mark.spec("S6.6")
@pytest.mark.parametrize(("seconds", "cause"), [(120, "unexplained"), (400, "expired")])
def test_a_gap_longer_than_the_lifetime_of_what_was_written_explains_a_break(
    tmp_path: Path, seconds: int, cause: str
) -> None:
    tape = Tape().user("go").answer("m1", usage(10, 40_000, 10_000), text("one")).wait(seconds).user("on")
    session = tape.answer("m2", usage(10, 0, 52_000), text("two")).profile(tmp_path)
    (lost,) = session.cache_breaks
    assert (lost.cause, lost.tokens, lost.call) == (cause, 50_000, 2)
    assert lost.idle_seconds == seconds + 2


@pytest.mark.spec("S6.6")
def test_what_was_written_for_an_hour_outlives_a_short_gap(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(10, 40_000, 0, 10_000), text("one")).wait(400).user("on")
    tape.answer("m2", usage(10, 0, 0, 52_000), text("two")).wait(3_700).user("on")
    tape.answer("m3", usage(10, 0, 0, 53_000), text("three"))
    assert causes(tape, tmp_path) == [("unexplained", 50_000), ("expired", 52_000)]


@pytest.mark.spec("S6.6")
def test_the_server_s_own_diagnosis_is_used_where_it_is_one(tmp_path: Path) -> None:
    for reason, cause in (("tools_changed", "tools_changed"), ("unavailable", "unexplained")):
        told = {"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": 50_000}}
        tape = warm().answer("m2", usage(10, 0, 52_000), text("two"), diagnostics=told)
        assert causes(tape, tmp_path) == [(cause, 50_000)]


@pytest.mark.spec("S6.6")
def test_a_compaction_costs_what_is_written_anew_and_not_what_it_took_away(tmp_path: Path) -> None:
    tape = warm().compacted().answer("m2", usage(10, 8_000, 12_000), text("two"))
    assert causes(tape, tmp_path) == [("compaction", 12_010)]


@pytest.mark.spec("S6.6")
def test_a_prompt_that_only_got_shorter_is_no_break(tmp_path: Path) -> None:
    tape = warm().compacted().answer("m2", usage(10, 19_900, 100), text("two"))
    assert causes(tape, tmp_path) == []


@pytest.mark.spec("S6.6")
def test_a_clearing_explains_a_break(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(0, 0, 9_000), call("Read", "t1", file_path="/a"))
    tape.user(result("t1", "x" * 9_000)).answer("m2", usage(0, 9_000, 4_000), text("read"))
    tape.cleared("t1").user("on").answer("m3", usage(0, 1_000, 8_500), text("gone"))
    session = tape.profile(tmp_path)
    assert [(one.cause, one.tokens) for one in session.cache_breaks] == [("clearing", 8_500)]
    (event,) = session.clearing_events
    assert (event.call, event.tokens_before, event.tokens_after, event.results) == (2, 13_000, 9_500, 1)


@pytest.mark.spec("S6.6")
def test_going_on_from_an_earlier_message_is_a_rewind(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(0, 0, 30_000), text("one"))
    fork = tape.parent
    tape.user("left").answer("m2", usage(0, 30_000, 20_000), text("two"))
    tape.parent = fork
    tape.user("right").answer("m3", usage(0, 0, 34_000), text("three"))
    assert causes(tape, tmp_path) == [("rewind", 34_000)]


@pytest.mark.spec("S6.6", "S9.6")
def test_a_break_says_what_it_cost_beyond_reading(tmp_path: Path) -> None:
    session = warm().answer("m2", usage(10, 0, 52_000), text("two")).profile(tmp_path)
    price = find(MODEL).price(52_010)
    assert price is not None
    expected = 50_000 * (price.write_5m - price.read) / 1e6
    assert session.cache_breaks[0].cost_usd == pytest.approx(expected)


def test_servers_that_never_report_cached_tokens_have_no_cache_to_lose(tmp_path: Path) -> None:
    tape = Tape().user("go")
    for number in range(4):
        tape.answer(f"m{number}", usage(20_000 + number), text("one"), model="llama-3.3-70b").user("on")
    assert causes(tape, tmp_path) == []


def test_a_prompt_that_shrinks_without_a_record_is_noticed(tmp_path: Path) -> None:
    session = warm().answer("m2", usage(10, 30_000, 0), text("two")).profile(tmp_path)
    (event,) = session.unrecorded_events
    assert (event.call, event.tokens_before, event.tokens_after) == (1, 50_010, 30_010)
    assert session.clearings == 0


@pytest.mark.spec("S37.12")
def test_after_the_lifetime_an_expired_cache_is_the_cause_whatever_else_changed(tmp_path: Path) -> None:
    tape = Tape().user("one").answer("m1", usage(0, 0, 50_000), text("one")).wait(400)
    tape.user("two").answer("m2", usage(0, 0, 52_000), text("two"), model="claude-sonnet-4-5")
    assert causes(tape, tmp_path) == [("expired", 50_000)]
