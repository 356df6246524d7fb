"""The fold: which records are live, what the model sees of them, and who hid the rest."""

from __future__ import annotations

import json

import pytest

from sevenfold.record import blocks, entries
from sevenfold.record.blocks import PLACEHOLDER_CLEARED
from sevenfold.record.decisions import Rewound, Snip, Undone
from sevenfold.record.log import decided
from sevenfold.record.view import View
from sevenfold.record.weight import NOTHING
from sevenfold.record.wire import CUT_START, NO_RESULT
from tests.support import Story, call, decoded, result, shown, text, usage


def test_a_conversation_is_shown_in_order():
    story = Story()
    story.user("one")
    story.assistant("two")
    story.user("three")
    assert shown(story.view()) == [("user", "one"), ("assistant", "two"), ("user", "three")]


def test_the_record_of_an_item_answers_to_its_former_name():
    story = Story()
    story.user("Light the quay.")
    (item,) = story.view().items
    with pytest.warns(DeprecationWarning, match=r"item\.record"):
        assert item.said is item.record


@pytest.mark.spec("S8.4")
def test_records_of_one_answer_become_one_message_and_their_results_the_next():
    story = Story()
    story.user("go")
    first = story.assistant(call("a"), id="m1")
    second = story.assistant(call("b"), id="m1")
    story.user([result("a", "A")], parent=first)
    story.user([result("b", "B")], parent=second)
    story.assistant("done", id="m2")
    assert shown(story.view()) == [
        ("user", "go"),
        ("assistant", "a? b?"),
        ("user", "a=A b=B"),
        ("assistant", "done"),
    ]


@pytest.mark.spec("S0.7")
def test_an_answer_that_goes_on_after_its_first_result_is_still_one_message():
    story = Story()
    story.user("go")
    story.assistant(call("a"), id="m1", used=usage(500))
    story.user([result("a", "A")])
    story.assistant(call("b"), id="m1", used=usage(500))
    story.user([result("b", "B")])
    view = story.view()
    assert shown(view) == [("user", "go"), ("assistant", "a? b?"), ("user", "a=A b=B")]
    assert view.layout.anchor is not None
    assert view.layout.anchor.since.results == 2


@pytest.mark.spec("S8.4")
def test_progress_records_inside_the_chain_are_links_only():
    story = Story()
    story.user("go")
    story.assistant(call("a"))
    story.link("progress")
    story.link("system", subtype="turn_duration")
    story.user([result("a", "A")])
    assert shown(story.view()) == [("user", "go"), ("assistant", "a?"), ("user", "a=A")]


@pytest.mark.spec("S8.6")
def test_a_prompt_written_anew_starts_a_branch_and_the_old_one_is_no_longer_seen():
    story = Story()
    root = story.user("go")
    old = story.assistant("first try")
    story.user("no")
    story.assistant("second try", parent=root)
    view = story.view()
    assert shown(view) == [("user", "go"), ("assistant", "second try")]
    assert view.fate(old).state == "off_branch"
    assert view.fate(root).state == "seen"


@pytest.mark.spec("S8.6")
def test_a_result_given_on_a_branch_that_was_given_up_does_not_answer_the_same_call_made_again():
    story = Story()
    said = story.user("go")
    story.assistant(call("a"), id="m1")
    story.user([result("a", "before")])
    story.assistant(call("a"), id="m2", parent=said)
    story.user([result("a", "after")])
    story.assistant(call("b"), id="m3")
    story.user([result("b", "B")])
    seen = [("user", "go"), ("assistant", "a?"), ("user", "a=after"), ("assistant", "b?")]
    assert shown(story.view())[:-1] == seen
    story.clearing("b")  # has all of it laid out again
    assert shown(story.view())[:-1] == seen


@pytest.mark.spec("S8.6")
def test_what_follows_a_result_given_on_another_branch_goes_on_from_that_branch():
    story = Story()
    story.user("go")
    called = story.assistant(call("a"), call("b"))
    story.user([result("a", "A")])
    story.user("aside", parent=called)
    answered = story.user([result("b", "B")])
    story.raw(decided(Rewound(id="d1", at=answered, to=called)).line)
    story.user("next", parent=answered)
    view = story.view()
    assert shown(view)[-1] == ("user", "a=A b=B aside next")
    view.add(entries.Decision(Undone(decision="nothing")))  # has all of it laid out again
    assert shown(view)[-1] == ("user", "a=A b=B aside next")


@pytest.mark.spec("S8.6")
def test_results_of_a_branch_that_was_given_up_stay_with_it():
    story = Story()
    root = story.user("go")
    story.assistant(call("a"))
    story.user([result("a", "A")])
    story.user("other way", parent=root)
    assert shown(story.view()) == [("user", "go other way")]


