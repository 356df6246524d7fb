"""Sessions of many requests: what is passed over to be quick changes nothing of what is shown."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.archive.lifetimes import LaneHistory
from sevenfold.archive.profile.cache import CallReport
from sevenfold.archive.profile.context import HeldPiece
from sevenfold.archive.profile.labels import UNLOGGED, ContextPiece
from sevenfold.doors.inspector.session_view import bands_of, dearest, series_view
from sevenfold.record.usage import Usage
from sevenfold.record.weight import NOTHING

MOST = 3


def answer(lane: LaneHistory, prompt: int) -> None:
    """The next request of a lane, answered."""
    lane.called(len(lane.requests))
    report = CallReport("claude-opus-4-6", Usage(input_tokens=prompt))
    lane.answered(len(lane.requests) + 1, report)


def held(tokens: int, category: str = "user_text") -> HeldPiece:
    return HeldPiece(ContextPiece(category, NOTHING), since=0, tokens=float(tokens))


@pytest.mark.spec("S33.5")
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("request"), st.integers(1, 9)),
            st.tuples(st.just("toggle"), st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5])),
        ),
        min_size=20,
        max_size=60,
    )
)
def test_the_dearest_items_are_those_of_adding_up_every_stay(steps: list[tuple[str, int]]) -> None:
    lane = LaneHistory(0)
    sizes = [300, 20, 7, 7, 1, 90]
    present: dict[int, HeldPiece] = {}
    for kind, number in steps:
        if kind == "request":
            answer(lane, number)
        elif number in present:
            lane.left(number, present.pop(number), len(lane.requests))
        else:
            present[number] = held(sizes[number], UNLOGGED if number == 5 else "user_text")
            lane.entered(number, present[number], len(lane.requests))

    carried: dict[Hashable, float] = {}
    for stay in lane.lifetimes:
        if stay.counted and stay.key != 5:
            prompts = stay.prompts(len(lane.requests))
            carried[stay.key] = carried.get(stay.key, 0.0) + stay.held.tokens * prompts
    largest = sorted(carried.values(), reverse=True)[:MOST]
    # Of items that cost nothing, none has to be named.
    items = [item.carried for item in dearest(lane, MOST) if item.carried]
    assert items == [size for size in largest if size]


@pytest.mark.spec("S33.6")
def test_the_newest_request_of_a_long_session_is_always_drawn() -> None:
    lane = LaneHistory(0)
    for number in range(5000):
        answer(lane, 100 + number % 7)

    drawn: dict[str, Any] = series_view(lane, bands_of(lane))

    assert drawn["bucketed"]
    assert drawn["request"][-1] == 5000
    assert drawn["request"] == sorted(set(drawn["request"]))
    assert all(drawn["prompt"][at] == 100 + place % 7 for at, place in enumerate(drawn["place"]))
    assert max(drawn["prompt"]) == 106
