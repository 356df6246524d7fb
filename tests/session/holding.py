"""Whole sessions for tests: kept in memory, answered by a script or by the simulator, and opened again at will."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, cast

from msgspec import Raw
from msgspec.structs import replace

from sevenfold.events import Event, Veto
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.ports import Call, Log, Reply, Results, Watcher
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.providers.offline import OfflineClient, Script
from sevenfold.session import factory as opened
from sevenfold.session.factory import Options, Tool, tool
from sevenfold.session.session import Completion, Session
from sevenfold.settings import Layer, Settings, resolve

KINDS = {"Read": "read", "Shell": "shell", "Grep": "search", "Edit": "edit", "Ask": ""}
TOOLS: list[Tool | Mapping[str, Any]] = [
    tool(
        {"name": name, "description": f"{name} something. " * 20, "input_schema": {"type": "object"}},
        kind=kind,
    )
    for name, kind in KINDS.items()
]
SYSTEM = "You are a careful assistant. " * 300
LINE = "a line of output that a tool printed\n"
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}

ALONE = {"compaction": False, "notes": False, "extraction": False, "dream": False}
"""The layers that cost a model call stay out of it."""

Said = str | Sequence[Mapping[str, Any]]


class Flexible:
    """Settings that a test changes while a session runs."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self.set(**given)

    def set(self, **given: object) -> None:
        self._now = resolve([Layer("code", {**ALONE, **given})]).settings

    def current(self) -> Settings:
        """The settings as of now."""
        return self._now


class Held:
    """A session, everything it tells, and the store it can be opened from again."""

    def __init__(
        self,
        client: Any,
        *,
        model: str,
        clock: VirtualClock,
        log: Log | None = None,
        results: Results | None = None,
        settings: Mapping[str, object] | None = None,
        veto: Callable[[Event], bool] = lambda event: False,
        **options: Any,
    ) -> None:
        self.clock, self.model, self.client, self.events = clock, model, client, list[Event]()
        self.settings = Flexible(settings or {})
        store = opened.in_memory("s-1", self.settings)
        self.store = replace(store, log=log or store.log, results=results or store.results)
        self._veto = veto
        usual = {"system": SYSTEM, "tools": TOOLS, "max_tokens": 1_000, "clock": clock}
        self._options = cast("Options", {**usual, **options})
        self.session = self.opened()

    def opened(self) -> Session:
        """The session from its store: at first a new one, later the same again."""
        options: Options = {**self._options, "listen": [self._hear]}
        engine = opened.conversation(self.store, self.model, options)
        self.session = Session(engine, self.store, self.client)
        return self.session

    def _hear(self, event: Event) -> Veto | None:
        self.events.append(event)
        return Veto("not now") if self._veto(event) else None

    def told(self, kind: str, **fields: Any) -> list[Any]:
        """The events of a kind, with these values."""
        return [
            event
            for event in self.events
            if type(event).__name__ == kind and all(getattr(event, name) == fields[name] for name in fields)
        ]

    def ask(self, seconds: float = 5.0) -> Completion:
        """One request; afterwards a little time has passed."""
        answer = self.session.complete()
        self.clock.advance(seconds)
        return answer

    def run(self, rounds: int, content: Any = LINE * 60, *, seconds: float = 5.0) -> Completion:
        """So many requests; every call gets this result, and a finished turn is followed by new words."""
        for _ in range(rounds):
            answer = self.ask(seconds)
            if answer.calls:
                self.session.tool_results({call.id: content for call in answer.calls})
            else:
                self.session.user("Go on, please.")
        return answer

    def shown(self) -> dict[str, Any]:
        """What each result in view says to the model now, by its call."""
        said: dict[str, Any] = {}
        for message in json.loads(
            b"[" + b",".join(self.session.conversation.transcript.view.encoded()) + b"]"
        ):
            for block in message["content"]:
                if block["type"] == "tool_result":
                    said[block["tool_use_id"]] = block["content"]
        return said

    def cleared(self) -> list[str]:
        """Calls whose results are cleared."""
        return [call for call, said in self.shown().items() if said == "[Old tool result content cleared]"]

    def thoughts(self) -> int:
        """How many reasoning blocks the model gets back."""
        return self.session.conversation.transcript.view.weight.thoughts


def calls(*names: str, thinking: str = "") -> list[dict[str, Any]]:
    """An answer that calls these tools."""
    said: list[dict[str, Any]] = [{"type": "thinking", "thinking": thinking}] if thinking else []
    return [
        *said,
        {"type": "text", "text": "Looking."},
        *({"type": "tool_use", "name": name, "input": {}} for name in names),
    ]


class Billing(OfflineClient):
    """An offline model whose answers are billed as a provider's would be."""

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        reply = super().ask(call, watch)
        usage = Raw(
            bytes(reply.answer.usage).replace(b'"service_tier":"offline"', b'"service_tier":"standard"')
        )
        return replace(reply, answer=replace(reply.answer, usage=usage))


def scripted(*steps: Said, model: str = "claude-opus-4-6", then: Said = "Done.", **options: Any) -> Held:
    """A session whose model plays these steps, then says the same ever after."""
    client = Billing(Script([*steps, *[then] * 200]))
    return Held(client, model=model, clock=VirtualClock(), **options)


def working(prompt_calls: int = 3, thinks: int = 40) -> ScriptedBrain:
    """A model that thinks, calls a tool, and after so many calls finishes its turn."""
    numbers = count(1)

    def reply(prompt: ModelPrompt) -> list[dict[str, Any]]:
        number = next(numbers)
        said: list[dict[str, Any]] = [{"type": "text", "text": f"Part {number}."}]
        if thinks:
            said.insert(0, {"type": "thinking", "thinking": f"step {number} " * thinks, "signature": ""})
        if number % (prompt_calls + 1):
            said.append(
                {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"n": number}}
            )
        return said

    return ScriptedBrain(reply)


@contextmanager
def simulated(
    model: str, brain: ScriptedBrain | None = None, setup: Setup | None = None, **options: Any
) -> Iterator[tuple[Held, Simulator]]:
    """A session with a simulated provider, which refuses whatever the real one would."""
    clock = VirtualClock()
    simulator = Simulator(brain or working(), setup, clock=clock)
    with serve(simulator) as url:
        client = AnthropicClient(api_key="simulated-key", base_url=url, max_retries=0)
        options.setdefault("thinking", {"type": "adaptive"})
        options.setdefault("max_tokens", 16_000)
        held = Held(client, model=model, clock=clock, **options)
        held.session.user("Begin.")
        yield held, simulator
        client.close()
