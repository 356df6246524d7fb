"""Finds thinking and tool calls that a model wrote into its text, in tags or fences.

Servers that do not know a model's chat template pass such text through. Text is passed on as soon as it cannot be the
beginning of a tag; a tag may be split anywhere between two pieces of a stream.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import msgspec
from msgspec import Struct

from sevenfold.ports import Piece
from sevenfold.record.decoding import NOT_JSON

THINK = "<think>"
THOUGHT = "</think>"
CALL = "<tool_call>"
CALLED = "</tool_call>"
_FENCED = re.compile(r"\s*```(?:json|tool_call)?[ \t]*\n(.*?)\n\s*```\s*", re.S)


class WrittenCall(Struct, frozen=True):
    """A tool call, or a part of one that is still arriving."""

    name: str | None = None
    arguments: str | None = None
    """The arguments as JSON."""


class InlineTagParser:
    """Splits the text of an answer, as it arrives, into text, thinking and possible tool calls."""

    def __init__(self) -> None:
        self._rest = ""
        self._end = ""
        """The tag that ends the current thinking or call; empty in text."""
        self._spoke = False

    def feed(self, words: str) -> Iterator[Piece]:
        """Process more text; yields the pieces that are certain: text, thinking, or a complete call."""
        self._rest += words
        while self._rest:
            tags = [self._end or CALL]
            start = self._rest.lstrip()
            if not self._end and not self._spoke and (start.startswith(THINK) or THINK.startswith(start)):
                # Thinking comes first or not at all: later, the tag is something the model writes about.
                tags.append(THINK)
            found = [(self._rest.index(tag), tag) for tag in tags if tag in self._rest]
            if not found:
                break
            place, tag = min(found)
            yield from self._out(self._rest[:place])
            self._rest = self._rest[place + len(tag) :]
            self._end = {THINK: THOUGHT, CALL: CALLED}.get(tag, "")
        if self._rest and self._end != CALLED:
            sure = len(self._rest) - max(_overlap(self._rest, tag) for tag in tags)
            yield from self._out(self._rest[:sure])
            self._rest = self._rest[sure:]

    def end(self) -> Iterator[Piece]:
        """The rest, when the answer ends; an unfinished call becomes text again, as it was written."""
        rest = self._rest
        self._rest = ""
        if self._end == CALLED:
            self._end = ""
            rest = CALL + rest
        yield from self._out(rest)

    def _out(self, words: str) -> Iterator[Piece]:
        if self._end == CALLED:
            yield Piece("call", words)
        elif self._end:
            yield from [Piece("thinking", words)] if words else []
        else:
            # Blank lines between thinking and the answer belong to neither.
            words = words if self._spoke else words.lstrip()
            self._spoke = self._spoke or bool(words)
            yield from [Piece("text", words)] if words else []


def call_in(words: str) -> WrittenCall | None:
    """The tool call in a JSON text, as in the Hermes, Qwen and Llama templates; None if it is not one."""
    try:
        said = msgspec.json.decode(words.strip())
    except NOT_JSON:
        return None
    said = said.get("function", said) if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(said.get("name"), str):
        return None
    given = next((said[key] for key in ("arguments", "parameters") if key in said), None)
    if isinstance(given, dict):
        return WrittenCall(said["name"], msgspec.json.encode(given).decode())
    return WrittenCall(said["name"], given) if isinstance(given, str) else None


def only_call(words: str, tools: Collection[str]) -> WrittenCall | None:
    """The call of one of these tools, if the answer is nothing else, bare or fenced; next to prose it is an example."""
    fence = _FENCED.fullmatch(words)
    found = call_in(fence[1] if fence else words) if "{" in words else None
    return found if found is not None and found.name in tools else None


def _overlap(words: str, tag: str) -> int:
    """How many characters at the end of the text may be the beginning of a tag."""
    return next((size for size in range(len(tag) - 1, 0, -1) if words.endswith(tag[:size])), 0)
