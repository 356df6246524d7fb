"""What a turn takes does not grow with the conversation: counted in calls of functions, not in seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

import sevenfold
from sevenfold.layers.notes.layer import NotesKeeper, keeper_of
from sevenfold.layers.notes.policy import NotesText
from sevenfold.record.decisions import NotesMark as Mark
from tests.engine.working import FREE, QUIET

LOOKED = {"verify", "facts", "_stems"}
"""What is called when a text is held against everything that was said."""


@contextmanager
def counting() -> Iterator[list[str]]:
    """The names of all functions called in this thread."""
    found: list[str] = []

    def seen(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            found.append(frame.f_code.co_name)

    sys.setprofile(seen)
    try:
        yield found
    finally:
        sys.setprofile(None)


def history(turns: int) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    for number in range(turns):
        path = {"path": f"src/part{number}.py"}
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": path}
        result = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{number}",
            "content": f"part {number} " * 50,
        }
        said += [
            {"role": "user", "content": f"Check src/part{number}.py, and keep port {8_000 + number}."},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": f"Part {number} is as it should be."},
        ]
    return said


def full_of_notes(session: sevenfold.Session) -> None:
    """Notes that name much of what was said and cover all of it."""
    keeper = keeper_of(session.conversation)
    assert keeper is not None
    names = ", ".join(f"src/part{number}.py" for number in range(40))
    keeper._file.write(NotesText({"Session Title": "Parts", "Files and Functions": names}).render())
    view = session.conversation.transcript.view
    session.conversation.transcript.decide(Mark(covered=view.tip or "", boundary=view.boundary))


def answered(session: sevenfold.Session, number: int) -> list[str]:
    """One turn; what taking its answer in called."""
    session.user(f"And part {number}?")
    assert session.prepare().body
    reply = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": FREE,
        "content": [{"type": "text", "text": "It is fine."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 75_000, "output_tokens": 9},
    }
    with counting() as called:
        session.observe(reply)
    return called


class Nobody:
    """A client nobody asks."""

    def ask(self, call: Any, watch: Any = None) -> Any:
        raise AssertionError("nobody should be asked")

    def close(self) -> None:
        """There is nothing to close."""


@pytest.mark.spec("S0.6", "S3.2")
def test_notes_are_held_against_the_record_once_and_beside_the_conversation() -> None:
    settings = {**QUIET, "notes": True, "background_compaction": True, "context_window": 120_000}
    with sevenfold.Session.in_memory(model=FREE, client=Nobody(), settings=settings) as session:
        session.messages(history(60))
        full_of_notes(session)
        assert not LOOKED & set(answered(session, 0))
        session.settle(30)
        assert keeper_of(session.conversation) is not None
        looked = session.conversation.state(NotesKeeper)._log_check
        assert looked is not None
        for number in range(1, 6):
            assert not LOOKED & set(answered(session, number))
            session.settle(30)
        assert session.conversation.state(NotesKeeper)._log_check is looked


@pytest.mark.spec("S0.6")
def test_taking_an_answer_in_takes_no_more_in_a_long_conversation_than_in_a_short_one() -> None:
    def calls(turns: int) -> int:
        settings = {**QUIET, "notes": True, "background_compaction": True, "context_window": 120_000}
        with sevenfold.Session.in_memory(model=FREE, client=Nobody(), settings=settings) as session:
            session.messages(history(turns))
            full_of_notes(session)
            for number in range(2):
                answered(session, number)
                session.settle(30)
            return len(answered(session, 9))

    assert calls(180) < 1.2 * calls(60)
