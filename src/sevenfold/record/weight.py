"""The weight of content, and an estimate of how many tokens it is.

A `Weight` counts what tokens are made from. Content is counted twice: as bytes of plain text or of JSON, which is all
that a rule of thumb needs, and by class of character. A tokenizer often makes one token of a whole word, but hardly
ever of two punctuation marks, so the number of tokens depends on the capitals, digits and marks in a text far more
than on its length. Tool calls, results, thinking blocks, images and the bytes on the wire are counted too. Each block
is measured once, when it enters the view. Weights are added up, and an estimator converts the sum to tokens with
what it has learnt so far.

An estimator starts with what is known about the tokenizer, and learns. It describes a tokenizer by rates: tokens per
letter, mark, call, byte of signature and so on. They start at values measured for the tokenizer's generation (or at
the plain rule for an unknown one), and every prompt size a server reports corrects them. This is Bayesian linear
regression, one observation at a time, in which uncertain rates move most. Covariances are left out: predictions for
real sessions are as good without them. Reports are noisy (clients add reminders that they do not record), so outliers
count for little. Every estimate has a band. Its width is learnt too: each miss widens it, each hit narrows it a
little.
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

from msgspec import Raw, Struct

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
    file_of,
    is_deferred,
    parts_of,
    read,
    titles_of,
)
from sevenfold.record.media import pdf_pages, picture_size


class Weight(NamedTuple):
    """Countable properties of content; adds and subtracts field by field."""

    text: int = 0
    """Bytes of plain content."""
    json: int = 0
    """Bytes of structured content: tool inputs, results in JSON, unknown blocks."""
    letters: int = 0
    """Lower-case letters, in text and JSON; the next seven fields count the other bytes of both."""
    capitals: int = 0
    digits: int = 0
    spaces: int = 0
    lines: int = 0
    tabs: int = 0
    marks: int = 0
    """Punctuation marks: all other ASCII characters."""
    wide: int = 0
    """Bytes of non-ASCII characters."""
    calls: int = 0
    results: int = 0
    thoughts: int = 0
    thinking: int = 0
    """Bytes of readable reasoning, often a summary or nothing."""
    signature: int = 0
    """Bytes of its signature or encrypted form, which grows with the actual reasoning."""
    images: int = 0
    """Pictures and pages of PDF files, as providers limit them; what they weigh is in the next five fields."""
    patches: int = 0
    """Patches of pictures at the standard resolution."""
    fine_patches: int = 0
    """The additional patches at high resolution."""
    half_tiles: int = 0
    """Tiles of pictures, each counted twice, and one for each picture: what it costs besides its tiles."""
    pages: int = 0
    """Pages of PDF files."""
    unseen: int = 0
    """Pictures and files whose size nothing here tells, such as those behind a URL."""
    wire: int = 0
    """Bytes sent."""

    def __add__(self, other: Weight) -> Weight:  # type: ignore[override]
        if other is NOTHING or self is NOTHING:
            return self if other is NOTHING else other
        return tuple.__new__(Weight, map(add, self, other))

    def __sub__(self, other: Weight) -> Weight:
        return self if other is NOTHING else tuple.__new__(Weight, map(sub, self, other))


NOTHING = Weight()

_UNSEEN = Weight(images=1, unseen=1)
_HEADER = 1 << 16
"""In how many bytes at the start of a picture its size is looked for first."""
_SAMPLE_SIZE = 1_500
"""How many bytes of a long text are sampled."""
_SAMPLE_PIECE = 250
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
    # Tool calls and results are most of what is measured, and `match` is slower.
    if isinstance(body, ToolUse):
        return _spelled(body.name.encode() + bytes(body.input), wire, 1)
    if isinstance(body, ToolResult) and isinstance(text := body.content, str):
        return _content(text, wire, text[:64].lstrip(_BLANK)[:1] in _OPENING, 0, 1)
    match body:
        case Text(text=text):
            return _content(text, wire)
        case ToolResult(content=None):
            return Weight(results=1, wire=wire)
        case ToolResult(content=list() as parts):
            inner = total(read(bytes(part)) for part in parts)
            return inner + Weight(results=1, wire=wire - inner.wire)
        case Thinking(thinking=text, signature=signature):
            thinking = len(text.encode(errors="replace"))
            return Weight(thoughts=1, thinking=thinking, signature=len(signature), wire=wire)
        case RedactedThinking(data=data):
            return Weight(thoughts=1, signature=len(data), wire=wire)
        case Image(source=source):
            return _picture(source)._replace(wire=wire)
        case Document() as document:
            return _document(document)._replace(wire=wire)
        case Compaction(content=None, encrypted_content=str() as sealed):
            # Base64 of an encrypted text: three bytes for every four.
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
    """The weight of ``size`` bytes of unseen text, with the character classes of average text."""
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
    """The part of a weight that is reasoning, without its bytes on the wire."""
    if not weight.thoughts:
        return NOTHING
    return Weight(thoughts=weight.thoughts, thinking=weight.thinking, signature=weight.signature)


def opening(*parts: bytes) -> Weight:
    """The weight of what precedes the messages, system and tools, from the bytes sent."""
    raw = b"".join(part for part in parts if not is_deferred(part))
    return _spelled(raw, len(raw))


def _spelled(raw: bytes, wire: int, calls: int = 0) -> Weight:
    """The weight of content encoded as JSON, whose backslashes the model does not see."""
    weight = _content(raw, wire, True, calls)
    unseen = raw.count(b"\\")
    return weight._replace(marks=weight.marks - unseen) if unseen else weight


def _content(
    content: str | bytes, wire: int, structured: bool = False, calls: int = 0, results: int = 0
) -> Weight:
    """The weight of a text, by the classes of its characters.

    A long text is sampled in evenly spread pieces. The distance between them is odd, so that they do not fall into step
    with a pattern that repeats.
    """
    plain = content.isascii()
    if not plain and isinstance(content, str):
        content = content.encode(errors="replace")
    size = len(content)
    starts = (
        range(0, size - _SAMPLE_PIECE, size * _SAMPLE_PIECE // _SAMPLE_SIZE | 1)
        if size > 2 * _SAMPLE_SIZE
        else None
    )
    if isinstance(content, bytes):
        sample = b"".join([content[at : at + _SAMPLE_PIECE] for at in starts]) if starts else content
    else:
        sample = (
            "".join([content[at : at + _SAMPLE_PIECE] for at in starts]) if starts else content
        ).encode()
    # A checksum that adds up bytes is the fastest way to count them. The other classes are removed one by one, so that
    # each pass is shorter than the one before.
    spaces = (adler32(sample.translate(_IS_SPACE)) & 0xFFFF) - 1
    without_small = sample.translate(None, _SMALL_OR_SPACE)
    without_letters = without_small.translate(None, _CAPITAL)
    signs = without_letters.translate(None, _DIGIT)
    sampled = len(sample)
    beyond_small = len(without_small)
    beyond_letters = len(without_letters)
    beyond_digits = len(signs)
    wide = 0 if plain else beyond_digits - len(signs.translate(None, _WIDE))
    lines = signs.count(b"\n")
    tabs = signs.count(b"\t")
    letters = sampled - spaces - beyond_small
    capitals = beyond_small - beyond_letters
    digits = beyond_letters - beyond_digits
    marks = beyond_digits - lines - tabs - wide
    if sampled != size:
        letters = letters * size // sampled
        capitals = capitals * size // sampled
        digits = digits * size // sampled
        spaces = spaces * size // sampled
        lines = lines * size // sampled
        tabs = tabs * size // sampled
        marks = marks * size // sampled
        wide = wide * size // sampled
    text, json = (0, size) if structured else (size, 0)
    classes = letters, capitals, digits, spaces, lines, tabs, marks, wide
    return tuple.__new__(Weight, (text, json, *classes, calls, results, *_NO_REASONING_OR_MEDIA, wire))


_NO_REASONING_OR_MEDIA = (0,) * (len(Weight._fields) - 1 - Weight._fields.index("thoughts"))


def _picture(raw: Raw) -> Weight:
    """The weight of a picture, by its width and height if its bytes are here."""
    data = file_of(raw).bytes(_HEADER)
    size = picture_size(data)
    if size is None and len(data) == _HEADER:
        # A JPEG may begin with long notes about the camera.
        size = picture_size(file_of(raw).bytes())
    if size is None:
        return _UNSEEN
    patches = size.patches
    return Weight(
        images=1, patches=patches, fine_patches=size.fine_patches - patches, half_tiles=2 * size.tiles + 1
    )


def _document(document: Document) -> Weight:
    """The weight of a document: of its text and pictures, or of the pages of a file that the provider opens."""
    parts = parts_of(document)
    if parts is not None:
        return total(parts)
    file = file_of(document.source)
    pages = pdf_pages(file.bytes())
    titles = total(titles_of(document))
    return titles + (_UNSEEN if pages is None else Weight(images=pages, pages=pages))


PADDING = 4 / 3
"""The safety factor of the plain rule."""

FLAT = 2_000
"""Tokens of a picture or a file whose size nothing tells."""
PAGE = 3_000
"""Tokens of a page of a PDF in the plain rule: its picture and its text."""

_HAIR = 5e-7
_HIDDEN = 50.0
"""The typical error for a round, in tokens, however small the round."""
_LOOSE = 0.04
"""The additional error, as a share of the round's size."""
_TAIL = 4.0
"""Degrees of freedom of Student's t-distribution, as which the heavy-tailed noise is modelled."""
_MISSES = 0.015
"""The share of true values that may lie above the band, and the share that may lie below."""
_STEP = 0.5
"""How much a single miss widens the band, in standard deviations."""