def test_a_boundary_hides_what_came_before_and_says_so():
    story = Story()
    old = story.user("long ago")
    story.assistant("indeed")
    boundary = story.boundary()
    story.summary("in short")
    story.user("go on")
    view = story.view()
    assert shown(view) == [("user", "in short go on")]
    assert view.fate(old).state == "hidden"
    assert view.fate(old).by == (boundary,)


def _kept_suffix() -> tuple[Story, str]:
    story = Story()
    story.user("long ago")
    story.assistant("indeed")
    head = story.user("recent")
    tail = story.assistant("yes")
    story.boundary(kept=(head, "anchor", tail))
    story.summary("in short", uuid="anchor")
    return story, tail


@pytest.mark.spec("S4.8")
def test_kept_messages_stand_behind_the_summary():
    story, _ = _kept_suffix()
    assert shown(story.view()) == [("user", "in short recent"), ("assistant", "yes")]


@pytest.mark.spec("S4.8")
@pytest.mark.parametrize("parent", ["tail", "anchor"])
def test_what_follows_kept_messages_may_hang_from_them_or_from_the_summary(parent):
    story, tail = _kept_suffix()
    story.user("next", parent=tail if parent == "tail" else "anchor")
    view = story.view()
    assert shown(view) == [("user", "in short recent"), ("assistant", "yes"), ("user", "next")]
    assert view.boundary is not None


@pytest.mark.spec("S4.8")
def test_a_tail_that_is_only_a_link_still_keeps_its_messages():
    story = Story()
    story.user("long ago")
    head = story.assistant("recent")
    tail = story.link("system", subtype="stop_hook_summary")
    story.boundary(kept=(head, "anchor", tail))
    story.summary("in short", uuid="anchor")
    story.user("next", parent=tail)
    assert shown(story.view()) == [("user", "in short"), ("assistant", "recent"), ("user", "next")]


@pytest.mark.spec("S4.8", "S4.7")
def test_a_kept_prefix_stands_before_the_summary():
    story = Story()
    head = story.user("first")
    tail = story.assistant("kept")
    story.user("summarised")
    story.assistant("this too")
    story.boundary(kept=(head, "B", tail), uuid="B")
    story.summary("in short")
    story.user("next")
    assert shown(story.view()) == [("user", "first"), ("assistant", "kept"), ("user", "in short next")]


@pytest.mark.spec("S8.6")
def test_a_branch_may_leave_from_before_a_boundary():
    story = Story()
    root = story.user("go")
    story.assistant("indeed")
    story.boundary()
    story.summary("in short")
    story.user("another way", parent=root)
    assert shown(story.view()) == [("user", "go another way")]


@pytest.mark.spec("S2.1", "S2.11")
def test_cleared_results_keep_their_place_and_lose_their_content():
    story = Story()
    story.user("go")
    story.assistant(call("a"))
    cleared = story.user([result("a", "a long listing")])
    story.assistant("fine")
    decision = story.clearing("a")
    view = story.view()
    assert shown(view)[2] == ("user", f"a={PLACEHOLDER_CLEARED}")
    assert view.fate(cleared).state == "trimmed"
    assert view.fate(cleared).by == (decision,)


@pytest.mark.spec("S2.11")
def test_the_chain_goes_on_through_a_clearing():
    story = Story()
    story.user("go")
    story.assistant(call("a"))
    story.user([result("a")])
    story.clearing("a")
    story.user("next")
    assert shown(story.view())[-1] == ("user", f"a={PLACEHOLDER_CLEARED} next")


@pytest.mark.spec("S0.9")
def test_a_clearing_that_names_no_result_has_taken_none_out():
    story = Story()
    story.user()
    story.assistant("ok", used=usage(5_000))
    story.clearing()
    anchor = story.view().layout.anchor
    assert anchor is not None
    assert anchor.removed == NOTHING
    story.clearing("never read")
    anchor = story.view().layout.anchor
    assert anchor is not None
    assert anchor.removed != NOTHING


@pytest.mark.spec("S0.9")
def test_what_a_clearing_took_out_is_remembered_until_the_next_report():
    story = Story()
    story.user("go")
    story.assistant(call("a"), id="m1", used=usage(500))
    story.user([result("a", "x" * 400)])
    story.assistant("fine", id="m2", used=usage(700))
    story.clearing("a")
    view = story.view()
    assert view.layout.anchor is not None
    assert view.layout.anchor.removed.text >= 400 - len(PLACEHOLDER_CLEARED)
    story.user("more")
    story.assistant("good", id="m3", used=usage(650))
    after = story.view().layout.anchor
    assert after is not None
    assert (after.prompt, after.removed.wire) == (650, 0)


