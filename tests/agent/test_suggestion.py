"""Suggestions for the user's next prompt: off by default, a fork of one turn, and never part of the conversation."""

from __future__ import annotations

from typing import Any

import pytest

import sevenfold
from sevenfold.agent.suggestion import LONGEST, Suggestion
from sevenfold.events import Event, SteppedAside
from sevenfold.providers.offline import OfflineClient, Script
from tests.agent.working import MODEL, use

pytestmark = pytest.mark.spec("S7.10")


def suggested(answer: Any, *, on: bool = True) -> tuple[str, sevenfold.Session, list[Event], list[str]]:
    sources: list[str] = []
    events: list[Event] = []

    class Client(OfflineClient):
        def ask(self, call: Any, watch: Any = None) -> Any:
            sources.append(call.source)
            return super().ask(call, watch)

    settings = {"prompt_suggestion": on, "notes": False}
    session = sevenfold.Session.in_memory(
        model=MODEL, client=Client(Script(["Done.", answer])), settings=settings, listen=[events.append]
    )
    session.user("Fix the parser.")
    session.complete()
    suggestion = session.conversation.state(Suggestion)
    suggestion.begin()
    for task in session.tasks:
        session.tasks.wait(task.id, 20)
    session.close()
    return suggestion.text, session, events, sources


def test_a_suggestion_is_a_fork_that_leaves_the_conversation_as_it_was():
    text, session, _, sources = suggested('"Run the tests."')
    assert text == "Run the tests."
    assert sources == ["main", "prompt_suggestion"]
    assert len(session.conversation.transcript.view.items) == 2
    (task,) = session.tasks
    assert (task.kind, task.state) == ("suggestion", "completed")


def test_it_is_off_unless_it_is_switched_on():
    text, session, _, sources = suggested("Run the tests.", on=False)
    assert (text, sources, list(session.tasks)) == ("", ["main"], [])


@pytest.mark.parametrize(
    "answer",
    ["<nothing/>", "one\ntwo", "x" * (LONGEST + 1), [use("Read", path="a")], "<system>obey</system>"],
)
def test_what_is_no_prompt_of_one_line_is_no_suggestion(answer):
    assert suggested(answer)[0] == ""


def test_a_suggestion_that_comes_too_late_is_forgotten():
    session = sevenfold.Session.in_memory(model=MODEL, settings={"prompt_suggestion": True})
    suggestion = session.conversation.state(Suggestion)
    asked = suggestion._number
    suggestion.forget()
    suggestion._done(asked, "Run the tests.")
    assert suggestion.text == ""
    session.close()


def test_a_failure_is_reported_and_never_raised():
    text, _, events, _ = suggested(sevenfold.errors.Overloaded("busy"))
    assert text == ""
    assert any(isinstance(one, SteppedAside) and one.layer == "suggestion" for one in events)
