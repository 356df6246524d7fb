"""Results deleted from a cached prefix by reference: only the simulator offers that, and nothing is written anew."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from sevenfold.clock import RandomIds
from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.fork import fork as fork_of
from sevenfold.conversation.options import RequestOptions, Services
from sevenfold.conversation.request import Outcome
from sevenfold.conversation.transcript import Transcript
from sevenfold.events import Event, Veto
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.invariant import extends
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.layers.ladder import Ladder
from sevenfold.profiles import find
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.record import blocks
from sevenfold.record.log import Place
from sevenfold.session.factory import Tool
from sevenfold.settings import SettingsLayer, resolve
from sevenfold.stores.memory import MemoryLog, MemoryResults
from tests.session.holding import ALONE, KINDS, LINE, SYSTEM, TOOLS, working
from tests.support import next_request

MODEL = "claude-opus-4-5"
PROFILE = replace(find(MODEL), pinned_edits=True)


class Pinning:
    """A session with a provider that can delete by reference."""

    def __init__(
        self, url: str, simulator: Simulator, veto: Callable[[Event], bool], **settings: object
    ) -> None:
        self.simulator, self.clock, self.log = simulator, simulator.clock, MemoryLog()
        self.settings = resolve([SettingsLayer("code", {**ALONE, **settings})]).settings
        self.client = AnthropicClient(api_key="simulated-key", base_url=url, max_retries=0)
        self.events: list[Event] = []
        self._veto = veto
        self.opened()
        self.core.user("Begin.")

    def opened(self) -> None:
        script = Transcript(self.log, Place("s-1"), clock=self.clock, ids=RandomIds())
        tools = tuple(one.schema for one in TOOLS if isinstance(one, Tool))
        options = RequestOptions(MODEL, 8_000, (blocks.text(SYSTEM).raw,), tools, KINDS)
        services = Services(
            clock=self.clock, settings=self.settings, results=MemoryResults(), listeners=[self._hear]
        )
        self.core = Conversation(script, options, PROFILE, services, Ladder())

    def _hear(self, event: Event) -> Veto | None:
        self.events.append(event)
        return Veto("no") if self._veto(event) else None

    def run(self, rounds: int, lines: int = 100) -> Outcome:
        for _ in range(rounds):
            outcome = self.core.observe(self.client.ask(next_request(self.core).call))
            assert isinstance(self.clock, VirtualClock)
            self.clock.advance(5)
            waiting = self.core.transcript.view.pending_calls
            self.core.tool_results(dict.fromkeys(waiting, LINE * lines)) if waiting else self.core.user(
                "Go on."
            )
        return outcome

    def told(self, kind: str, **fields: Any) -> list[Any]:
        found = [event for event in self.events if type(event).__name__ == kind]
        return [one for one in found if all(getattr(one, name) == value for name, value in fields.items())]

    def deleted(self, number: int = -1) -> list[str]:
        """The references that a request deletes."""
        body = list(self.simulator.requests)[number].body
        found = [block for message in body["messages"] for block in message["content"]]
        return [
            edit["cache_reference"]
            for block in found
            if block["type"] == "cache_edits"
            for edit in block["edits"]
        ]


@contextmanager
def pinning(veto: Callable[[Event], bool] = lambda event: False, **settings: object) -> Iterator[Pinning]:
    setup = Setup(pinned_edits=True, models={MODEL: PROFILE})
    simulator = Simulator(working(prompt_calls=50, thinks=0), setup, clock=VirtualClock())
    with serve(simulator) as url:
        held = Pinning(url, simulator, veto, **settings)
        yield held
        held.client.close()


@pytest.mark.spec("S2.3")
def test_with_twelve_results_all_but_the_newest_five_are_deleted_and_nothing_is_written_anew() -> None:
    with pinning() as held:
        held.run(12)
        assert not held.deleted()
        (proposed,) = held.core.ladder.propose(held.core)
        assert (proposed.mechanism, proposed.items) == ("pinned", 7)
        outcome = held.run(1)
        assert held.deleted() == [f"toolu_{number}" for number in range(1, 8)]
        assert outcome.broken is None
        assert outcome.usage.cache_creation_input_tokens < 2_000
        (acted,) = held.told("Acted", mechanism="pinned")
        assert acted.tokens_before - acted.tokens_after > 5_000
        gauge = held.core.reading
        assert gauge.sent - gauge.seen > 5_000
        later = held.run(3)
        assert later.broken is None
        assert held.deleted() == [f"toolu_{number}" for number in range(1, 8)], "said again at its place"


@pytest.mark.spec("S2.3")
def test_every_request_extends_the_one_before_and_local_messages_do_not_change() -> None:
    with pinning() as held:
        held.run(26)
        bodies = [request.raw for request in held.simulator.requests]
        assert not [moved for before, now in itertools.pairwise(bodies) if (moved := extends(before, now))]
        assert len(held.told("Acted", mechanism="pinned")) == 2
        assert not held.told("CacheBroke")
        assert {request.status for request in held.simulator.requests} == {200}
        assert held.core.fetch("toolu_1") == (LINE * 100).encode()
        assert all(b'"cache_reference"' in raw for raw in bodies[1:])


@pytest.mark.spec("S2.3", "S2.7")
def test_the_state_follows_from_the_log_and_forks_repeat_it() -> None:
    with pinning() as held:
        held.run(14)
        before = next_request(held.core).body.raw
        held.opened()
        assert next_request(held.core).body.raw == before
        fork = fork_of(held.core, "notes")
        fork.user("Aside.")
        assert fork.prepare().body.raw.count(b'"cache_edits"') == 1
        assert len(held.told("Acted", mechanism="pinned")) == 1


@pytest.mark.spec("S2.3", "S2.2", "S6.8")
def test_after_the_cache_has_expired_the_deletions_are_dropped_and_results_cleared_instead() -> None:
    with pinning() as held:
        held.run(14)
        assert held.deleted()
        assert isinstance(held.clock, VirtualClock)
        held.clock.advance(400)
        held.run(1)
        assert not held.deleted()
        assert held.told("Acted", mechanism="local")
        assert not held.told("CacheBroke", expected=False)
        held.run(8)
        assert {request.status for request in held.simulator.requests} == {200}


@pytest.mark.spec("S2.3", "S2.2", "S0.9")
def test_what_a_dropped_deletion_brings_back_counts_and_is_cleared() -> None:
    with pinning() as held:
        held.run(13, lines=30)
        assert len(held.deleted()) == 7
        before = held.core.reading
        assert isinstance(held.clock, VirtualClock)
        held.clock.advance(400)
        held.run(1, lines=30)
        (acted,) = held.told("Acted", mechanism="local")
        assert acted.items == 8
        assert acted.tokens_before == pytest.approx(before.sent, rel=0.02)
        body = list(held.simulator.requests)[-1].raw
        assert body.count(b"[Old tool result content cleared]") == 8
        (checked,) = held.told("Checked")[-1:]
        assert checked.used == pytest.approx(held.core.reading.seen, rel=0.1)


@pytest.mark.spec("S2.3", "S8.2")
def test_switched_off_or_refused_nothing_is_deleted() -> None:
    with pinning(pinned_edits=False) as off:
        off.run(14)
        assert b"cache_reference" not in list(off.simulator.requests)[-1].raw
    with pinning(veto=lambda event: getattr(event, "mechanism", "") == "pinned") as refused:
        refused.run(14)
        assert not refused.deleted()
