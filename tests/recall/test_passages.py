"""What of a record is searched."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.recall.passages import NEEDLE, PIECE, passages, pieces, tidy
from sevenfold.record import entries
from sevenfold.record.decisions import Fold, Snip
from sevenfold.record.entries import Decision, Entry
from tests.support import Story, call, result, text


def only(story: Story) -> Entry:
    return entries.read(story.lines[-1])


def said(story: Story) -> list[tuple[str, str, str]]:
    return [(one.kind, one.tool, one.text) for one in passages(only(story))]


def test_the_words_of_user_and_model_are_told_apart() -> None:
    story = Story()
    story.user("find the leak")
    assert said(story) == [("user", "", "find the leak")]
    story.assistant("it is in the pump", call("t1", "Bash", command="ls -la pump/"))
    assert said(story) == [
        ("assistant", "", "it is in the pump"),
        ("tool_use", "Bash", "Bash\nls -la pump/"),
    ]


def test_reasoning_is_not_searched() -> None:
    story = Story()
    story.assistant({"type": "thinking", "thinking": "hm, the valve", "signature": "s"}, "done")
    assert said(story) == [("assistant", "", "done")]


def test_a_call_that_changes_a_file_is_an_edit() -> None:
    story = Story()
    story.assistant(call("t1", "Edit", file_path="/a.py", old_string="x = 1", new_string="x = 2"))
    assert said(story) == [("edit", "Edit", "Edit\n/a.py\nx = 1\nx = 2")]
    story.assistant(call("t2", "Read", file_path="/a.py", limit=20))
    assert said(story) == [("tool_use", "Read", "Read\n/a.py\nlimit 20")]


def test_failed_results_are_errors() -> None:
    story = Story()
    story.user([result("t1", "no such file", is_error=True), result("t2", [text("two"), text("parts")])])
    assert [(kind, words) for kind, _, words in said(story)] == [
        ("error", "no such file"),
        ("tool_result", "two\nparts"),
    ]


def test_summaries_and_what_we_add_ourselves_are_not_the_users_words() -> None:
    story = Story()
    story.summary("so far: all well")
    assert said(story)[0][0] == "summary"
    story.user("a reminder", isMeta=True)
    assert said(story)[0][0] == "attachment"


def test_a_span_folded_into_a_summary_gives_that_summary_and_a_mere_cut_nothing() -> None:
    fold = Decision(Fold(id="d1", first="a", last="b", summary="what was there"))
    assert [(one.kind, one.text) for one in passages(fold)] == [("summary", "what was there")]
    assert passages(Decision(Snip(id="d2", first="a", last="b"))) == []


def test_blocks_of_unknown_kinds_are_searched_for_what_they_say() -> None:
    story = Story()
    story.assistant(
        {"type": "web_search_tool_result", "tool_use_id": "x", "content": [{"title": "tides", "n": 2}]}
    )
    assert said(story) == [("tool_result", "", "tides\nn 2")]


@pytest.mark.parametrize("given", ["[" * 90 + "1" + "]" * 90, '{"a":' * 60 + "null" + "}" * 60])
def test_deeply_nested_input_is_read_without_harm(given: str) -> None:
    story = Story()
    story.assistant({"type": "tool_use", "id": "t", "name": "Deep", "input": json.loads(given)})
    assert said(story)[0][2].startswith("Deep")


@given(st.lists(st.text(alphabet="ab \n\t漢é", max_size=60), max_size=400), st.data())
def test_any_short_stretch_of_a_text_stands_whole_in_one_of_its_pieces(
    parts: list[str], data: st.DataObject
) -> None:
    whole = tidy("".join(part * 9 for part in parts))
    cut = list(pieces(whole))
    assert all(len(piece) <= PIECE for piece in cut)
    start = data.draw(st.integers(0, len(whole)))
    needle = " ".join(whole[start : start + NEEDLE].split())
    assert any(needle in " ".join(piece.split()) for piece in cut)


@pytest.mark.spec("S21.7")
def test_a_number_that_no_machine_can_hold_does_not_hide_what_stands_beside_it() -> None:
    story = Story()
    story.assistant({"type": "web_search_tool_result", "tool_use_id": "x", "content": [{"title": "tides"}]})
    story.lines[0] = story.lines[0].replace(b'"tides"', b'"tides", "n": 1e999')
    ((kind, _, words),) = said(story)
    assert kind == "tool_result"
    assert "tides" in words
    assert "1e999" in words
