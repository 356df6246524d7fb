"""The simulated provider in a replay: it says what the recorded model said, and enforces and bills as ever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2
from msgspec import Struct

from sevenfold.lab.simulator.brains import Prompt, ScriptedBrain
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.provider import Limits, Setup, Simulator
from sevenfold.lab.simulator.server import create_app, serve
from sevenfold.ports import Call, Client, Reply, Watcher
from sevenfold.providers.anthropic.client import AnthropicClient, AsyncAnthropicClient

KEY = "simulated-key"
UNLIMITED = Limits(requests=10**9, input_tokens=10**12, output_tokens=10**12)
"""A replay takes no time, so a limit per minute would mean nothing."""


class Cue(Struct, frozen=True):
    """What the model says next, and when it has said it."""

    answer: Sequence[Mapping[str, Any]] = ()
    at: float = 0.0


class Provider:
    """A simulator with a clock of its own, whose model speaks on cue."""

    def __init__(self) -> None:
        self.clock = VirtualClock(0.0)
        self.cue = Cue()
        setup = Setup(limits=UNLIMITED, log_bytes=1)
        self.simulator = Simulator(ScriptedBrain(self._answer), setup, clock=self.clock)

    def _answer(self, prompt: Prompt) -> Sequence[Mapping[str, Any]]:
        self.at(self.cue.at)
        return self.cue.answer

    def at(self, seconds: float) -> None:
        """Let it be that time, unless it is later already."""
        self.clock.advance(max(0.0, seconds - self.clock.now()))

    @contextmanager
    def client(self, *, socket: bool = False) -> Iterator[Client]:
        """Whoever asks it: over a socket, or by the same requests without one."""
        if socket:
            with serve(self.simulator) as url:
                asking = AnthropicClient(api_key=KEY, base_url=url, max_retries=0)
                yield asking
                asking.close()
            return
        inside = _Inside(self.simulator)
        yield inside
        inside.close()


class _Inside:
    """Asks a simulator in this process through the official SDK, HTTP and all but the socket."""

    def __init__(self, simulator: Simulator) -> None:
        transport = httpx2.ASGITransport(create_app(simulator))
        self._http = httpx2.AsyncClient(transport=transport)
        sdk = anthropic.AsyncAnthropic(
            api_key=KEY, base_url="http://simulator", http_client=self._http, max_retries=0
        )
        self._client = AsyncAnthropicClient(sdk, stream=False)
        self._loop = asyncio.new_event_loop()

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        return self._loop.run_until_complete(self._client.ask(call, watch))

    def close(self) -> None:
        self._loop.run_until_complete(self._http.aclose())
        self._loop.close()
