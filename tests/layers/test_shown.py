"""What a layer shows in place of a tool result: a decision of its own, and the result stays on record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import sevenfold
from sevenfold.conversation.layer import Instead
from sevenfold.conversation.resume import resume
from sevenfold.errors import TranscriptFull
from sevenfold.events import Acted, Event, Proposed, Veto
from sevenfold.layers.ladder import STANDARD
from sevenfold.record import blocks
from sevenfold.record.decisions import MicrocompactMetadata, ShownResult
from sevenfold.stores.memory import MemoryLog
from tests.session.holding import calls, scripted

LONG = "\n".join(f"compiled module {number}" for number in range(400))
BUILD = sevenfold.tool({"name": "Build", "input_schema": {"type": "object"}}, kind="shell")


class FirstLine:
    """Shows the first line of a result only."""

    name = "first_line"

    def on(self, settings: Any) -> bool:
        return True

    def on_tool_results(self, c: Any, results: Any) -> list[Any]:
        return [
            Instead(
                blocks.with_words(block, blocks.words_of(block).partition("\n")[0]), "one line says it all"
            )
            for block in results
        ]


class Loud:
    """Shows results in capitals, without a reason."""

    name = "loud"

    def on(self, settings: Any) -> bool:
        return True

    def on_tool_results(self, c: Any, results: Any) -> list[Any]:
        return [blocks.with_words(block, blocks.words_of(block).upper()) for block in results]


class Forgetful(Loud):
    """Returns nothing of what it was given, and a result nobody asked for."""

    name = "forgetful"

    def on_tool_results(self, c: Any, results: Any) -> list[Any]:
        return [blocks.result("toolu_other", "surprise")]


def call(number: int) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": f"toolu_{number}", "name": "Build", "input": {}}]


def held(*layers: Any, answers: int = 1, **options: Any) -> sevenfold.Session:
    """A session whose model calls the tool so many times, and talks from then on."""
    script = [call(number) for number in range(1, answers + 1)]
    session = sevenfold.Session.in_memory(
        model="claude-sonnet-5-5",
        tools=[BUILD],
        client=sevenfold.OfflineClient(sevenfold.Script([*script, "Done.", "Yes.", "Still."])),
        layers=[*layers, *STANDARD],
        settings={"compaction": False, "notes": False, **options.pop("settings", {})},
        **options,
    )
    session.user("Does it build?")
    session.complete()
    return session


def sent(session: sevenfold.Session) -> str:
    """The next request, asked and answered."""
    session.complete()
    return session.at().decode()


def decisions(session: sevenfold.Session) -> list[ShownResult]:
    return [made for _, made in session.conversation.transcript.log.decisions(ShownResult)]


@pytest.mark.spec("S26.1")
def test_what_a_layer_leaves_out_of_a_result_can_be_fetched_by_call_and_by_decision():
    session = held(FirstLine())
    session.tool_results({"toolu_1": LONG})
    request = sent(session)
    assert "compiled module 0" in request
    assert "compiled module 1" not in request
    (shown,) = decisions(session)
    assert session.fetch("toolu_1").decode() == LONG
    assert session.fetch(shown.id).decode() == LONG


@pytest.mark.spec("S26.1")
def test_a_result_that_is_offloaded_when_recorded_can_be_fetched_whole_too():
    session = held(FirstLine())
    huge = LONG * 50
    session.tool_results({"toolu_1": huge})
    assert "compiled module 1" not in sent(session)
    (shown,) = decisions(session)
    assert session.fetch("toolu_1").decode() == huge
    assert session.fetch(shown.id).decode() == huge


@pytest.mark.spec("S26.1")
def test_of_a_shown_result_that_is_offloaded_afterwards_the_tools_own_is_fetched():
    session = held(Loud(), settings={"round_characters": 3_000, "offload_by_tool": {"Build": 1_000_000}})
    session.tool_results({"toolu_1": LONG})
    request = sent(session)
    assert "COMPILED MODULE 399" not in request
    assert session.fetch("toolu_1").decode() == LONG


@pytest.mark.spec("S26.1")
def test_it_can_be_undone_and_redone_and_why_names_the_layer_and_its_reason():
    session = held(FirstLine())
    session.tool_results({"toolu_1": LONG})
    sent(session)
    (shown,) = session.why().shown
    assert (shown.layer, shown.reason, shown.tool_use_id) == (
        "first_line",
        "one line says it all",
        "toolu_1",
    )
    assert session.undo() == shown.id
    session.user("Sure?")
    assert "compiled module 399" in sent(session)
    assert session.why().shown == ()
    session.redo()
    session.user("Really?")
    assert "compiled module 399" not in sent(session)
    assert "compiled module 399" in session.at(2).decode(), "what was sent then is known byte for byte"


@pytest.mark.spec("S26.1")
def test_reading_the_session_needs_no_layer():
    session = held(FirstLine())
    session.tool_results({"toolu_1": LONG})
    view = resume(session.conversation.transcript.log)
    assert view.messages() == session.conversation.transcript.view.messages()
    assert "compiled module 1" not in str(view.messages())


@pytest.mark.spec("S26.1")
def test_of_several_layers_each_is_given_what_the_one_before_shows():
    session = held(FirstLine(), Loud())
    session.tool_results({"toolu_1": LONG})
    request = sent(session)
    assert "COMPILED MODULE 0" in request
    assert "COMPILED MODULE 1" not in request
    last, first = decisions(session)
    assert (first.layer, last.layer) == ("first_line", "loud")
    session.undo(last.id)
    session.user("Sure?")
    request = sent(session)
    assert "compiled module 0" in request
    assert "compiled module 1" not in request


@pytest.mark.spec("S26.1")
def test_a_result_that_a_layer_does_not_return_is_sent_unchanged():
    session = held(Forgetful())
    assert session.tool_results({"toolu_1": "fine"}) == []
    assert "fine" in sent(session)
    assert "surprise" not in session.at().decode()
    assert decisions(session) == []


@pytest.mark.spec("S26.1")
def test_that_a_call_failed_stays_as_the_tool_reported_it():
    session = held(Loud())
    failed = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "broken", "is_error": True}
    session.tool_results([failed])
    assert '"content":"BROKEN","is_error":true' in sent(session)


@pytest.mark.spec("S26.1")
def test_a_shown_result_can_be_cleared_and_comes_back_as_it_was_shown():
    session = held(FirstLine(), answers=2)
    session.tool_results({"toolu_1": LONG})
    session.complete()
    session.tool_results({"toolu_2": "fine"})
    c = session.conversation
    c.clearable.follow(c.transcript.view)
    assert "toolu_1" in [result.call for result in c.clearable.results], "it takes part in clearing"
    c.transcript.clear(MicrocompactMetadata(compacted_tool_ids=["toolu_1"]))
    assert "compiled module 0" not in sent(session)
    session.undo()
    session.user("Sure?")
    request = sent(session)
    assert "compiled module 0" in request
    assert "compiled module 1" not in request


@pytest.mark.spec("S26.1")
def test_listeners_are_told_of_it_and_may_refuse_it():
    told: list[Event] = []

    def listener(event: Event) -> Veto | None:
        told.append(event)
        loud = isinstance(event, Proposed) and event.layer == "loud"
        return Veto("no shouting") if loud else None

    session = held(FirstLine(), Loud(), listen=[listener])
    session.tool_results({"toolu_1": LONG})
    assert "compiled module 0" in sent(session)
    acted = [event for event in told if isinstance(event, Acted)]
    (shown,) = decisions(session)
    assert [(event.layer, event.reference, event.undoable) for event in acted] == [
        ("first_line", shown.id, True)
    ]
    assert acted[0].tokens_before > 10 * acted[0].tokens_after > 0
    assert acted[0].why == "one line says it all"


class NoDecisions(MemoryLog):
    """A log on a disk that fills up just before a decision about a result is written."""

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        if any(b'"kind":"shown"' in line for line in lines):
            raise TranscriptFull("no space left on the disk")
        return super().append(lines, durable=durable)


@pytest.mark.spec("S26.1")
def test_if_the_decision_cannot_be_recorded_the_result_itself_is_sent():
    here = scripted(calls("Shell"), layers=[FirstLine(), *STANDARD], log=NoDecisions())
    here.session.user("Does it build?")
    (asked,) = here.ask().calls
    here.session.tool_results({asked.id: LONG})
    here.ask()
    assert here.shown() == {asked.id: LONG}
    assert [event.layer for event in here.told("SteppedAside")] == ["first_line"]
