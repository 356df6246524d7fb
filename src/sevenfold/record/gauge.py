"""How large the conversation is now, in tokens.

Most of the size is known: the newest size that a server reported for this view, plus the output of that answer. Only
what was added or removed since is estimated. If no report is valid (before the first answer, after a compaction),
all messages are estimated, and the overhead is added: system prompt, tools and whatever a client sends without
recording it. The overhead is learnt from reports, as what they count beyond the messages; before the first one it
is estimated from the bytes of system and tools.

A `Gauge` is immutable: `observe` takes a report and returns a new gauge. It follows the model that answers; when the
tokenizer changes, what the other one counted is rescaled.
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
"""Answers of fewer tokens are not learnt from: most of their size is overhead."""

FINAL = 0.6
"""A reported output below this share of the answer's estimate was recorded while the answer still streamed."""

INEXACT = 0.05
"""The relative error of an overhead, and of a count converted from another tokenizer."""

SAMPLE = typical(100)
"""The weight of average text, to compare tokenizers with."""


class Size(Estimate, frozen=True, kw_only=True):
    """The size of what the model sees, from the newest report and what changed since."""

    sent: int
    """The size before the provider's own edits."""
    anchored: bool
    """Whether it is based on a report; if not, all of it is estimated."""
    freed: int
    """Tokens that decisions removed since the last report; already subtracted."""
    wire: int
    """Bytes of content in the request."""
    images: int
    """Images and documents in the request."""

    @property
    def band(self) -> int:
        """How many tokens larger it may really be."""
        return self.high - self.tokens


class Overhead(Struct, frozen=True):
    """Prompt tokens beyond the messages, as learnt from reports."""

    tokens: float
    variance: float

    @property
    def since(self) -> float:
        """The variance by now: system, tools and what a client adds change over time."""
        return self.variance + (INEXACT * self.tokens) ** 2

    def corrected(self, shown: Overhead) -> Overhead:
        """The overhead after another report; the more certain of the two counts for more."""
        gain = self.since / (self.since + shown.variance)
        return Overhead(self.tokens + gain * (shown.tokens - self.tokens), (1 - gain) * self.since)


class Expected(Struct, frozen=True, gc=False):
    """What a gauge expects the next report to say."""

    gauge: Gauge
    anchor: Anchor
    """The previous report."""
    reported: int
    """The tokens that the previous report accounts for."""
    belief: Belief
    """The estimate for the content it does not account for."""
    final: bool
    """Whether it counted the whole answer."""


