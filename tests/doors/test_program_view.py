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


class Program:
    """A program that sends its whole conversation with each request, through a door that keeps it in the window."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages = list(messages)
        self.sent = b""
        """What the door made of the newest request."""
        self._failures: list[Exception] = []
        self._follower = following(self._failures)

    def ask(self, answer: str) -> RecordedConversation:
        """Send the conversation, which is answered like this."""
        followed, self.sent = prepared(self._follower, self.messages, {"x-sevenfold-session": "work"})
        blocks = [{"type": "text", "text": f"{answer} {FILLER}"}]
        answered(self._follower, followed, self.sent, f"msg_{answer}", blocks)
        self.messages.append({"role": "assistant", "content": blocks})
        return followed.conversation

    def say(self, text: str) -> RecordedConversation:
        """Add a message of the user's, and send the conversation."""
        self.messages.append(parts(text))
        return self.ask(f"So it is with {text[:20]}.")

    def close(self) -> list[dict[str, Any]]:
        """Returns the messages that were sent last; nothing may have failed."""
        self._follower.close()
        assert self._failures == []
        messages: list[dict[str, Any]] = json.loads(self.sent)["messages"]
        return messages


@pytest.mark.spec("S40.9")
def test_a_programs_summary_and_what_it_restored_give_way_to_ours_and_its_instructions_stay() -> None:
    program = Program(parts(RULES.format("Monday"), "Please look after the harbour."))
    for turn in range(40):
        if turn == 2:
            program.messages = [parts(RULES.format("Tuesday"), SUMMARY, RESTORED)]
        program.ask(f"Day {turn} was calm.")
        if turn == 3:
            assert SUMMARY in program.sent.decode()
        program.messages.append(parts(f"And day {turn + 1}? {FILLER}"))
    sent = program.close()
    assert len(sent) < len(program.messages)
    assert [block["text"] for block in sent[0]["content"]] == [RULES.format("Tuesday")]


@pytest.mark.spec("S40.9")
def test_a_file_that_a_program_restores_again_and_again_gives_way_to_our_summary_too() -> None:
    failures: list[Exception] = []
    follower = following(failures)
    headers = {"x-sevenfold-session": "work"}
    words = "Please look after the harbour, and never close it at night."
    messages = [parts(words)]
    sent = b""
    for turn in range(40):
        if turn in (2, 4):
            messages = [parts(f"{SUMMARY} Part {turn}.", words, RESTORED)]
        followed, sent = prepared(follower, messages, headers)
        answer = [{"type": "text", "text": f"Day {turn} was calm. {FILLER}"}]
        answered(follower, followed, sent, f"msg_{turn}", answer)
        messages += [{"role": "assistant", "content": answer}, parts(f"And day {turn + 1}? {FILLER}")]
    follower.close()
    shown = sent.decode()
    assert failures == []
    assert len(json.loads(sent)["messages"]) < len(messages)
    assert "pier.txt was read before" not in shown
    assert words in shown


@pytest.mark.spec("S40.9")
def test_instructions_that_a_program_sends_behind_an_answer_it_kept_stay_too() -> None:
    program = Program(parts(RULES.format("Monday"), "Please look after the harbour."))
    for turn in range(40):
        if turn == 2:
            newest_answer = program.messages[-2]
            instructions = parts(RULES.format("Tuesday"), RESTORED, "Go on.")
            program.messages = [parts(SUMMARY), newest_answer, instructions]
        program.ask(f"Day {turn} was calm.")
        program.messages.append(parts(f"And day {turn + 1}? {FILLER}"))
    assert len(program.close()) < len(program.messages)
    shown = program.sent.decode()
    assert json.dumps(RULES.format("Tuesday")) in shown
    assert "pier.txt was read before" not in shown
    assert "Go on." in shown


@pytest.mark.spec("S40.8")
def test_rounds_that_a_program_dropped_below_our_summary_are_its_compaction_as_soon_as_it_goes_back() -> (
    None
):
    program = Program()
    conversation = program.say(f"This is day 0. {FILLER}")
    while not _compactions(conversation):
        program.say(f"This is day {len(program.messages) // 2}. {FILLER}")
    del program.messages[:4]
    program.say("The oldest two days are gone.")
    assert all(boundary.own for boundary in _compactions(conversation))
    del program.messages[2:]
    program.say("Back to day two.")
    assert [boundary.own for boundary in _compactions(conversation)][-1:] == [False]
    before = len(_compactions(conversation))
    reminder = {"type": "text", "text": "<system-reminder>It is late.</system-reminder>"}
    program.messages[0]["content"].append(reminder)
    program.say("A small change is none.")
    assert len(_compactions(conversation)) == before
    program.close()


def _compactions(conversation: RecordedConversation) -> list[Boundary]:
    return [entry for _, entry in read(conversation.transcript.log) if isinstance(entry, Boundary)]
