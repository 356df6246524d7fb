"""How large the conversation is now, and what follows from that.

Most of the answer is known: the newest size that a server reported for this view, with the output that
came with it. Only what was said since, less what was taken out since, is estimated. Where no report holds
(before the first answer, after a compaction) everything is estimated, on top of the overhead: system
prompt, tools and whatever a client adds without writing it down. That overhead is what the last such
report showed beyond its messages; before there is any, it is estimated from the bytes of system and tools.

A `Gauge` is a value: `observe` a report and use the gauge that comes back. It keeps to the model that
answers; a change of tokenizer rescales what was counted by the other one.
"""

from __future__ import annotations

from math import ceil, floor, sqrt
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sevenfold import profiles
from sevenfold.profiles import Profile
from sevenfold.record.layout import Anchor, Layout, Measured
from sevenfold.record.weight import NOTHING, Belief, Estimate, Estimator, Weight, opening, typical

if TYPE_CHECKING:
    from sevenfold.record.view import View

TELLING = 100
"""Answers of fewer tokens teach nothing: most of what they weigh is overhead."""

FINAL = 0.6
"""A reported output below this share of what the answer seems to be was noted while it still streamed."""

INEXACT = 0.05
"""The share by which an overhead, or what another tokenizer counted, may be off."""

SAMPLE = typical(100)
"""What text is made of on the whole: shows how one tokenizer compares with another."""


class Size(Estimate, frozen=True, kw_only=True):
    """How large the conversation is: what the model sees, by the newest report and what changed since."""

    sent: int
    """The same before the provider's own edits."""
    anchored: bool
    """Whether it rests on a report; if not, all of it is estimated."""
    freed: int
    """What decisions took out since the last report, already subtracted."""
    wire: int
    """Bytes of content in the request."""
    images: int
    """Pictures and documents in it."""

    @property
    def band(self) -> int:
        """How many tokens more it may really be."""
        return self.high - self.tokens


class Overhead(Struct, frozen=True):
    """What a prompt holds beyond its messages, as reports showed it."""

    tokens: float
    variance: float

    @property
    def since(self) -> float:
        """The variance by now: system, tools and what a client adds change as time goes by."""
        return self.variance + (INEXACT * self.tokens) ** 2

    def corrected(self, shown: Overhead) -> Overhead:
        """What is believed after another report: the surer of the two counts for more."""
        gain = self.since / (self.since + shown.variance)
        return Overhead(self.tokens + gain * (shown.tokens - self.tokens), (1 - gain) * self.since)


class Expected(Struct, frozen=True, gc=False):
    """What a gauge expects the next report to say."""

    gauge: Gauge
    anchor: Anchor
    """The report before it."""
    known: int
    """The tokens that one accounts for."""
    belief: Belief
    """About the content it does not account for."""
    final: bool
    """Did it count the whole answer?"""


