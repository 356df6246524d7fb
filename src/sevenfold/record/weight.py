"""What a piece of the conversation weighs, and how many tokens that is.

A `Weight` counts the things tokens come from. Content is counted twice over: once as bytes of plain text or of JSON,
which is all a rule of thumb needs, and once by class of character, because a tokenizer makes one token of a whole
word but hardly ever of two signs: how many tokens a text has follows from how many capitals, digits and signs it has,
far closer than from its length. Besides, calls, results, thoughts and pictures are counted, and the bytes on the
wire. Each block is measured once, when it enters the view; weights add up, and an estimator turns a sum into tokens
with whatever it has learnt by then.

The number of tokens is an estimate that starts from what is known of the tokenizer and learns. A tokenizer is
described by rates, tokens per letter, sign, call, byte of signature and so on. They start at figures measured for its
generation (or at the plain rule for an unknown one) and are corrected by every prompt size a server reports: Bayesian
linear regression, one observation at a time, in which rates move the more the less they are certain. How errors of
two rates hang together is left out: real sessions are foreseen as well without it. Reports are noisy (clients add
reminders that they do not write down), so an observation far off counts for little. Every estimate carries a band.
How wide it must be to hold the truth is learnt too: each miss widens it, each hit narrows it a little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import repeat
from math import ceil, floor, sqrt
from operator import add, mul, sub, truediv
from types import MappingProxyType
from typing import Final, NamedTuple
from zlib import adler32

from msgspec import Struct

from sevenfold.profiles import token_rates
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
_BLANK = " \t\n\r\v\f"
_OPENING = frozenset("{[")
_SMALL_OR_SPACE = bytes(range(ord("a"), ord("z") + 1)) + b" "
_IS_SPACE = bytes([byte == ord(" ") for byte in range(256)])
_CAPITAL = bytes(range(ord("A"), ord("Z") + 1))
_DIGIT = b"0123456789"
_WIDE = bytes(range(128, 256))


def measure(block: Block) -> Weight:
    """The weight of one block as it is sent."""
    wire = len(block.raw)
    body = block.body()
    # Calls and results are most of what is measured, and a pattern takes longer.
    if isinstance(body, ToolUse):
        return _spelled(body.name.encode() + bytes(body.input), wire, 1)
    if isinstance(body, ToolResult) and isinstance(words := body.content, str):
        return _content(words, wire, words[:64].lstrip(_BLANK)[:1] in _OPENING, 0, 1)
    match body:
        case Text(text=words):
            return _content(words, wire)
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
            return _content(summary or "", wire)
        case _:
            return _spelled(block.raw, wire)


def combined(*weights: Weight) -> Weight:
    """The sum of several weights."""
    return tuple.__new__(Weight, map(sum, zip(*weights, strict=True)))


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
    weight, unseen = _content(raw, wire, True, calls), raw.count(b"\\")
    return weight._replace(marks=weight.marks - unseen) if unseen else weight


def _content(
    said: str | bytes, wire: int, structured: bool = False, calls: int = 0, results: int = 0
) -> Weight:
    """The weight of a text, by the classes of its characters.

    Of a long text pieces are looked at, evenly spread: what it is made of shows in a part of it. The pieces are at odd
    distances, so as not to fall in step with what repeats.
    """
    if not (plain := said.isascii()) and isinstance(said, str):
        said = said.encode(errors="replace")
    size = len(said)
    starts = range(0, size - _PIECE, size * _PIECE // _LOOKED_AT | 1) if size > 2 * _LOOKED_AT else None
    if isinstance(said, bytes):
        looked_at = b"".join([said[at : at + _PIECE] for at in starts]) if starts else said
    else:
        looked_at = ("".join([said[at : at + _PIECE] for at in starts]) if starts else said).encode()
    # A checksum that adds up bytes is the quickest way to count them. Of the rest, one class after the other is taken
    # out, so that each pass has less to look at.
    spaces = (adler32(looked_at.translate(_IS_SPACE)) & 0xFFFF) - 1
    other = looked_at.translate(None, _SMALL_OR_SPACE)
    uncapitalled = other.translate(None, _CAPITAL)
    rest = uncapitalled.translate(None, _DIGIT)
    seen, unlettered, small, left = len(looked_at), len(other), len(uncapitalled), len(rest)
    wide = 0 if plain else left - len(rest.translate(None, _WIDE))
    lines, tabs = rest.count(b"\n"), rest.count(b"\t")
    letters, capitals, digits = seen - spaces - unlettered, unlettered - small, small - left
    marks = left - lines - tabs - wide
    if seen != size:
        letters, capitals, digits = letters * size // seen, capitals * size // seen, digits * size // seen
        spaces, lines, tabs = spaces * size // seen, lines * size // seen, tabs * size // seen
        marks, wide = marks * size // seen, wide * size // seen
    text, json = (0, size) if structured else (size, 0)
    classes = letters, capitals, digits, spaces, lines, tabs, marks, wide
    return tuple.__new__(Weight, (text, json, *classes, calls, results, 0, 0, 0, 0, 0, wire))


PADDING = 4 / 3
"""What the plain rule adds to be on the safe side."""

FLAT = 2_000
"""Tokens of a picture or a document."""

_HAIR = 5e-7
_HIDDEN = 50.0
"""Tokens by which a round is typically off, however small it is."""
_LOOSE = 0.04
"""The share of its size by which a round is off on top of that."""
_TAIL = 4.0
"""How heavy the tails of the noise are taken to be: degrees of freedom of Student's distribution."""
_MISSES = 0.015
"""The share of truths that may lie above the band, and the share below."""
_STEP = 0.5
"""How much a single miss widens the band, in standard deviations."""

