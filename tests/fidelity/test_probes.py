"""Which facts are looked for."""

from __future__ import annotations

import pytest
from hypothesis import given

from sevenfold.archive.fidelity import KINDS, judge, probes, sample, texts
from sevenfold.archive.fidelity.facts import MOST_PER_KIND
from sevenfold.record.layout import Item
from tests.fidelity.making import facts, found, harbour, histories
from tests.support import Story, call, result


@pytest.mark.spec("S10.3", "S4.12")
def test_a_session_gives_facts_of_every_kind_with_their_records() -> None:
    by_kind = {probe.kind: probe for probe in found(harbour())}
    assert set(by_kind) == set(KINDS)
    assert by_kind["preference"].text == "Never touch the files under build/generated."
    assert by_kind["preference"].record == "ask"
    assert by_kind["correction"].text == "No, that's wrong: the keeper's clock runs on UTC."
    assert by_kind["decision"].text == "Should I read the zone from stations.toml?"
    assert by_kind["edited_file"].text == "/home/pia/tide/src/tidemark/clock.py"
    assert by_kind["edited_file"].sought == ("edit",)
    assert by_kind["error"].text == "tests/test_clock.py:41:5: undefined name local_day"
    assert by_kind["pending_task"].text == "Write a test for midnight"
    assert by_kind["identifier"].record == "propose"


def test_every_message_of_the_user_is_a_fact_and_the_same_words_are_one() -> None:
    story = harbour()
    story.user("yes", uuid="again")
    said = {probe.text: probe for probe in found(story) if probe.kind == "user_message"}
    assert len(said) == 3
    assert said["yes"].record == "again"


def test_what_a_program_put_on_the_users_side_is_not_the_users() -> None:
    story = Story()
    story.user("<task-notification>done, never mind</task-notification>")
    story.user("<system-reminder>always obey</system-reminder>mend the lamp")
    story.user("[Request interrupted by user for tool use]")
    story.user("a skill: you must always", isMeta=True)
    story.summary("The user must always")
    assert facts(story, "user_message") == ["mend the lamp"]
    assert facts(story, "preference") == []


def test_what_the_user_typed_inside_an_envelope_or_before_a_torn_one_counts() -> None:
    story = Story()
    story.user("<command-name>/look</command-name>\n<command-args>at the lamp</command-args>")
    story.user("why does <system-reminder> show up in my lamp?")
    assert facts(story, "user_message") == [
        "/look at the lamp",
        "why does <system-reminder> show up in my lamp?",
    ]


def test_the_reason_for_refusing_a_call_is_a_correction() -> None:
    story = Story()
    story.assistant(call("t1", "Bash", command="rm -r lamp"))
    refused = "The user doesn't want to proceed with this tool use."
    words = f"{refused} To tell you how to proceed, the user said:\nkeep the lamp oil"
    story.user([result("t1", words, is_error=True)], uuid="no")
    assert facts(story, "correction") == ["keep the lamp oil"]
    assert facts(story, "error") == []


def test_pasted_code_tables_and_logs_are_no_wishes() -> None:
    story = Story()
    story.user(
        "```\n# never use tabs here\n```\n| a | use b instead of c |\n    always: true for the lamp\n"
    )
    assert facts(story, "preference") + facts(story, "correction") == []


def test_a_plain_question_settles_nothing_and_assent_without_a_proposal_neither() -> None:
    story = Story()
    story.user("Should the lamp always burn at night?")
    story.assistant("It does.")
    story.user("ok")
    assert facts(story, "decision") + facts(story, "preference") == []


def test_answers_to_questions_and_approved_plans_are_decisions() -> None:
    story = Story()
    story.assistant(call("t1", "AskUserQuestion", questions=[]))
    story.user([result("t1", 'The user answered: "Which lamp?"="The red one", "When?"="At dusk"')])
    story.assistant(call("t2", "ExitPlanMode", plan="# Relight the harbour\n\n1. oil"))
    story.user([result("t2", "User has approved your plan.")])
    assert facts(story, "decision") == [
        '"Which lamp?"="The red one"',
        '"When?"="At dusk"',
        "Relight the harbour",
    ]


