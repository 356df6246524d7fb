"""An agent whose notes would not make enough room."""

from __future__ import annotations

from pathlib import Path

import pytest

from sevenfold.events import Compacted, Event
from tests.agent.working import agent

LONG = "Something that was said and need not be said again. " * 20


@pytest.mark.spec("S3.9")
def test_large_messages_in_a_small_window_are_compacted_in_time(
    folder: Path,
) -> None:
    told: list[Event] = []
    settings = {"notes": True, "compact_window": 30_000}
    with agent([LONG * 10] * 40, folder, settings=settings, listen=[told.append]) as made:
        for number in range(12):
            made.run(f"Part {number}. {LONG * 10}")
            made.session.settle()
        window = made.session.conversation.window
    made_by = [event for event in told if isinstance(event, Compacted)]
    # Of messages this large so much stays word for word behind notes that they may free too little to serve.
    assert {event.engine for event in made_by} <= {"notes", "fork"}
    assert len(made_by) >= 2
    assert all(event.tokens_after < window.threshold for event in made_by)
