"""What a program sends first stays in front of our summaries, but not what it restored with a summary of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
