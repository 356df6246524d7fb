"""Errors of the provider, over HTTP through the official SDK: withheld and mended, or shown with all in order."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from sevenfold.errors import NotAuthenticated, Overloaded, RateLimited
from sevenfold.events import Compacted, Event, Failed
from sevenfold.lab.simulator.faults import Fault, Faults
from sevenfold.lab.simulator.provider import Setup
from sevenfold.profiles import find
from tests.agent.working import MODEL, messages, results, texts, use, world


@pytest.mark.usefixtures("real_pauses")
def test_a_provider_that_is_busy_is_asked_again_after_ever_longer_pauses() -> None:
    busy = Faults({1: Fault("overloaded"), 2: Fault("server_error"), 3: Fault("overloaded")})
    with world(["There."], busy) as there, there.agent(tools=[]) as made:
        assert made.run("Hello.").text == "There."
        for pause, least in zip(there.pauses, (1.0, 2.0, 4.0), strict=True):
            assert least <= pause <= 1.25 * least
        assert len(there.bodies) == 1


def test_a_rate_limit_is_waited_out_for_as_long_as_the_provider_says() -> None:
    limited = Faults({1: Fault("rate_limited", retry_after=17)})
    with world(["There."], limited) as there, there.agent(tools=[]) as made:
        assert made.run("Hello.").text == "There."
        assert there.pauses == [17.0]


def test_a_pause_that_is_too_long_is_not_waited_out() -> None:
    limited = Faults({1: Fault("rate_limited", retry_after=7_200)})
    with world(["There."], limited) as there, there.agent(tools=[]) as made:
        with pytest.raises(RateLimited):
            made.run("Hello.")
        assert there.pauses == []
        assert made.run().text == "There."


def test_an_error_that_stays_is_shown_and_the_agent_can_go_on() -> None:
    faults = Faults()

    def act() -> str:
        """Acts."""
        faults.then(Fault("overloaded"), 41)
        return "acted"

    failed: list[Failed] = []

    def hear(event: Event) -> None:
        failed.extend([event] if isinstance(event, Failed) else [])

    steps = [[use("act", "toolu_1")], "Done."]
    with world(steps, faults) as there, there.agent(tools=[act], listen=[hear]) as made:
        with pytest.raises(Overloaded):
            made.run("Act.")
        assert not made.running
        assert len(failed) == 41
        assert made.run().text == "Done."
        assert results(there.bodies[-1]) == {"toolu_1": "acted"}


def test_an_error_that_waiting_does_not_mend_is_shown_at_once() -> None:
    with world(["There."], setup=Setup(api_key="another-key")) as there, there.agent(tools=[]) as made:
        with pytest.raises(NotAuthenticated):
            made.run("Hello.")
        assert there.pauses == []


@pytest.mark.parametrize("kind", ["cut_stream", "malformed_event", "error_event"])
def test_a_stream_that_breaks_is_asked_for_again_whole(kind: Any) -> None:
    with (
        world(
            ["A rather long answer. " * 20, "A rather long answer. " * 20],
            Faults({1: Fault(kind, after=4)}),
        ) as there,
        there.agent(tools=[]) as made,
    ):
        done = made.run("Hello.")
        assert done.end == "done"
        assert done.text == "A rather long answer. " * 20
        assert [message["role"] for message in messages(there.bodies[-1])] == ["user"]


@pytest.mark.spec("S4.13")
def test_a_prompt_that_is_too_long_is_compacted_in_the_middle_of_the_work() -> None:
    tight = replace(find(MODEL), window=30_000)

    def long() -> str:
        """Says a lot."""
        return "a line of output that fills the window\n" * 700

    compacted: list[Compacted] = []

    def hear(event: Event) -> None:
        compacted.extend([event] if isinstance(event, Compacted) else [])

    steps = [*[[use("long", f"toolu_{n}")] for n in range(6)], "Done."]
    served = Setup(models={tight.model: tight})
    with world(steps, setup=served) as there, there.agent(tools=[long], listen=[hear]) as made:
        assert made.run("Go on until done; the code word is zebra-99.").text == "Done."
        assert "reactive" in {event.trigger for event in compacted}
        assert "zebra-99" in texts(there.bodies[-1])
