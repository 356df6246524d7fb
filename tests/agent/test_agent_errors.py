"""Errors of the provider, over HTTP through the official SDK: withheld and mended, or shown with all in order."""

from __future__ import annotations

from typing import Any

import pytest

from sevenfold.errors import NotAuthenticated, Overloaded, RateLimited
from sevenfold.events import Compacted, Failed
from sevenfold.profiles import find
from sevenfold.simulator.faults import Fault, Faults
from sevenfold.simulator.provider import Setup
from sevenfold.wiring.agent_events import Happened
from tests.agent.working import MODEL, messages, results, texts, use, world


def test_a_provider_that_is_busy_is_asked_again_after_ever_longer_pauses() -> None:
    busy = Faults({1: Fault("overloaded"), 2: Fault("server_error"), 3: Fault("overloaded")})
    with world(["There."], busy) as there, there.agent(tools=[]) as made:
        assert made.run("Hello.").text == "There."
        assert there.pauses == [1.0, 2.0, 4.0]
        assert len(there.bodies) == 1


def test_a_rate_limit_is_waited_out_for_as_long_as_the_provider_says() -> None:
    with world(["There."], Faults({1: Fault("rate_limited", retry_after=17)})) as there:
        with there.agent(tools=[]) as made:
            assert made.run("Hello.").text == "There."
            assert there.pauses == [17.0]


def test_a_pause_that_is_too_long_is_not_waited_out() -> None:
    with world(["There."], Faults({1: Fault("rate_limited", retry_after=7_200)})) as there:
        with there.agent(tools=[]) as made:
            with pytest.raises(RateLimited):
                made.run("Hello.")
            assert there.pauses == []
            assert made.run().text == "There."


def test_an_error_that_stays_is_shown_and_the_agent_can_go_on() -> None:
    def act() -> str:
        """Acts."""
        return "acted"

    faults = Faults()
    steps = [[use("act", "toolu_1")], "Done."]
    with world(steps, faults) as there, there.agent(tools=[act]) as made:

        def overload(event: Any) -> None:
            faults.then(Fault("overloaded"), 5)

        events = []
        with pytest.raises(Overloaded):
            for event in made.stream("Act."):
                events.append(event)
                if type(event).__name__ == "ToolEnded":
                    overload(event)
        assert not made.running
        failed = [
            event.event
            for event in events
            if isinstance(event, Happened) and isinstance(event.event, Failed)
        ]
        assert len(failed) == 5
        assert made.run().text == "Done."
        assert results(there.bodies[-1]) == {"toolu_1": "acted"}


def test_an_error_that_waiting_does_not_mend_is_shown_at_once() -> None:
    with world(["There."], setup=Setup(api_key="another-key")) as there, there.agent(tools=[]) as made:
        with pytest.raises(NotAuthenticated):
            made.run("Hello.")
        assert there.pauses == []


@pytest.mark.parametrize("kind", ["cut_stream", "malformed_event", "error_event"])
def test_a_stream_that_breaks_is_asked_for_again_whole(kind: Any) -> None:
    with world(
        ["A rather long answer. " * 20, "A rather long answer. " * 20], Faults({1: Fault(kind, after=4)})
    ) as there:
        with there.agent(tools=[]) as made:
            done = made.run("Hello.")
            assert done.end == "done"
            assert done.text == "A rather long answer. " * 20
            assert [message["role"] for message in messages(there.bodies[-1])] == ["user"]


@pytest.mark.spec("S4.13")
def test_a_prompt_that_is_too_long_is_compacted_in_the_middle_of_the_work() -> None:
    small = find(MODEL).model
    profile = find(small)
    import msgspec

    tight = msgspec.structs.replace(profile, window=30_000)

    def long() -> str:
        """Says a lot."""
        return "a line of output that fills the window\n" * 700

    steps = [[use("long", f"toolu_{n}")] for n in range(6)]
    with world([*steps, "Done."], setup=Setup(models={small: tight})) as there:
        with there.agent(tools=[long], settings={"auto_compact": True}) as made:
            events = list(made.stream("Go on until done; the code word is zebra-99."))
            assert events[-1].finished.text == "Done."  # type: ignore[union-attr]
            told = [event.event for event in events if isinstance(event, Happened)]
            compacted = [event for event in told if isinstance(event, Compacted)]
            assert any(event.trigger == "reactive" for event in compacted)
            assert "zebra-99" in texts(there.bodies[-1])
