"""Where markers go, and where they do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.profiles import Cache, find
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.wire import Message
from sevenfold.request.frame import Frame, Lifetimes, Marker, Sizes, Tail, plan, positions, tail_of

CACHE = find("claude-sonnet-5-5").cache
FRAME = Frame.of(
    "m",
    9,
    system=[blocks.text("static").raw, blocks.text("session").raw],
    tools=[{"name": "Read", "input_schema": {}}],
)
BIG = Sizes(5_000, (9_000, 12_000), 50_000)
THOUGHT = Block("thinking", b'{"type":"thinking","thinking":"","signature":"x"}')


def _said(*parts: Block, role: str = "user") -> Message:
    return Message(role, parts, b"")


def _words(count: int) -> list[Message]:
    return [
        _said(blocks.text(str(number)), role="user" if number % 2 == 0 else "assistant")
        for number in range(count)
    ]


@pytest.mark.spec("S6.3")
def test_static_part_session_part_and_tail_are_marked():
    markers = plan(FRAME, _words(3), CACHE, BIG, Lifetimes())
    assert markers == (Marker("system", 0), Marker("system", 1), Marker("messages", 2, 0))


@pytest.mark.spec("S6.3")
def test_nothing_below_the_models_minimum_is_marked():
    small = Sizes(10, (CACHE.minimum - 1, CACHE.minimum), CACHE.minimum)
    assert plan(FRAME, _words(1), CACHE, small, Lifetimes())[0] == Marker("system", 1)
    assert plan(FRAME, _words(1), CACHE, Sizes(1, (2, 3), 4), Lifetimes()) == ()


@pytest.mark.spec("S6.3")
def test_without_a_system_prompt_the_tools_are_marked():
    bare = Frame.of("m", 9, tools=[{"name": "Read", "input_schema": {}}])
    assert plan(bare, _words(1), CACHE, Sizes(5_000, (), 9_000), Lifetimes())[0] == Marker("tools", 0)


@pytest.mark.spec("S6.3")
def test_no_marker_stands_on_reasoning():
    messages = [_said(blocks.text("go")), _said(blocks.text("yes"), THOUGHT, role="assistant")]
    assert tail_of(plan(FRAME, messages, CACHE, BIG, Lifetimes())) == Tail(1, 0)
    assert tail_of(
        plan(FRAME, [*messages[:1], _said(THOUGHT, role="assistant")], CACHE, BIG, Lifetimes())
    ) == Tail(0, 0)


@pytest.mark.spec("S6.3")
def test_a_turn_longer_than_the_look_back_gets_a_marker_where_the_last_tail_was():
    look_back = CACHE.look_back
    assert look_back is not None
    messages, before = _words(look_back + 5), Tail(2, 0)
    markers = plan(FRAME, messages, CACHE, BIG, Lifetimes(), last_tail=before)
    assert len(markers) == CACHE.markers
    assert Marker("messages", 2, 0) in markers
    near = plan(FRAME, messages[:5], CACHE, BIG, Lifetimes(), last_tail=before)
    assert Marker("messages", 2, 0) not in near


@pytest.mark.spec("S6.3")
def test_what_cannot_be_marked_is_not_where_the_last_tail_was_even_if_it_is_there_now():
    look_back = CACHE.look_back
    assert look_back is not None
    messages = _words(look_back + 5)
    messages[1] = _said(THOUGHT, blocks.text("hm"), role="assistant")
    for place in (Tail(1, 0), Tail(1, 2), Tail(99, 0)):
        found = plan(FRAME, messages, CACHE, BIG, Lifetimes(), last_tail=place, edge=place)
        assert found == plan(FRAME, messages, CACHE, BIG, Lifetimes())


@pytest.mark.spec("S6.3")
def test_what_the_provider_clears_up_to_is_marked_once_where_it_is_the_tail_itself():
    messages = _words(3)
    alone = plan(FRAME, messages, CACHE, BIG, Lifetimes())
    assert plan(FRAME, messages, CACHE, BIG, Lifetimes(), edge=Tail(2, 0)) == alone
    before = plan(FRAME, messages, CACHE, BIG, Lifetimes(), edge=Tail(1, 0))
    assert before[-2:] == (Marker("messages", 1, 0), Marker("messages", 2, 0))


@pytest.mark.spec("S6.3")
def test_the_look_back_reaches_exactly_as_many_positions_as_the_provider_says():
    look_back, before = CACHE.look_back, Tail(2, 0)
    assert look_back is not None
    reached, missed = _words(before.index + look_back), _words(before.index + look_back + 1)
    assert Marker("messages", 2, 0) not in plan(FRAME, reached, CACHE, BIG, Lifetimes(), last_tail=before)
    assert Marker("messages", 2, 0) in plan(FRAME, missed, CACHE, BIG, Lifetimes(), last_tail=before)


@pytest.mark.spec("S6.3")
def test_a_run_of_results_is_one_step_back():
    results = [blocks.result(f"t{number}", "x") for number in range(40)]
    assert positions(results, runs_collapse=True) == 1
    assert positions(results, runs_collapse=False) == 40


@pytest.mark.spec("S6.3", "S6.7")
def test_a_fork_marks_the_last_message_it_shares():
    messages = _words(6)
    assert tail_of(plan(FRAME, messages, CACHE, BIG, Lifetimes(), shared=5)) == Tail(4, 0)


@pytest.mark.spec("S6.4")
def test_the_longer_lifetime_stands_before_the_shorter():
    markers = plan(FRAME, _words(3), CACHE, BIG, Lifetimes("1h", "5m"))
    assert [marker.ttl for marker in markers] == ["1h", "1h", "5m"]


def test_a_provider_that_caches_by_itself_gets_no_markers():
    assert plan(FRAME, _words(3), Cache(automatic=True), BIG, Lifetimes()) == ()


@given(st.integers(1, 60), st.integers(0, 59), st.integers(0, 20_000))
def test_there_are_never_more_markers_than_the_provider_takes(count, tail, size):
    markers = plan(
        FRAME, _words(count), CACHE, Sizes(size, (size, size), size), Lifetimes(), last_tail=Tail(tail, 0)
    )
    assert len(markers) <= CACHE.markers
    places = [(marker.level == "messages", marker.index) for marker in markers]
    assert places == sorted(set(places))
