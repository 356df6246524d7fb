"""How many tokens a weight is: an estimate that starts from what is known of the tokenizer and learns.

A tokenizer is described by rates, tokens per letter, sign, call, byte of signature and so on. They start
at figures measured for its generation (or at the plain rule for an unknown one) and are corrected
by every prompt size a server reports: Bayesian linear regression, one observation at a time, in which
rates move the more the less they are certain. How errors of two rates hang together is left out: real
sessions are foreseen as well without it. Reports are noisy (clients add reminders that they do not write
down), so an observation far off counts for little. Every estimate carries a band. How wide it must be to
hold the truth is learnt too: each miss widens it, each hit narrows it a little.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import ceil, floor, sqrt
from operator import mul, sub
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.profiles import token_rates
from sevenfold.record.weight import Weight

PADDING = 4 / 3
"""What the plain rule adds to be on the safe side."""

FLAT = 2_000
"""Tokens of a picture or a document."""

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
        return float(sum(map(mul, self.rates, weight)))

    def variance(self, weight: Weight) -> float:
        """How far from the estimate the truth may be: the square of its standard deviation."""
        _, unsure, noise = self._belief(weight)
        return unsure + noise

    def estimate(self, weight: Weight) -> Estimate:
        """The estimate with its band."""
        tokens, unsure, noise = self._belief(weight)
        spread = sqrt(unsure + noise)
        # Rounded first: a hair above a whole number, left by binary fractions, is no token more.
        return Estimate(
            ceil(round(tokens, 6)), floor(tokens - self.below * spread), ceil(tokens + self.above * spread)
        )

    def observe(self, weight: Weight, tokens: float) -> Estimator:
        """Better rates and a better band, now that a server counted content that had to be foreseen."""
        believed, unsure, noise = self._belief(weight)
        error, spread = tokens - believed, sqrt(unsure + noise)
        telling = unsure >= _TELLING * noise
        return replace(
            self._moved(weight, error, unsure, noise) if telling else self,
            above=max(1.0, self.above + _STEP * ((error > self.above * spread) - _MISSES)),
            below=max(1.0, self.below + _STEP * ((error < -self.below * spread) - _MISSES)),
        )

    def learn(self, weight: Weight, tokens: float) -> Estimator:
        """Better rates alone, from content that was counted without having to be foreseen."""
        believed, unsure, noise = self._belief(weight)
        telling = unsure >= _TELLING * noise
        return self._moved(weight, tokens - believed, unsure, noise) if telling else self

    def _belief(self, weight: Weight) -> tuple[float, float, float]:
        """How many tokens some content seems to be, and two variances.

        One is there because the rates are uncertain, the other because of what reports hold and transcripts do not.
        """
        parts = list(map(mul, self.rates, weight))
        unsure = sum(map(mul, self.doubt, map(mul, weight, weight)))
        rounds = sqrt(max(1, abs(weight.results)))
        noise = (_HIDDEN * rounds + _LOOSE * sum(map(abs, parts)) / rounds) ** 2
        return sum(parts), unsure, noise

    def _moved(self, weight: Weight, error: float, unsure: float, noise: float) -> Estimator:
        """Every rate moved as far as its doubt and the noise allow; the doubt shrinks accordingly."""
        noise *= max(1.0, (_TAIL + error**2 / (unsure + noise)) / (_TAIL + 1))
        towards = list(map(mul, self.doubt, weight))
        gain = [each / (unsure + noise) for each in towards]
        return replace(
            self,
            rates=tuple(rate + step * error for rate, step in zip(self.rates, gain, strict=True)),
            doubt=tuple(map(sub, self.doubt, map(mul, gain, towards))),
        )
