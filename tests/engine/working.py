"""Long sessions held with the simulator over HTTP, in which notes are kept and the conversation is compacted."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anthropic

import sevenfold
from sevenfold.events import Event, Veto
from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply, ScriptedBrain
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.layers.compact.offline import summarise, take_notes
from sevenfold.ports import Call, Watcher
from sevenfold.ports import Reply as Answered
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.session.session import Completion
from tests.engine.stage import stage

BOUND, FREE = "claude-sonnet-5-5", "claude-opus-4-6"
"""A model whose reasoning is bound to what precedes it, and one whose is not."""
MODELS = (BOUND, FREE)
QUIET = {
    "notes": False,
    "background_compaction": False,
    "provider_edits": False,
    "size_clearing": False,
    "gap_clearing": False,
    "keep_warm": False,
}
"""Nothing but compaction, unless a test asks for more."""
SYSTEM = "You are a careful assistant. " * 200
ASKED = "Port the billing service. Never touch config/prod.yaml, and keep port 8443."
LINE = "a line of output that a tool printed, with nothing in it that matters\n"

Said = str | Sequence[Mapping[str, Any]] | ModelReply
Answer = Callable[[ModelPrompt], Said]


def tool(name: str, kind: str) -> Any:
    schema = {"name": name, "description": f"{name} something. " * 20, "input_schema": {"type": "object"}}
    return sevenfold.tool(schema, kind=kind)


TOOLS = [tool("Read", "read"), tool("Edit", "edit"), tool("Ask", "")]


def wants_summary(prompt: ModelPrompt) -> bool:
    return "<summary>" in prompt.last_text and "<analysis>" in prompt.last_text


def wants_notes(prompt: ModelPrompt) -> bool:
    return "session notes below" in prompt.last_text


def summarised(prompt: ModelPrompt) -> str:
    return summarise({"messages": prompt.messages})


def noted(prompt: ModelPrompt) -> str:
    return take_notes({"messages": prompt.messages})


class Mind:
    """A model that reads and edits files, and writes summaries and notes when it is asked to.

    Who it is asked by can be seen, and each of its jobs can be given to somebody else.
    """

    def __init__(self, *, summary: Answer = summarised, notes: Answer = noted, thinks: bool = True) -> None:
        self.summary, self.notes = summary, notes
        self.asked: list[str] = []
        self._thinks = thinks
        self._numbers = count(1)

    def brain(self) -> ScriptedBrain:
        return ScriptedBrain(self.reply)

    def reply(self, prompt: ModelPrompt) -> Said:
        if wants_summary(prompt):
            self.asked.append("summary")
            return self.summary(prompt)
        if wants_notes(prompt):
            self.asked.append("notes")
            return self.notes(prompt)
        self.asked.append("main")
        return self._work()

    def _work(self) -> list[dict[str, Any]]:
        number = next(self._numbers)
        said: list[dict[str, Any]] = [{"type": "thinking", "thinking": f"step {number}", "signature": ""}]
        said = said if self._thinks else []
        said.append({"type": "text", "text": f"Looking at part {number}."})
        name, given = ("Edit", {"path": f"src/part{number}.py", "old": "a", "new": "b"})
        if number % 3:
            name, given = ("Read", {"path": f"src/part{number}.py"})
        said.append({"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given})
        return said


class Line:
    """A client of the official SDK in whose way one can stand: what is not for the main thread can be held up."""

    def __init__(self, sdk: anthropic.Anthropic) -> None:
        self._client = AnthropicClient(sdk)
        self.free = threading.Event()
        self.free.set()
        self.before: Callable[[Call], None] = lambda call: None
        self.sources: list[str] = []

    def ask(self, call: Call, watch: Watcher | None = None) -> Answered:
        self.sources.append(call.source)
        self.before(call)
        if call.source != "main":
            assert self.free.wait(30), "nobody let go"
        return self._client.ask(call, watch)

    def close(self) -> None:
        self.free.set()


class World:
    """A simulated provider, a client of the official SDK, a clock, and what sessions told."""

    def __init__(self, url: str, simulator: Simulator, clock: VirtualClock, mind: Mind) -> None:
        self.url, self.simulator, self.clock, self.mind = url, simulator, clock, mind
        self.sdk = anthropic.Anthropic(api_key="simulated-key", base_url=url, max_retries=0)
        self.line = Line(self.sdk)
        self.events: list[Event] = []
        self.veto: Callable[[Event], bool] = lambda event: False

    def hear(self, event: Event) -> Veto | None:
        self.events.append(event)
        return Veto("not now") if self.veto(event) else None

    def told(self, kind: type[Event], **fields: Any) -> list[Any]:
        return [
            event
            for event in self.events
            if isinstance(event, kind) and all(getattr(event, name) == fields[name] for name in fields)
        ]

    def options(self, **more: Any) -> dict[str, Any]:
        given = {
            "model": BOUND,
            "system": SYSTEM,
            "tools": TOOLS,
            "client": self.line,
            "clock": self.clock,
            "listen": [self.hear],
            "thinking": {"type": "adaptive"},
            "max_tokens": 4_000,
            **more,
            "settings": {**QUIET, "context_window": 32_000, **more.get("settings", {})},
        }
        return {name: value for name, value in given.items() if value is not None}

    def session(self, **more: Any) -> sevenfold.Session:
        return sevenfold.Session.in_memory(**self.options(**more))

    def open(self, file: Path, **more: Any) -> sevenfold.Session:
        return sevenfold.Session.open("s", file=file, folder=file.parent, **self.options(**more))

    @property
    def bodies(self) -> list[bytes]:
        """Every request that was answered, as it came over the wire."""
        return [request.raw for request in self.simulator.requests.answered()]

    def work(self, session: sevenfold.Session, turns: int, size: int = 2_000) -> Completion:
        """So many requests, the calls of each given results of so many characters."""
        for _ in range(turns):
            done = session.complete()
            self.answer(session, done, size)
        return done

    def answer(self, session: sevenfold.Session, done: Completion, size: int = 2_000) -> None:
        self.clock.advance(5)
        if done.calls:
            session.tool_results({call.id: output(size) for call in done.calls})


@contextmanager
def world(mind: Mind | None = None, setup: Setup | None = None, **more: Any) -> Iterator[World]:
    clock, mind = VirtualClock(), mind or Mind()
    simulator = Simulator(mind.brain(), setup, clock=clock, **more)
    with stage().serve(simulator) as url:
        made = World(url, simulator, clock, mind)
        yield made
        made.line.close()
        made.sdk.close()


def output(size: int = 2_000) -> str:
    return (LINE * (size // len(LINE) + 1))[:size]


def begun(here: World, turns: int = 6, size: int = 2_000, **more: Any) -> sevenfold.Session:
    """A session that has already worked for a while."""
    session = here.session(**more)
    session.user(ASKED)
    here.work(session, turns, size)
    return session


def body(session: sevenfold.Session) -> bytes:
    return session.prepare().body


def messages(raw: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(raw)["messages"]
    return found


def texts(raw: bytes) -> str:
    """All words in the messages of a request."""
    return json.dumps(messages(raw), ensure_ascii=False)


def uuids(session: sevenfold.Session) -> list[str]:
    return [item.record.uuid for item in session.conversation.transcript.view.items]


def rounds_of(session: sevenfold.Session) -> list[str]:
    """The records rounds begin with."""
    view = session.conversation.transcript.view
    return [
        item.record.uuid
        for item in view.items
        if item.record.role == "assistant" and view.begins_round(item.record.uuid)
    ]


def lines(session: sevenfold.Session) -> list[bytes]:
    return [line for _, line in session.conversation.transcript.log.read()]