class Gauge(Struct, frozen=True):
    """What is known about the size of a conversation besides the conversation itself."""

    profile: Profile
    estimator: Estimator
    opening: Weight = NOTHING
    """System and tools, as far as their bytes are known."""
    overhead: Overhead | None = None
    """What prompts hold beyond messages, once a report has shown it."""

    @classmethod
    def of(cls, profile: Profile, *before_messages: bytes) -> Gauge:
        """A gauge for a session that begins, with the bytes of system and tools where they are known."""
        return cls(profile, Estimator.of(profile.tokenizer), opening(*before_messages))

    # -- learning ----------------------------------------------------------------------------

    def observe(self, measured: Measured) -> Gauge:
        """The gauge after a server reported the size of a prompt."""
        gauge = self
        if measured.model != self.profile.model:
            answering = profiles.find(measured.model)
            gauge = self if answering.name == self.profile.name else self.switched(answering)
        usage = measured.usage
        prompt = (usage.first_round if usage.iterations else usage).prompt
        if not prompt:
            return gauge
        before = measured.before
        if before is None or not before.prompt:
            shown = gauge._beyond(prompt, measured.sent - gauge._lost(measured.faded))
            return replace(gauge, overhead=gauge.overhead.corrected(shown) if gauge.overhead else shown)
        other = before.model != gauge.profile.model
        if other and profiles.find(before.model).tokenizer != gauge.profile.tokenizer:
            return gauge
        # What was expected before the request serves the answer too, if nothing happened in between.
        expected = measured.expected
        if expected is None or expected.anchor is not before or expected.gauge is not gauge:
            expected = gauge.foresee(before)
        estimator = gauge.estimator.corrected(expected.belief, prompt - expected.known)
        if before.output >= TELLING and expected.final:
            estimator = estimator.learn(before.reply, before.output)
        return replace(gauge, estimator=estimator)

    def reminded(self, tokens: int, weight: Weight, model: str) -> Gauge:
        """The gauge after a compaction that was expected to leave messages of that weight, with so many tokens in all.

        That was known from the whole conversation, of which this gauge may have seen a part: where the two disagree
        on more than they can know, it was right.
        """
        gauge = self if model == self.profile.model else self.switched(profiles.find(model))
        if tokens >= gauge.unanchored(weight).low:
            return self
        return replace(gauge, overhead=gauge._beyond(tokens, weight))

    def switched(self, profile: Profile) -> Gauge:
        """The gauge for another model; what is known is rescaled if that one counts tokens another way."""
        if profile.tokenizer == self.profile.tokenizer:
            return replace(self, profile=profile)
        changed = Gauge(profile, Estimator.of(profile.tokenizer), self.opening)
        if self.overhead is None:
            return changed
        scale = changed._exchange(self.profile.tokenizer, SAMPLE)
        rescaled = Overhead(self.overhead.tokens * scale, self.overhead.variance * scale**2)
        return replace(changed, overhead=rescaled)

    def opened(self, *before_messages: bytes) -> Gauge:
        """The gauge for other system and tools bytes: the overhead changes by what they differ."""
        now = opening(*before_messages)
        if self.overhead is None or now == self.opening:
            return replace(self, opening=now)
        difference = now - self.opening
        moved = Overhead(
            max(0.0, self.overhead.tokens + self.estimator.tokens(difference)),
            self.overhead.variance + self.estimator.variance(difference),
        )
        return replace(self, opening=now, overhead=moved)

    # -- measuring ---------------------------------------------------------------------------

    @property
    def fixed(self) -> int:
        """What every prompt holds before its messages."""
        return ceil(self.overhead.tokens if self.overhead else self.estimator.tokens(self.opening))

    def size(self, view: View, *, edited: int = 0, back: int = 0) -> Size:
        """The size of the conversation; ``edited`` tokens of it the provider's own edits take out.

        ``back`` are tokens that edits took out of the last request and will not take out of the next.

        What a decision takes out as well was not in the report: the oldest results go first on both sides. It is
        never more than is sent, so where much was taken out on both sides a count of what is left may know better.
        """
        layout = view.layout
        anchor = layout.anchor
        freed = twice = 0
        if anchor is None or not anchor.prompt:
            anchor, seen = None, self._counted(layout)
        else:
            if anchor.removed is not NOTHING:
                freed = ceil(self.estimator.tokens(anchor.removed))
                twice = max(0, min(edited, freed))
            layout.expected = self.foresee(anchor)
            seen = self._seen(layout.expected, layout, twice + back)
        sent = seen.tokens + edited
        if twice and (counted := self._counted(layout)).high < seen.high:
            seen, sent = counted, counted.tokens
        return Size(
            seen.tokens,
            seen.low,
            seen.high,
            sent=sent,
            anchored=anchor is not None,
            freed=freed - twice,
            wire=layout.bytes + self.opening.wire,
            images=layout.pictures,
        )

    def _counted(self, layout: Layout) -> Estimate:
        """The size of all that is in view, by nothing but its own weight."""
        return self.unanchored(layout.total() - self._lost(layout.faded))

    def expected(self, anchor: Anchor) -> Estimate:
        """The size by a report and by what changed since."""
        return self._seen(self.foresee(anchor))

    def _seen(self, expected: Expected, layout: Layout | None = None, back: int = 0) -> Estimate:
        """The size that is expected; ``layout`` says what kind of content it is of.

        ``back`` are tokens that were taken out since and were not in the report either.
        """
        known, estimate = expected.known, self.estimator.band(expected.belief)
        model, tokenizer = expected.anchor.model, self.profile.tokenizer
        if model != self.profile.model:
            tokenizer = profiles.find(model).tokenizer
        if tokenizer == self.profile.tokenizer:
            known += back
            tokens, low = known + estimate.tokens, known + estimate.low
            return Estimate(tokens if tokens > 0 else 0, low if low > 0 else 0, known + estimate.high)
        known = round(known * self._exchange(tokenizer, layout.total() if layout else SAMPLE))
        low, high = floor(known * (1 - INEXACT)), ceil(known * (1 + INEXACT))
        return _on(known + back, low + back, high + back, estimate)

    def unanchored(self, weight: Weight) -> Estimate:
        """The size when no report holds: of messages that weigh ``weight``, and the overhead."""
        if self.overhead is None:
            return self.estimator.estimate(weight + self.opening)
        tokens, reach = self.overhead.tokens, 2 * sqrt(self.overhead.since)
        return _on(
            ceil(tokens), floor(tokens - reach), ceil(tokens + reach), self.estimator.estimate(weight)
        )

    def foresee(self, anchor: Anchor) -> Expected:
        """What the report after this one will say.

        Some clients note the output while it still streams, and then it is far below what the answer weighs. Of an
        answer that was cut off, a report that is below that at all counts only a part.
        """
        changed, known = anchor.since, anchor.prompt
        if anchor.removed is not NOTHING:
            changed -= anchor.removed
        if anchor.faded is not NOTHING:
            changed -= self._lost(anchor.faded)
        final = anchor.output >= (1.0 if anchor.cut else FINAL) * self.estimator.tokens(anchor.reply)
        if final:
            known += anchor.output
        else:
            changed += anchor.reply
        return Expected(self, anchor, known, self.estimator.believe(changed), final)

    def _beyond(self, prompt: int, weight: Weight) -> Overhead:
        """What a prompt of that size holds besides messages of that weight."""
        return Overhead(max(0.0, prompt - self.estimator.tokens(weight)), self.estimator.variance(weight))

    def _lost(self, faded: Weight) -> Weight:
        """Reasoning of earlier turns, if the model does not keep it."""
        return NOTHING if self.profile.thinking.kept else faded

    def _exchange(self, tokenizer: str, weight: Weight) -> float:
        """How many tokens of this gauge's model one token of another is, in content like this."""
        there = Estimator.of(tokenizer).tokens(weight)
        return Estimator.of(self.profile.tokenizer).tokens(weight) / there if there > 0 else 1.0


def _on(known: int, low: int, high: int, estimate: Estimate) -> Estimate:
    """An estimate on top of what is known within its own bounds; no conversation is less than nothing."""
    tokens = max(0, known + estimate.tokens)
    return Estimate(tokens, max(0, low + estimate.low), high + estimate.high)
