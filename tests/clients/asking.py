"""What the tests of clients share: requests to send, servers to send them to, and every way to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from sevenfold.lab.simulator.brains import ScriptedBrain, text, thinking, tool_use
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.faults import Fault, Faults
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.ports import AsyncClient, Call, Client, Reply, Watcher
from sevenfold.providers.anthropic import AnthropicClient, AsyncAnthropicClient
from sevenfold.providers.openai.client import AsyncOpenAIClient, OpenAIClient
from sevenfold.record.blocks import words_of

KEY = "simulated-key"
MODELS = {"anthropic": "claude-sonnet-5-5", "chat": "gpt-5", "responses": "gpt-5.6"}
CLIENTS: dict[str, type[Client]] = {
    "anthropic": AnthropicClient,
    "chat": OpenAIClient,
    "responses": OpenAIClient,
}
ASYNC_CLIENTS: dict[str, type[AsyncClient]] = {
    "anthropic": AsyncAnthropicClient,
    "chat": AsyncOpenAIClient,
    "responses": AsyncOpenAIClient,
}
TOOLS = [{"name": "Read", "description": "reads", "input_schema": {"type": "object"}}]


def body(model: str = "claude-sonnet-5-5", **fields: Any) -> bytes:
    """A request's bytes."""
    asked = {"model": model, "max_tokens": 1_000, "messages": [{"role": "user", "content": "hi"}]}
    return msgspec.json.encode(asked | fields)


class Way(Struct, frozen=True):
    """One way to ask: through which API, waiting or not, as a stream or whole."""

    api: str
    awaited: bool
    stream: bool

    def call(self, **fields: Any) -> Call:
        return Call(body(**{"model": MODELS[self.api], **fields}))

    def ask(self, url: str, call: Call, watch: Watcher | None = None, **options: Any) -> Reply:
        """Ask a server once with a client of its own."""
        given = {"api_key": KEY, "max_retries": 0, "stream": self.stream, **options}
        return self.run(call, watch, base_url=url if self.api == "anthropic" else f"{url}/v1", **given)

    def run(self, call: Call, watch: Watcher | None = None, sdk: Any = None, **options: Any) -> Reply:
        return (
            asyncio.run(self._await(call, watch, sdk, options))
            if self.awaited
            else self._wait(call, watch, sdk, options)
        )

    def _wait(self, call: Call, watch: Watcher | None, sdk: Any, options: Mapping[str, Any]) -> Reply:
        made: type[Any] = CLIENTS[self.api]
        client: Client = made(sdk, **options)
        try:
            return client.ask(call, watch)
        finally:
            client.close()

    async def _await(
        self, call: Call, watch: Watcher | None, sdk: Any, options: Mapping[str, Any]
    ) -> Reply:
        made: type[Any] = ASYNC_CLIENTS[self.api]
        client: AsyncClient = made(sdk, **options)
        try:
            return await client.ask(call, watch)
        finally:
            await client.close()

    def __str__(self) -> str:
        return f"{self.api}-{'async' if self.awaited else 'sync'}-{'stream' if self.stream else 'whole'}"


WAYS = [
    Way(api, awaited, stream) for api in MODELS for awaited in (False, True) for stream in (True, False)
]
STREAMS = [way for way in WAYS if way.stream]
ANTHROPIC = [way for way in WAYS if way.api == "anthropic"]


SAID = 'Wörds "and" more words, enough of them that they come in several pieces, one after the other'


def speaking(prompt: Any) -> list[Any]:
    """A brain that thinks, speaks and calls."""
    return [thinking("hm"), text(SAID), tool_use("Read", {"a": [1, 2.5]})]


class Provider(Struct):
    """A simulator on a socket, as it came from the factory for each test."""

    url: str
    simulator: Simulator

    def renew(self) -> None:
        """Forget what earlier tests did."""
        self.simulator.brain = ScriptedBrain(speaking)
        self.simulator.setup = Setup()
        self.simulator.faults = Faults()
        self.simulator.requests.clear()

    def says(self, words: str) -> None:
        """Let it say nothing but this."""
        self.simulator.brain = ScriptedBrain(lambda prompt: words)

    def fails(self, fault: Fault, requests: int = 1) -> None:
        """Let the next requests fail."""
        self.simulator.faults.then(fault, requests)

    @property
    def asked(self) -> int:
        """How often it was asked."""
        return self.simulator.faults.seen


@contextmanager
def provided() -> Iterator[Provider]:
    """A provider whose time stands still."""
    simulator = Simulator(clock=VirtualClock())
    with serve(simulator) as url:
        yield Provider(url, simulator)


def words(answer: Any) -> str:
    """All the text of an answer."""
    return "".join(words_of(block) for block in answer.blocks)


def answering(*pieces: bytes, status: int = 200, kind: str = "text/event-stream", **headers: str) -> Any:
    """A transport that always answers the same, and remembers what it was sent."""

    class Remembering(httpx2.MockTransport):
        def __init__(self) -> None:
            super().__init__(self.answer)
            self.sent: list[httpx2.Request] = []

        def answer(self, request: httpx2.Request) -> httpx2.Response:
            request.read()
            self.sent.append(request)
            return httpx2.Response(status, headers={"content-type": kind, **headers}, content=iter(pieces))

    return Remembering()


def event(data: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"
