"""The simulated prompt cache, held against figures worked out by hand: one character is one token."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.faults import Fault, Faults
from sevenfold.lab.simulator.provider import Setup
from sevenfold.lab.simulator.server import create_app
from tests.simulator.wire import (
    BY_HAND,
    EDITS,
    Answer,
    Wire,
    always,
    assistant,
    call,
    headers,
    mark,
    result,
    simulated,
    text,
    tool,
    user,
)

LONG = "x" * 1_000


def figures(answer: Answer) -> tuple[int, int, int, int]:
    """Fresh, read, written for five minutes, written for an hour."""
    assert answer.status == 200, answer.body
    usage = answer.usage
    split = usage["cache_creation"]
    short, long = split["ephemeral_5m_input_tokens"], split["ephemeral_1h_input_tokens"]
    assert usage["cache_creation_input_tokens"] == short + long
    return usage["input_tokens"], usage["cache_read_input_tokens"], short, long


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def wire(clock: VirtualClock) -> Wire:
    return simulated(always(text("ok")), clock=clock)


def test_without_a_marker_nothing_is_cached(wire: Wire) -> None:
    assert figures(wire.messages([user(LONG)])) == (1_000, 0, 0, 0)
    assert figures(wire.messages([user(LONG)])) == (1_000, 0, 0, 0)


def test_a_marker_writes_what_stands_before_it_and_the_next_request_reads_it(wire: Wire) -> None:
    messages = [user(text(LONG, "-"), "tail")]
    assert figures(wire.messages(messages)) == (4, 0, 1_000, 0)
    assert figures(wire.messages(messages)) == (4, 1_000, 0, 0)


def test_a_marker_below_the_minimum_writes_nothing(wire: Wire) -> None:
    short = [user(text("x" * 511, "-"))]
    assert figures(wire.messages(short)) == (511, 0, 0, 0)
    assert figures(wire.messages(short)) == (511, 0, 0, 0)
    just = [user(text("x" * 512, "-"))]
    assert figures(wire.messages(just)) == (0, 0, 512, 0)


def test_a_conversation_that_grows_reads_all_but_what_is_new(wire: Wire) -> None:
    assert figures(wire.messages([user(text(LONG, "-"))])) == (0, 0, 1_000, 0)
    grown = [user(LONG), assistant("y" * 50), user(text("z" * 30, "-"))]
    assert figures(wire.messages(grown)) == (0, 1_000, 80, 0)


def test_markers_are_not_part_of_what_is_compared(wire: Wire) -> None:
    wire.messages([user(text(LONG, "-"))])
    moved = [user(text(LONG)), assistant("y"), user(text("z", "-"))]
    assert figures(wire.messages(moved)) == (0, 1_000, 2, 0)


def test_a_text_given_as_a_string_is_the_same_as_a_block(wire: Wire) -> None:
    wire.messages([user(text(LONG, "-"))])
    plain = {"role": "user", "content": LONG}
    assert figures(wire.messages([plain, assistant("y"), user(text("z", "-"))])) == (0, 1_000, 2, 0)


def test_a_changed_block_is_written_again_from_there_on(wire: Wire) -> None:
    wire.messages([user(text(LONG, "-"), text(LONG, "-"))])
    changed = [user(text(LONG, "-"), text("y" * 1_000, "-"))]
    assert figures(wire.messages(changed)) == (0, 1_000, 1_000, 0)


@pytest.mark.parametrize(
    ("change", "read"),
    [
        ({"tools": [tool("Read", "reads a file")]}, 0),
        ({"system": [text("s" * 999 + "t", "-")]}, 1_000),
        ({"tool_choice": {"type": "none"}}, 2_000),
        ({"thinking": {"type": "between_tools"}}, 2_000),
        ({"output_config": {"effort": "low"}}, 2_000),
        ({"betas": [EDITS]}, 2_000),
        ({"model": "claude-opus-5-5"}, 0),
        ({"speed": "fast"}, 0),
        ({"tool_choice": {"type": "auto"}, "thinking": {"type": "adaptive"}}, 3_000),
        ({"output_config": {"effort": "high"}}, 3_000),
        ({"metadata": {"user_id": "u"}, "stop_sequences": ["END"]}, 3_000),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_change_spoils_its_own_level_and_those_after_it(
    wire: Wire, change: dict[str, Any], read: int
) -> None:
    padded = tool("Read", "r" * (1_000 - len('{"description":"","input_schema":{"type":"object"},')))
    size = BY_HAND.tokens(BY_HAND.measure({**padded, "type": "custom"}), "claude-b")
    padded["description"] = padded["description"][: len(padded["description"]) - (size - 1_000)]
    fields: dict[str, Any] = {"tools": [mark(padded)], "system": [text("s" * 1_000, "-")]}
    messages = [user(text(LONG, "-"))]
    assert figures(wire.messages(messages, **fields)) == (0, 0, 3_000, 0)
    assert wire.messages(messages, **{**fields, **change}).usage["cache_read_input_tokens"] == read


def test_the_first_image_spoils_the_messages_and_nothing_before_them(wire: Wire) -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    before = {"system": [text("s" * 600, "-")]}
    wire.messages([user(text(LONG, "-"))], **before)
    with_image = [user(LONG), assistant("ok"), user(image, text("look", "-"))]
    assert figures(wire.messages(with_image, **before)) == (0, 600, 1_106, 0)


# Lifetimes


def test_an_entry_lives_five_minutes_from_the_start_of_the_request(wire: Wire, clock: VirtualClock) -> None:
    messages = [user(text(LONG, "-"))]
    wire.messages(messages)
    clock.advance(299)
    assert figures(wire.messages(messages))[1] == 1_000
    clock.advance(301)
    assert figures(wire.messages(messages)) == (0, 0, 1_000, 0)


def test_every_hit_gives_an_entry_its_whole_lifetime_again(wire: Wire, clock: VirtualClock) -> None:
    messages = [user(text(LONG, "-"))]
    wire.messages(messages)
    for _ in range(5):
        clock.advance(290)
        assert figures(wire.messages(messages)) == (0, 1_000, 0, 0)


def test_an_entry_written_for_an_hour_lives_an_hour(wire: Wire, clock: VirtualClock) -> None:
    messages = [user(text(LONG, "1h"))]
    assert figures(wire.messages(messages)) == (0, 0, 0, 1_000)
    clock.advance(3_599)
    assert figures(wire.messages(messages)) == (0, 1_000, 0, 0)
    clock.advance(3_600)
    assert figures(wire.messages(messages)) == (0, 0, 0, 1_000)


def test_the_time_an_answer_takes_eats_into_the_lifetime(clock: VirtualClock) -> None:
    faults = Faults({1: Fault("slow_first_byte", seconds=200)})
    wire = simulated(always(text("ok")), clock=clock, faults=faults)
    messages = [user(text(LONG, "-"))]
    wire.messages(messages)
    clock.advance(150)
    assert figures(wire.messages(messages))[1] == 0


def test_lifetimes_mixed_are_billed_from_the_hit_to_the_hour_and_then_to_minutes(wire: Wire) -> None:
    fields = {"system": [text("s" * 700, "1h")]}
    messages = [user(text("a" * 600, "1h"), text("b" * 500, "5m"), "cc")]
    assert figures(wire.messages(messages, **fields)) == (2, 0, 500, 1_300)
    other = [user(text("A" * 600, "1h"), text("b" * 500, "5m"), "cc")]
    assert figures(wire.messages(other, **fields)) == (2, 700, 500, 600)


def test_a_marker_of_another_lifetime_does_not_find_the_entry(wire: Wire) -> None:
    wire.messages([user(text(LONG, "5m"))])
    assert figures(wire.messages([user(text(LONG, "1h"))])) == (0, 0, 0, 1_000)


def test_lifetimes_can_be_set_to_share_entries() -> None:
    wire = simulated(always(text("ok")), setup=Setup(counter=BY_HAND, lifetimes_apart=False))
    wire.messages([user(text(LONG, "5m"))])
    assert figures(wire.messages([user(text(LONG, "1h"))])) == (0, 1_000, 0, 0)


# Looking back


def test_an_entry_twenty_positions_back_is_found_and_one_further_is_not(wire: Wire) -> None:
    wire.messages([user(text(LONG, "-"))])
    near = [user(LONG, *"a" * 18, text("b", "-"))]
    assert figures(wire.messages(near)) == (0, 1_000, 19, 0)
    far = [user(LONG, *"c" * 19, text("d", "-"))]
    assert figures(wire.messages(far)) == (0, 0, 1_020, 0)


def test_a_second_marker_nearer_the_last_write_saves_a_long_turn(wire: Wire) -> None:
    wire.messages([user(text(LONG, "-"))])
    far = [user(LONG, *"c" * 10, text("s", "-"), *"c" * 18, text("d", "-"))]
    assert figures(wire.messages(far)) == (0, 1_000, 30, 0)


def test_runs_of_calls_and_of_results_are_one_position_each(wire: Wire) -> None:
    wire.messages([user(text(LONG, "-"))])
    names = [f"t{number}" for number in range(40)]
    results = [result(name) for name in names]
    turn = [user(LONG), assistant(*[call(name) for name in names]), user(*results[:-1], mark(results[-1]))]
    assert figures(wire.messages(turn))[1] == 1_000


def test_entries_are_written_only_at_markers(wire: Wire) -> None:
    wire.messages([user("a" * 600, text("b" * 600, "-"))])
    shorter = [user(text("a" * 600, "-"))]
    assert figures(wire.messages(shorter)) == (0, 0, 600, 0)


class PatientClock(VirtualClock):
    """A clock on which two sleep until both do."""

    def __init__(self) -> None:
        super().__init__()
        self._both = asyncio.Barrier(2)

    async def sleep(self, seconds: float) -> None:
        await self._both.wait()
        self.advance(seconds)


def test_an_entry_can_be_read_only_once_an_answer_has_begun() -> None:
    slow = Fault("slow_first_byte", seconds=1)
    wire = simulated(always(text("ok")), clock=PatientClock(), faults=Faults({1: slow, 2: slow}))
    body = {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": [user(text(LONG, "-"))]}

    async def both() -> list[httpx2.Response]:
        transport = httpx2.ASGITransport(create_app(wire.simulator))
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://s", headers=headers()
        ) as client:
            return await asyncio.gather(*[client.post("/v1/messages", json=body) for _ in range(2)])

    assert [figures(Answer(response)) for response in asyncio.run(both())] == [(0, 0, 1_000, 0)] * 2
    assert figures(wire.messages(body["messages"])) == (0, 1_000, 0, 0)


# Automatic caching, warming, losing


def test_automatic_caching_marks_the_last_block(wire: Wire) -> None:
    control = {"type": "ephemeral"}
    assert figures(wire.messages([user(LONG)], cache_control=control)) == (0, 0, 1_000, 0)
    grown = [user(LONG), assistant("b"), user("c")]
    assert figures(wire.messages(grown, cache_control=control)) == (0, 1_000, 2, 0)


def test_a_prompt_can_be_warmed_without_an_answer(wire: Wire) -> None:
    system = [text(LONG, "-")]
    warmed = wire.messages("x", system=system, max_tokens=0)
    assert (warmed.content, warmed.body["stop_reason"]) == ([], "max_tokens")
    assert figures(wire.messages("hi", system=system))[1] == 1_000


def test_an_evicted_cache_is_written_again() -> None:
    faults = Faults({2: Fault("cache_eviction")})
    wire = simulated(always(text("ok")), faults=faults)
    messages = [user(text(LONG, "-"))]
    wire.messages(messages)
    assert figures(wire.messages(messages)) == (0, 0, 1_000, 0)


def test_counting_tokens_neither_reads_nor_writes_the_cache(wire: Wire) -> None:
    messages = [user(text(LONG, "-"))]
    assert wire.count(messages).body == {"input_tokens": 1_000}
    assert figures(wire.messages(messages)) == (0, 0, 1_000, 0)


@given(
    st.lists(st.tuples(st.integers(1, 900), st.sampled_from([None, "-"])), min_size=1, max_size=12),
    st.integers(0, 3),
    st.data(),
)
def test_what_is_charged_always_adds_up_to_the_prompt(
    blocks: list[tuple[int, str | None]], edited: int, data: st.DataObject
) -> None:
    wire = simulated(always(text("ok")))
    for step in range(3):
        parts, marks = [], 0
        for place, (size, ttl) in enumerate(blocks):
            marks += ttl is not None
            letter = "y" if step == edited and place == len(blocks) // 2 else "x"
            parts.append(text(letter * size, ttl if marks <= 4 else None))
        answer = wire.messages([user(*parts)])
        assert sum(figures(answer)) == wire.count([user(*parts)]).body["input_tokens"]
        blocks = [*blocks, (data.draw(st.integers(1, 50)), None)]
