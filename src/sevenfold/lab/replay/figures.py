"""What a replay found: the figures of a session under a policy, their totals, and the limits for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

from msgspec import Struct


class FactCounts(Struct, frozen=True):
    """Where the facts of a session are at its end."""

    in_context: int = 0
    reachable: int = 0
    """Facts that are not in the context, and that the model can look up."""
    lost: int = 0

    def __add__(self, other: FactCounts) -> FactCounts:
        return FactCounts(
            self.in_context + other.in_context, self.reachable + other.reachable, self.lost + other.lost
        )

    @property
    def retention(self) -> float:
        """The share of the facts that is not lost."""
        return (self.in_context + self.reachable) / max(1, self.in_context + self.reachable + self.lost)


class RuleCounts(Struct, frozen=True):
    """How many of the user's rules and corrections the context has at the end of a session."""

    in_context: int = 0
    lost: int = 0

    def __add__(self, other: RuleCounts) -> RuleCounts:
        return RuleCounts(self.in_context + other.in_context, self.lost + other.lost)


class ReplayFigures(Struct, frozen=True, kw_only=True):
    """The figures of one session under one policy, as they are in reports."""

    file: str
    policy: str
    cost_usd: float | None
    """None if the policy did not hold the session to its end, or if the prices of the model are unknown."""
    ideal_cost_usd: float | None
    """What the same requests would have cost with a perfect cache."""
    cache_read_share: float | None
    unexpected_breaks: int
    """Losses of the cache that neither a decision of the policy nor a pause explains."""
    peak_context_tokens: int
    compactions: int
    foreground_waits: int
    """How often the session waited for a summary."""
    facts: FactCounts
    rules: RuleCounts


class Series(Struct, frozen=True):
    """The course of a replay, request by request; the request counts from 1, as in the recording."""

    request: tuple[int, ...]
    context_tokens: tuple[int, ...]
    cost_usd: tuple[float | None, ...]
    """What it had cost up to that request."""


class Replayed(Struct, frozen=True, kw_only=True):
    """A session under a policy."""

    figures: ReplayFigures
    model: str
    window: int
    requests: int
    """How many requests the session has."""
    prompt_tokens: int
    """Tokens of all prompts, those of summaries and notes included."""
    read_tokens: int
    """How many of them were read from the cache."""
    stand_in: bool
    """Whether a summary was made for which the recording has no text."""
    failure: str = ""
    """Why the policy did not hold the session to its end; empty if it did."""
    series: Series

    @property
    def completed(self) -> bool:
        """Whether the policy held the session to its end."""
        return not self.failure


class PolicyTotal(Struct, frozen=True, kw_only=True):
    """The figures of all sessions under one policy."""

    policy: str
    sessions: int
    failed: int
    """How many of them it did not hold to their end; the other figures are of those that it held."""
    cost_usd: float | None
    ideal_cost_usd: float | None
    cache_read_share: float | None
    unexpected_breaks: int
    peak_context_tokens: int
    compactions: int
    foreground_waits: int
    facts: FactCounts
    rules: RuleCounts


def totals(replays: Sequence[Replayed]) -> list[PolicyTotal]:
    """The totals by policy, in the order of their first appearance."""
    by_policy: dict[str, list[Replayed]] = {}
    for replayed in replays:
        by_policy.setdefault(replayed.figures.policy, []).append(replayed)
    return [_total(policy, replays_of_policy) for policy, replays_of_policy in by_policy.items()]


def _total(policy: str, replays: Sequence[Replayed]) -> PolicyTotal:
    completed = [replayed.figures for replayed in replays if replayed.completed]
    peaks = [figures.peak_context_tokens for figures in completed]
    prompt = sum(replayed.prompt_tokens for replayed in replays if replayed.completed)
    read = sum(replayed.read_tokens for replayed in replays if replayed.completed)
    return PolicyTotal(
        policy=policy,
        sessions=len(replays),
        failed=len(replays) - len(completed),
        cost_usd=_sum(figures.cost_usd for figures in completed),
        ideal_cost_usd=_sum(figures.ideal_cost_usd for figures in completed),
        cache_read_share=read / prompt if prompt else None,
        unexpected_breaks=sum(figures.unexpected_breaks for figures in completed),
        peak_context_tokens=max(peaks, default=0),
        compactions=sum(figures.compactions for figures in completed),
        foreground_waits=sum(figures.foreground_waits for figures in completed),
        facts=sum((figures.facts for figures in completed), FactCounts()),
        rules=sum((figures.rules for figures in completed), RuleCounts()),
    )


def _sum(costs: Iterable[float | None]) -> float | None:
    listed = list(costs)
    known_costs = [cost for cost in listed if cost is not None]
    return fsum(known_costs) if listed and len(known_costs) == len(listed) else None


class ReplayLimits(Struct, frozen=True, kw_only=True):
    """What a replay may at most cost and lose."""

    max_cost: float | None = None
    """US dollars, for all sessions under one policy."""
    min_retention: float | None = None
    """The least share of the facts that must be in the context or within reach."""
    no_unexpected_breaks: bool = False

    @property
    def any(self) -> bool:
        """Whether there is any limit."""
        return self != ReplayLimits()

    def exceeded(self, total: PolicyTotal) -> list[str]:
        """In sentences, what a policy exceeds."""
        if not self.any:
            return []
        problems: list[str] = []
        if total.failed:
            problems.append(f"{total.failed} of {total.sessions} sessions did not fit the window")
        if self.max_cost is not None and total.cost_usd is None and not total.failed:
            problems.append("its cost is unknown, because the model has no known price")
        if self.max_cost is not None and (total.cost_usd or 0.0) > self.max_cost:
            problems.append(
                f"it costs ${total.cost_usd:,.2f}, and at most ${self.max_cost:,.2f} is allowed"
            )
        retention = total.facts.retention
        if self.min_retention is not None and retention < self.min_retention:
            problems.append(
                f"{retention:.2%} of the facts are in the context or within reach, "
                f"and at least {self.min_retention:.2%} must be"
            )
        if self.no_unexpected_breaks and total.unexpected_breaks:
            problems.append(f"the cache broke {total.unexpected_breaks} times for no announced reason")
        return problems
