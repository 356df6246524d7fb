"""A compaction taken back and made again: reasoning is sent exactly where it is valid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.events import EpochOpened
from tests.engine.working import ASKED, BOUND, World, begun, body, messages, world

ENGINES = ["provider", "fork", "extractive"]


def reasoning(session: sevenfold.Session) -> list[str]:
    """The signatures of the reasoning in the next request."""
    found = (block for message in messages(body(session)) for block in message["content"])
    return [block["signature"] for block in found if block["type"] == "thinking"]


def accepted(here: World) -> bool:
    """Was no request refused for its reasoning?"""
    return not [opened for opened in here.told(EpochOpened) if "refused" in opened.reason]


@pytest.mark.spec("S10.1", "S8.6")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("since", [0, 2])
def test_made_again_it_is_what_it_was(engine: Any, since: int) -> None:
    with world() as here, begun(here, 8, model=BOUND) as session:
        session.compact(engine=engine)
        if since:
            here.work(session, since)
        known, reasons = messages(body(session)), reasoning(session)
        assert len(reasons) == since + (engine == "provider")
        session.undo()
        session.redo()
        assert messages(body(session)) == known
        here.work(session, 2)
        assert reasoning(session)[: len(reasons)] == reasons
        assert accepted(here)


@pytest.mark.spec("S10.1", "S8.6")
@pytest.mark.parametrize("engine", ENGINES)
def test_what_was_reasoned_meanwhile_stays_out_and_what_was_before_is_back(engine: Any) -> None:
    with world() as here, begun(here, 8, model=BOUND) as session:
        session.compact(engine=engine)
        here.work(session, 2)
        before = reasoning(session)
        for _ in range(2):
            session.undo()
            here.work(session, 1)
            meanwhile = reasoning(session)[-1]
            session.redo()
            assert reasoning(session) == before
            here.work(session, 1)
            assert meanwhile not in reasoning(session)
            assert len(reasoning(session)) == len(before) + 1
            before = reasoning(session)
        assert accepted(here)


@pytest.mark.spec("S10.1", "S8.3")
def test_a_session_opened_in_between_knows_as_much(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.open(file) as session:
            session.user(ASKED)
            here.work(session, 6)
            session.compact(engine="provider")
            here.work(session, 2)
            known = messages(body(session))
            session.undo()
        with here.open(file) as session:
            session.redo()
            assert messages(body(session)) == known
        with here.open(file) as session:
            assert messages(body(session)) == known
            here.work(session, 1)
        assert accepted(here)


@pytest.mark.spec("S8.6")
def test_behind_another_system_prompt_no_earlier_reasoning_is_sent(tmp_path: Path) -> None:
    """Changed while the compaction stood, it is not what that reasoning was produced behind."""
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.open(file) as session:
            session.user(ASKED)
            here.work(session, 6)
            session.compact(engine="provider")
            here.work(session, 2)
        here.clock.advance(10_000)
        with here.open(file, system="Something else entirely. " * 100) as session:
            here.work(session, 1)
            session.undo()
            session.redo()
            assert json.loads(body(session))["messages"]
            here.work(session, 2)
        assert accepted(here)
