"""What a program sends first stays in front of our summaries, but not what it restored with a summary of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sevenfold.conversation.resume import read
from sevenfold.doors.follower.recording import RecordedConversation
from sevenfold.record.entries import Boundary
from tests.doors.keeping import answered, following, prepared

FILLER = "The build ran, and nobody had anything to add to it. " * 24
RULES = "<system-reminder>\nThese are the rules of the project, which hold for all that is done. {}.</system-reminder>"
RESTORED = "<system-reminder>\nThe file pier.txt was read before, and this is what stood in it then.</system-reminder>"
SUMMARY = (
    "This session is being continued from a previous conversation that ran out of context. All is well."
)


def parts(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


@pytest.mark.spec("S40.9")
def test_a_programs_summary_and_what_it_restored_give_way_to_ours_and_its_instructions_stay() -> None:
    failures: list[Exception] = []
    follower = following(failures)
    headers = {"x-sevenfold-session": "work"}
    messages = [parts(RULES.format("Monday"), "Please look after the harbour.")]
    sent = b""
    for turn in range(40):
        if turn == 2:
            messages = [parts(RULES.format("Tuesday"), SUMMARY, RESTORED)]
        followed, sent = prepared(follower, messages, headers)
        answer = [{"type": "text", "text": f"Day {turn} was calm. {FILLER}"}]
        answered(follower, followed, sent, f"msg_{turn}", answer)
        messages += [{"role": "assistant", "content": answer}, parts(f"And day {turn + 1}? {FILLER}")]
        if turn == 3:
            assert SUMMARY in sent.decode()
    follower.close()
    body = json.loads(sent)
    first = [block["text"] for block in body["messages"][0]["content"]]
    assert failures == []
    assert len(body["messages"]) < len(messages)
    assert first == [RULES.format("Tuesday")]


@pytest.mark.spec("S40.9")
def test_instructions_that_a_program_sends_behind_an_answer_it_kept_stay_too() -> None:
    failures: list[Exception] = []
    follower = following(failures)
    headers = {"x-sevenfold-session": "work"}
    messages = [parts(RULES.format("Monday"), "Please look after the harbour.")]
    sent = b""
    for turn in range(40):
        if turn == 2:
            kept = messages[-2]
            messages = [parts(SUMMARY), kept, parts(RULES.format("Tuesday"), RESTORED, "Go on.")]
        followed, sent = prepared(follower, messages, headers)
        answer = [{"type": "text", "text": f"Day {turn} was calm. {FILLER}"}]
        answered(follower, followed, sent, f"msg_{turn}", answer)
        messages += [{"role": "assistant", "content": answer}, parts(f"And day {turn + 1}? {FILLER}")]
    follower.close()
    shown = sent.decode()
    assert failures == []
    assert len(json.loads(sent)["messages"]) < len(messages)
    assert json.dumps(RULES.format("Tuesday")) in shown
    assert "pier.txt was read before" not in shown
    assert "Go on." in shown


@pytest.mark.spec("S40.8")
def test_rounds_that_a_program_dropped_below_our_summary_are_its_compaction_as_soon_as_it_goes_back() -> (
    None
):
    failures: list[Exception] = []
    follower = following(failures)
    headers = {"x-sevenfold-session": "work"}
    messages: list[dict[str, Any]] = []

    def say(text: str) -> RecordedConversation:
        messages.append(parts(text))
        followed, sent = prepared(follower, messages, headers)
        answer = [{"type": "text", "text": f"So it is with {text[:20]}. {FILLER}"}]
        answered(follower, followed, sent, f"msg_{text[:20]}", answer)
        messages.append({"role": "assistant", "content": answer})
        return followed.conversation

    conversation = say(f"This is day 0. {FILLER}")
    while not _compactions(conversation):
        say(f"This is day {len(messages) // 2}. {FILLER}")
    del messages[:4]
    say("The oldest two days are gone.")
    assert all(boundary.own for boundary in _compactions(conversation))
    del messages[2:]
    say("Back to day two.")
    assert [boundary.own for boundary in _compactions(conversation)][-1:] == [False]
    before = len(_compactions(conversation))
    messages[0]["content"].append(
        {"type": "text", "text": "<system-reminder>It is late.</system-reminder>"}
    )
    say("A small change is none.")
    assert len(_compactions(conversation)) == before
    follower.close()
    assert failures == []


def _compactions(conversation: RecordedConversation) -> list[Boundary]:
    return [entry for _, entry in read(conversation.transcript.log) if isinstance(entry, Boundary)]
