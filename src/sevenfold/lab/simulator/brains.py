"""Brains: the simulator has no model, so a brain decides what the model says.

A brain gets the prompt as the model would see it and returns content blocks; the simulator adds ids, signatures, token
counts and the wire format. The same brain answers on all three APIs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Protocol

from msgspec import Struct

Json = Mapping[str, Any]


class ModelPrompt(Struct, frozen=True):
    """What the model sees."""

    model: str
    system: str
    tools: Sequence[Json]
    messages: Sequence[Json]
    """Messages with content blocks, after everything the server edited."""
    max_tokens: int
    body: Json
    """The request body, for brains that need more."""

    @property
    def last_text(self) -> str:
        """The last words of the user."""
        for message in reversed(self.messages):
            for block in reversed(message["content"]):
                if message["role"] == "user" and block.get("type") == "text":
                    return str(block["text"])
        return ""


class ReportedUsage(Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens to report in place of the simulator's own count; None keeps it."""

    input: int | None = None
    """Tokens of the prompt that were neither read from the cache nor written to it."""
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None


class ModelReply(Struct, frozen=True):
    """What the model says: blocks, and why it stopped if the blocks do not show it."""

    blocks: Sequence[Json]
    stop_reason: str | None = None
    usage: ReportedUsage | None = None


class Brain(Protocol):
    """Anything that can answer."""

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """The model's answer to a prompt."""


Said = str | Sequence[Json] | ModelReply
Step = Said | Callable[[ModelPrompt], Said]


class ScriptExhausted(Exception):
    """The script has no step left for another request."""


class ScriptUnfinished(Exception):
    """The script has steps left."""


class EchoBrain:
    """Repeats the user's words: enough to try a client."""

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """Repeat the user's last words."""
        return ModelReply([text(f"You said: {prompt.last_text or 'nothing in words'}")])


class ScriptedBrain:
    """Plays steps in order: a text, blocks, a whole reply, or a function from prompt to one of these."""

    remedy = "find out who asks once too often"
    """What helps besides a step more, when a script has come to its end."""

    def __init__(self, steps: Iterable[Step] | Callable[[ModelPrompt], Said]) -> None:
        listed = [] if callable(steps) else list(steps)
        self._steps: Iterator[Step] = repeat(steps) if callable(steps) else iter(listed)
        self._count = None if callable(steps) else len(listed)
        self.played = 0

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """The next step's answer."""
        if self.played == self._count:
            raise ScriptExhausted(
                f"the script has {self._count} steps, and this is request {self.played + 1}; "
                f"add a step, or {self.remedy}"
            )
        step = next(self._steps)
        self.played += 1
        return as_reply(step(prompt) if callable(step) else step)

    def check_finished(self) -> None:
        """Raise when steps are left."""
        if self._count is not None and (left := self._count - self.played):
            raise ScriptUnfinished(f"{left} of {self._count} steps were never asked for")


class RecordedBrain(ScriptedBrain):
    """Plays the assistant side of a recorded conversation; the simulator signs its thinking again."""

    def __init__(self, answers: Iterable[Sequence[Json]]) -> None:
        super().__init__([_without_signatures(blocks) for blocks in answers])


def as_reply(said: Said) -> ModelReply:
    """A step's text, blocks or reply as a reply."""
    if isinstance(said, ModelReply):
        return said
    return ModelReply([text(said)]) if isinstance(said, str) else ModelReply(said)


def text(words: str) -> Json:
    """A text block."""
    return {"type": "text", "text": words}


def thinking(words: str) -> Json:
    """A thinking block; the simulator signs it."""
    return {"type": "thinking", "thinking": words}


def tool_use(name: str, given: Mapping[str, Any], call_id: str | None = None) -> Json:
    """A tool call; without an id it gets one."""
    block: dict[str, Any] = {"type": "tool_use", "name": name, "input": dict(given)}
    return block if call_id is None else {**block, "id": call_id}


def _without_signatures(blocks: Sequence[Json]) -> list[Json]:
    return [{key: value for key, value in block.items() if key != "signature"} for block in blocks]


class SummaryRequest(Struct, frozen=True):
    """A conversation to summarise."""

    model: str
    system: str
    messages: Sequence[Json]
    instructions: str | None


class NoSummary(Struct, frozen=True):
    """No summary was made; the stop reason says why."""

    stop_reason: str = "end_turn"


Summarise = Callable[[SummaryRequest], str | NoSummary]


def simulated_summary(request: SummaryRequest) -> str:
    """A summary made without a model: the number of messages, and the beginnings of what the user asked for."""
    asked = [
        " ".join(str(block["text"]).split()[:40])
        for message in request.messages
        if message["role"] == "user"
        for block in message["content"]
        if block.get("type") == "text"
    ]
    lines = [f"[Simulated summary of {len(request.messages)} messages, made without a model]"]
    lines += [f"- asked: {words}" for words in asked[-30:]]
    return "\n".join(lines)