class Gauge(Struct, frozen=True):
    """What is known about the size of a conversation apart from its content."""

    profile: Profile
    estimator: Estimator
    opening: Weight = NOTHING
    """The weight of system and tools, as far as their bytes are known."""
    overhead: Overhead | None = None
    """What prompts contain beyond the messages; None until a report has shown it."""

    @classmethod
    def of(cls, profile: Profile, *before_messages: bytes) -> Gauge:
        """The gauge for a new session, given the bytes of system and tools if they are known."""
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
        previous = measured.previous
        if previous is None or not previous.prompt:
            shown = gauge._beyond(prompt, measured.sent - gauge._lost(measured.faded))
            return replace(gauge, overhead=gauge.overhead.corrected(shown) if gauge.overhead else shown)
        other_model = previous.model != gauge.profile.model
        if other_model and profiles.find(previous.model).tokenizer != gauge.profile.tokenizer:
            return gauge
        # The estimate from before the request can be reused if nothing happened in between.
        expected = measured.expected
        if expected is None or expected.anchor is not previous or expected.gauge is not gauge:
            expected = gauge.expect_report(previous)
        estimator = gauge.estimator.corrected(expected.belief, prompt - expected.reported)
        if previous.output >= TELLING and expected.final:
            estimator = estimator.learn(previous.reply, previous.output)
        return replace(gauge, estimator=estimator)

    def after_compaction(self, tokens: int, weight: Weight, model: str) -> Gauge:
        """The gauge after a compaction that expected a context of ``tokens`` in all, with messages of this weight.

        That estimate was based on the whole conversation, of which this gauge may have seen only a part: if it is
        below the band of this gauge, it is taken as right, and the overhead is corrected.
        """
        gauge = self if model == self.profile.model else self.switched(profiles.find(model))
        if tokens >= gauge.unanchored(weight).low:
            return self
        return replace(gauge, overhead=gauge._beyond(tokens, weight))

    def switched(self, profile: Profile) -> Gauge:
        """The gauge for another model; what was learnt is rescaled if its tokenizer differs."""
        if profile.tokenizer == self.profile.tokenizer:
            return replace(self, profile=profile)
        changed = Gauge(profile, Estimator.of(profile.tokenizer), self.opening)
        if self.overhead is None:
            return changed
        scale = changed._exchange(self.profile.tokenizer, SAMPLE)
        rescaled = Overhead(self.overhead.tokens * scale, self.overhead.variance * scale**2)
        return replace(changed, overhead=rescaled)

    def opened(self, *before_messages: bytes) -> Gauge:
        """The gauge for other bytes of system and tools: the overhead changes by the difference."""
        weight = opening(*before_messages)
        if self.overhead is None or weight == self.opening:
            return replace(self, opening=weight)
        difference = weight - self.opening
        moved = Overhead(
            max(0.0, self.overhead.tokens + self.estimator.tokens(difference)),
            self.overhead.variance + self.estimator.variance(difference),
        )
        return replace(self, opening=weight, overhead=moved)

    # -- measuring ---------------------------------------------------------------------------

    @property
    def fixed(self) -> int:
        """Tokens of every prompt before its messages."""
        return ceil(self.overhead.tokens if self.overhead else self.estimator.tokens(self.opening))

    def size(self, view: View, *, edited: int = 0, back: int = 0) -> Size:
        """The size of the conversation, from which the provider's own edits remove ``edited`` tokens.

        ``back`` are tokens that the edits removed from the last request and will not remove from the next.

        Edits and decisions both remove the oldest results first. What both remove was not in the report, so it is
        not subtracted again. If an estimate of what is left then has a lower upper end, that estimate is used.
        """
        layout = view.layout
        anchor = layout.anchor
        freed = twice = 0
        if anchor is None or not anchor.prompt:
            anchor = None
            seen_size = self._counted(layout)
        else:
            if anchor.removed is not NOTHING:
                freed = ceil(self.estimator.tokens(anchor.removed))
                twice = max(0, min(edited, freed))
            layout.expected = self.expect_report(anchor)
            seen_size = self._seen(layout.expected, layout, twice + back)
        sent = seen_size.tokens + edited
        if twice and (estimated_size := self._counted(layout)).high < seen_size.high:
            seen_size = estimated_size
            sent = estimated_size.tokens
        return Size(
            seen_size.tokens,
            seen_size.low,
            seen_size.high,
            sent=sent,
            anchored=anchor is not None,
            freed=freed - twice,
            wire=layout.bytes + self.opening.wire,
            images=layout.pictures,
        )

    def _counted(self, layout: Layout) -> Estimate:
        """The size of everything in view, estimated from its weight alone."""
        return self.unanchored(layout.total() - self._lost(layout.faded))

    def expected(self, anchor: Anchor) -> Estimate:
        """The size from a report and what changed since."""
        return self._seen(self.expect_report(anchor))

    def _seen(self, expected: Expected, layout: Layout | None = None, back: int = 0) -> Estimate:
        """The expected size; ``layout`` has the content by which a count of another tokenizer is converted.

        ``back`` are tokens to add: they were removed since, but were not in the report either, or they return.
        """
        model = expected.anchor.model
        tokenizer = self.profile.tokenizer
        if model != self.profile.model:
            tokenizer = profiles.find(model).tokenizer
        if tokenizer == self.profile.tokenizer:
            estimate = self.estimator.band(expected.belief, expected.reported + back)
            return estimate if estimate.low >= 0 else Estimate(max(0, estimate.tokens), 0, estimate.high)
        reported = round(
            expected.reported * self._exchange(tokenizer, layout.total() if layout else SAMPLE)
        )
        low = floor(reported * (1 - INEXACT))
        high = ceil(reported * (1 + INEXACT))
        return _on(reported + back, low + back, high + back, self.estimator.band(expected.belief))

    def unanchored(self, weight: Weight) -> Estimate:
        """The size when no report is valid: messages of this weight plus the overhead."""
        if self.overhead is None:
            return self.estimator.estimate(weight + self.opening)
        tokens = self.overhead.tokens
        reach = 2 * sqrt(self.overhead.since)
        return _on(
            ceil(tokens), floor(tokens - reach), ceil(tokens + reach), self.estimator.estimate(weight)
        )

    def expect_report(self, anchor: Anchor) -> Expected:
        """What the next report is expected to say.

        Some clients record the output count while the answer still streams; it is then far below the estimate. For an
        interrupted answer, any count below the estimate is taken as incomplete.
        """
        changed = anchor.since
        reported = anchor.prompt
        if anchor.removed is not NOTHING:
            changed -= anchor.removed
        if anchor.faded is not NOTHING:
            changed -= self._lost(anchor.faded)
        final = anchor.output >= (1.0 if anchor.cut else FINAL) * self.estimator.tokens(anchor.reply)
        if final:
            reported += anchor.output
        else:
            changed += anchor.reply
        return Expected(self, anchor, reported, self.estimator.believe(changed), final)

    def _beyond(self, prompt: int, weight: Weight) -> Overhead:
        """The overhead in a prompt of this size with messages of this weight."""
        return Overhead(max(0.0, prompt - self.estimator.tokens(weight)), self.estimator.variance(weight))

    def _lost(self, faded: Weight) -> Weight:
        """The reasoning of earlier turns that is no longer in the prompt: none if the model keeps it."""
        return NOTHING if self.profile.thinking.kept else faded

    def _exchange(self, tokenizer: str, weight: Weight) -> float:
        """Tokens of this gauge's model per token of another tokenizer, in content of this weight."""
        there = Estimator.of(tokenizer).tokens(weight)
        return Estimator.of(self.profile.tokenizer).tokens(weight) / there if there > 0 else 1.0


def _on(base: int, low: int, high: int, estimate: Estimate) -> Estimate:
    """An estimate added to a known size that has bounds of its own; never negative."""
    tokens = max(0, base + estimate.tokens)
    return Estimate(tokens, max(0, low + estimate.low), high + estimate.high)
