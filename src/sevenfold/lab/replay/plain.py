"""A conversation as most programs keep it: a list of messages, which a policy may shorten before each request.

The requests have the markers that such programs set: one after the system prompt, and one at each of the last two
messages of the user's side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.lab.replay.prose import text_of
from sevenfold.lab.replay.provider import COMPACT, ReplayProvider
from sevenfold.lab.replay.recording import RecordedStep, Recording
from sevenfold.record.blocks import THINKING, Block

Json = dict[str, Any]
MARKER: Mapping[str, str] = {"type": "ephemeral"}
DESCRIPTION = "What this tool is for, what it takes, and when to use it."
LEFT_OUT = "[Earlier messages were left out.]"
CLEARED = "[This result was removed to save space.]"
INSTRUCTION = (
    "Summarise the conversation so far in detail, so that the work can be continued from the summary alone."
)


class PlainRound(Struct):
    """What the model was given, and its answer."""

    incoming: list[Json]
    answer: list[Json] = []
    """Empty until it has answered."""
    tokens: int | None = None
    """Its size, once it is known; None after a change."""


class PlainConversation:
    """The messages that a program keeps, and its requests."""

    def __init__(self, recording: Recording, provider: ReplayProvider) -> None:
        self.provider = provider
        self.head: list[Json] = []
        """What replaces the summarised rounds at the beginning."""
        self.rounds: list[PlainRound] = []
        self.announced = False
        """Whether the policy changed what had been sent since the last request."""
        self.answered_at: float | None = None
        tokenizer = provider.profile.tokenizer
        self._system = [
            {"type": "text", "text": text_of(recording.opening, tokenizer), "cache_control": MARKER}
        ]
        self._tools = [tool_schema(name) for name in recording.tools]
        self._opening = provider.tokens(self._system, "system")
        if self._tools:
            self._opening += provider.tokens(self._tools, "tools")
            self._opening += provider.simulator.scales.counter.tool_prompt

    def give(self, step: RecordedStep) -> None:
        """Add the input of a step."""
        incoming = [decoded(block) for block in (*step.results, *step.user_content, *step.notes)]
        self.rounds.append(PlainRound(incoming))

    def complete(self) -> None:
        """Send the next request and add its answer; raises `ApiError` if it does not fit the window."""
        message = self.provider.ask(self.request(self.messages()))
        newest = self.rounds[-1]
        newest.answer = list(message["content"])
        newest.tokens = None
        self.answered_at = self.provider.clock.now()

    def summarise(self, rounds: int, *, shares_cache: bool) -> str:
        """Have the model summarise the first ``rounds``, and return its text.

        With ``shares_cache``, the request is the session's own with an instruction behind it, so that it is read from
        the cache; otherwise it is a request of its own.
        """
        instruction = {"type": "text", "text": INSTRUCTION}
        if shares_cache:
            messages = marked(self.messages(rounds))
            messages[-1] = {**messages[-1], "content": [*messages[-1]["content"], instruction]}
            body = self.request(messages, is_marked=True)
        else:
            messages = _for_reading(self.messages(rounds))
            # Calls may only be in a request that has their tools.
            body = {
                "model": self.provider.profile.model,
                "max_tokens": self.provider.max_tokens,
                "tools": self._tools,
                "messages": [*messages, {"role": "user", "content": [instruction]}],
            }
        message = self.provider.ask(body, source=COMPACT)
        return "\n".join(block["text"] for block in message["content"] if block["type"] == "text")

    def request(self, messages: list[Json], *, is_marked: bool = False) -> Json:
        """The body of a request."""
        body: Json = {
            "model": self.provider.profile.model,
            "max_tokens": self.provider.max_tokens,
            "system": self._system,
            "messages": messages if is_marked else marked(messages),
        }
        if self._tools:
            body["tools"] = self._tools
        if self.provider.thinking is not None:
            body["thinking"] = self.provider.thinking
        return body

    def messages(self, rounds: int | None = None) -> list[Json]:
        """The messages as they are sent, or those of the first ``rounds`` alone."""
        listed: list[Json] = [{"role": "user", "content": list(self.head)}] if self.head else []
        for plain_round in self.rounds[:rounds]:
            if plain_round.incoming:
                listed.append({"role": "user", "content": plain_round.incoming})
            if plain_round.answer:
                listed.append({"role": "assistant", "content": plain_round.answer})
        return listed

    # -- what policies do ------------------------------------------------------------------------

    def size(self) -> int:
        """The tokens of the next prompt."""
        head = self.provider.tokens(self.head, "user") if self.head else 0
        return self._opening + head + sum(map(self.size_of, self.rounds))

    def size_of(self, plain_round: PlainRound) -> int:
        """The tokens of a round."""
        if plain_round.tokens is None:
            answered = self.provider.tokens(plain_round.answer, "assistant") if plain_round.answer else 0
            plain_round.tokens = answered + (
                self.provider.tokens(plain_round.incoming, "user") if plain_round.incoming else 0
            )
        return plain_round.tokens

    def tool_names(self) -> Mapping[str, str]:
        """The tool of each call."""
        answered = chain.from_iterable(plain_round.answer for plain_round in self.rounds)
        return {block["id"]: block["name"] for block in answered if block["type"] == "tool_use"}

    def drop(self, rounds: int) -> None:
        """Leave out the first rounds; a result stays only with its call."""
        self.rounds = self.rounds[rounds:]
        first = self.rounds[0]
        remaining = [block for block in first.incoming if block["type"] != "tool_result"]
        first.incoming = remaining or [{"type": "text", "text": LEFT_OUT}]
        first.tokens = None
        self.altered()

    def replace(self, rounds: int, blocks: Iterable[Json]) -> None:
        """Put these blocks in the place of the first rounds; an answer stays if what follows has the results for it."""
        answer = self.rounds[rounds - 1].answer
        self.head = list(blocks)
        self.rounds = self.rounds[rounds:]
        if self.rounds and any(block["type"] == "tool_result" for block in self.rounds[0].incoming):
            self.rounds.insert(0, PlainRound([], answer))
        self.altered()

    def forget_rounds(self) -> None:
        """Continue from only what precedes the rounds."""
        self.rounds = [PlainRound([])]

    def clear(self, keep: int, *, tools: Mapping[str, str] | None = None) -> None:
        """Clear all results but the newest ``keep``; with ``tools``, only results of tools with a kind."""
        names = self.tool_names()
        results: list[tuple[PlainRound, int]] = []
        for plain_round in self.rounds:
            for index, block in enumerate(plain_round.incoming):
                if block["type"] == "tool_result" and (
                    tools is None or names.get(block["tool_use_id"]) in tools
                ):
                    results.append((plain_round, index))
        for plain_round, index in results[: max(0, len(results) - keep)]:
            block = plain_round.incoming[index]
            if block.get("content") != CLEARED:
                plain_round.incoming[index] = {**block, "content": CLEARED}
                plain_round.tokens = None
                self.altered()

    def altered(self) -> None:
        """Note that what had been sent was changed; thinking that was bound to it is no longer valid."""
        self.announced = True
        if self.provider.profile.thinking.bound:
            for plain_round in self.rounds:
                plain_round.answer = [
                    block for block in plain_round.answer if block["type"] not in THINKING
                ]
                plain_round.tokens = None


def marked(messages: list[Json]) -> list[Json]:
    """The messages with a cache marker at each of the last two of the user's side."""
    user_indices = [index for index, message in enumerate(messages) if message["role"] == "user"][-2:]
    result = list(messages)
    for index in user_indices:
        *earlier_blocks, last_block = result[index]["content"]
        result[index] = {
            "role": "user",
            "content": [*earlier_blocks, {**last_block, "cache_control": MARKER}],
        }
    return result


def tool_schema(name: str) -> Json:
    """The definition of a tool."""
    return {"name": name, "description": DESCRIPTION, "input_schema": {"type": "object"}}


def decoded(block: Block) -> Json:
    """A block as JSON, without a cache marker of the recorded request."""
    fields: Json = msgspec.json.decode(block.raw)
    fields.pop("cache_control", None)
    return fields


def _for_reading(messages: list[Json]) -> list[Json]:
    """The messages as they are shown to be summarised: without thinking, and without calls that have no result yet."""
    hidden = [THINKING] * (len(messages) - 1) + [{*THINKING, "tool_use"}]
    shown = []
    for message, kinds in zip(messages, hidden, strict=True):
        content = [block for block in message["content"] if block["type"] not in kinds]
        if content:
            shown.append({"role": message["role"], "content": content})
    return shown
