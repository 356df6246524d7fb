"""Waiting for a provider that cannot answer: long enough, as long as it asks, told at every moment, stopped at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from itertools import cycle, pairwise
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.interrupt import in_own_thread
from sevenfold.conversation.flow import Signal
from sevenfold.conversation.waiting import FOR_EVER
from sevenfold.errors import ModelError, Overloaded, RateLimited, Unreachable
from sevenfold.events import Answered, Event, Failed, Sending, Waiting
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.errors import ApiError
from sevenfold.lab.simulator.faults import Fault, Faults
from sevenfold.ports import Call, Piece, Reply, Watcher
from sevenfold.providers.http_client import HttpClient
from sevenfold.providers.offline import AsyncOfflineClient, OfflineClient, Script
from sevenfold.providers.registry import client_of
from sevenfold.record import blocks
from sevenfold.record.log import Answer
from tests.agent.working import MODEL, QUIET, messages, results, texts, use, world

pytestmark = pytest.mark.usefixtures("real_pauses")


class Heard(list[Event]):
    """A listener that keeps every event."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def waits(self) -> list[Waiting]:
        return [event for event in self if isinstance(event, Waiting)]


@pytest.mark.spec("S22.1")
def test_each_wait_is_told_with_its_number_the_status_its_end_and_the_request() -> None:
    heard = Heard()
    faults = Faults({1: Fault("overloaded"), 2: Fault("rate_limited", retry_after=17)})
    with world(["There."], faults) as there, there.agent(tools=[], listen=[heard]) as made:
        began = there.clock.now()
        assert made.run("Hello.").text == "There."
        first, second = heard.waits()
        assert (first.attempt, first.of, first.status, first.error) == (1, 40, 529, "Overloaded")
        assert first.until == pytest.approx(began + first.seconds)
        assert first.what == "API overloaded (529)"
        assert first.request_id.startswith("req_")
        assert (second.attempt, second.status, second.seconds) == (2, 429, 17.0)
        assert second.what == "rate limit reached (429)"


class Outage(Faults):
    """A provider that fails in turn in every way there is, until a moment."""

    def __init__(self, lasts: float) -> None:
        super().__init__()
        self.clock: VirtualClock | None = None
        self.until: float | None = None
        self._lasts = lasts
        self._kinds = cycle(
            [
                Fault("overloaded"),
                Fault("rate_limited", retry_after=20),
                Fault("cut_stream", after=4),
                Fault("server_error"),
                Fault("error_event", after=3),
                Fault("rate_limited"),
                Fault("malformed_event", after=4),
                Fault("cut_stream", after=2, clean=True),
                Fault("cut_stream", after=0),
            ]
        )

    def next(self) -> Fault | None:
        self.seen += 1
        assert self.clock is not None
        if self.seen < 2:
            return None
        if self.until is None:
            self.until = self.clock.now() + self._lasts
        return next(self._kinds) if self.clock.now() < self.until else None


@pytest.mark.spec("S22.2")
def test_half_an_hour_of_every_failure_ends_the_task_with_nothing_lost_and_every_moment_told() -> None:
    heard = Heard()
    done: list[str] = []

    def act() -> str:
        """Acts."""
        done.append("acted")
        return "acted"

    outage = Outage(1_800.0)
    # A stream that breaks has used up its step.
    steps = [[use("act", "toolu_1")], *["A long answer, word by word. " * 20] * 60]
    with world(steps, outage) as there, there.agent(tools=[act], listen=[heard]) as made:
        outage.clock = there.clock
        began = there.clock.now()
        finished = made.run("Act, then report.")
        assert finished.end == "done"
        assert finished.text.startswith("A long answer")
        assert there.clock.now() - began >= 1_800
        assert done == ["acted"]
        assert results(there.bodies[-1]) == {"toolu_1": "acted"}
        assert [message["role"] for message in messages(there.bodies[-1])] == ["user", "assistant", "user"]
        assert "Act, then report." in texts(there.bodies[-1])

        # Between any failure and the next request there is a wait that says when it ends.
        told = [event for event in heard if isinstance(event, Sending | Failed | Waiting | Answered)]
        for event, following in pairwise(told):
            if isinstance(event, Failed):
                assert isinstance(following, Waiting)
            if isinstance(event, Waiting):
                assert isinstance(following, Sending)
                assert following.at == pytest.approx(event.until)
        waits = heard.waits()
        assert [wait.attempt for wait in waits] == list(range(1, len(waits) + 1))


