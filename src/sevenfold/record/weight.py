"""What a piece of the conversation weighs, before anyone says how many tokens that is.

A `Weight` counts the things tokens come from. Content is counted twice over: once as bytes of plain text
or of JSON, which is all a rule of thumb needs, and once by class of character, because a tokenizer makes
one token of a whole word but hardly ever of two signs: how many tokens a text has follows from how many
capitals, digits and signs it has, far closer than from its length. Besides, calls, results, thoughts and
pictures are counted, and the bytes on the wire. Each block is measured once, when it enters the view;
weights add up, and an estimator turns a sum into tokens with whatever it has learnt by then.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import add, sub
from typing import NamedTuple

from sevenfold.record.blocks import (
    Block,
    Compaction,
    Document,
    Image,
    RedactedThinking,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    read,
)


class Weight(NamedTuple):
    """Countable properties of content; adds and subtracts field by field."""

    text: int = 0
    """Bytes of plain content."""
    json: int = 0
    """Bytes of structured content: what tools are given, results in JSON, unknown blocks."""
    letters: int = 0
    """Small letters, in text and JSON alike; the next seven count the other bytes of both."""
    capitals: int = 0
    digits: int = 0
    spaces: int = 0
    lines: int = 0
    tabs: int = 0
    marks: int = 0
    """Signs: all other ASCII characters."""
    wide: int = 0
    """Bytes of characters beyond ASCII."""
    calls: int = 0
    results: int = 0
    thoughts: int = 0
    thinking: int = 0
    """Bytes of reasoning that can be read, often a summary or nothing."""
    signature: int = 0
    """Bytes of its signature or encrypted form, which grows with the reasoning itself."""
    images: int = 0
    documents: int = 0
    wire: int = 0
    """Bytes as they are sent."""

    def __add__(self, other: Weight) -> Weight:  # type: ignore[override]
        if other is NOTHING or self is NOTHING:
            return self if other is NOTHING else other
        return tuple.__new__(Weight, map(add, self, other))

    def __sub__(self, other: Weight) -> Weight:
        return self if other is NOTHING else tuple.__new__(Weight, map(sub, self, other))


NOTHING = Weight()

_LOOKED_AT = 1_500
"""Bytes of a text that are enough to tell what it is made of."""
_PIECE = 250
_SMALL = bytes(range(ord("a"), ord("z") + 1))
_CAPITAL = bytes(range(ord("A"), ord("Z") + 1))
_DIGIT = b"0123456789"
_WIDE = bytes(range(128, 256))


def measure(block: Block) -> Weight:
    """The weight of one block as it is sent."""
    wire = len(block.raw)
    match block.body():
        case ToolResult(content=str() as words):
            said = words.encode(errors="replace")
            structured = said[:64].lstrip()[:1] in (b"{", b"[")
            return _content(said, wire, json=len(said) if structured else 0, results=1)
        case ToolUse(name=name, input=given):
            return _spelled(name.encode() + bytes(given), wire, calls=1)
        case Text(text=words):
            return _content(words.encode(errors="replace"), wire)
        case ToolResult(content=None):
            return Weight(results=1, wire=wire)
        case ToolResult(content=list() as parts):
            inner = total(read(bytes(part)) for part in parts)
            return inner + Weight(results=1, wire=wire - inner.wire)
        case Thinking(thinking=words, signature=signature):
            thinking = len(words.encode(errors="replace"))
            return Weight(thoughts=1, thinking=thinking, signature=len(signature), wire=wire)
        case RedactedThinking(data=data):
            return Weight(thoughts=1, signature=len(data), wire=wire)
        case Image():
            return Weight(images=1, wire=wire)
        case Document():
            return Weight(documents=1, wire=wire)
        case Compaction(content=None, encrypted_content=str() as sealed):
            # Base64 of words only the provider can read: three bytes for every four.
            return typical(len(sealed) * 3 // 4)._replace(wire=wire)
        case Compaction(content=summary):
            return _content((summary or "").encode(errors="replace"), wire)
        case _:
            return _spelled(block.raw, wire)


def total(shown: Iterable[Block]) -> Weight:
    """The weight of several blocks."""
    return sum(map(measure, shown), NOTHING)


def typical(size: int) -> Weight:
    """The weight of so many bytes of unseen text: made of what text is made of on the whole."""
    return Weight(
        text=size,
        letters=62 * size // 100,
        capitals=3 * size // 100,
        digits=3 * size // 100,
        spaces=20 * size // 100,
        lines=2 * size // 100,
        marks=10 * size // 100,
        wire=size,
    )


def reasoning(weight: Weight) -> Weight:
    """The part of a weight that is reasoning."""
    if not weight.thoughts:
        return NOTHING
    return Weight(thoughts=weight.thoughts, thinking=weight.thinking, signature=weight.signature)


def opening(*parts: bytes) -> Weight:
    """The weight of what comes before the messages, system and tools, from the bytes that are sent."""
    raw = b"".join(parts)
    return _spelled(raw, len(raw))


def _spelled(raw: bytes, wire: int, calls: int = 0) -> Weight:
    """Content in the spelling of JSON, whose backslashes the model does not see."""
    return _content(raw, wire, json=len(raw), calls=calls, unseen=raw.count(b"\\"))


def _content(
    said: bytes, wire: int, *, json: int = 0, calls: int = 0, results: int = 0, unseen: int = 0
) -> Weight:
    """The weight of a text, by the classes of its characters.

    Of a long text pieces are looked at, evenly spread: what it is made of shows in a part of it. The pieces
    are at odd distances, so as not to fall in step with what repeats in the text. One class is taken out
    after the other, so that each pass has less to look at.
    """
    size = len(said)
    looked_at = said
    if size > 2 * _LOOKED_AT:
        distance = size * _PIECE // _LOOKED_AT | 1
        looked_at = b"".join([said[start : start + _PIECE] for start in range(0, size - _PIECE, distance)])
    no_letters = looked_at.translate(None, _SMALL)
    no_spaces = no_letters.translate(None, b" ")
    no_capitals = no_spaces.translate(None, _CAPITAL)
    rest = no_capitals.translate(None, _DIGIT)
    seen, unlettered, unspaced, left = len(looked_at), len(no_letters), len(no_spaces), len(rest)
    uncapitalled = len(no_capitals)
    wide = 0 if rest.isascii() else left - len(rest.translate(None, _WIDE))
    lines, tabs = rest.count(b"\n"), rest.count(b"\t")
    letters, capitals, digits = seen - unlettered, unspaced - uncapitalled, uncapitalled - left
    spaces, marks = unlettered - unspaced, left - lines - tabs - wide
    if looked_at is not said:
        letters, capitals, digits = letters * size // seen, capitals * size // seen, digits * size // seen
        spaces, lines, tabs = spaces * size // seen, lines * size // seen, tabs * size // seen
        marks, wide = marks * size // seen, wide * size // seen
    text = 0 if json else size
    classes = (letters, capitals, digits, spaces, lines, tabs, marks - unseen, wide)
    return tuple.__new__(Weight, (text, json, *classes, calls, results, 0, 0, 0, 0, 0, wire))