COUNTED: Final = Weight._fields[: Weight._fields.index("wire")]
"""What tokens are made from: all fields of a `Weight` except the last, the bytes on the wire.

Rates are in this order, so they can be multiplied with a weight directly: `map` stops at the shorter one.
"""

_VARIES: Final[Mapping[str, float]] = MappingProxyType(
    {"calls": 5.0, "results": 5.0, "pages": 500.0, "unseen": 1500.0}
)
"""How much the tokens of one such item vary, however well the tokenizer is known."""

PLAIN: Final[Mapping[str, float]] = MappingProxyType(
    {
        "text": PADDING / 4,
        "json": PADDING / 2,
        "thinking": PADDING / 4,
        "patches": PADDING,
        "pages": PADDING * PAGE,
        "unseen": PADDING * FLAT,
    }
)
"""The plain rule, for unknown tokenizers: 4 bytes per token, 2 in JSON, one per patch, all times `PADDING`."""

_TELLING = 0.1
"""If the variance of the rates is below this share of the noise, a report teaches nothing and is ignored."""

_SPREAD = 0.15
"""The share by which a session's content makes rates differ from the known ones."""
_UNKNOWN_SPREAD = 0.3
"""The share by which the rates of an unknown tokenizer differ from the plain rule."""


class Estimate(Struct, frozen=True, gc=False):
    """A number of tokens, and the band in which the true value is expected 19 times out of 20."""

    tokens: int
    low: int
    high: int