COUNTED: Final = Weight._fields[: Weight._fields.index("wire")]
"""What tokens come from: all that a `Weight` counts, but for its last field, the bytes on the wire.

Rates are in this order, so a weight can be multiplied with them as it is: `map` ends with the shorter one.
"""

_VARIES: Final[Mapping[str, float]] = MappingProxyType(
    {"calls": 5.0, "results": 5.0, "images": 800.0, "documents": 1500.0}
)
"""Tokens by which one of these differs from the next, whatever is known of the tokenizer."""

PLAIN: Final[Mapping[str, float]] = MappingProxyType(
    {
        "text": PADDING / 4,
        "json": PADDING / 2,
        "thinking": PADDING / 4,
        "images": PADDING * FLAT,
        "documents": PADDING * FLAT,
    }
)
"""The plain rule, for unknown tokenizers: 4 bytes a token, 2 in JSON, and all of it padded."""

_TELLING = 0.1
"""A report is not learnt from where the rates are so sure that noise would drown what it says."""

_SPREAD = 0.15
"""The share by which the content of a session makes rates differ from the known ones."""
_UNKNOWN_SPREAD = 0.3
"""The share by which the rates of an unknown tokenizer differ from the plain rule."""


class Estimate(Struct, frozen=True, gc=False):
    """A number of tokens and the band in which the truth is expected 19 times out of 20."""

    tokens: int
    low: int
    high: int


class Belief(Struct, frozen=True, gc=False):
    """What an estimator takes some content to be."""

    weight: Weight
    tokens: float
    unsure: float
    """The variance that the rates leave."""
    noise: float
    """The variance of what only reports hold."""