class Unsteady:
    """A client whose connections are refused, and whose answers fall silent, in the middle of an outage."""

    def __init__(self, sdk: Any, clock: VirtualClock, refused: set[int], silent: set[int]) -> None:
        self._client = client_of(sdk)
        self._away = client_of(sdk.with_options(base_url="http://127.0.0.1:9"))
        self._clock = clock
        self._refused = refused
        self._silent = silent
        self.asked = 0
        self.released = threading.Event()

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        self.asked += 1
        if self.asked in self._refused:
            return self._away.ask(call, watch)
        if self.asked not in self._silent:
            return self._client.ask(call, watch)
        assert watch is not None
        watch(Piece("text", "I was about to"))
        self._clock.advance(121.0)
        self.released.wait(60)
        raise AssertionError("nobody waits for this any more")

    def close(self) -> None:
        self._client.close()


@pytest.mark.spec("S22.2")
def test_refused_connections_and_silence_within_an_outage_are_waited_out_too() -> None:
    heard = Heard()

    def act() -> str:
        """Acts."""
        return "acted"

    outage = Outage(1_800.0)
    steps = [[use("act", "toolu_1")], *["A long answer, word by word. " * 20] * 60]
    with world(steps, outage) as there:
        outage.clock = there.clock
        client = Unsteady(there.sdk, there.clock, refused={3, 4, 11}, silent={5, 9, 14})
        with there.agent(tools=[act], client=client, listen=[heard]) as made:
            assert made.run("Act, then report.").text.startswith("A long answer")
            client.released.set()
        last = there.bodies[-1]
        assert [message["role"] for message in messages(last)] == ["user", "assistant", "user"]
        assert results(last) == {"toolu_1": "acted"}
        assert "about to" not in texts(last)
    told = {wait.what for wait in heard.waits()}
    assert {"the server refuses the connection", "the server went silent", "the answer broke off"} <= told


@pytest.mark.spec("S22.2")
@pytest.mark.parametrize("wish", [1, 2, 30, 300])
def test_half_an_hour_is_waited_out_whatever_pause_the_provider_asks_for(wish: float) -> None:
    class Limited(Faults):
        def next(self) -> Fault | None:
            return Fault("rate_limited", retry_after=wish) if there.clock.now() < began + 1_800 else None

    with world(["There."], Limited()) as there, there.agent(tools=[]) as made:
        began = there.clock.now()
        assert made.run("Hello.").text == "There."
        assert min(there.pauses) >= wish


@pytest.mark.spec("S22.2")
def test_a_program_on_asyncio_waits_as_well() -> None:
    heard = Heard()
    faults = Faults(dict.fromkeys(range(1, 13), Fault("overloaded")))

    async def work() -> str:
        with world(["There."], faults) as there:
            made = sevenfold.AsyncAgent(
                MODEL, client=there.async_sdk, clock=there.clock, tools=[], settings=QUIET, listen=[heard]
            )

            class Soon(Signal):
                async def wait_async(self, seconds: float) -> bool:
                    there.clock.advance(seconds if seconds < 1_000 else 0)
                    return await super().wait_async(0 if seconds < 1_000 else seconds)

            made.assembly.loop.signals = Soon
            async with there.async_sdk, made:
                return (await made.run("Hello.")).text

    assert asyncio.run(work()) == "There."
    assert len(heard.waits()) == 12


@pytest.mark.spec("S22.3")
def test_the_error_at_the_end_says_what_was_tried_and_what_to_do() -> None:
    faults = Faults(dict.fromkeys(range(1, 9), Fault("overloaded")))
    settings = {"max_retries": 3}
    with world(["There."], faults) as there, there.agent(tools=[], settings=settings) as made:
        with pytest.raises(Overloaded) as raised:
            made.run("Hello.")
        line = str(raised.value)
        assert "status 529" in line
        assert "4 attempts in" in line
        assert "request req_" in line
        assert "continue later, or with another model" in line
        assert "Nothing is lost" in line
        assert len(there.pauses) == 3


