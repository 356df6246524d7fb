"""A replay of one recorded session: the provider, the run and its results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import anthropic
import httpx2
from msgspec import Struct

from sevenfold.errors import ContextFull, ModelError
from sevenfold.events import Acted, Answered, CacheBroke, Event, Failed, Veto
from sevenfold.lab.replay.recording import KINDS, RecordedStep, Recording
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.provider import UNLIMITED, Setup, Simulator
from sevenfold.lab.simulator.server import create_app, serve
from sevenfold.layers.compact.offline import summarise
from sevenfold.layers.remember.offline import find_facts
from sevenfold.ports import Call, Client, Reply, Watcher
from sevenfold.providers.anthropic import AnthropicClient, AsyncAnthropicClient
from sevenfold.session.factory import Tool, tool
from sevenfold.session.session import Session

KEY = "simulated-key"
SYSTEM = "You are a careful engineer who reads before writing, and who says what was done and why. " * 500
"""About as long as the instructions of a real coding agent."""
DESCRIPTION = "What this tool is for, what it takes, when to use it and when not to. " * 20
NO_CALLS: Mapping[str, object] = {"compaction": False, "notes": False, "extraction": False, "dream": False}
"""Layers that call a model are off unless the settings turn them on: the replayed model has only the recorded answers,
and summaries and facts that code extracts."""
MAX_TOKENS = 64_000
"""More than any recorded answer, so that none is cut short."""

Kind = TypeVar("Kind", bound=Event)
Hook = Callable[[Session], None]
"""Called before every request, once the session has all the input for it."""
Listen = Callable[[int, Event], Veto | None]


class Cue(Struct, frozen=True):
    """The model's next answer, and the time at which it is complete."""

    answer: Sequence[Mapping[str, Any]] = ()
    at: float = 0.0


class ReplayProvider:
    """A simulator with its own clock, whose model answers on cue."""

    def __init__(self) -> None:
        self.clock = VirtualClock(0.0)
        self.cue = Cue()
        setup = Setup(limits=UNLIMITED, log_bytes=1)
        self.simulator = Simulator(ScriptedBrain(self._answer), setup, clock=self.clock)

    def _answer(self, prompt: ModelPrompt) -> str | Sequence[Mapping[str, Any]]:
        if "<analysis>" in prompt.last_text and "<summary>" in prompt.last_text:
            return summarise({"messages": prompt.messages})
        if "remembering in later sessions" in prompt.last_text:
            return find_facts({"messages": prompt.messages})
        if "entries of the memory of this project" in prompt.last_text:
            return "<nothing/>"
        self.at(self.cue.at)
        return self.cue.answer

    def at(self, seconds: float) -> None:
        """Move the clock to that time, unless it is already later."""
        self.clock.advance(max(0.0, seconds - self.clock.now()))

    @contextmanager
    def client(self, *, socket: bool = False) -> Iterator[Client]:
        """A client of the simulator, over a socket or with the same requests in process."""
        if socket:
            with serve(self.simulator) as url:
                asking = AnthropicClient(api_key=KEY, base_url=url, max_retries=0)
                yield asking
                asking.close()
            return
        inside = InsideClient(self.simulator)
        yield inside
        inside.close()


class InsideClient:
    """A client of a simulator in this process, through the official SDK: HTTP without the socket."""

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


class ReplayRun(Struct, frozen=True):
    """The results of a replay."""

    name: str
    model: str
    steps: int
    """How many steps were to be replayed."""
    events: tuple[tuple[int, Event], ...]
    """All events, each with its step."""
    ended: str = ""
    """Why it ended early; empty if all steps were replayed."""
    full: bool = False
    """Whether it ended because nothing more fits without a compaction."""

    def events_of(self, kind: type[Kind]) -> list[tuple[int, Kind]]:
        """All events of a kind, each with its step."""
        return [(step, event) for step, event in self.events if isinstance(event, kind)]

    @property
    def whole(self) -> bool:
        """Whether all steps were replayed."""
        return not self.ended

    @property
    def usd(self) -> float:
        """Its cost in US dollars."""
        return sum(answer.usd or 0.0 for _, answer in self.events_of(Answered))

    @property
    def prompts(self) -> list[int]:
        """The size of every prompt in tokens, as the provider counts."""
        return [_prompt(answer) for _, answer in self.events_of(Answered)]

    @property
    def read(self) -> int:
        """Tokens read from the cache."""
        return sum(answer.cache_read_tokens for _, answer in self.events_of(Answered))

    @property
    def refused(self) -> list[Failed]:
        """Requests that the provider refused."""
        return [failed for _, failed in self.events_of(Failed)]

    @property
    def broken(self) -> list[CacheBroke]:
        """Cache breaks."""
        return [broke for _, broke in self.events_of(CacheBroke)]

    @property
    def cleared(self) -> list[tuple[int, Acted]]:
        """Clearings, with their steps."""
        return [(step, acted) for step, acted in self.events_of(Acted) if acted.layer == "clear"]


def replay(
    recording: Recording,
    model: str,
    *,
    settings: Mapping[str, object] | None = None,
    before: Hook | None = None,
    listen: Listen | None = None,
    until: int | None = None,
    socket: bool = False,
) -> ReplayRun:
    """Replay a recorded session, or its first ``until`` steps, with a model and settings.

    ``before`` is called before every request, ``listen`` with every event and its step.
    """
    provider, events = ReplayProvider(), list[tuple[int, Event]]()
    place, ended, full = 0, "", False

    def hear(event: Event) -> Veto | None:
        events.append((place, event))
        return listen(place, event) if listen is not None else None

    with (
        provider.client(socket=socket) as client,
        Session.in_memory(
            recording.name,
            model=model,
            client=client,
            clock=provider.clock,
            listen=[hear],
            system=SYSTEM,
            tools=[_tool(name) for name in recording.tools],
            max_tokens=MAX_TOKENS,
            thinking={"type": "adaptive"},
            settings={**NO_CALLS, **(settings or {})},
            memory=bool((settings or {}).get("extraction")),
        ) as session,
    ):
        try:
            for step in recording.steps[:until]:
                _give(session, provider, step)
                if before is not None:
                    before(session)
                session.complete()
                if session.memory is not None:
                    session.settle()  # before the clock moves on and the cache ages
                place += 1
        except ContextFull as error:
            ended, full = str(error), True
        except ModelError as error:
            ended = f"{type(error).__name__}: {error}"
    return ReplayRun(recording.name, model, len(recording.steps[:until]), tuple(events), ended, full)


def _give(session: Session, provider: ReplayProvider, step: RecordedStep) -> None:
    provider.at(step.asked_at)
    provider.cue = Cue(step.answer, step.answered_at)
    if step.results:
        session.tool_results(step.results)
    if content := (*step.user_content, *step.notes):
        session.user(content)


def _tool(name: str) -> Tool:
    schema = {"name": name, "description": DESCRIPTION, "input_schema": {"type": "object"}}
    return tool(schema, kind=KINDS.get(name, ""))


def _prompt(answer: Answered) -> int:
    return answer.input_tokens + answer.cache_read_tokens + answer.cache_write_tokens
