"""The ledger of clearings: whatever comes, a session costs at most a little more than with compaction only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sevenfold.layers.clear.ledger import SHARE, CostLedger, Terms

FIXED, LEFT = 8_000, 20_000
SUMMARY = 3_000
PER_TOKEN = 1e-6


class Step(NamedTuple):
    """What happens before a request: so much is said, after a pause or not, and so much could be cleared."""

    new: int
    cold: bool
    clearable: int


class Prices(NamedTuple):
    read: float
    write: float
    output: float


@dataclass
class Bill:
    """A conversation of this size, and what it has cost: written out request by request, without the ledger."""

    prices: Prices
    size: int = FIXED
    usd: float = 0.0

    def request(self, new: int, *, cold: bool) -> None:
        """What was there is read, or written where the cache has expired; what is new is written."""
        self.usd += (self.size * self.rate(cold) + new * self.prices.write) * PER_TOKEN
        self.size += new

    def clear(self, new: int, tokens: int, *, cold: bool) -> None:
        """Everything behind system and tools is written again."""
        self.size += new - tokens
        fixed = FIXED * self.rate(cold)
        self.usd += (fixed + (self.size - FIXED) * self.prices.write) * PER_TOKEN

    def compact(self, new: int, *, cold: bool) -> None:
        """A call that reads everything and writes a summary, then a request with the summary."""
        self.request(new, cold=cold)
        after = FIXED * self.prices.read + (LEFT - FIXED) * self.prices.write
        self.usd += (SUMMARY * self.prices.output + after) * PER_TOKEN
        self.size = LEFT

    def rate(self, cold: bool) -> float:
        return self.prices.write if cold else self.prices.read


def terms(prices: Prices, cold: bool) -> Terms:
    summary = SUMMARY * prices.output * PER_TOKEN
    return Terms(prices.read * PER_TOKEN, prices.write * PER_TOKEN, cold, FIXED, LEFT, summary)


steps = st.lists(
    st.builds(
        Step,
        new=st.one_of(st.integers(0, 3_000), st.integers(0, 80_000)),
        cold=st.sampled_from([False] * 7 + [True]),
        clearable=st.one_of(st.just(0), st.integers(1_000, 400_000)),
    ),
    max_size=300,
)
prices = st.sampled_from([Prices(0.5, 6.25, 25.0), Prices(0.2, 4.0, 10.0), Prices(1.0, 1.0, 8.0)])
HOLDS_OUT = [Step(2_000, False, 0)] * 60 + [Step(500, False, 90_000)] + [Step(40, False, 0)] * 240
PAUSES = [Step(9_000, n % 6 == 5, 30_000 if n % 6 == 5 else 0) for n in range(200)]


@pytest.mark.spec("S2.12", "S9.6")
@given(steps, prices, st.sampled_from([90_000, 167_000, 967_000]))
@example(HOLDS_OUT, Prices(0.5, 6.25, 25.0), 167_000)
@example(PAUSES, Prices(0.5, 6.25, 25.0), 90_000)
def test_clearing_below_the_threshold_costs_at_most_its_share_above_compaction_only_at_any_request(
    said: list[Step], price: Prices, threshold: int
) -> None:
    ours, other, ledger = Bill(price), Bill(price), CostLedger()
    compactions = [0, 0]
    for step in said:
        now, size = terms(price, step.cold), ours.size + step.new
        owed = ledger.owed
        ledger = ledger.grown(size, threshold, now)
        due = size >= threshold or (ledger.ahead > 0 and not ledger.bears(ours.usd, now))
        tokens = min(step.clearable, max(0, ours.size - FIXED))
        rest = 0.0 if step.cold else (size - FIXED - tokens) * (now.write - now.read)
        cleared = ledger.cleared(tokens, rest, now.rate)
        if due and tokens and size - tokens <= 0.75 * threshold:
            # The order of the layers decides, so the session without clearing below the threshold does the same.
            before = ours.usd
            ours.clear(step.new, tokens, cold=step.cold)
            other = replace(ours, usd=other.usd + ours.usd - before)
            ledger = CostLedger(owed, 0, now.rate)
            assert ours.usd <= (1 + SHARE) * other.usd + 1e-9
            continue
        if tokens and size - tokens < threshold and cleared.bears(ours.usd, now):
            ours.clear(step.new, tokens, cold=step.cold)
            ledger = cleared
        elif due:
            ours.compact(step.new, cold=step.cold)
            compactions[0] += 1
            ledger = ledger.compacted(now)
        else:
            ours.request(step.new, cold=step.cold)
        if other.size + step.new >= threshold:
            other.compact(step.new, cold=step.cold)
            compactions[1] += 1
        else:
            other.request(step.new, cold=step.cold)
        ledger = ledger.requested(1)
        assert ours.usd <= (1 + SHARE) * other.usd + 1e-9
        assert ours.usd - other.usd <= ledger.owed + 1e-9, "what is owed is never understated"
        assert compactions[0] <= compactions[1], "clearing only ever puts compactions off"


@pytest.mark.spec("S2.12")
def test_what_a_clearing_saves_may_be_spent_on_putting_a_compaction_off() -> None:
    now = terms(Prices(0.5, 6.25, 25.0), cold=False)
    ledger = CostLedger().grown(100_000, 167_000, now).cleared(50_000, 0.2, now.rate)
    assert ledger.requested(10).owed == pytest.approx(0.2 - 10 * 50_000 * now.read)
    rich, poor = ledger.requested(100), ledger.requested(1)
    assert rich.grown(120_000, 167_000, now).bears(5.0, now)
    assert not poor.grown(120_000, 167_000, now).bears(5.0, now)