class Estimator(Struct, frozen=True):
    """What is believed of a tokenizer. Learning gives a new one; the old one stays as it was."""

    tokenizer: str
    rates: tuple[float, ...]
    """Tokens for one of each thing counted in a `Weight`."""
    doubt: tuple[float, ...]
    """How uncertain each rate is: its variance."""
    above: float = 3.5
    """How many standard deviations the band reaches up."""
    below: float = 2.5
    """How many it reaches down: what is hidden makes prompts larger, rarely smaller."""

    @classmethod
    @cache
    def of(cls, tokenizer: str) -> Estimator:
        """What is known of a tokenizer generation before a session has begun."""
        if rates := token_rates(tokenizer):
            return cls.believing(tokenizer, rates, _SPREAD)
        return cls.believing(tokenizer, PLAIN, _UNKNOWN_SPREAD)

    @classmethod
    def believing(cls, tokenizer: str, rates: Mapping[str, float], spread: float) -> Estimator:
        """An estimator that takes each of these rates to be right within a share ``spread`` of it."""
        known = tuple(rates.get(name, 0.0) for name in COUNTED)
        doubt = [
            (spread * abs(rate) + _VARIES.get(name, 0.0)) ** 2
            for name, rate in zip(COUNTED, known, strict=True)
        ]
        return cls(tokenizer, known, tuple(doubt))

    def tokens(self, weight: Weight) -> float:
        """The bare estimate."""
        return sum(map(mul, self.rates, weight), 0.0)

    def variance(self, weight: Weight) -> float:
        """How far from the estimate the truth may be: the square of its standard deviation."""
        belief = self.believe(weight)
        return belief.unsure + belief.noise

    def estimate(self, weight: Weight) -> Estimate:
        """The estimate with its band."""
        return self.band(self.believe(weight))

    def band(self, belief: Belief) -> Estimate:
        """What is believed of some content, with its band."""
        tokens, spread = belief.tokens, sqrt(belief.unsure + belief.noise)
        # A hair above a whole number, left by binary fractions, is no token more.
        return Estimate(
            ceil(tokens - _HAIR), floor(tokens - self.below * spread), ceil(tokens + self.above * spread)
        )

    def observe(self, weight: Weight, tokens: float) -> Estimator:
        """Better rates and a better band, now that a server counted content that had to be foreseen."""
        return self.corrected(self.believe(weight), tokens)

    def corrected(self, belief: Belief, tokens: float) -> Estimator:
        """The same, where it is known what was believed of the content."""
        error, spread = tokens - belief.tokens, sqrt(belief.unsure + belief.noise)
        above = self.above + _STEP * ((error > self.above * spread) - _MISSES)
        below = self.below + _STEP * ((error < -self.below * spread) - _MISSES)
        return self._moved(belief, error, above if above > 1 else 1.0, below if below > 1 else 1.0)

    def learn(self, weight: Weight, tokens: float) -> Estimator:
        """Better rates alone, from content that was counted without having to be foreseen."""
        belief = self.believe(weight)
        return self._moved(belief, tokens - belief.tokens, self.above, self.below)

    def believe(self, weight: Weight) -> Belief:
        """How many tokens some content seems to be, and how sure that is."""
        tokens = less = unsure = 0.0
        # The keyword that says so again would take a twentieth of the loop.
        for count, rate, doubt in zip(weight, self.rates, self.doubt):  # noqa: B905
            if count:
                part = count * rate
                tokens += part
                unsure += doubt * (count * count)
                if part < 0:
                    less += part
        rounds = sqrt(abs(weight.results)) or 1.0
        noise = (_HIDDEN * rounds + _LOOSE * (tokens - 2 * less) / rounds) ** 2
        return Belief(weight, tokens, unsure, noise)

    def _moved(self, belief: Belief, error: float, above: float, below: float) -> Estimator:
        """Every rate moved as far as its doubt and the noise allow, with another band; the doubt shrinks with it."""
        weight, unsure, noise = belief.weight, belief.unsure, belief.noise
        if unsure < _TELLING * noise:
            return Estimator(self.tokenizer, self.rates, self.doubt, above, below)
        noise *= max(1.0, (_TAIL + error**2 / (unsure + noise)) / (_TAIL + 1))
        towards = tuple(map(mul, self.doubt, weight))
        gain = tuple(map(truediv, towards, repeat(unsure + noise)))
        rates = tuple(map(add, self.rates, map(mul, gain, repeat(error))))
        doubt = tuple(map(sub, self.doubt, map(mul, gain, towards)))
        return Estimator(self.tokenizer, rates, doubt, above, below)
