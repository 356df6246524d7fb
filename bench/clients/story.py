"""The session that a program is driven through, and what a captured request must hold.

The user says a codeword in each message and another one stands in the program's instruction file; the model reads
files, so that the context fills up and the program compacts by itself. The simulated model writes summaries that have
none of it, so what a request has after a compaction came from somewhere else. A fact that only a tool's result has is
looked for with the MCP server's tool after a compaction.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.clients import programs
from sevenfold.lab.simulator.brains import ModelPrompt, Said, SummaryRequest, text, tool_use
from sevenfold.lab.simulator.provider import Received
from sevenfold.record.usage import Usage

TURNS = 7
READS = 3
"""Files that the model reads in each turn."""
LINES = 300
"""Lines of each file: about 7,000 tokens."""
PASTED = 250
"""Lines that the user pastes into each message: together more than Codex keeps of the user's messages."""
INSTRUCTED = "beacon-instructions-4417"
SUMMARY = "The work on the harbour went on and nothing in particular is left to say about it. " * 6
WORDS = ("harbour", "ledger", "tunnel", "kernel", "pier", "schema", "invoice", "window", "parser", "signal")

PlannedCall = Callable[[Sequence[str]], dict[str, Any]]
"""Makes a call, with the tool for it out of those that the program offers."""


class CompactionSeen(Struct, frozen=True):
    """The first request after a compaction, and what should be in it and is not."""

    number: int
    missing: tuple[str, ...]


class CallTokens(Struct, frozen=True):
    """What one call took."""

    new: int
    """Tokens of the prompt that the cache did not hold, written to it or not."""
    cached: int
    output: int

    @classmethod
    def of(cls, usage: Usage) -> CallTokens:
        """The tokens of a recorded call."""
        written = usage.cache_creation_5m + usage.cache_creation_1h
        return cls(usage.input_tokens + written, usage.cache_read_input_tokens, usage.output_tokens)

    @classmethod
    def of_messages(cls, reported: Mapping[str, Any]) -> CallTokens:
        """The tokens as the Messages API reports them."""
        new = reported["input_tokens"] + reported["cache_creation_input_tokens"]
        return cls(new, reported["cache_read_input_tokens"], reported["output_tokens"])

    @classmethod
    def of_codex(cls, reported: Mapping[str, Any]) -> CallTokens:
        """The tokens as Codex records them."""
        cached = reported["cached_input_tokens"]
        return cls(reported["input_tokens"] - cached, cached, reported["output_tokens"])


def codeword(turn: int) -> str:
    """What the user says in a message."""
    return f"beacon-{turn}-{7919 * (turn + 3) % 9973:04}"


def lost_fact() -> str:
    """What stands in the first file alone, far inside."""
    return "berth-registry-93f1c7"


def prepare(client: programs.Client) -> None:
    """Write the files that the model will read, and the instructions of the program."""
    client.work.mkdir(parents=True)
    name = programs.INSTRUCTIONS[client.name]
    (client.work / name).write_text(f"The password of the harbour office is {INSTRUCTED}.\n")
    chance = random.Random(7)
    for number in range(TURNS * READS):
        lines = [f"{line:4}  {_sentence(chance)}" for line in range(LINES)]
        if number == 0:
            lines[LINES // 2] = f"the number of the {lost_fact()} is 5521"
        (client.work / f"log-{number}.txt").write_text("\n".join(lines) + "\n")


def message(turn: int) -> str:
    """What the user says in a turn: a request with a codeword, and a log pasted behind it."""
    chance = random.Random(turn)
    pasted = "\n".join(f"{line:4}  {_sentence(chance)}" for line in range(PASTED))
    return f"The codeword of this request is {codeword(turn)}. Read the next three logs.\n\n{pasted}"


def _sentence(chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(12))


class StoryBrain:
    """Plays the model: does the calls that were planned, and writes summaries that keep nothing."""

    def __init__(self) -> None:
        self.plan: deque[PlannedCall] = deque()

    def answer(self, prompt: ModelPrompt) -> Said:
        """The answer to a request."""
        names = list(tool_names(prompt.tools))
        last = str(prompt.messages[-1]["content"]) if prompt.messages else ""
        if not names or "Respond with TEXT ONLY" in last:
            return SUMMARY
        if self.plan:
            return [self.plan.popleft()(names)]
        return [text("Done; I have read them.")]


def summary(asked: SummaryRequest) -> str:
    """The summary of a provider that compacts itself: it keeps nothing either."""
    return SUMMARY


def tool_names(tools: Sequence[Any]) -> Iterator[str]:
    """The names of the tools that a program offers, those in namespaces behind the namespace's."""
    for tool in tools:
        inner = tool.get("tools")
        if isinstance(inner, list):
            yield from (f"{tool.get('name')}.{member.get('name')}" for member in inner)
        elif tool.get("name"):
            yield str(tool["name"])


def reading(path: Path) -> PlannedCall:
    """A call that reads a file, with the tool that the program offers for it."""

    def call(names: Sequence[str]) -> dict[str, Any]:
        if "Read" in names:
            return dict(tool_use("Read", {"file_path": str(path)}))
        return dict(tool_use("exec_command", {"cmd": f"cat {path}", "max_output_tokens": 20_000}))

    return call


def recalling(query: str) -> PlannedCall:
    """A call of the MCP server's search."""

    def call(names: Sequence[str]) -> dict[str, Any]:
        (name,) = (name for name in names if name.endswith(("recall", "recall_")) and "sevenfold" in name)
        space, _, member = name.rpartition(".")
        block = dict(tool_use(member, {"query": query}))
        return {**block, "namespace": space} if space else block

    return call


def is_summary_request(request: Received) -> bool:
    """Whether a program asks for a summary with this request."""
    if request.path.endswith("/compact"):
        return True
    body = json.loads(request.raw)
    told = (body.get("client_metadata") or {}).get("x-codex-turn-metadata")
    if told and json.loads(told).get("request_kind") == "compaction":
        return True
    messages = body.get("messages") or []
    return bool(messages) and "CRITICAL: Respond with TEXT ONLY" in json.dumps(messages[-1])


def is_turn(request: Received) -> bool:
    """Whether a request is one of the conversation."""
    if not request.path.endswith(("/messages", "/responses")):
        return False
    return bool(json.loads(request.raw).get("tools")) and not is_summary_request(request)


def compactions(requests: Sequence[Received], said: Sequence[int]) -> list[CompactionSeen]:
    """What is missing in the first request after each compaction; ``said`` is how many messages were sent by then."""
    seen: list[CompactionSeen] = []
    waiting = False
    for number, (request, turns) in enumerate(zip(requests, said, strict=True)):
        if is_summary_request(request):
            waiting = True
        elif waiting and is_turn(request):
            waiting = False
            expected = [INSTRUCTED, *(codeword(turn) for turn in range(turns))]
            missing = tuple(word for word in expected if word.encode() not in request.raw)
            seen.append(CompactionSeen(number, missing))
    return seen