class Belief(Struct, frozen=True, gc=False):
    """An estimator's prediction for some content."""

    weight: Weight
    tokens: float
    unsure: float
    """The variance due to uncertain rates."""
    noise: float
    """The variance due to what reports count but the log does not contain."""


class Estimator(Struct, frozen=True):
    """What is believed about a tokenizer. Immutable: learning returns a new estimator."""

    tokenizer: str
    rates: tuple[float, ...]
    """Tokens per unit of each field of a `Weight`, in the order of `COUNTED`."""
    rate_variances: tuple[float, ...]
    """The variance of each rate."""
    above: float = 3.5
    """How many standard deviations the band extends upwards."""
    below: float = 2.5
    """How many it extends downwards: unrecorded content makes prompts larger, rarely smaller."""

    @classmethod
    @cache
    def of(cls, tokenizer: str) -> Estimator:
        """The estimator for a tokenizer generation before a session has taught it anything."""
        if rates := token_rates(tokenizer):
            return cls.believing(tokenizer, rates, _SPREAD)
        return cls.believing(tokenizer, PLAIN, _UNKNOWN_SPREAD)

    @classmethod
    def believing(cls, tokenizer: str, rates: Mapping[str, float], spread: float) -> Estimator:
        """An estimator with these rates, each with a relative standard deviation of ``spread``."""
        known_rates = tuple(rates.get(name, 0.0) for name in COUNTED)
        variances = [
            (spread * abs(rate) + _VARIES.get(name, 0.0)) ** 2
            for name, rate in zip(COUNTED, known_rates, strict=True)
        ]
        return cls(tokenizer, known_rates, tuple(variances))

    def tokens(self, weight: Weight) -> float:
        """The estimate without a band."""
        return sum(map(mul, self.rates, weight), 0.0)

    def variance(self, weight: Weight) -> float:
        """The variance of the estimate."""
        belief = self.believe(weight)
        return belief.unsure + belief.noise

    def estimate(self, weight: Weight) -> Estimate:
        """The estimate with its band."""
        return self.band(self.believe(weight))

    def band(self, belief: Belief, known_tokens: int = 0) -> Estimate:
        """The estimate with its band for a belief, plus ``known_tokens`` tokens."""
        tokens = belief.tokens
        spread = sqrt(belief.unsure + belief.noise)
        low = floor(tokens - self.below * spread)
        high = ceil(tokens + self.above * spread)
        # Rounding errors a hair above a whole number must not add a token.
        return Estimate(known_tokens + ceil(tokens - _HAIR), known_tokens + low, known_tokens + high)

    def observe(self, weight: Weight, tokens: float) -> Estimator:
        """Correct rates and band with a server's count of content whose size was predicted."""
        return self.corrected(self.believe(weight), tokens)

    def corrected(self, belief: Belief, tokens: float) -> Estimator:
        """As `observe`, given the prediction for the content."""
        error = tokens - belief.tokens
        spread = sqrt(belief.unsure + belief.noise)
        above = self.above + _STEP * ((error > self.above * spread) - _MISSES)
        below = self.below + _STEP * ((error < -self.below * spread) - _MISSES)
        return self._moved(belief, error, above if above > 1 else 1.0, below if below > 1 else 1.0)

    def learn(self, weight: Weight, tokens: float) -> Estimator:
        """Correct only the rates, with a count of content whose size was not predicted."""
        belief = self.believe(weight)
        return self._moved(belief, tokens - belief.tokens, self.above, self.below)

    def believe(self, weight: Weight) -> Belief:
        """Predict the tokens of some content, with the variance."""
        tokens = negative = unsure = 0.0
        # No `strict=`: it would add a twentieth to the time of the loop.
        for count, rate, variance in zip(weight, self.rates, self.rate_variances):  # noqa: B905
            if count:
                contribution = count * rate
                tokens += contribution
                unsure += variance * (count * count)
                if contribution < 0:
                    negative += contribution
        rounds = sqrt(abs(weight.results)) or 1.0
        noise = (_HIDDEN * rounds + _LOOSE * (tokens - 2 * negative) / rounds) ** 2
        return Belief(weight, tokens, unsure, noise)

    def _moved(self, belief: Belief, error: float, above: float, below: float) -> Estimator:
        """Move each rate as far as its variance and the noise allow, which shrinks its variance; and set the band."""
        weight = belief.weight
        unsure = belief.unsure
        noise = belief.noise
        if unsure < _TELLING * noise:
            return Estimator(self.tokenizer, self.rates, self.rate_variances, above, below)
        noise *= max(1.0, (_TAIL + error**2 / (unsure + noise)) / (_TAIL + 1))
        towards = tuple(map(mul, self.rate_variances, weight))
        gain = tuple(map(truediv, towards, repeat(unsure + noise)))
        rates = tuple(map(add, self.rates, map(mul, gain, repeat(error))))
        variances = tuple(map(sub, self.rate_variances, map(mul, gain, towards)))
        return Estimator(self.tokenizer, rates, variances, above, below)
