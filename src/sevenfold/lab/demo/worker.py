"""The process the agent lives in: `sevenfold.Agent` with the standard tools, told what to do over a pipe.

It is a process of its own so that it can be killed. Time stands still but for what each answer takes, as it does at
the simulated provider, and records get the same names in every run: that makes the figures repeatable. For the same
reason the agent lets work beside the conversation (its notes) come to an end before it uses the next tool.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from random import Random
from typing import Any

import anthropic

import sevenfold
from sevenfold.agent.events import AgentEvent, Ended, Happened, ToolEnded
from sevenfold.agent.hooks.registry import Hooks
from sevenfold.clock import ManualClock
from sevenfold.events import Acted, Answered, Event
from sevenfold.lab.demo import facts, protocol
from sevenfold.lab.demo.protocol import Begin, Judge, Layer, Over, Ready, Say, Told, Turned, Used
from sevenfold.lab.simulator.tokens import Counter
from sevenfold.profiles import find

TURN_SECONDS = 8.0
"""What an answer takes."""
SESSION = "demo"
KEY = "simulated-key"
_PATIENCE = 60.0
"""How long work beside the conversation is waited for, so that runs repeat."""


class SeededIds:
    """UUIDs that are the same in every run, and others in every life."""

    def __init__(self, life: int) -> None:
        self._chance = Random(f"ids {life}")

    def new(self) -> str:
        """The next one."""
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))


class Worker:
    """An agent, and what is told of it."""

    def __init__(self, place: Begin, tell: Callable[[Told], None]) -> None:
        self._tell = tell
        self._clock = ManualClock()
        self._tokenizer = find(place.model).tokenizer
        self._counter = Counter()
        self._sdk = anthropic.Anthropic(base_url=place.url, api_key=KEY, max_retries=0)
        hooks = Hooks(project_dir=place.folder)
        hooks.add("PreToolUse", lambda event: self._agent.session.settle(_PATIENCE))
        self._agent = sevenfold.Agent(
            place.model,
            name=SESSION,
            folder=place.folder,
            mode="autonomous",
            client=self._sdk,
            clock=self._clock,
            ids=SeededIds(place.life),
            hooks=hooks,
            settings=place.settings,
            thinking={"type": "adaptive"},
        )
        core = self._agent.session.core
        tell(Ready(core.window.threshold, resumed=len(core.transcript.view) > 0))

    def say(self, said: Say) -> None:
        """Work until there is nothing left to do."""
        self._clock.advance(said.now - self._clock.now())
        for event in self._agent.stream(said.text):
            self._hear(event)

    def judge(self, wanted: Judge) -> None:
        """Tell what became of the facts."""
        recall = self._agent.assembly.store.recall
        self._tell(facts.judged(self._agent.session.core, recall, wanted.facts))

    def close(self) -> None:
        """Leave everything in order."""
        self._agent.close()
        self._sdk.close()

    def _hear(self, event: AgentEvent) -> None:
        match event:
            case Happened(event=engine):
                self._hear_engine(engine)
            case ToolEnded(call=call, output=output):
                result = {"type": "tool_result", "content": output.content}
                tokens = self._counter.tokens(self._counter.measure(result), self._tokenizer)
                self._tell(Used(call.name, _about(call.input), tokens))
            case Ended(finished=finished):
                self._agent.session.settle(_PATIENCE)
                self._tell(Over(finished.end, finished.text))
            case _:
                pass

    def _hear_engine(self, event: Event) -> None:
        match event:
            case Answered(source="main"):
                self._clock.advance(TURN_SECONDS)
                prompt = event.input_tokens + event.cache_read_tokens + event.cache_write_tokens
                self._tell(Turned(prompt, event.output_tokens))
            case Acted(layer=layer, what=what, why=why, tokens_before=before, tokens_after=after):
                self._tell(Layer(layer, what, why, before, after))
            case _:
                pass


def _about(given: Any) -> str:
    """What a call is about, in a few words."""
    if not isinstance(given, dict):
        return ""
    return str(next((given[key] for key in ("path", "command", "query", "pattern") if given.get(key)), ""))


def main() -> int:
    """Carry out commands until there are none left."""
    out = sys.stdout.buffer
    worker: Worker | None = None

    def tell(told: Told) -> None:
        out.write(protocol.line(told))
        out.flush()

    for line in sys.stdin.buffer:
        command = protocol.read_command(line)
        match command:
            case Begin():
                worker = Worker(command, tell)
            case Say() if worker:
                worker.say(command)
            case Judge() if worker:
                worker.judge(command)
            case _:
                break
    if worker:
        worker.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
