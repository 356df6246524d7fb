"""What the tests of providers share: requests to send, servers to send them to, and every way to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from sevenfold.lab.simulator.brains import ScriptedBrain, text, thinking, tool_use
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.faults import Fault, Faults
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.ports import Call, Reply, Watcher
from sevenfold.providers import registry
from sevenfold.providers.failures import transport_of
from sevenfold.providers.sdk import AsyncSdkClient, SdkClient, SdkProvider
from sevenfold.record.blocks import words_of

KEY = "simulated-key"
MODELS = {"messages": "claude-sonnet-5-5", "chat": "gpt-5", "responses": "gpt-5.6"}
"""A model for each API that is asked through an SDK."""
PROVIDERS = {one.name: one for one in registry.providers() if isinstance(one, SdkProvider)}
"""Those APIs, as the registry has them."""
SDK_CLIENTS = {"anthropic": "Anthropic", "openai": "OpenAI"}
"""What each SDK calls its client."""
TOOLS = [{"name": "Read", "description": "reads", "input_schema": {"type": "object"}}]


def body(model: str = "claude-sonnet-5-5", **fields: Any) -> bytes:
    """A request's bytes."""
    asked = {"model": model, "max_tokens": 1_000, "messages": [{"role": "user", "content": "hi"}]}
    return msgspec.json.encode(asked | fields)


class Way(Struct, frozen=True):
    """One way to ask: through which API, waiting or not, as a stream or whole, with its SDK or without."""

    api: str
    awaited: bool
    stream: bool
    direct: bool = False

    def call(self, **fields: Any) -> Call:
        return Call(body(**{"model": MODELS[self.api], **fields}))

    @property
    def provider(self) -> SdkProvider:
        return PROVIDERS[self.api]

    def ask(
        self, url: str, call: Call, watch: Watcher | None = None, wire: str | None = None, **options: Any
    ) -> Reply:
        """Ask a server once, through a client that the provider makes for an SDK client with these options."""
        at: dict[str, Any] = {"api_key": KEY, "max_retries": 0, "base_url": address(self.provider, url)}
        made = direct_client if self.direct else sdk_client
        sdk = made(self.provider, awaited=self.awaited, **at | options)
        return (
            asyncio.run(self._await(sdk, call, watch, wire))
            if self.awaited
            else self._wait(sdk, call, watch, wire)
        )

    def _wait(self, sdk: Any, call: Call, watch: Watcher | None, wire: str | None) -> Reply:
        client = self.provider.client(sdk, wire)
        assert isinstance(client, SdkClient)
        client.stream = self.stream
        with closing(sdk):
            return client.ask(call, watch)

    async def _await(self, sdk: Any, call: Call, watch: Watcher | None, wire: str | None) -> Reply:
        client = self.provider.async_client(sdk, wire)
        assert isinstance(client, AsyncSdkClient)
        client.stream = self.stream
        async with sdk:
            return await client.ask(call, watch)

    def __str__(self) -> str:
        asking = "direct" if self.direct else "async" if self.awaited else "sync"
        return f"{self.api}-{asking}-{'stream' if self.stream else 'whole'}"


WAYS = [
    Way(api, awaited, stream, direct)
    for api in PROVIDERS
    for awaited, direct in ((False, False), (True, False), (False, True))
    for stream in (True, False)
]
STREAMS = [way for way in WAYS if way.stream]


def address(provider: SdkProvider, url: str) -> str:
    """The address of a provider's API at a simulator: an SDK expects the version in it, or adds it itself."""
    return f"{url}/v1" if provider.vendor.url.endswith("/v1") else url


def http_of(provider: SdkProvider) -> Any:
    """The HTTP library below a provider's SDK."""
    return transport_of(provider.vendor.load())


def sdk_client(provider: SdkProvider, *, awaited: bool = False, **options: Any) -> Any:
    """A client of the provider's own SDK."""
    name = SDK_CLIENTS[provider.vendor.sdk]
    return getattr(provider.vendor.load(), f"Async{name}" if awaited else name)(**options)


def direct_client(provider: SdkProvider, *, api_key: str, base_url: str, **options: Any) -> Any:
    """What takes the place of an SDK's client where none is loaded."""
    del options["awaited"]
    env = {provider.vendor.key_variable: api_key, provider.vendor.url_variable: base_url}
    return provider.http(env, **options)


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
        self.simulator.setup = Setup(api_key=KEY, any_model=False)
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
    simulator = Simulator(setup=Setup(api_key=KEY, any_model=False), clock=VirtualClock())
    with serve(simulator) as url:
        yield Provider(url, simulator)


def words(answer: Any) -> str:
    """All the text of an answer."""
    return "".join(words_of(block) for block in answer.blocks)


def answering(
    *pieces: bytes, status: int = 200, kind: str = "text/event-stream", http: Any = httpx2, **headers: str
) -> Any:
    """A transport of ``http`` that always answers the same, and remembers what it was sent."""
    sent: list[Any] = []

    def answer(request: Any) -> Any:
        request.read()
        sent.append(request)
        return http.Response(status, headers={"content-type": kind, **headers}, content=iter(pieces))

    transport = http.MockTransport(answer)
    transport.sent = sent
    return transport


def event(data: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"
