"""What hooks say, read_answer one by one and together."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from sevenfold.agent.hooks.answers import MOST_CHARACTERS, combine, read_answer
from sevenfold.agent.programs import CommandResult
from sevenfold.conversation.hooks import EVENTS, HookOutcome, HookPermission, encoded
from tests.hooks.hooking import happened

BLOCKING = {"UserPromptSubmit", "Stop", "SubagentStop", "PreCompact"}
DENYING = {"PreToolUse", "PermissionRequest"}
TAKES_CONTEXT = {
    "SessionStart",
    "SubagentStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "Stop",
    "SubagentStop",
}


def outcome(event: str, *printed: CommandResult) -> HookOutcome:
    answers = [read_answer(EVENTS[event], f"hook {n}", one) for n, one in enumerate(printed)]
    return combine(event, answers)


def says(code: int = 0, stderr: bytes = b"", /, **said: Any) -> CommandResult:
    return CommandResult(code, json.dumps(said).encode(), stderr)


def specific(event: str, **said: Any) -> CommandResult:
    return says(hookSpecificOutput={"hookEventName": event, **said})


@pytest.mark.spec("S8.1")
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("by", ["exit code", "decision"])
def test_blocking_means_what_the_event_lets_it_mean(event, by):
    blocks = (
        CommandResult(2, stderr=b"not today\n")
        if by == "exit code"
        else says(decision="block", reason="not today")
    )
    came = outcome(event, blocks)
    assert came.blocked == ("not today" if event in BLOCKING | DENYING else None)
    assert came.permission == (HookPermission("deny", "not today") if event in DENYING else None)
    assert came.context == (("not today",) if event == "PostToolUse" else ())
    reported = event not in BLOCKING | DENYING | {"PostToolUse"}
    assert [failure.problem.endswith("not today") for failure in came.failures] == [True] * reported


@pytest.mark.parametrize("event", EVENTS)
def test_plain_output_is_context_at_two_events_instructions_at_one_and_nothing_elsewhere(event):
    came = outcome(event, CommandResult(0, b"\n remember the milk \n"))
    words = ("remember the milk",)
    assert came.context == (words if event in {"SessionStart", "UserPromptSubmit"} else ())
    assert came.instructions == (words if event == "PreCompact" else ())
    assert (came.blocked, came.failures) == (None, ())


@pytest.mark.spec("S8.1")
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("code", [1, 2])
def test_plain_output_of_a_hook_that_did_not_succeed_reaches_no_model(event, code):
    came = outcome(event, CommandResult(code, b"remember the milk", b"no disk"))
    assert "remember the milk" not in str((came.context, came.instructions))


@pytest.mark.parametrize("event", EVENTS)
def test_additional_context_counts_where_the_event_takes_it_and_is_reported_elsewhere(event):
    came = outcome(event, specific(event, additionalContext="it rains"))
    assert came.context == (("it rains",) if event in TAKES_CONTEXT else ())
    assert len(came.failures) == (event not in TAKES_CONTEXT)


@pytest.mark.spec("S8.1")
def test_a_compaction_is_steered_by_json_and_by_plain_output():
    came = outcome(
        "PreCompact",
        CommandResult(0, b"keep the dates\n"),
        says(additionalInstructions="keep the numbers", systemMessage="saved"),
        specific("PreCompact", additionalInstructions="keep the names"),
    )
    assert came.instructions == ("keep the dates", "keep the numbers", "keep the names")
    assert came.messages == ("saved",)
    assert came.context == ()
    assert came.failures == ()


@pytest.mark.spec("S8.1")
@pytest.mark.parametrize("by", ["plain output", "JSON"])
def test_a_hook_steers_a_summary_with_two_thousand_characters_at_most(by):
    words = "keep " * 1_000
    said = CommandResult(0, words.encode()) if by == "plain output" else says(additionalInstructions=words)
    (given,) = outcome("PreCompact", said).instructions
    assert given.startswith(words[:2_000])
    assert given.removeprefix(words[:2_000]) == "\n[cut: the first 2,000 of 4,999 characters]"


@pytest.mark.parametrize("event", sorted(set(EVENTS) - {"PreCompact"}))
def test_instructions_have_no_effect_at_other_events(event):
    came = outcome(event, says(additionalInstructions="obey"))
    assert came.instructions == ()
    assert "no effect" in came.failures[0].problem


@pytest.mark.spec("S8.1")
@pytest.mark.parametrize(
    ("verdicts", "strictest"),
    [
        (["allow"], "allow"),
        (["allow", "ask"], "ask"),
        (["ask", "deny", "allow"], "deny"),
        (["defer", "allow"], "allow"),
    ],
)
def test_the_strictest_verdict_wins(verdicts, strictest):
    came = outcome(
        "PreToolUse",
        *(
            specific("PreToolUse", permissionDecision=v, permissionDecisionReason=f"so {v}")
            for v in verdicts
        ),
    )
    assert came.permission == HookPermission(strictest, f"so {strictest}")
    assert came.blocked == ("so deny" if strictest == "deny" else None)


def test_a_question_for_permission_is_answered_in_its_own_shape():
    allowed = {"behavior": "allow", "updatedInput": {"command": "ls -a"}}
    came = outcome("PermissionRequest", specific("PermissionRequest", decision=allowed))
    assert came.permission == HookPermission("allow")
    assert came.updated_input == {"command": "ls -a"}
    denied = specific("PermissionRequest", decision={"behavior": "deny", "message": "never"})
    assert outcome("PermissionRequest", denied).blocked == "never"


def test_exit_code_two_denies_whatever_the_json_allows():
    said = {"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "rm"}}}
    came = outcome("PreToolUse", says(2, b"no", **said))
    assert came.permission == HookPermission("deny", "no")
    assert came.updated_input is None


def test_no_decision_is_no_permission():
    came = outcome("PreToolUse", CommandResult(0), specific("PreToolUse", permissionDecision="defer"))
    assert (came.permission, came.blocked, came.failures) == (None, None, ())


def test_of_two_changed_inputs_the_later_wins_and_the_clash_is_reported():
    came = outcome(
        "PreToolUse",
        specific("PreToolUse", updatedInput={"command": "first"}),
        specific("PreToolUse", updatedInput={"command": "second"}),
    )
    assert came.updated_input == {"command": "second"}
    assert [failure.hook for failure in came.failures] == ["hook 0"]


@pytest.mark.parametrize("output", ["short", {"a": 1}, None, ""])
def test_a_tools_output_can_be_replaced_by_anything(output):
    assert (
        outcome("PostToolUse", specific("PostToolUse", updatedToolOutput=output)).updated_output == output
    )
    assert outcome("PostToolUse", CommandResult(0)).updated_output is UNSET


@pytest.mark.parametrize(("reason", "stop"), [({"stopReason": "budget"}, "budget"), ({}, "")])
def test_a_hook_can_stop_everything(reason, stop):
    assert outcome("PostToolUse", says(**{"continue": False}, **reason)).stop == stop
    assert outcome("PostToolUse", says(**{"continue": True}, **reason)).stop is None


@pytest.mark.spec("S8.1")
def test_another_exit_code_is_a_failure_whose_json_still_counts():
    came = outcome("UserPromptSubmit", says(3, b"disk full", systemMessage="beware"))
    assert came.messages == ("beware",)
    assert came.blocked is None
    assert [failure.problem for failure in came.failures] == ["it failed with exit code 3: disk full"]


@pytest.mark.parametrize(
    "printed",
    [b"{", b'{"decision": "block"} and more', b"{" * 100_000, b'{"a": NaN}', b'{"a": ' * 50_000],
)
def test_output_that_only_begins_like_json_is_reported_and_steers_nothing(printed):
    came = outcome("UserPromptSubmit", CommandResult(0, printed))
    assert (came.blocked, came.context) == (None, ())
    assert "JSON" in came.failures[0].problem


@pytest.mark.parametrize(
    "said",
    [
        {"continue": "no"},
        {"systemMessage": 7},
        {"decision": ["block"]},
        {"hookSpecificOutput": "x"},
        {"hookSpecificOutput": {"hookEventName": "Stop", "permissionDecision": "allow"}},
        {"hookSpecificOutput": {"permissionDecision": {"a": 1}}},
        {"hookSpecificOutput": {"permissionDecision": "perhaps"}},
        {"hookSpecificOutput": {"updatedInput": [1]}},
        {"hookSpecificOutput": {"updatedToolOutput": "x"}},
    ],
)
def test_a_field_that_makes_no_sense_is_reported_and_the_others_count(said):
    came = outcome("PreToolUse", says(2, b"no", stopReason="", **said))
    assert came.blocked == "no"
    assert len(came.failures) == 1


@pytest.mark.parametrize("quoted", [rb"\ud800", b"\xff\x00", b"first line\nsecond line"])
def test_a_hook_that_quotes_what_json_does_not_take_is_still_understood(quoted):
    came = outcome(
        "PreToolUse", CommandResult(0, b'{"decision": "block", "reason": "no: ' + quoted + b'"}')
    )
    assert came.failures == ()
    assert came.blocked
    assert came.blocked.encode().startswith(b"no: ")


def test_long_texts_are_cut_and_say_so():
    came = outcome(
        "SessionStart",
        CommandResult(0, b"x" * 50_000),
        specific("SessionStart", additionalContext="y" * 20_000),
    )
    for words in came.context:
        assert len(words) < MOST_CHARACTERS + 100
        assert "[cut: the first 10,000 of" in words
    assert len(outcome("Stop", CommandResult(2, stderr=b"z" * 10**6)).blocked or "") < MOST_CHARACTERS + 100


@given(
    st.sampled_from(sorted(EVENTS)),
    st.integers(-64, 255),
    st.one_of(st.binary(max_size=40), st.binary(max_size=20).map(lambda rest: b"{" + rest)),
    st.binary(max_size=20),
)
def test_whatever_a_hook_prints_there_is_an_outcome_that_can_be_stored(event, code, stdout, stderr):
    came = outcome(event, CommandResult(code, stdout, stderr))
    for words in (*came.context, *came.messages, *came.instructions, came.blocked or ""):
        assert "\0" not in words
        words.encode()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ["continue", "decision", "reason", "stopReason", "systemMessage", "additionalInstructions"]
SPECIFIC = [
    "permissionDecision",
    "updatedInput",
    "additionalContext",
    "decision",
    "hookEventName",
    "updatedToolOutput",
]


@given(
    st.sampled_from(sorted(EVENTS)),
    st.dictionaries(st.sampled_from(FIELDS), ANYTHING),
    st.none() | st.dictionaries(st.sampled_from(SPECIFIC), ANYTHING) | ANYTHING,
)
def test_json_of_any_shape_breaks_nothing(event, said, inner):
    came = outcome(event, says(**said, hookSpecificOutput=inner))
    assert came.event == event
    assert came.permission is None or event in DENYING


@pytest.mark.spec("S8.1")
@pytest.mark.parametrize("event", EVENTS)
def test_a_hook_is_told_what_happened_under_the_known_names(event):
    told = json.loads(encoded(happened(event, "/p", permission_mode="plan")))
    assert told["hook_event_name"] == event
    assert (told["session_id"], told["transcript_path"], told["cwd"]) == ("s1", "/t/s1.jsonl", "/p")
    assert told["permission_mode"] == "plan"
    assert "prompt_id" not in told
    assert happened(event).matched in {None, *map(str, told.values())}


def test_an_automatic_compaction_has_empty_instructions():
    assert json.loads(encoded(happened("PreCompact")))["custom_instructions"] == ""


@given(st.text(st.characters(exclude_categories=[]), max_size=10))
def test_any_text_can_be_told(words):
    event = happened("PreToolUse", tool_input={"command": words})
    assert json.loads(encoded(event))["tool_input"]["command"] == words
