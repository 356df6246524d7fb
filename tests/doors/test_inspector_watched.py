"""What the page of a request says of a program that the gateway watched."""

from __future__ import annotations

import pytest

from sevenfold.archive.sessions import StoredSession
from sevenfold.doors.inspector.request_view import bytes_view
from sevenfold.doors.inspector.shelf import OpenSession
from tests.gateway.test_following import TOOLS, Program, program, talk, text, turns

__all__ = ["program"]


@pytest.mark.spec("S33.19")
def test_a_watched_request_says_how_large_it_was_and_what_differs_from_the_one_before(
    program: Program,
) -> None:
    talk(program, 2)
    more = [*turns(2), {"role": "user", "content": "question 2"}]
    program.send(more)  # refused: it has no answer, and no page
    program.send(more, text("answer 2"), tools=[*TOOLS, {"name": "Write", "input_schema": {}}])
    session = OpenSession("key", StoredSession.of(program.folder / "work.jsonl", "Sevenfold"))
    session.catch_up()

    recorded = [relayed for relayed in program.relayed() if relayed.status == 200]
    views = [bytes_view(session, number) for number in (1, 2, 3)]
    seen = [view["relayed"] for view in views if view is not None]
    assert [view["sha256"] for view in seen] == [relayed.sha256 for relayed in recorded]
    assert [view["before"] for view in seen] == [None, recorded[0].size, recorded[1].size]
    assert [view["parts"] for view in seen] == [[], [], ["tools"]]
