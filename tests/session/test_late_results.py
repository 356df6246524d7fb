"""Results that come when the model has already been told that there are none."""

from __future__ import annotations

import pytest

from sevenfold.errors import InputError, Overloaded
from sevenfold.record.wire import NO_RESULT
from tests.session.talking import calling, fake_reply, world


@pytest.mark.spec("S1.3")
def test_a_result_that_comes_too_late_changes_nothing_that_was_sent() -> None:
    with world() as here, here.session() as session:
        session.user("Read it.")
        _ = session.prepare().body
        session.observe(fake_reply(calling("toolu_1"), stop_reason="tool_use"))
        session.user("Never mind.")
        sent = session.prepare().body
        assert NO_RESULT.encode() in sent
        with pytest.raises(InputError, match="comes too late"):
            session.tool_results({"toolu_1": "the file"})
        session.observe(fake_reply(number=2))
        with pytest.raises(InputError, match="no call 'toolu_1' waits"):
            session.tool_results({"toolu_1": "the file"})
        session.user("And now?")
        kept = session.prepare().body
        assert b"the file" not in kept
        assert NO_RESULT.encode() in kept


@pytest.mark.spec("S1.3")
def test_a_result_that_comes_before_anything_was_sent_is_taken() -> None:
    with world() as here, here.session() as session:
        session.user("Read it.")
        _ = session.prepare().body
        session.observe(fake_reply(calling("toolu_1"), stop_reason="tool_use"))
        session.user("Never mind.")
        session.prepare()
        assert session.tool_results({"toolu_1": "the file"}) == []
        assert b"the file" in session.prepare().body


def test_a_result_is_taken_once_the_request_that_did_without_has_failed() -> None:
    with world() as here, here.session() as session:
        session.user("Read it.")
        _ = session.prepare().body
        session.observe(fake_reply(calling("toolu_1"), stop_reason="tool_use"))
        session.user("Never mind.")
        _ = session.prepare().body
        session.conversation.failed(Overloaded("busy"), again=False)
        session.tool_results({"toolu_1": "the file"})
        assert b"the file" in session.prepare().body
