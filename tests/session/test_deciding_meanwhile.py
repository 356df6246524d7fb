"""What the user decides while the model answers holds afterwards, whatever else was said in the meantime."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import sevenfold
from sevenfold.record.decisions import Pin
from tests.session.talking import alone, fake_reply, hear, said, uuids

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

TOLD = [
    *("question 0", "answer 0", "question 1", "answer 1", "question 2", "answer 2"),
    *("question 3", "answer 3"),
]


def talk(session: sevenfold.Session) -> None:
    for number in range(4):
        session.user(f"question {number}")
        hear(session, fake_reply(number=number))


def texts(session: sevenfold.Session) -> list[str]:
    """What the next request says, message by message and block by block."""
    messages = said(session.prepare().body)
    return [block["text"] for message in messages for block in message["content"]]


def snip(session: sevenfold.Session) -> None:
    records = uuids(session)
    session.snip(records[1], records[2])


def snip_before_the_newest(session: sevenfold.Session) -> None:
    records = uuids(session)
    session.snip(records[3], records[6])


def compact(session: sevenfold.Session) -> None:
    assert session.compact() is not None


def compact_a_range(session: sevenfold.Session) -> None:
    records = uuids(session)
    assert session.compact(span="range", record=records[0], until=records[3]) is not None


DECISIONS = [snip, snip_before_the_newest, compact, compact_a_range]


@pytest.mark.spec("S21.20")
@pytest.mark.parametrize("decide", DECISIONS)
def test_what_an_undo_brings_back_while_the_model_answers_is_said_once_and_before_the_answer(
    decide: Callable[[sevenfold.Session], None],
) -> None:
    with alone() as session:
        talk(session)
        session.user("and now")
        decide(session)
        assert session.prepare().body
        session.undo()
        session.observe(fake_reply(number=9))
        session.user("go on")
        assert texts(session) == [*TOLD, "and now", "answer 9", "go on"]


@pytest.mark.spec("S21.20")
@pytest.mark.parametrize("decide", DECISIONS)
@pytest.mark.parametrize("speaks_first", [True, False], ids=["speaks, undoes", "undoes, speaks"])
def test_an_undo_and_words_while_the_model_answers_both_hold_and_the_words_follow_the_answer(
    decide: Callable[[sevenfold.Session], None], speaks_first: bool
) -> None:
    with alone() as session:
        talk(session)
        session.user("and now")
        decide(session)
        assert session.prepare().body
        if speaks_first:
            session.user("in the meantime")
        session.undo()
        if not speaks_first:
            session.user("in the meantime")
        session.observe(fake_reply(number=9))
        assert texts(session) == [*TOLD, "and now", "answer 9", "in the meantime"]


@pytest.mark.spec("S21.20")
def test_a_snip_after_words_said_while_the_model_answers_holds() -> None:
    with alone() as session:
        talk(session)
        session.user("and now")
        assert session.prepare().body
        session.user("in the meantime")
        records = uuids(session)
        session.snip(records[1], records[2])
        session.observe(fake_reply(number=9))
        assert texts(session) == [TOLD[0], *TOLD[3:], "and now", "answer 9", "in the meantime"]


@pytest.mark.spec("S21.20")
def test_a_snip_made_and_undone_after_words_said_while_the_model_answers_can_be_redone() -> None:
    with alone() as session:
        talk(session)
        session.user("and now")
        assert session.prepare().body
        session.user("in the meantime")
        records = uuids(session)
        session.snip(records[1], records[2])
        session.undo()
        session.observe(fake_reply(number=9))
        assert texts(session) == [*TOLD, "and now", "answer 9", "in the meantime"]
        session.redo()
        assert texts(session) == [TOLD[0], *TOLD[3:], "and now", "answer 9", "in the meantime"]


@pytest.mark.spec("S21.20")
def test_words_said_and_pinned_while_the_model_answers_stay_pinned() -> None:
    with alone() as session:
        talk(session)
        session.user("and now")
        assert session.prepare().body
        session.pin(session.user("in the meantime"))
        session.observe(fake_reply(number=9))
        transcript = session.conversation.transcript
        assert transcript.pinned() == {uuids(session)[-1]}
        pins = [made for made in transcript.view.decisions() if isinstance(made, Pin)]
        assert [made.record for made in pins] == [uuids(session)[-1]]