@pytest.mark.spec("S0.9")
def test_a_size_reported_before_a_boundary_is_not_used_after_it():
    story, tail = _kept_suffix()
    story.user("next", parent=tail)
    assert story.view().layout.anchor is None


@pytest.mark.spec("S0.6")
def test_a_synthetic_error_is_neither_sent_nor_measured():
    story = Story()
    story.user("go")
    story.assistant("API Error", model="<synthetic>", isApiErrorMessage=True, used=usage(0, 0))
    story.user("again")
    view = story.view()
    assert shown(view) == [("user", "go again")]
    assert view.layout.anchor is None


def test_side_conversations_in_the_same_file_are_kept_apart():
    story = Story()
    story.user("go")
    main = story.last
    side = story.user("warm up", parent=None, isSidechain=True)
    story.assistant("ok", isSidechain=True)
    story.assistant("main answer", parent=main)
    view = story.view()
    assert shown(view) == [("user", "go"), ("assistant", "main answer")]
    assert view.fate(side).state == "sidechain"


def test_a_file_of_a_side_conversation_is_a_conversation_of_its_own():
    story = Story()
    story.user("sub task", isSidechain=True)
    story.assistant("done", isSidechain=True)
    assert shown(story.view()) == [("user", "sub task"), ("assistant", "done")]


def test_a_main_file_may_begin_with_a_side_conversation():
    story = Story()
    story.user("warm up", isSidechain=True)
    story.assistant("ok", isSidechain=True)
    story.user("go", parent=None)
    assert shown(story.view()) == [("user", "go")]


def test_a_prompt_typed_while_busy_is_the_users_word():
    story = Story()
    story.user("go")
    story.assistant("on it")
    story.link("attachment", attachment={"type": "queued_command", "prompt": "and hurry"})
    assert shown(story.view())[-1] == ("user", "and hurry")


def test_a_call_nobody_answered_is_answered_for_the_server_and_reported():
    story = Story()
    story.user("go")
    story.assistant(call("a"), call("b"))
    story.user([result("a", "A")])
    story.user("never mind")
    view = story.view()
    assert shown(view)[-1] == ("user", f"a=A b={NO_RESULT} never mind")
    assert [(repair.kind, repair.subject) for repair in view.repairs] == [("unanswered_call", "b")]


def test_calls_still_running_are_left_open():
    story = Story()
    story.user("go")
    story.assistant(call("a"), call("b"))
    story.user([result("a", "A")])
    view = story.view()
    assert view.pending_calls == ["b"]
    assert view.repairs == []


def test_a_result_without_its_call_is_sent_as_text():
    story = Story()
    story.user("go")
    story.assistant("hm")
    story.user([result("ghost", "boo")])
    view = story.view()
    assert decoded(view)[-1]["content"][0]["type"] == "text"
    assert "boo" in shown(view)[-1][1]
    assert [repair.kind for repair in view.repairs] == ["orphan_result"]


def test_a_call_written_down_twice_is_made_once_and_reported():
    story = Story()
    story.user("go")
    first = story.assistant(call("a"), id="m1")
    story.user([result("a", "A")])
    story.assistant(call("a"), call("b"), id="m1", parent=first)
    view = story.view()
    assert shown(view) == [("user", "go"), ("assistant", "a? b?"), ("user", "a=A")]
    assert [(repair.kind, repair.subject) for repair in view.repairs] == [("second_call", "a")]
    story.user([result("b", "B")])
    assert shown(story.view())[-1] == ("user", "a=A b=B")
    assert [repair.kind for repair in story.view().repairs] == ["second_call"]


def test_more_of_an_answer_further_up_is_put_there():
    story = Story()
    first = story.assistant("one", id="m1")
    story.assistant("two", id="m2")
    story.lines.append(b"damage\n")
    story.assistant("more", id="m1", parent=None)
    assert shown(story.view())[1:] == [("assistant", "one more"), ("assistant", "two")]
    assert story.view().fate(first).state == "seen"


def test_a_clearing_on_a_branch_that_was_given_up_clears_nothing():
    story = Story()
    asked = story.assistant(call("a"))
    story.user([result("a", "A")])
    story.clearing("a")
    story.user("next", parent=asked)
    assert shown(story.view())[-1] == ("user", "a=A next")


def test_an_id_that_another_answer_used_before_does_not_call_again():
    story = Story()
    story.user("go")
    story.assistant(call("a"))
    story.user([result("a", "A")])
    story.assistant(call("a"))
    story.user("thanks")
    view = story.view()
    assert shown(view) == [("user", "go"), ("assistant", "a?"), ("user", "a=A thanks")]
    assert [(repair.kind, repair.subject) for repair in view.repairs] == [("second_call", "a")]


