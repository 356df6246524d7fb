"""Summaries by code alone: they always come about, always fit, and hand on what they know."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.layers.compact.extract import facts, notation
from sevenfold.layers.compact.extract.notation import Facts, QuotedMessage
from sevenfold.layers.compact.extract.outline import TITLES, TITLES_UP_TO, heading
from sevenfold.layers.compact.summary import extractive, sections
from tests.compaction.histories import continued, count, histories, worked
from tests.support import Story, call, result

AMPLE = 50_000


def told(summary: str) -> list[QuotedMessage]:
    return list(notation.read_back(summary)[0].messages)


@pytest.mark.spec("S4.12", "S4.4")
@given(histories(), st.integers(0, 3_000))
def test_any_history_has_a_summary_within_any_budget(items, budget):
    assert count(extractive(facts(items), budget, count).text) <= max(0, budget)


@pytest.mark.spec("S4.12")
@given(histories())
def test_with_room_every_message_of_the_user_is_in_it_whole_and_in_order(items):
    summary = extractive(facts(items), AMPLE, count)
    said = facts(items).messages
    assert [words.head for words in told(summary.text)] == [words.head for words in said]
    assert all(words.head in summary.text for words in said)


@pytest.mark.spec("S4.4")
@given(histories(most=8), st.sampled_from(["whole", "from", "up_to"]))
def test_all_nine_sections_are_there_in_order(items, span):
    text = notation.read_back(extractive(facts(items), AMPLE, count, span=span).text)[1]
    titles = TITLES_UP_TO if span == "up_to" else TITLES
    places = [text.find(heading(number, titles)) for number in titles]
    assert places == sorted(places)
    assert places[0] == 0


@pytest.mark.spec("S4.12")
def test_it_tells_what_an_agent_needs_to_go_on():
    story = Story()
    worked(story, 1)
    story.assistant(call("t", "TodoWrite", todos=[{"content": "mend the test", "status": "in_progress"}]))
    story.user([result("t")])
    newest = story.user("now mend that test")
    text = extractive(facts(story.view().items), AMPLE, count).text
    parts = dict(zip(range(1, 10), re.split(r"^## \d\. .*$", text, flags=re.M)[1:], strict=True))
    assert "/repo/src/piece_1.py: edited 1×" in parts[3]
    assert "ValueError: piece 1 is odd" in parts[4]
    assert "- [>] mend the test" in parts[7]
    assert "Piece 1 is in place" in parts[8]
    assert f"“now mend that test” [{newest}]" in parts[9]


def test_the_next_step_is_only_ever_quoted():
    story = Story()
    story.user("thanks")
    step = extractive(facts(story.view().items), AMPLE, count).text.partition("Next step")[2]
    assert step.split() == [
        "<recorded",
        'kind="next">',
        "-",
        "the",
        "user's",
        "newest",
        "words:",
        "“thanks”",
        "[u1]",
        "</recorded>",
    ]


def test_nothing_said_gives_nine_empty_sections():
    text = extractive(facts([]), AMPLE, count).text
    assert text.count("(nothing recorded)") == 9


@pytest.mark.spec("S4.12")
def test_a_very_long_message_keeps_its_beginning_and_end_and_says_what_is_missing():
    story = Story()
    long = story.user("Beginning. " + "x" * 30_000 + " The end.")
    story.user("And a short one.")
    summary = extractive(facts(story.view().items), 3_000, count)
    first, second = told(summary.text)
    assert first.head.startswith("Beginning.")
    assert first.tail.endswith("The end.")
    assert first.lost + len(first.head) + len(first.tail) == 30_020
    assert second == QuotedMessage("u2", "And a short one.")
    assert any(long in sentence for sentence in summary.left_out)


def test_when_not_even_pieces_fit_the_first_and_the_newest_messages_stay():
    story = Story()
    for number in range(200):
        story.user(f"message {number}: " + "word " * 60)
    summary = extractive(facts(story.view().items), 2_000, count)
    kept = [words.head.split(":")[0] for words in told(summary.text)]
    assert (kept[0], kept[-1]) == ("message 0", "message 199")
    assert f"{200 - len(kept)} messages of the user" in summary.left_out


@pytest.mark.spec("S4.12")
@pytest.mark.parametrize("budget", [1_000, 2_000, 4_000, 16_000])
def test_the_newest_message_is_there_whole_or_with_both_its_ends(budget):
    story = Story()
    story.user("First. " + "log line, and again " * 2_000)
    for number in range(40):
        story.user(f"message {number}: " + "word " * 150)
        story.assistant("I see. " * 30)
    story.user("Newest begins. " + "something of it " * 2_000 + "Newest ends.")
    summary = extractive(facts(story.view().items), budget, count)
    newest = told(summary.text)[-1]
    assert newest.head.startswith("Newest begins.")
    assert (newest.tail or newest.head).endswith("Newest ends.")
    assert count(summary.text) <= budget


@pytest.mark.spec("S4.12")
def test_room_that_nothing_else_needs_goes_to_the_users_messages():
    story = Story()
    for number in range(60):
        story.user(f"message {number}: " + f"see http://host-{number}.example.org/{number} " * 12)
    story.assistant("I see.")
    summary = extractive(facts(story.view().items), 16_000, count)
    assert count(summary.text) > 0.8 * 16_000 or all(not words.lost for words in told(summary.text))


def test_long_messages_give_way_before_short_ones():
    messages = tuple(QuotedMessage(f"r{n}", "w" * (9_000 if n == 3 else 90)) for n in range(10))
    kept = told(sections(Facts(messages=messages), 2_500, count).text)
    assert [not words.lost for words in kept] == [n != 3 for n in range(10)]


@pytest.mark.spec("S4.2", "S4.12")
def test_ten_compactions_in_a_row_lose_no_message_path_error_or_record():
    story, said = Story(), list[str]()
    for number in range(10):
        said.append(worked(story, number))
        summary = extractive(facts(story.view().items), 20_000, count)
        assert summary.left_out == ()
        story = continued(summary.text)
    found = facts(story.view().items)
    assert [words.record for words in found.messages] == said
    assert [words.head.split()[3] for words in found.messages] == [str(number) for number in range(10)]
    assert {file.path for file in found.files if file.changed} == {
        f"/repo/src/piece_{n}.py" for n in range(10)
    }
    assert {problem.lines for problem in found.problems} == {
        f"ValueError: piece {n} is odd" for n in range(10)
    }
    assert [quote.text[:7] for quote in found.outcomes] == [f"Piece {number}" for number in range(10)]


@pytest.mark.spec("S4.12")
def test_ten_compactions_without_room_account_for_what_they_leave_out():
    story = Story()
    for number in range(10):
        for turn in range(4):
            worked(story, 10 * number + turn)
        summary = extractive(facts(story.view().items), 1_500, count)
        assert count(summary.text) <= 1_500
        story = continued(summary.text)
    found = facts(story.view().items)
    assert len(found.messages) + found.left_out["messages"] == 40
    assert len(found.files) + found.left_out["files"] >= 40
    assert found.messages[-1].head.startswith("Please do piece 93")


def test_a_task_done_after_a_compaction_is_off_the_list():
    story = Story()
    for number in (1, 2):
        story.assistant(call(f"c{number}", "TaskCreate", subject=f"task {number}"))
        story.user([result(f"c{number}", f"Task #{number} created")])
    story = continued(extractive(facts(story.view().items), AMPLE, count).text)
    story.assistant(call("d", "TaskUpdate", taskId="1", status="completed"))
    story.user([result("d")])
    assert [task.text for task in facts(story.view().items).tasks] == ["task 2"]


def test_where_the_work_stood_is_handed_on_if_nothing_happened_since():
    story = Story()
    worked(story, 1)
    once = extractive(facts(story.view().items), AMPLE, count).text
    twice = extractive(facts(continued(once).view().items), AMPLE, count).text
    assert twice.partition("## 8.")[2] == once.partition("## 8.")[2]


def test_prose_of_an_earlier_summary_is_handed_on_and_marked_once():
    prose = (
        "Summary:\n1. Primary Request and Intent:\n   Port the parser.\n\n8. Current Work:\n   Halfway.\n"
    )
    for _ in range(3):
        story = Story()
        story.boundary()
        story.summary(prose)
        story.user("go on")
        story.assistant("on it")
        prose = extractive(facts(story.view().items), AMPLE, count).text
        assert prose.count("Port the parser.") == 1
        assert prose.count("Halfway.") == 1
        assert prose.count(notation.EARLIER) == 2


@pytest.mark.spec("S4.2")
@given(histories())
def test_a_message_cannot_pass_for_the_frame_around_it(items):
    """Whatever the user writes, reading a summary back gives the lists that went in and no more."""
    known = facts(items)
    again = notation.read_back(sections(known, AMPLE, count).text)[0]
    assert [task.text for task in again.tasks] == [" ".join(task.text.split()) for task in known.tasks]
    assert len(again.messages) == len(known.messages)


@pytest.mark.spec("S10.2")
def test_records_are_cited_by_the_shortest_beginning_that_is_unique():
    names = notation.short_names(
        [
            "3f2a91c4-0000-4000-8000-000000000001",
            "77aa91c4-0000-4000-8000-000000000001",
            "77aa91c4-1111-x",
            "u1",
        ]
    )
    assert list(names.values()) == ["3f2a91c4", "u1", "77aa91c4-0000", "77aa91c4-1111"]
