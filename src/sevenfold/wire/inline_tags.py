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
        self._undecided = ""
        self._end = ""
        """The tag that ends the current thinking or call; empty in text."""
        self._spoke = False

    def feed(self, text: str) -> Iterator[Piece]:
        """Process more text; yields the pieces that are certain: text, thinking, or a complete call."""
        self._undecided += text
        while self._undecided:
            tags = [self._end or CALL]
            start = self._undecided.lstrip()
            if not self._end and not self._spoke and (start.startswith(THINK) or THINK.startswith(start)):
                # Thinking comes first or not at all: later, the tag is something the model writes about.
                tags.append(THINK)
            present = (tag for tag in tags if tag in self._undecided)
            occurrences = [(self._undecided.index(tag), tag) for tag in present]
            if not occurrences:
                break
            position, tag = min(occurrences)
            yield from self._out(self._undecided[:position])
            self._undecided = self._undecided[position + len(tag) :]
            self._end = {THINK: THOUGHT, CALL: CALLED}.get(tag, "")
        if self._undecided and self._end != CALLED:
            sure = len(self._undecided) - max(_overlap(self._undecided, tag) for tag in tags)
            yield from self._out(self._undecided[:sure])
            self._undecided = self._undecided[sure:]

    def end(self) -> Iterator[Piece]:
        """The rest, when the answer ends; an unfinished call becomes text again, as it was written."""
        unfinished = self._undecided
        self._undecided = ""
        if self._end == CALLED:
            self._end = ""
            unfinished = CALL + unfinished
        yield from self._out(unfinished)

    def _out(self, text: str) -> Iterator[Piece]:
        if self._end == CALLED:
            yield Piece("call", text)
        elif self._end:
            yield from [Piece("thinking", text)] if text else []
        else:
            # Blank lines between thinking and the answer belong to neither.
            text = text if self._spoke else text.lstrip()
            self._spoke = self._spoke or bool(text)
            yield from [Piece("text", text)] if text else []


def call_in(text: str) -> WrittenCall | None:
    """The tool call in a JSON text, as in the Hermes, Qwen and Llama templates; None if it is not one."""
    try:
        fields = msgspec.json.decode(text.strip())
    except NOT_JSON:
        return None
    fields = fields.get("function", fields) if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or not isinstance(fields.get("name"), str):
        return None
    arguments = next((fields[key] for key in ("arguments", "parameters") if key in fields), None)
    if isinstance(arguments, dict):
        return WrittenCall(fields["name"], msgspec.json.encode(arguments).decode())
    return WrittenCall(fields["name"], arguments) if isinstance(arguments, str) else None


def only_call(answer: str, tools: Collection[str]) -> WrittenCall | None:
    """The call of one of these tools, if the answer is nothing else, bare or fenced; next to prose it is an example."""
    fence = _FENCED.fullmatch(answer)
    written = call_in(fence[1] if fence else answer) if "{" in answer else None
    return written if written is not None and written.name in tools else None


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of the text may be the beginning of a tag."""
    return next((size for size in range(len(tag) - 1, 0, -1) if text.endswith(tag[:size])), 0)