def test_a_conversation_that_begins_with_an_answer_gets_a_first_line():
    story = Story()
    story.assistant("as I said", parent="lost")
    view = story.view()
    assert shown(view) == [("user", CUT_START), ("assistant", "as I said")]
    assert [repair.kind for repair in view.repairs] == ["cut_start"]


def test_results_come_before_words_said_at_the_same_time():
    story = Story()
    story.user("go")
    story.assistant(call("a"))
    story.user([text("hurry"), result("a", "A")])
    assert shown(story.view())[-1] == ("user", "a=A hurry")


@pytest.mark.spec("S9.2")
@pytest.mark.parametrize("blank", ["  \n", " " * 500, "\x1c" * 100])
def test_empty_texts_are_not_sent(blank):
    story = Story()
    story.user([text("go"), text(blank)])
    story.assistant("", call("a"))
    assert shown(story.view()) == [("user", "go"), ("assistant", "a?")]


@pytest.mark.spec("S9.2", "S2.1")
def test_what_replaces_a_result_names_the_toolset_of_its_call():
    story = Story()
    story.user("go")
    story.assistant({**call("a"), "toolset_name": "browser"})
    story.user([{**result("a", "A"), "toolset_name": "browser"}])
    story.assistant({**call("b"), "toolset_name": "browser"})
    story.user("never mind")
    cleared = blocks.with_content(story.view().items[2].shown[0], PLACEHOLDER_CLEARED)
    assert json.loads(cleared.raw)["toolset_name"] == "browser"
    missing = json.loads(story.view().encoded()[-1])["content"][0]
    assert (missing["content"], missing["toolset_name"]) == (NO_RESULT, "browser")


def test_a_damaged_line_does_not_cut_the_conversation_off():
    story = Story()
    story.user("go")
    story.assistant("yes")
    lost = story.user("lost")
    story.assistant("good", parent=lost)
    story.lines[2] = b'{"type":"user","uuid":"u3","mess\n'
    view = story.view()
    assert shown(view) == [("user", "go"), ("assistant", "yes"), ("assistant", "good")]
    assert view.damaged == 1


def test_only_the_record_right_behind_a_damaged_line_is_taken_for_its_child():
    story = Story()
    story.user("go")
    story.assistant("yes")
    lost = story.user("lost")
    story.assistant("good", parent=lost)
    story.lines[2] = b'{"type":"user","uuid":"u3","mess\n'
    story.user("from elsewhere", parent="never-seen")
    assert shown(story.view()) == [("user", "from elsewhere")]


def test_a_record_without_a_parent_behind_a_damaged_line_is_a_child_when_reading_begins_later_too():
    story = Story()
    first = story.user("go")
    story.raw(b"\x00\n")
    story.raw(decided(Snip(id="d1", at=first, first=first, last=first)).line)
    story.user("again", parent=None)
    later = View(complete=False)
    for line in story.lines:
        later.add(entries.read(line))
    assert shown(later) == shown(story.view()) == [("user", "again")]
    assert next(item.record.uuid for item in later.items) == first


def test_a_record_written_twice_counts_once():
    story = Story()
    story.user("go")
    story.assistant("yes")
    story.raw(story.lines[1])
    assert shown(story.view()) == [("user", "go"), ("assistant", "yes")]


def test_records_that_name_each_other_as_parent_do_not_hang_the_fold():
    story = Story()
    story.user("chicken", uuid="x", parent="y")
    story.user("egg", uuid="y", parent="x")
    assert "egg" in shown(story.view())[0][1]


def test_a_summary_told_again_is_out_of_sight_with_its_compaction_even_once_that_is_left_to_the_store():
    story = Story()
    start = story.user("go")
    boundary = story.boundary()
    story.summary("in short")
    again = story.summary("in short", parent=boundary)
    story.raw(decided(Undone(id="d1", at=again, decision=boundary)).line)
    story.user("next")
    lean = story.view()
    lean.keeps_history = False
    told = len(story.lines)
    story.boundary((start, "short", again))
    story.summary("shorter still", uuid="short")
    for line in story.lines[told:]:
        lean.add(entries.read(line))
    assert shown(lean) == shown(story.view()) == [("user", "shorter still go")]
    assert lean.entry(boundary) is None


def test_history_can_be_left_to_the_store_and_the_view_stays_the_same():
    story, tail = _kept_suffix()
    story.user("next", parent=tail)
    lean = story.view(keeps_history=False)
    assert lean.encoded() == story.view().encoded()
    assert lean.fate("u1").state == "hidden"
    assert lean.entry("u1") is None