@pytest.mark.spec("S22.3")
def test_a_limit_that_lasts_for_hours_is_not_waited_out_and_the_error_says_how_long() -> None:
    faults = Faults({1: Fault("rate_limited", retry_after=5 * 3600)})
    with world(["There."], faults) as there, there.agent(tools=[]) as made:
        with pytest.raises(RateLimited, match="asks to wait 5 hours"):
            made.run("Hello.")
        assert there.pauses == []


@pytest.mark.spec("S22.4")
def test_an_interrupt_ends_a_wait_at_once_and_leaves_everything_in_order() -> None:
    faults = Faults({1: Fault("rate_limited", retry_after=900)})
    waits = threading.Event()

    def hear(event: Event) -> None:
        if isinstance(event, Waiting):
            waits.set()

    with world(["There."], faults) as there:
        made = sevenfold.Agent(MODEL, client=there.sdk, tools=[], settings=QUIET, listen=[hear])
        with made:
            run = in_own_thread(lambda: made.run("Hello."))
            assert waits.wait(30)
            made.interrupt()
            assert run.result(30).end == "interrupted"
            assert made.run().text == "There."
            assert texts(there.bodies[-1]).count("Hello.") == 1


class Stalling(OfflineClient):
    """Begins its answers; the first ones then fall silent while time goes by."""

    def __init__(self, clock: VirtualClock, stalls: int, silence: float, steps: list[Any]) -> None:
        super().__init__(Script(steps))
        self.clock, self.stalls, self.silence = clock, stalls, silence
        self.released = threading.Event()

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        if not self.stalls:
            return super().ask(call, watch)
        self.stalls -= 1
        watching: Any = watch
        watching.begin(Answer("msg_1", MODEL, (blocks.text(""),), request_id="req_stalled"))
        watching(Piece("text", "I was about to"))
        self.clock.advance(self.silence)
        if self.silence < 120:
            watching.arrived()
            self.clock.advance(self.silence)
            return super().ask(call, watch)
        self.released.wait(60)
        watching(Piece("text", "never shown"))
        raise AssertionError("nobody waits for this any more")


def stalled(client: Stalling, listen: Callable[[Event], None]) -> sevenfold.Agent:
    return sevenfold.Agent(
        MODEL, client=client, clock=client.clock, tools=[], settings=QUIET, system="", listen=[listen]
    )


@pytest.mark.spec("S22.5")
def test_an_answer_that_falls_silent_is_dropped_and_asked_for_again(monkeypatch: Any) -> None:
    monkeypatch.setattr("sevenfold.conversation.waiting.FIRST_PAUSE", 0.001)
    heard = Heard()
    client = Stalling(VirtualClock(), 2, 121.0, ["There."])
    with stalled(client, heard) as made:
        assert made.run("Hello.").text == "There."
        first, second = heard.waits()
        assert first.what == second.what == "the server went silent"
        assert first.request_id == "req_stalled"
        assert "about to" not in made.session.at(-1).decode()
        client.released.set()


@pytest.mark.spec("S22.5")
def test_an_answer_that_is_slow_but_alive_is_waited_for() -> None:
    heard = Heard()
    client = Stalling(VirtualClock(), 1, 119.0, ["There."])
    with stalled(client, heard) as made:
        assert made.run("Hello.").text == "There."
        assert heard.waits() == []


@pytest.mark.spec("S22.5")
def test_on_asyncio_an_answer_that_falls_silent_is_dropped_too(monkeypatch: Any) -> None:
    monkeypatch.setattr("sevenfold.conversation.waiting.FIRST_PAUSE", 0.001)
    heard = Heard()
    clock = VirtualClock()

    class Silent(AsyncOfflineClient):
        silent = True

        async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
            if not self.silent:
                return await super().ask(call, watch)
            self.silent = False
            watching: Any = watch
            watching(Piece("text", "I was about to"))
            clock.advance(121)
            await asyncio.sleep(60)
            raise AssertionError("nobody waits for this any more")

    async def work() -> str:
        client = Silent(Script(["There."]))
        options: Any = {"clock": clock, "tools": [], "settings": QUIET, "system": "", "listen": [heard]}
        async with sevenfold.AsyncAgent(MODEL, client=client, **options) as made:
            return (await made.run("Hello.")).text

    assert asyncio.run(work()) == "There."
    assert [wait.what for wait in heard.waits()] == ["the server went silent"]


