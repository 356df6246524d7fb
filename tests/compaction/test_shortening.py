"""Requests made smaller for a call that summarises: still requests that every server takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.lab.rules import RuleFacts, refusals
from sevenfold.layers.compact.shorten import chunks, drop_oldest, lean, messages
from sevenfold.record.blocks import text_of
from sevenfold.record.layout import rounds
from sevenfold.record.weight import Estimator
from tests.compaction.histories import histories, picture
from tests.support import Story, call, result, text

tokens = Estimator.of("claude-b").tokens
ASK = "Summarise this."


def paper(words: str) -> dict[str, Any]:
    return {"type": "document", "source": {"type": "text", "data": words}}


def sent(items, ask: str = ASK, **how) -> list[dict[str, Any]]:
    return [json.loads(message) for message in messages(items, ask, **how)]


@pytest.mark.spec("S4.2")
@given(histories())
def test_whatever_was_said_the_request_is_taken(items):
    made = sent(lean(items))
    assert refusals(made, facts=RuleFacts()) == []
    assert made[-1]["content"][-1]["text"] == ASK


@pytest.mark.spec("S4.2")
def test_pictures_become_words_and_reasoning_goes():
    story = Story()
    story.user([text("look"), picture(), paper("x"), {"type": "document", "source": {}}])
    story.assistant({"type": "thinking", "thinking": "hm", "signature": "s"}, id="m1")
    story.assistant({"type": "thinking", "thinking": "hm", "signature": "s"}, call("a"), id="m2")
    story.user([result("a", [text("seen"), picture(), paper("read")])])
    story.assistant("API Error", model="<synthetic>")
    made = sent(lean(story.view().items))
    assert [block.get("text") for block in made[0]["content"]] == ["look", "[image]", "x", "[document]"]
    assert [block["type"] for block in made[1]["content"]] == ["tool_use"]
    assert made[2]["content"][0]["content"] == "seen\n[image]\nread"
    assert [message["role"] for message in made] == ["user", "assistant", "user"]


@pytest.mark.spec("S4.2")
def test_attachments_that_are_restored_anyway_are_left_out():
    story = Story()
    story.user("go")
    story._add("attachment", {"attachment": {"type": "nested_memory", "path": "a.md", "content": "rules"}})
    story._add("attachment", {"attachment": {"type": "edited_text_file", "filename": "b", "snippet": "c"}})
    made = sent(lean(story.view().items, frozenset({"nested_memory"})))
    assert len(made) == 1
    assert "rules" not in json.dumps(made)
    assert "edited_text_file" in json.dumps(made)


def long_story(turns: int) -> Story:
    story = Story()
    story.user("go")
    for number in range(turns):
        story.assistant(call(f"t{number}"), id=f"m{number}")
        story.user([result(f"t{number}", "line\n" * 200)])
    return story


@pytest.mark.spec("S4.6")
def test_without_a_known_gap_a_fifth_of_the_rounds_goes():
    items = long_story(19).view().items
    shorter = drop_oldest(items, tokens)
    assert shorter is not None
    assert shorter.dropped == 4
    assert list(shorter.items) == [item for one in rounds(items)[4:] for item in one.items]


@pytest.mark.spec("S4.6")
def test_as_many_rounds_go_as_cover_the_gap():
    items = long_story(10).view().items
    each = tokens(rounds(items)[3].weight)
    shorter = drop_oldest(items, tokens, gap=int(2.5 * each))
    assert shorter is not None
    assert shorter.dropped == 4


@pytest.mark.spec("S4.6")
def test_a_request_that_was_cut_begins_with_a_line_that_says_so():
    shorter = drop_oldest(long_story(9).view().items, tokens)
    assert shorter is not None
    made = sent(shorter.items, dropped=shorter.dropped)
    assert made[0]["role"] == "user"
    assert "oldest part of this conversation (2 rounds) was left out" in made[0]["content"][0]["text"]
    assert refusals(made, facts=RuleFacts()) == []


@pytest.mark.spec("S4.6")
def test_dropping_again_and_again_comes_to_an_end():
    items, dropped, tries = tuple(long_story(12).view().items), 0, 0
    while shorter := drop_oldest(items, tokens, dropped=dropped):
        assert len(rounds(shorter.items)) < len(rounds(items))
        items, dropped, tries = shorter.items, shorter.dropped, tries + 1
    assert (dropped, len(rounds(items))) == (12, 1)


@pytest.mark.spec("S4.2", "S4.6")
def test_the_earlier_summary_is_the_last_thing_to_be_dropped():
    story = Story()
    story.boundary()
    story.summary("what was before")
    for number in range(3):
        story.assistant(f"answer {number}")
        story.user(f"say {number}")
    shorter = drop_oldest(story.view().items, tokens, gap=1_000_000)
    assert shorter is not None
    assert [item.record.summary for item in shorter.items] == [True, False, False]


@given(histories(), st.integers(300, 2_000))
def test_chunks_are_whole_rounds_within_the_budget(items, budget):
    small = lean(items)
    parts = chunks(small, budget, tokens)
    for part in parts:
        assert sum(tokens(item.weight) for item in part) <= budget
        assert refusals(sent(part), facts=RuleFacts()) == []
    left = [item for part in parts for item in part]
    for group in rounds(small):
        whole = [item.record.uuid for item in group.items]
        found, left = left[: len(whole)], left[len(whole) :]
        if [item.record.uuid for item in found] != whole:
            # All of its results together are too much even when nothing is left in them: one line stands for it.
            (note,) = found[0].shown
            assert found[0].record.uuid == whole[0]
            assert str(sum(len(item.shown) for item in group.items)) in text_of([note])
            left = [*found[1:], *left]
    assert left == []


def test_a_round_too_large_by_itself_has_its_results_cut_first():
    story = Story()
    story.assistant("I look. " * 20, call("a"))
    story.user([result("a", "first line\n" + "x " * 20_000 + "\nlast line")])
    (part,) = chunks(lean(story.view().items), 1_000, tokens)
    made = sent(part)
    found = made[-1]["content"][0]["content"]
    assert found.startswith("first line")
    assert found.endswith("last line")
    assert "characters were left out here" in found
    assert made[1]["content"][0]["text"] == "I look. " * 20


def test_a_round_of_which_nothing_fits_is_named():
    story = Story()
    story.assistant(*(call(f"t{number}") for number in range(100)))
    (part,) = chunks(story.view().items, 300, tokens)
    assert "A round of 100 blocks was here" in json.dumps(sent(part))