def test_a_task_that_is_open_in_several_lists_is_looked_for_once() -> None:
    story = Story()
    todos = [
        {"content": task, "status": "pending"}
        for task in ("trim the wick", "Trim  the wick", "fill the oil")
    ]
    story.assistant(call("t1", "TodoWrite", todos=todos))
    story.assistant(call("c1", "TaskCreate", subject="fill the oil"))
    story.user([result("c1", "Task #1 created successfully: fill the oil")])
    assert facts(story, "pending_task") == ["trim the wick", "fill the oil"]


def test_only_the_last_state_of_a_list_counts_and_only_what_is_open() -> None:
    story = Story()
    for status in ("pending", "completed"):
        story.assistant(
            call(f"t{status}", "TodoWrite", todos=[{"content": "trim the wick", "status": status}])
        )
    for number, task in enumerate(("fill the oil", "polish the glass"), 1):
        story.assistant(call(f"c{number}", "TaskCreate", subject=task))
        story.user([result(f"c{number}", f"Task #{number} created successfully: {task}")])
    story.assistant(call("u", "TaskUpdate", taskId="1", status="completed"))
    assert facts(story, "pending_task") == ["polish the glass"]


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("Exit code 1\n\n=== RUN TestLamp\n--- FAIL: TestLamp (0.00s)\nFAIL", "--- FAIL: TestLamp (0.00s)"),
        (
            "Traceback (most recent call last):\n  File \"lamp.py\", line 3\nKeyError: 'oil'",
            "KeyError: 'oil'",
        ),
        ('x := "/missing/"\nlamp.go:4:2: undefined: oil', "lamp.go:4:2: undefined: oil"),
        (
            "<tool_use_error>String to replace not found.\nString: an Error: x</tool_use_error>",
            "String to replace not found.",
        ),
        ("the lamp went out", "the lamp went out"),
    ],
)
def test_a_failure_is_known_by_the_line_that_says_what_is_wrong(output: str, line: str) -> None:
    story = Story()
    story.assistant(call("t1", "Bash", command="make"))
    story.user([result("t1", output, is_error=True)])
    assert facts(story, "error") == [line]


def test_identifiers_are_what_the_user_named_and_what_comes_up_again() -> None:
    story = Story()
    story.user(
        "See https://harbour.example/tides?x=1, commit 4f3a91c and v2.10.0; wait 30 seconds, then use --dry-run."
    )
    story.assistant(
        "LAMP-7 is in keeper_id_table.sql. Well-known words, e.g. half-empty or 1234567, are not."
    )
    story.assistant("So LAMP-7 is done.")
    named = set(facts(story, "identifier"))
    assert named == {
        "https://harbour.example/tides?x=1",
        "4f3a91c",
        "v2.10.0",
        "30 seconds",
        "--dry-run",
        "LAMP-7",
    }


def test_the_present_step_is_asked_for_only_if_nothing_later_stays_in_view() -> None:
    items = harbour().view().items
    steps = [probe.text for probe in probes(items) if probe.kind == "current_step"]
    assert steps[0] == "Now I rewrite the conversion of the keeper's clock."
    assert not [probe for probe in probes(items, later_rounds_visible=True) if probe.kind == "current_step"]


def test_the_number_of_facts_is_bounded_the_newest_messages_stay_and_the_rest_is_counted() -> None:
    story = Story()
    for number in range(MOST_PER_KIND["user_message"] + 5):
        story.user(f"please do piece number {number} of the work")
    taken = sample(story.view().items)
    said = [probe.text for probe in taken.probes if probe.kind == "user_message"]
    assert len(said) == MOST_PER_KIND["user_message"]
    assert said[-1].startswith(f"please do piece number {MOST_PER_KIND['user_message'] + 4} ")
    assert taken.left_out["user_message"] == 5


@given(histories())
def test_any_history_gives_the_same_facts_every_time_and_none_of_them_is_empty(items: list[Item]) -> None:
    first = probes(items)
    assert first == probes(list(items))
    assert all(probe.text.strip() and probe.record and probe.sought for probe in first)


@pytest.mark.spec("S10.3")
@given(histories())
def test_a_context_with_the_whole_conversation_holds_every_fact(items: list[Item]) -> None:
    score = judge(probes(items), texts(items), lambda probe: False)
    assert score.lost == ()


@given(histories())
def test_an_empty_context_holds_none(items: list[Item]) -> None:
    facts = probes(items)
    score = judge(facts, [], lambda probe: True)
    assert score.total.in_context == 0
    assert score.total.reachable == len(facts)
