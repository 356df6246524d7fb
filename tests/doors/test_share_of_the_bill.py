"""Our own calls for a program's conversation have a small share of its bill."""

from __future__ import annotations

from typing import Any

import pytest

from sevenfold.doors.follower import leading
from sevenfold.doors.follower.keeping import KeptConversation
from sevenfold.record.usage import Account
from tests.doors.keeping import answered, following, prepared

FILLER = "The build ran, and nobody had anything to add to it. " * 24


@pytest.mark.spec("S40.11")
def test_a_summary_is_asked_for_once_the_conversation_has_cost_eight_times_as_much() -> None:
    follower = following([])
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": f"Please look after the harbour. {FILLER}"}
    ]
    followed, sent = prepared(follower, messages, {"x-sevenfold-session": "work"})
    answered(follower, followed, sent, "msg_1", [{"type": "text", "text": "Gladly."}])
    kept = followed.conversation
    assert isinstance(kept, KeptConversation)
    conversation = kept.led
    assert conversation is not None
    conversation.account = Account(usd=0.01)
    assert not leading.may_ask(conversation)
    conversation.account = Account(usd=0.5)
    assert leading.may_ask(conversation)
    conversation.own_usd = 0.1
    assert not leading.may_ask(conversation)
    conversation.account = Account(usd=None)
    assert leading.may_ask(conversation)
    follower.close()
