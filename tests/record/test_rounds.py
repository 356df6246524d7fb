"""Grouping by API round."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sevenfold.record.layout import rounds
from tests.support import Story, call, result


def _story() -> Story:
    story = Story()
    story.user("go")
    first = story.assistant(call("a"), id="m1")
    second = story.assistant(call("b"), id="m1")
    story.user([result("a")], parent=first)
    story.user([result("b")], parent=second)
    story.assistant(call("c"), id="m2")
    return story


def test_an_answer_in_several_records_is_one_round_with_its_results():
    grouped = rounds(_story().view().items)
    assert [len(round.items) for round in grouped] == [1, 4, 1]
    assert [len(round.answer) for round in grouped] == [0, 2, 1]


def test_the_weight_of_a_view_is_that_of_its_rounds():
    view = _story().view()
    assert sum(round.weight.wire for round in rounds(view.items)) == view.weight.wire


@given(st.lists(st.sampled_from(["user", "answer", "call", "result"]), max_size=30))
def test_rounds_are_a_partition_that_splits_no_pair(steps):
    story, calls = Story(), []
    for number, step in enumerate(steps):
        if step == "user":
            story.user(f"say {number}")
        elif step == "answer":
            story.assistant("yes")
        elif step == "call":
            calls.append(f"t{number}")
            story.assistant(call(calls[-1]))
        elif calls:
            story.user([result(calls[-1])])
    items = story.view().items
    grouped = rounds(items)
    assert [item for round in grouped for item in round.items] == items
    for round in grouped:
        asked = {call for item in round.answer for call in item.record.calls}
        outside = [item for item in items if item not in round.items]
        assert asked.isdisjoint(call for item in outside for call in item.record.answers)
