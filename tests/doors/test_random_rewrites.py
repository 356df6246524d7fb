"""Whatever a program does to its own list, what is sent in its place is never refused, and nothing we did is undone."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from sevenfold import profiles
from sevenfold.clock import RandomIds, SystemClock
from sevenfold.doors.follower.follower import CallEnd, ClientCall
from sevenfold.doors.follower.keeper import KeepingFollower, KeepingOptions
from sevenfold.lab.rules import refusals
from sevenfold.lab.rules.base import RuleFacts
from sevenfold.providers.registry import client_for
from sevenfold.record import blocks
from sevenfold.record.log import Answer
from sevenfold.session.factory import OFFLINE_JOBS
from sevenfold.settings import Settings
from sevenfold.stores.memory import MemoryStore
from tests.support import PROVING

MODEL = "claude-opus-4-6"
TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}]
FILLER = "It was a long day, and the harbour was calm. " * 30
SESSIONS = 1_000 if PROVING else 12
STEPS = 40


class RewritingProgram:
    """A program that keeps a list, and does to it what programs do."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.failures: list[Exception] = []
        self.follower = KeepingFollower(
            MemoryStore(),
            "",
            b"secret",
            KeepingOptions(
                Settings(context_window=10_000),
                client=lambda call, address: client_for(MODEL, None, OFFLINE_JOBS),
                failed=self.failures.append,
            ),
            clock=SystemClock(),
            ids=RandomIds(),
        )
        self.messages: list[dict[str, Any]] = []
        self.number = 0
        self.sent: list[dict[str, Any]] = []

    def name(self) -> str:
        self.number += 1
        return f"toolu_{self.number:04}"

    def say(self) -> None:
        self.messages.append({"role": "user", "content": f"Question {self.number}: {self._words()}"})
        self.number += 1
        self._turn()

    def _turn(self) -> None:
        for _ in range(self.chance.randint(0, 2)):
            names = [self.name() for _ in range(self.chance.randint(1, 3))]
            self._ask([{"type": "tool_use", "id": name, "name": "Read", "input": {}} for name in names])
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": name,
                    "content": f"{name}: {FILLER[: self.chance.randint(1, 900)]}",
                }
                for name in names
            ]
            self.messages.append({"role": "user", "content": results})
        self._ask([{"type": "text", "text": f"Answer {self.number}. {self._words()}"}])

    def _words(self) -> str:
        return FILLER[: self.chance.randint(10, 1_300)]

    def _ask(self, answer: list[dict[str, Any]]) -> None:
        body = {"model": MODEL, "max_tokens": 100, "system": "s", "tools": TOOLS, "messages": self.messages}
        call = ClientCall(
            "messages",
            "/v1/messages",
            {"x-sevenfold-session": "work", "x-api-key": "k"},
            json.dumps(body).encode(),
        )
        followed = self.follower.prepare(call, "http://127.0.0.1:9")
        sent = followed.body or call.body
        self.sent.append(json.loads(sent))
        usage = {"input_tokens": len(sent) // 4, "output_tokens": 50}
        parts = tuple(blocks.read(json.dumps(block).encode()) for block in answer)
        reply = Answer(
            f"msg_{len(self.sent)}", MODEL, parts, msgspec.Raw(json.dumps(usage).encode()), "end_turn"
        )
        self.follower.ended(followed, CallEnd(200, reply))
        self.follower.settle()
        self.messages.append({"role": "assistant", "content": answer})

    # -- what programs do to their own past --------------------------------------------------------

    def _results(self) -> list[dict[str, Any]]:
        lists = [one["content"] for one in self.messages if isinstance(one["content"], list)]
        return [part for parts in lists for part in parts if part["type"] == "tool_result"]

    def clear_a_result(self) -> None:
        if results := self._results():
            self.chance.choice(results)["content"] = "[cleared]"

    def shorten_a_result(self) -> None:
        if results := self._results():
            result = self.chance.choice(results)
            result["content"] = result["content"][: len(result["content"]) // 2]

    def write_blocks_for_text(self) -> None:
        message = self.chance.choice(self.messages)
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]

    def add_a_reminder(self) -> None:
        texts = [one for one in self.messages if isinstance(one["content"], str)]
        if texts:
            message = self.chance.choice(texts)
            reminder = {
                "type": "text",
                "text": f"<system-reminder>The time is {self.number}.</system-reminder>",
            }
            message["content"] = [{"type": "text", "text": message["content"]}, reminder]

    def go_back(self) -> None:
        turns = [place for place, one in enumerate(self.messages) if _begins_turn(one)]
        if len(turns) > 2:
            del self.messages[self.chance.choice(turns[1:]) :]

    def drop_the_oldest(self) -> None:
        turns = [place for place, one in enumerate(self.messages) if _begins_turn(one)]
        if len(turns) > 3:
            del self.messages[: turns[len(turns) // 2]]

    def summarise(self) -> None:
        summary = f"This session is being continued from a previous conversation. Summary {self.number}: all is well."
        self.messages[:] = [{"role": "user", "content": summary}]
        self._turn()

    def results_in_another_order(self) -> None:
        lists = [one["content"] for one in self.messages if isinstance(one["content"], list)]
        for parts in lists:
            if len(parts) > 1 and all(part["type"] == "tool_result" for part in parts):
                self.chance.shuffle(parts)

    def step(self) -> Callable[[], None]:
        rare = (self.go_back, self.drop_the_oldest, self.summarise)
        changes = (
            self.clear_a_result,
            self.shorten_a_result,
            self.write_blocks_for_text,
            self.add_a_reminder,
            self.results_in_another_order,
        )
        if not self.messages or self.chance.random() < 0.6:
            return self.say
        return self.chance.choice(rare if self.chance.random() < 0.2 else changes)


def _begins_turn(message: dict[str, Any]) -> bool:
    content = message["content"]
    if message["role"] != "user":
        return False
    return isinstance(content, str) or all(part["type"] == "text" for part in content)


def _texts(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"])


@pytest.mark.spec("S40.5")
@pytest.mark.parametrize("seed", range(SESSIONS))
def test_no_rewriting_of_a_list_leads_to_a_request_that_is_refused(seed: int) -> None:
    program = RewritingProgram(seed)
    facts = RuleFacts.of(profiles.find(MODEL))
    done: list[str] = []
    for _ in range(STEPS):
        step = program.step()
        done.append(step.__name__)
        step()
    program.say()
    program.follower.close()
    for sent in program.sent:
        assert refusals(sent["messages"], facts=facts, tools=TOOLS, system="s") == [], done
    assert program.failures == [], done
