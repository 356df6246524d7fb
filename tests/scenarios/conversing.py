"""A conversation with the simulator, over a socket, through the official SDK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, pairwise
from typing import Any

from sevenfold.clock import RandomIds
from sevenfold.conversation.flow import drive
from sevenfold.conversation.request import Outcome
from sevenfold.conversation.transcript import Transcript
from sevenfold.conversation.turn import turn
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.invariant import extends
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.ports import Log
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.record import blocks
from sevenfold.record.log import Place
from sevenfold.request.frame import Frame
from sevenfold.stores.memory import MemoryLog
from tests.support import bare_conversation

TOOLS = [
    {"name": name, "description": f"{name} something. " * 20, "input_schema": {"type": "object"}}
    for name in ("Read", "Grep", "Shell")
]
SYSTEM = ("You are a careful assistant. " * 300, "Facts of this session. " * 200)


class Conversation:
    """A session that is being held."""

    def __init__(self, url: str, simulator: Simulator, model: str, log: Log, **frame: Any) -> None:
        clock = simulator.clock
        assert isinstance(clock, VirtualClock)
        self.url, self.simulator, self.clock, self.model = url, simulator, clock, model
        self.script = Transcript(log, Place("s-1"), clock=clock, ids=RandomIds())
        made = Frame.of(
            model, 4_000, system=[blocks.text(part).raw for part in SYSTEM], tools=TOOLS, **frame
        )
        self.exchange = bare_conversation(self.script, made, clock)
        self.client = AnthropicClient(api_key="simulated-key", base_url=url, max_retries=0)
        self.outcomes: list[Outcome] = []

    def say(self, words: str) -> Outcome:
        """The user speaks, the model answers, and the answer's calls get results."""
        self.script.user([blocks.text(words)])
        return self.ask()

    def ask(self) -> Outcome:
        outcome = drive(turn(self.exchange), self.client)
        self.outcomes.append(outcome)
        for call in self.script.view.pending_calls:
            self.script.user([blocks.result(call, f"result of {call}: " + "some lines of output\n" * 60)])
        self.clock.advance(5)
        return outcome

    def moved(self) -> list[str]:
        """What moved between one request and the next, cache markers aside."""
        bodies = [request.raw for request in self.simulator.requests]
        return [moved for before, now in pairwise(bodies) if (moved := extends(before, now))]


def busy_brain() -> ScriptedBrain:
    """A model that thinks, says something and reads a file or two, every time."""
    numbers = count(1)

    def reply(prompt: ModelPrompt) -> list[dict[str, Any]]:
        number = next(numbers)
        calls = [
            {
                "type": "tool_use",
                "id": f"toolu_{number}_{each}",
                "name": "Read",
                "input": {"path": f"src/{number}.py"},
            }
            for each in range(1 + number % 2)
        ]
        thought = {"type": "thinking", "thinking": f"step {number}", "signature": ""}
        return [thought, {"type": "text", "text": f"Looking at part {number}."}, *calls]

    return ScriptedBrain(reply)


@contextmanager
def conversation(
    model: str = "claude-sonnet-5-5", log: Log | None = None, **frame: Any
) -> Iterator[Conversation]:
    """A session with a simulator of its own."""
    simulator = Simulator(busy_brain(), clock=VirtualClock())
    with serve(simulator) as url:
        held = Conversation(url, simulator, model, log or MemoryLog(), **frame)
        yield held
        held.client.close()
