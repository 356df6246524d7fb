"""Calls, usage and costs of hand-made transcripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.archive.profile.files import profile_file
from sevenfold.archive.profile.transcript import TranscriptReader
from sevenfold.profiles import find
from sevenfold.stores.jsonl.log import Line
from tests.profile.making import MODEL, Tape, call, result, text, usage


def dollars(fresh: int = 0, read: int = 0, short: int = 0, long: int = 0, output: int = 0) -> float:
    price = find(MODEL).price(1)
    assert price is not None
    parts = (fresh * price.input, read * price.read, short * price.write_5m, long * price.write_1h)
    return (sum(parts) + output * price.output) / 1e6


@pytest.mark.spec("S0.7")
def test_a_response_is_one_call_however_many_records_carry_it(tmp_path: Path) -> None:
    tape = Tape().user("go")
    tape.answer("m1", usage(2, 10, 300, 0, 1), text("I will"), stop=None)
    tape.answer("m1", usage(2, 10, 300, 0, 1), call("Read", "t1", file_path="/a"), stop=None)
    tape.user(result("t1", "one"))
    tape.answer("m1", usage(2, 10, 300, 0, 90), call("Read", "t2", file_path="/b"))
    tape.user(result("t2", "two"))
    session = tape.answer("m2", usage(3, 310, 200, 0, 7), text("done")).profile(tmp_path)
    assert session.api_calls == 2
    sums = session.usage
    assert (sums.input_tokens, sums.cache_read_input_tokens) == (5, 320)
    assert (sums.cache_creation_input_tokens, sums.output_tokens) == (500, 97)


@pytest.mark.spec("S0.6")
def test_error_messages_of_the_client_are_no_calls(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(9, output=4), text("hello"))
    tape.answer("x", usage(), text("API Error"), model="<synthetic>", isApiErrorMessage=True)
    session = tape.profile(tmp_path)
    assert session.api_calls == 1
    assert session.models == {MODEL: 1}


@pytest.mark.spec("S14.1")
def test_answers_that_a_programs_own_list_already_had_are_no_calls(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("elsewhere-1", {}, text("earlier"), model="", stop=None)
    tape.user("and").answer("elsewhere-2", {}, call("Read", "t1", file_path="/a"), model="", stop=None)
    tape.user(result("t1", "one"))
    session = tape.answer("m1", usage(9, 0, 300, output=4), text("hello")).profile(tmp_path)
    assert (session.api_calls, session.unpriced_calls) == (1, 0)
    assert session.models == {MODEL: 1}


def test_a_record_that_was_copied_into_the_file_twice_counts_once(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(9, output=4), text("hello"))
    tape.lines += tape.lines
    assert tape.profile(tmp_path).api_calls == 1


def test_calls_of_sub_agents_in_the_same_file_count_and_keep_their_own_context(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(0, 0, 50_000), call("Task", "t1", prompt="look"))
    main = tape.parent
    tape.parent = None
    tape.user("look", isSidechain=True)
    tape.answer("a1", usage(0, 0, 4_000), text("found"), isSidechain=True)
    tape.parent = main
    tape.user(result("t1", "found"))
    session = tape.answer("m2", usage(0, 50_000, 100), text("done")).profile(tmp_path)
    assert (session.api_calls, session.side_calls) == (3, 1)
    assert session.cache_breaks == []
    assert [(point.tokens, point.lane > 0) for point in session.context_over_time] == [
        (50_000, False),
        (4_000, True),
        (50_100, False),
    ]
    assert session.peak_context_tokens == 50_100


def test_in_a_sub_agents_own_file_its_conversation_is_the_main_one(tmp_path: Path) -> None:
    tape = Tape(isSidechain=True, agentId="a7").user("look").answer("a1", usage(0, 0, 4_000), text("found"))
    session = tape.profile(tmp_path)
    assert (session.api_calls, session.side_calls, session.agent_id) == (1, 0, "a7")
    assert [point.lane for point in session.context_over_time] == [0]


@pytest.mark.spec("S9.6")
def test_costs_with_the_cache_that_was_without_any_and_with_a_perfect_one(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(100, 0, 10_000, 0, 50), text("one"))
    tape.user("on").answer("m2", usage(100, 0, 12_000, 0, 60), text("two"))
    session = tape.profile(tmp_path)
    paid = dollars(100, 0, 10_000, 0, 50) + dollars(100, 0, 12_000, 0, 60)
    assert session.cost_usd == pytest.approx(paid)
    assert session.uncached_cost_usd == pytest.approx(
        dollars(10_100, output=50) + dollars(12_100, output=60)
    )
    ideal = dollars(short=10_100, output=50) + dollars(read=10_100, short=2_000, output=60)
    assert session.ideal_cost_usd == pytest.approx(ideal)
    assert session.unpriced_calls == 0


@pytest.mark.spec("S9.6")
def test_a_perfect_cache_writes_at_the_lifetime_used_and_anew_after_a_boundary(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(0, 0, 0, 10_000), text("one")).compacted()
    session = tape.answer("m2", usage(0, 4_000, 0, 2_000), text("two")).profile(tmp_path)
    assert session.ideal_cost_usd == pytest.approx(dollars(long=10_000) + dollars(long=6_000))


@pytest.mark.spec("S9.6")
def test_another_model_starts_with_a_cold_cache_even_if_it_is_perfect(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(0, 0, 9_000), text("one"))
    tape.user("on").answer("m2", usage(0, 0, 9_500), text("two"), model="claude-haiku-4-5")
    session = tape.profile(tmp_path)
    haiku = find("claude-haiku-4-5").price(9_500)
    assert haiku is not None
    assert session.ideal_cost_usd == pytest.approx(dollars(short=9_000) + 9_500 * haiku.write_5m / 1e6)
    assert session.cache_breaks[0].cause == "model_changed"


def test_a_model_without_a_price_gives_no_cost_and_is_counted(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(500, output=5), text("one"), model="nobody-knows-this")
    alone = tape.profile(tmp_path)
    assert (alone.cost_usd, alone.uncached_cost_usd, alone.ideal_cost_usd) == (None, None, None)
    assert alone.unpriced_calls == 1
    mixed = tape.user("on").answer("m2", usage(100, output=1), text("two")).profile(tmp_path)
    assert mixed.cost_usd == pytest.approx(dollars(100, output=1))
    assert mixed.unpriced_calls == 1


def test_an_answer_without_any_usage_is_a_call_of_unknown_cost(tmp_path: Path) -> None:
    session = Tape().user("go").answer("m1", None, text("one")).profile(tmp_path)
    assert (session.api_calls, session.unpriced_calls, session.cost_usd) == (1, 1, None)
    assert session.usage.prompt == 0


def test_an_output_recorded_before_the_answer_was_complete_is_reported(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(500, output=1), text("a long answer"), stop=None)
    assert tape.profile(tmp_path).partial_outputs == 1


def test_damaged_and_unknown_lines_are_counted_and_nothing_else_is_lost(tmp_path: Path) -> None:
    tape = Tape().line("{broken").user("go").line("").line("[1, 2]")
    tape.line(json.dumps({"type": "brand-new", "sessionId": "s-1"}))
    tape.line(json.dumps({"type": "sevenfold", "kind": "from-the-future", "id": "k1"}))
    tape.line(json.dumps({"type": "last-prompt", "lastPrompt": "go", "sessionId": "s-1"}))
    tape.answer("m1", usage(500, output=9), text("half a pair: \ud83d"))
    path = tape.save(tmp_path / "tape.jsonl")
    path.write_bytes(path.read_bytes() + b'{"type":"user","uuid":"torn')
    session, _ = profile_file(path)
    assert session.damaged_lines == 3
    assert session.unknown_lines == {"brand-new": 1, "sevenfold/from-the-future": 1}
    assert session.api_calls == 1


def test_what_a_server_would_refuse_is_reported(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(500), call("Read", "t1", file_path="/a"))
    tape.user("never mind").answer("m2", usage(600), text("fine"))
    assert tape.profile(tmp_path).repairs == {"unanswered_call": 1}


def test_the_session_is_named_after_its_records_and_its_file(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(9), text("hi"))
    session = tape.profile(tmp_path)
    assert session.session_id == "s-1"
    assert session.file == str(tmp_path / "tape.jsonl")
    assert (session.started, session.ended) == ("2026-02-03T12:00:01Z", "2026-02-03T12:00:02Z")


# -- lines nobody foresaw --------------------------------------------------------------------------

junk = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**30) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def places(value: object, here: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """The way to everything inside a JSON value."""
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [here, *(way for key, part in inner for way in places(part, (*here, key)))]


@given(st.data())
def test_no_value_in_no_place_can_stop_a_profile(data: st.DataObject) -> None:
    told = {"cache_miss_reason": {"type": "tools_changed"}}
    tape = Tape().user("go").answer("m1", usage(9, 1, 2), text("one"), call("Read", "t1", file_path="/a"))
    tape.user(result("t1", "text")).answer("m2", usage(9, 1, 2), text("two"), diagnostics=told).cleared(
        "t1"
    )
    tape.compacted().record("attachment", attachment={"type": "file", "filename": "/a", "content": "x"})
    tape.user("look", isSidechain=True).answer("m3", usage(3), text("three"), isSidechain=True)
    for _ in range(data.draw(st.integers(1, 4))):
        number = data.draw(st.integers(0, len(tape.lines) - 1))
        record = json.loads(tape.lines[number])
        *way, last = data.draw(st.sampled_from(places(record)[1:] or [("x",)]))
        holder = record
        for key in way:
            holder = holder[key]
        holder[last] = data.draw(junk)
        tape.lines[number] = json.dumps(record)
    reader = TranscriptReader()
    for line in tape.lines:
        reader.take(Line(0, line.encode(errors="replace") + b"\n"))
    session = reader.profile(Path("file"))
    assert session.api_calls <= 3
