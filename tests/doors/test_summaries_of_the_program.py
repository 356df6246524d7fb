"""A program's own request for a summary gets what its provider accepts, whatever was sent before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sevenfold.doors.follower.follower import CallEnd, ClientCall
from sevenfold.doors.follower.identity import TEXT_ONLY
from tests.doors.keeping import TOOLS, answered, following

MODEL = "claude-sonnet-5-5"
"""A model whose thinking is valid only behind the messages that it thought about."""
FILLER = "The build ran, and nobody had anything to add to it. " * 24
HEADERS = {"x-api-key": "k", "x-sevenfold-session": "work"}


def call_with(messages: list[dict[str, Any]]) -> ClientCall:
    body = {"model": MODEL, "max_tokens": 100, "system": "s", "tools": TOOLS, "messages": messages}
    return ClientCall("messages", "/v1/messages", HEADERS, json.dumps(body).encode())


@pytest.mark.spec("S40.4")
def test_thinking_that_is_only_valid_behind_what_we_sent_is_not_in_a_programs_request_for_a_summary() -> (
    None
):
    failures: list[Exception] = []
    follower = following(failures)
    messages: list[dict[str, Any]] = []
    refusals = 0
    for number in range(60):
        messages.append({"role": "user", "content": f"And day {number}? {FILLER}"})
        call = call_with(messages)
        followed = follower.prepare(call, "http://127.0.0.1:9")
        sent = followed.body or call.body
        if followed.body is not None and number > 30:
            # The provider takes no changes any more, so the conversation is left alone from the second time on.
            follower.refused(followed)
            follower.ended(followed, CallEnd(200))
            refusals += 1
            sent = followed.untouched or call.body
        answer = [
            {"type": "thinking", "thinking": f"Day {number} was calm.", "signature": "c2ln"},
            {"type": "text", "text": f"Day {number} was calm. {FILLER}"},
        ]
        answered(follower, followed, sent, f"msg_{number}", answer)
        messages.append({"role": "assistant", "content": answer})
        if refusals == 2:
            break
    assert refusals == 2
    messages.append({"role": "user", "content": f"{TEXT_ONLY}. Summarise this conversation."})
    call = call_with(messages)
    followed = follower.prepare(call, "http://127.0.0.1:9")
    assert followed.alignment is None
    assert followed.body is not None
    assert b'"thinking"' not in followed.body
    assert f"And day 0? {FILLER}" in followed.body.decode()
    follower.close()
    assert failures == []
