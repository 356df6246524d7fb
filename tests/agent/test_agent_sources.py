"""Events say on whose behalf things happen: the conversation itself, a compaction, the notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.errors import ProviderFailed
from sevenfold.events import (
    Acted,
    Answered,
    Checked,
    Compacted,
    Compacting,
    Event,
    Failed,
    Proposed,
    Sending,
    SteppedAside,
    Waiting,
)
from sevenfold.ports import Call, Reply, Watcher
from tests.agent.working import Model, agent, options

pytestmark = pytest.mark.spec("S7.10")

LONG = "Something that was said and need not be said again. " * 200


def sources(told: list[Event], kind: type[Event]) -> set[str]:
    return {event.source for event in told if isinstance(event, kind)}


@pytest.mark.parametrize("source", ["main", "sdk"])
def test_whatever_a_session_does_itself_carries_its_own_source_and_a_fork_carries_another(
    source: str, folder: Path
) -> None:
    told: list[Event] = []
    with agent([LONG] * 4, folder, source=source, listen=[told.append]) as made:
        made.run(f"Begin. {LONG}")
        assert made.session.compact(engine="fork") is not None
        made.run("Go on.")
    for kind in (Checked, Proposed, Acted, Compacted):
        assert sources(told, kind) == {source}, kind
    assert sources(told, Compacting) == {"compact"}
    for other in (Sending, Answered):
        assert sources(told, other) == {source, "compact"}
    assert {event.query_source for event in told if isinstance(event, Compacted)} == {source}


def test_what_the_notes_ask_and_do_is_told_as_theirs(folder: Path) -> None:
    told: list[Event] = []
    settings = {"notes": True, "compact_window": 60_000}
    with agent([LONG] * 12, folder, settings=settings, listen=[told.append]) as made:
        for number in range(4):
            made.run(f"Part {number}. {LONG}")
            made.session.settle()
    assert {"session_memory", "main"} <= sources(told, Sending) & sources(told, Answered)
    about = {event.source for event in told if isinstance(event, Acted) and event.layer == "notes"}
    assert about == {"session_memory"}


class Refusing(Model):
    """Cannot summarise."""

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        if call.source == "compact":
            raise ProviderFailed("the server is on fire")
        return super().ask(call, watch)


def test_a_fork_that_fails_is_told_as_its_own_failure(folder: Path) -> None:
    told: list[Event] = []
    given: dict[str, Any] = options(folder, {"listen": [told.append]})
    with sevenfold.Agent("claude-sonnet-5-5", client=Refusing([LONG] * 3), **given) as made:
        made.run(f"Begin. {LONG}")
        done = made.session.compact(engine="fork")
        assert done is not None
        assert done.engine == "extractive"
    failures = [event for event in told if isinstance(event, Failed)]
    sendings = [event for event in told if isinstance(event, Sending) and event.source == "compact"]
    assert len(failures) == 3, "a fork is retried twice"
    for failed, sent in zip(failures, sendings, strict=True):
        assert (failed.source, failed.request, failed.error) == ("compact", sent.request, "ProviderFailed")
    assert {event.source for event in told if isinstance(event, Waiting)} == {"compact"}
    aside = [event for event in told if isinstance(event, SteppedAside) and event.layer == "compact"]
    assert {event.source for event in aside} == {"compact"}
