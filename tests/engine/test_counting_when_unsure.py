"""Where an estimate is too rough to tell whether a request fits, the provider counts it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2
import openai
import pytest

import sevenfold
from sevenfold.conversation.counting import have_counted
from sevenfold.conversation.flow import CountTokens
from sevenfold.errors import ContextFull
from sevenfold.lab.simulator.brains import ScriptedBrain, text
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.ports import Call, count_with

WINDOW = 200_000
COUNTS = ("/v1/messages/count_tokens", "/v1/responses/input_tokens")
ALONE = {"context_window": WINDOW, "notes": False, "model_listing": False}
TOOL = sevenfold.tool(
    {"name": "Read", "description": "Read.", "input_schema": {"type": "object"}}, kind="read"
)


def prose(characters: int) -> str:
    """Made-up words: nothing is known yet about how a tokenizer takes them."""
    dice = random.Random(3)
    words = [
        "".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(2, 9))) for _ in range(4_000)
    ]
    return " ".join(dice.choices(words, k=characters // 6))


LONG = prose(410_000)
"""A text that fits the window, but whose band reaches beyond where sending stops."""


@contextmanager
def simulated() -> Iterator[tuple[Simulator, str]]:
    simulator = Simulator(ScriptedBrain(lambda prompt: [text("Yes.")]))
    with serve(simulator) as url:
        yield simulator, url


def paths(simulator: Simulator) -> list[str]:
    return [request.path for request in simulator.requests]


@contextmanager
def on_messages(url: str, **settings: Any) -> Iterator[sevenfold.Session]:
    with anthropic.Anthropic(api_key="simulated-key", base_url=url) as client:
        opened = sevenfold.Session.in_memory(
            model="claude-sonnet-5-5",
            client=client,
            system="Be brief.",
            tools=[TOOL],
            thinking={"type": "adaptive"},
            fields={"metadata": {"user_id": "u1"}},
            settings={**ALONE, **settings},
        )
        with opened as session:
            yield session


@pytest.mark.spec("S0.12")
def test_a_long_first_message_that_fits_is_counted_and_sent() -> None:
    with simulated() as (simulator, url), on_messages(url) as session:
        session.user(LONG)
        size = session.conversation.size()
        assert size.tokens < session.conversation.window.blocking < size.high
        session.complete()
        assert paths(simulator) == ["/v1/messages/count_tokens", "/v1/messages"]


@pytest.mark.spec("S0.12")
def test_without_the_switch_what_may_not_fit_is_not_sent() -> None:
    with simulated() as (simulator, url), on_messages(url, token_counting=False) as session:
        session.user(LONG)
        with pytest.raises(ContextFull):
            session.complete()
        assert paths(simulator) == []


@pytest.mark.spec("S0.12")
def test_a_message_that_is_counted_as_too_long_is_not_sent_and_the_error_says_its_size() -> None:
    with simulated() as (simulator, url), on_messages(url) as session:
        session.user(prose(530_000))
        with pytest.raises(ContextFull, match=r"perhaps [0-9]{1,3} more"):
            session.complete()
        assert set(paths(simulator)) == {"/v1/messages/count_tokens"}


@pytest.mark.spec("S0.12")
def test_the_count_is_the_size_and_shows_what_precedes_the_messages() -> None:
    with simulated() as (_, url), on_messages(url) as session:
        session.user(LONG)
        session.prepare()
        size = session.conversation.size()
        assert size.anchored
        assert size.band < 500
        assert session.conversation.epoch.gauge.overhead is not None


@pytest.mark.spec("S0.12")
def test_no_request_is_counted_whose_estimate_decides_by_itself() -> None:
    with simulated() as (simulator, url), on_messages(url) as session:
        for characters in (20, 200_000, 60_000):
            session.user(prose(characters))
            session.complete()
        assert set(paths(simulator)) == {"/v1/messages"}


@pytest.mark.spec("S0.12")
def test_an_async_session_counts_as_well() -> None:
    async def main(url: str) -> None:
        async with anthropic.AsyncAnthropic(api_key="simulated-key", base_url=url) as client:
            opening = sevenfold.AsyncSession.in_memory(
                model="claude-sonnet-5-5", client=client, settings=ALONE
            )
            async with opening as session:
                await session.user(LONG)
                await session.complete()

    with simulated() as (simulator, url):
        asyncio.run(main(url))
        assert paths(simulator) == ["/v1/messages/count_tokens", "/v1/messages"]


@contextmanager
def on_openai(url: str, wire: str) -> Iterator[sevenfold.Session]:
    with openai.OpenAI(api_key="simulated-key", base_url=f"{url}/v1") as client:
        opened = sevenfold.Session.in_memory(
            model="gpt-5.5", wire=wire, client=client, system="Be brief.", tools=[TOOL], settings=ALONE
        )
        with opened as session:
            yield session


LOG = "2026-11-19 20:15:01 INFO request 1234 took 15 ms\n" * 6_000
"""A text of digits and symbols, which fits the window but is estimated at as much as the window."""


@pytest.mark.spec("S0.12")
def test_the_responses_api_counts_as_well() -> None:
    with simulated() as (simulator, url), on_openai(url, "responses") as session:
        session.user(LOG)
        session.complete()
        assert paths(simulator) == ["/v1/responses/input_tokens", "/v1/responses"]


@pytest.mark.spec("S0.12")
def test_chat_completions_has_nothing_that_counts_so_what_may_not_fit_is_not_sent() -> None:
    with simulated() as (simulator, url), on_openai(url, "chat") as session:
        session.user(LOG)
        with pytest.raises(ContextFull):
            session.complete()
        assert paths(simulator) == []


@pytest.mark.spec("S0.12")
def test_a_server_that_does_not_count_is_asked_once_and_nothing_else_changes() -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        return httpx2.Response(404, json={"error": {"message": "no such path"}})

    transport = httpx2.MockTransport(answer)
    with anthropic.Anthropic(api_key="k", http_client=httpx2.Client(transport=transport)) as client:
        session = sevenfold.Session.in_memory(model="claude-sonnet-5-5", client=client, settings=ALONE)
        session.user(LONG)
        for _ in range(3):
            with pytest.raises(ContextFull):
                session.complete()
        session.close()
    assert asked == ["/v1/messages/count_tokens"]


@pytest.mark.spec("S0.12")
def test_a_count_does_not_hold_for_what_was_said_while_the_provider_counted() -> None:
    with sevenfold.Session.in_memory(model="claude-sonnet-5-5", settings=ALONE) as session:
        session.user(LONG)
        flow = have_counted(session.conversation, {})
        assert isinstance(next(flow), CountTokens)
        session.user("And this.")
        with pytest.raises(StopIteration):
            flow.send(150_000)
        assert not session.conversation.size().anchored


def test_a_client_that_cannot_count_says_nothing() -> None:
    assert count_with(sevenfold.OfflineClient(sevenfold.Script([])), Call(b"{}")) is None
    assert count_with(None, Call(b"{}")) is None


@pytest.mark.parametrize(("rounds", "lines", "named"), [(1, 3_300, False), (9, 2_700, True)])
def test_a_compaction_is_named_as_a_way_on_only_where_it_can_make_enough_room(
    rounds: int, lines: int, named: bool
) -> None:
    call = {"type": "tool_use", "name": "Read", "id": "toolu_1", "input": {}}
    client = sevenfold.OfflineClient(sevenfold.Script([*["Yes."] * rounds, [call]]))
    settings = {**ALONE, "context_window": 30_000, "auto_compact": False}
    opened = sevenfold.Session.in_memory(
        model="claude-sonnet-5-5", client=client, tools=[TOOL], settings=settings
    )
    with opened as session:
        for _ in range(rounds):
            session.user(prose(2_500))
            session.complete()
        session.user("Please read it.")
        session.complete()
        session.tool_results({"toolu_1": "port = 8443\n" * lines})
        with pytest.raises(ContextFull) as refused:
            session.complete()
    assert ("compact the conversation" in str(refused.value)) is named
