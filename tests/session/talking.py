"""Sessions held with the simulator: over a socket, through the official SDK, on files or in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import anthropic

import sevenfold
from sevenfold.events import Event, Veto
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.invariant import extends
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.session.session import Completion

BOUND, FREE, OLD = "claude-sonnet-5-5", "claude-opus-4-6", "claude-haiku-4-5"
"""A model with bound thinking that takes additions; one with neither; one without adaptive thinking."""
ADAPTIVE = {"type": "adaptive"}
ALONE = {"notes": False, "background_compaction": False, "auto_compact": False, "model_listing": False}
"""Nothing that asks a server by itself: what is tested here is the session."""
SYSTEM = "You are a careful assistant. " * 600


def schema(name: str, says: str = "does something") -> dict[str, Any]:
    return {"name": name, "description": f"{name} {says}. " * 30, "input_schema": {"type": "object"}}


READ = sevenfold.tool(schema("Read"), kind="read")
SHELL = sevenfold.tool(schema("Shell"), kind="shell")
ASK = sevenfold.tool(schema("Ask"))
TOOLS = [READ, SHELL, ASK]


def reader(calls: int = 1, *, thinks: bool = True) -> ScriptedBrain:
    """A model that thinks, says something and looks at so many files, every time."""
    numbers = count(1)

    def reply(prompt: ModelPrompt) -> list[dict[str, Any]]:
        number = next(numbers)
        said: list[dict[str, Any]] = [{"type": "thinking", "thinking": f"step {number}", "signature": ""}]
        said = said if thinks else []
        said.append({"type": "text", "text": f"Looking at part {number}."})
        for each in range(calls):
            name = f"toolu_{number}_{each}"
            said.append(
                {"type": "tool_use", "id": name, "name": "Shell", "input": {"command": f"cat {number}.py"}}
            )
        return said

    return ScriptedBrain(reply)


def talker() -> ScriptedBrain:
    """A model that thinks and answers in words."""
    return reader(0)


class World:
    """A simulated provider, a client of the official SDK, a clock, and what sessions told."""

    def __init__(self, url: str, simulator: Simulator, clock: VirtualClock) -> None:
        self.url, self.simulator, self.clock = url, simulator, clock
        self.sdk = anthropic.Anthropic(api_key="simulated-key", base_url=url, max_retries=0)
        self.events: list[Event] = []

    def hear(self, event: Event) -> Veto | None:
        self.events.append(event)
        return None

    def told(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def options(self, **more: Any) -> dict[str, Any]:
        given = {
            "model": BOUND,
            "system": SYSTEM,
            "tools": TOOLS,
            "client": self.sdk,
            "clock": self.clock,
            "listen": [self.hear],
            "thinking": ADAPTIVE,
            **more,
            "settings": {**ALONE, **more.get("settings", {})},
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

    def moved(self) -> list[str]:
        """What moved between one request and the next, cache markers aside."""
        return [moved for before, now in pairwise(self.bodies) if (moved := extends(before, now))]


@contextmanager
def world(brain: ScriptedBrain | None = None, setup: Setup | None = None) -> Iterator[World]:
    clock = VirtualClock()
    simulator = Simulator(brain or reader(), setup, clock=clock)
    with serve(simulator) as url:
        made = World(url, simulator, clock)
        yield made
        made.sdk.close()


def streamed(body: bytes) -> bytes:
    """A body as our own clients put it on the wire."""
    return body[:-1] + b',"stream":true}'


def output(words: str = "a line of output\n", times: int = 40) -> str:
    return words * times


def answer(session: sevenfold.Session, done: Completion, text: str | None = None) -> None:
    """Give every call of an answer its result."""
    if done.calls:
        session.tool_results({call.id: output() if text is None else text for call in done.calls})


def work(
    session: sevenfold.Session, turns: int, text: str | None = None, *, clock: Any = None
) -> Completion:
    """So many requests, each answered, the calls of each given results."""
    for _ in range(turns):
        done = session.complete()
        answer(session, done, text)
        if clock is not None:
            clock.advance(5)
    return done


def said(body: bytes) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = json.loads(body)["messages"]
    return messages


def kinds_of(body: bytes) -> list[str]:
    return [block["type"] for message in said(body) for block in message["content"]]


def uuids(session: sevenfold.Session) -> list[str]:
    return [item.record.uuid for item in session.conversation.transcript.view.items]


def fake_reply(
    *blocks: dict[str, Any], number: int = 1, prompt: int = 1_000, **more: Any
) -> dict[str, Any]:
    """An answer as a provider sends it."""
    content: Sequence[dict[str, Any]] = blocks or [{"type": "text", "text": f"answer {number}"}]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": BOUND,
        "content": list(content),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": prompt, "output_tokens": 10},
        **more,
    }


def calling(name: str, tool: str = "Shell", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def thought(words: str = "hm") -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": "s" * 40}


def alone(**more: Any) -> sevenfold.Session:
    """A session whose answers the test gives itself."""
    given = {"model": BOUND, "tools": TOOLS, "max_tokens": 4_000, **more}
    return sevenfold.Session.in_memory(**{**given, "settings": {**ALONE, **more.get("settings", {})}})


def hear(session: sevenfold.Session, reply: dict[str, Any]) -> bytes:
    """Look at the next request and give its answer; returns the body."""
    body = session.prepare().body
    session.observe(reply)
    return body
