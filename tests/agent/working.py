"""Agents whose model plays a script: offline, or behind the simulator over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic

import sevenfold
from sevenfold.conversation.flow import Signal
from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.faults import Faults
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.layers.compact.offline import summarise, take_notes
from sevenfold.ports import Call, Reply, Watcher
from sevenfold.providers.offline import AsyncOfflineClient, OfflineClient, Script

MODEL = "claude-sonnet-5-5"
QUIET = {"notes": False, "background_compaction": False}
"""Nothing beside the conversation: what is tested here is the agent."""


def use(name: str, call: str = "", /, **given: Any) -> dict[str, Any]:
    """A tool call of the model's."""
    return {"type": "tool_use", "name": name, "input": given} | ({"id": call} if call else {})


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


class Model(OfflineClient):
    """The offline model, and what it was asked."""

    def __init__(self, steps: Iterable[Any]) -> None:
        jobs = {"compact": summarise, "session_memory": take_notes}
        super().__init__(Script(steps, jobs=jobs))
        self.asked: list[Call] = []

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        self.asked.append(call)
        return super().ask(call, watch)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What it was asked on behalf of the conversation."""
        return [json.loads(call.body) for call in self.asked if call.source in ("main", "sdk")]


class AsyncModel(AsyncOfflineClient):
    """The same, awaited."""

    def __init__(self, steps: Iterable[Any]) -> None:
        super().__init__(Script(steps, jobs={"compact": summarise, "session_memory": take_notes}))


def options(folder: Path | None, more: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {"system": "Be brief.", **more}
    if folder is not None:
        given["folder"] = folder
    return {**given, "settings": {**QUIET, **given.get("settings", {})}}


def agent(steps: Iterable[Any], folder: Path | None = None, **more: Any) -> sevenfold.Agent:
    """An agent whose model says these things, one after another."""
    return sevenfold.Agent(MODEL, client=Model(steps), **options(folder, more))


def async_agent(steps: Iterable[Any], folder: Path | None = None, **more: Any) -> sevenfold.AsyncAgent:
    return sevenfold.AsyncAgent(MODEL, client=AsyncModel(steps), **options(folder, more))


def model_of(made: sevenfold.Agent) -> Model:
    found = made.assembly.options["client"]
    assert isinstance(found, Model)
    return found


def messages(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = request["messages"]
    return found


def blocks(request: Mapping[str, Any], kind: str = "") -> list[dict[str, Any]]:
    """All content blocks of a request, or those of one kind."""
    found = [block for message in messages(request) for block in message["content"]]
    return [block for block in found if not kind or block["type"] == kind]


def results(request: Mapping[str, Any]) -> dict[str, Any]:
    """What each call was answered, in order."""
    return {block["tool_use_id"]: _plain(block["content"]) for block in blocks(request, "tool_result")}


def _plain(content: Any) -> Any:
    if isinstance(content, list) and all(part["type"] == "text" for part in content):
        return "\n".join(part["text"] for part in content)
    return content


def texts(request: Mapping[str, Any]) -> str:
    """All words of a request."""
    return "\n".join(block["text"] for block in blocks(request, "text"))


def seen(made: sevenfold.Agent) -> str:
    """All words the model would be sent now, results included."""
    made.session.user("(looking)")
    body = json.loads(made.session.prepare().body)
    made.session.rewind(made.assembly.conversation.transcript.view.items[-2].record.uuid)
    return "\n".join([texts(body), *map(str, results(body).values())])


class World:
    """A simulated provider, its clock, and agents that ask it through the official SDK."""

    def __init__(self, url: str, simulator: Simulator, clock: VirtualClock) -> None:
        self.simulator, self.clock = simulator, clock
        self.sdk = anthropic.Anthropic(api_key="simulated-key", base_url=url, max_retries=0)
        self.async_sdk = anthropic.AsyncAnthropic(api_key="simulated-key", base_url=url, max_retries=0)
        self.pauses: list[float] = []

    def agent(self, folder: Path | None = None, **more: Any) -> sevenfold.Agent:
        made = sevenfold.Agent(
            more.pop("model", MODEL),
            client=more.pop("client", self.sdk),
            clock=self.clock,
            **options(folder, more),
        )
        made.assembly.loop.signals = lambda: Hurried(self)
        return made

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The requests that were answered."""
        return [json.loads(request.raw) for request in self.simulator.requests.answered()]


class Hurried(Signal):
    """A pause that moves the clock instead of waiting."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def wait(self, seconds: float) -> bool:
        if seconds:
            self._world.pauses.append(seconds)
            self._world.clock.advance(seconds)
        return super().wait(0)


@contextmanager
def world(
    steps: Iterable[Any] | Callable[..., Any], faults: Faults | None = None, setup: Setup | None = None
) -> Iterator[World]:
    clock = VirtualClock()
    simulator = Simulator(ScriptedBrain(steps), setup, clock=clock, faults=faults)
    with serve(simulator) as url:
        made = World(url, simulator, clock)
        yield made
        made.sdk.close()


def kinds(events: Sequence[Any]) -> list[str]:
    return [type(event).__name__ for event in events]
