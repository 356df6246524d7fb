"""What changed requests cost beside what the program's own would have cost, judged by what the provider reports.

A request that we change is smaller, and so should be cheaper from the second one on: the first one behind a summary
writes a new beginning to the provider's cache. If requests stay dearer, the cache does not hold what we send, and
nothing that we do in this conversation can pay: it is better left alone.

What the program's own request would have cost is predicted from the same report. Its tokens are those of the sent body,
scaled by the bytes of both, and its cache would have held everything but what is new in it.
"""

from __future__ import annotations

from msgspec import Struct

from sevenfold.profiles import Profile
from sevenfold.record.usage import MILLION, Usage

MOST_DEARER = 3
"""After how many dearer requests in a row a conversation is left alone."""
CERTAINLY_DEARER = 1.05
"""From which share of the prediction on a request counts as dearer: bytes tell tokens only roughly."""
LONG_LIFETIME = 3600
SHORT_LIFETIME = 300


class JudgedRequest(Struct, frozen=True):
    """A request as it went out."""

    own_bytes: int
    """The size of the program's own body."""
    sent_bytes: int
    at: float
    is_changed: bool
    continues: bool
    """Whether the program's own request continues the one before it, so that a cache would have held that."""


class ProgramsCompaction(Struct, frozen=True):
    """How a program would compact its conversation by itself."""

    threshold: int
    """From how many tokens on."""
    summary_usd: float = 0.0
    """What its call for a summary would cost there."""


class Savings(Struct, frozen=True):
    """What was saved so far, and how many requests in a row were dearer."""

    usd: float = 0.0
    """What changed requests cost less than the program's own would have; our own calls are not part of it."""
    certain_usd: float = 0.0
    """The same, compared with a program that compacts at its threshold: larger requests it would not have sent,
    but it would have paid for its summary."""
    dearer: int = 0
    """Changed requests in a row that were dearer."""


class RequestJudge:
    """Compares the requests of one conversation with what the program's own would have cost."""

    def __init__(self) -> None:
        self.savings = Savings()
        self.untouched_tokens = 0.0
        """About how many tokens the program's own request would have had, instead of the newest changed one."""
        self._next_compaction = 0.0
        """At how many tokens of its own the program alone would compact next; 0 for its threshold."""
        self._sent: JudgedRequest | None = None
        self._own_bytes_before = 0
        """The size of the program's own body in the request before."""
        self._answered_at: float | None = None
        """When the request before was answered."""
        self._lifetime = SHORT_LIFETIME
        self._has_cache = False
        """Whether the provider has reported any use of a cache in this conversation."""

    def sent(self, request: JudgedRequest) -> None:
        """Take note of the request that goes out now."""
        self._sent = request

    def answered(self, usage: Usage, profile: Profile, now: float, alone: ProgramsCompaction) -> Savings:
        """Judge the newest request by the usage that its answer reports; returns all savings so far.

        ``alone`` is how the program would compact by itself.
        """
        sent = self._sent
        if sent is None:
            return self.savings
        self._sent = None
        if usage.cache_creation_input_tokens or usage.cache_read_input_tokens:
            self._has_cache = True
        if usage.cache_creation_input_tokens:
            is_long = usage.cache_creation_1h > usage.cache_creation_5m
            self._lifetime = LONG_LIFETIME if is_long else SHORT_LIFETIME
        if sent.is_changed:
            self._judge(sent, usage, profile, alone)
        self._own_bytes_before = sent.own_bytes
        self._answered_at = now
        return self.savings

    def _judge(
        self, sent: JudgedRequest, usage: Usage, profile: Profile, alone: ProgramsCompaction
    ) -> None:
        """Add a changed request to the savings, if what the program's own would have cost can be told."""
        if self._answered_at is None or not sent.continues:
            return
        paid = usage.billed.cost(profile)
        untouched = usage.first_round.prompt * sent.own_bytes / sent.sent_bytes
        self.untouched_tokens = untouched
        price = profile.price(round(untouched))
        if paid is None or price is None:
            return
        is_held = self._has_cache and sent.at - self._answered_at <= self._lifetime
        share_held = min(1.0, self._own_bytes_before / sent.own_bytes) if is_held else 0.0
        write = price.write(self._lifetime) if self._has_cache else price.input
        per_token = share_held * price.read + (1 - share_held) * write
        predicted = (untouched * per_token + usage.output_tokens * price.output) / MILLION
        is_dearer = paid > CERTAINLY_DEARER * predicted
        dearer = self.savings.dearer + 1 if is_dearer else 0
        saved = predicted - paid
        certain = self._certainly_saved(saved, untouched, usage.first_round.prompt, alone)
        self.savings = Savings(self.savings.usd + saved, self.savings.certain_usd + certain, dearer)

    def _certainly_saved(
        self, saved: float, untouched: float, prompt: int, alone: ProgramsCompaction
    ) -> float:
        """What one request saved compared with a program that would have compacted at its threshold."""
        if untouched < alone.threshold:
            self._next_compaction = 0.0
            return saved
        certain = min(saved, 0.0)
        if untouched >= max(self._next_compaction, alone.threshold):
            # It would have had to compact here, and again once it has grown by as much as it had room for then.
            certain += alone.summary_usd
            self._next_compaction = untouched + max(alone.threshold - prompt, 1)
        return certain