@pytest.mark.spec("S22.6")
def test_a_server_that_never_answered_is_given_up_soon_and_one_that_did_is_not() -> None:
    heard = Heard()
    gone = HttpClient("http://127.0.0.1:9", {})
    with world(["There."]) as there:
        from sevenfold.providers.anthropic import AnthropicClient

        never = there.agent(tools=[], client=AnthropicClient(gone), listen=[heard])
        with closing(gone), never, pytest.raises(Unreachable, match="refuses the connection"):
            never.run("Hello.")
        assert len(heard.waits()) == 4
        assert {wait.what for wait in heard.waits()} == {"the server refuses the connection"}
        heard.clear()
        with there.agent(tools=[], listen=[heard], settings={"max_retries": 7}) as made:
            assert made.run("Hello.").text == "There."
            there.sdk.base_url = "http://127.0.0.1:9"
            with pytest.raises(Unreachable):
                made.run("And now?")
            assert len(heard.waits()) == 7


@pytest.mark.spec("S22.7")
def test_a_client_does_not_retry_in_silence_what_the_agent_retries_aloud() -> None:
    heard = Heard()
    faults = Faults({1: Fault("server_error"), 2: Fault("server_error")})
    with world(["There."], faults) as there:
        from sevenfold.providers.anthropic import AnthropicClient

        url = str(there.sdk.base_url)
        http = HttpClient(url, {"authorization": "Bearer k", "anthropic-version": "2026-10-21"})
        direct = AnthropicClient(http)
        with closing(http), there.agent(tools=[], client=direct, listen=[heard]) as made:
            assert made.run("Hello.").text == "There."
            assert len(heard.waits()) == 2


@pytest.mark.spec("S22.8")
@pytest.mark.parametrize(("wish", "retried"), [("false", False), ("true", True)])
def test_a_server_that_says_whether_to_retry_is_obeyed(wish: str, retried: bool) -> None:
    status = 418 if retried else 529
    asked: list[int] = []

    def answer(_: Any) -> str:
        asked.append(1)
        if len(asked) == 1:
            raise ApiError(status, "odd_error", "Odd", headers={"x-should-retry": wish})
        return "There."

    with world(answer) as there, there.agent(tools=[]) as made:
        if retried:
            assert made.run("Hello.").text == "There."
        else:
            with pytest.raises(ModelError):
                made.run("Hello.")
        assert bool(there.pauses) == retried


@pytest.mark.spec("S21.13")
def test_a_picture_that_the_provider_cannot_read_ends_no_run() -> None:
    def answer(prompt: Any) -> str:
        content = prompt.body["messages"][0]["content"]
        for number, block in enumerate(content):
            if block["type"] == "image":
                path = f"messages.0.content.{number}.image.source.base64.data"
                raise ApiError(400, "invalid_request_error", f"{path}: Could not process image")
        return "There."

    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    with world(answer) as there, there.agent(tools=[]) as made:
        question: Any = [{"type": "text", "text": "What is this?"}, picture]
        assert made.run(question).text == "There."
        assert made.run("And now?").text == "There."


@pytest.mark.spec("S21.13")
def test_a_request_that_is_refused_for_another_reason_says_what_to_do() -> None:
    def answer(_: Any) -> str:
        raise ApiError(400, "invalid_request_error", "temperature: may only be 1 here")

    with world(answer) as there, there.agent(tools=[]) as made:
        with pytest.raises(ModelError, match="take back the last message"):
            made.run("Hello.")
        assert there.pauses == []


@pytest.mark.spec("S37.8")
def test_without_a_limit_a_server_that_is_not_there_at_first_is_waited_for() -> None:
    attempts: list[int] = []
    with world(["There."]) as there:
        address = there.sdk.base_url

        def listen(event: Event) -> None:
            if isinstance(event, Waiting):
                attempts.append(event.attempt)
                if event.attempt == 60:
                    there.sdk.base_url = address

        there.sdk.base_url = "http://127.0.0.1:9"
        with there.agent(tools=[], listen=[listen], settings={"max_retries": FOR_EVER}) as made:
            assert made.run("Hello.").text == "There."
    assert attempts == list(range(1, 61))
