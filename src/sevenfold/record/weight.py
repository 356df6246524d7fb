"""What a piece of the conversation weighs, before anyone says how many tokens that is.

A `Weight` counts the things tokens come from: characters by kind of content, calls, results, pictures,
and the bytes on the wire. Each block is measured once, when it enters the view; weights add up, and an
estimator turns a sum into tokens with whatever it has learnt by then.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw, Struct

from sevenfold.record.blocks import (
    Block,
    Compaction,
    Document,
    Image,
    Opaque,
    RedactedThinking,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    read,
)


class Weight(Struct, frozen=True):
    """Countable properties of content; adds and subtracts field by field."""

    text: int = 0
    calls: int = 0
    call_input: int = 0
    results: int = 0
    result_text: int = 0
    result_json: int = 0
    thoughts: int = 0
    thinking: int = 0
    signature: int = 0
    other: int = 0
    wide: int = 0
    images: int = 0
    documents: int = 0
    wire: int = 0

    def __add__(self, other: Weight) -> Weight:
        return Weight(*map(int.__add__, _values(self), _values(other)))

    def __sub__(self, other: Weight) -> Weight:
        return Weight(*map(int.__sub__, _values(self), _values(other)))


NOTHING = Weight()


def _values(weight: Weight) -> tuple[int, ...]:
    return tuple(getattr(weight, name) for name in Weight.__struct_fields__)


def measure(block: Block) -> Weight:
    """The weight of one block as it is sent."""
    wire = len(block.raw)
    match block.body():
        case Text(text=words):
            return Weight(text=len(words), wide=_wide(words), wire=wire)
        case Thinking(thinking=words, signature=signature):
            return Weight(thoughts=1, thinking=len(words), signature=len(signature), wire=wire)
        case RedactedThinking(data=data):
            return Weight(thoughts=1, signature=len(data), wire=wire)
        case ToolUse(name=name, input=given):
            return Weight(calls=1, call_input=len(name) + len(bytes(given)), wire=wire)
        case ToolResult(content=content):
            return _measure_result(content, wire)
        case Image():
            return Weight(images=1, wire=wire)
        case Document():
            return Weight(documents=1, wire=wire)
        case Compaction(content=summary):
            return Weight(text=len(summary or ""), wide=_wide(summary or ""), wire=wire)
        case Opaque():
            return Weight(other=wire, wire=wire)


def total(shown: Iterable[Block]) -> Weight:
    """The weight of several blocks."""
    return sum(map(measure, shown), NOTHING)


def _measure_result(content: str | list[Raw] | None, wire: int) -> Weight:
    if content is None:
        return Weight(results=1, wire=wire)
    if isinstance(content, str):
        if content.lstrip()[:1] in ("{", "["):
            return Weight(results=1, result_json=len(content), wide=_wide(content), wire=wire)
        return Weight(results=1, result_text=len(content), wide=_wide(content), wire=wire)
    inner = NOTHING
    for raw in content:
        part = measure(read(bytes(raw)))
        inner += Weight(
            result_text=part.text,
            other=part.other,
            wide=part.wide,
            images=part.images,
            documents=part.documents,
        )
    return inner + Weight(results=1, wire=wire)


def _wide(words: str) -> int:
    """How many bytes the text has beyond its characters: nothing for ASCII, a lot for Chinese."""
    return 0 if words.isascii() else len(words.encode(errors="replace")) - len(words)
