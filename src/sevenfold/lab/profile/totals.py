"""All sessions of a run added up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import fsum

from sevenfold.lab.profile.context import LARGEST
from sevenfold.lab.profile.figures import BreakSum, Growth, Session, Total, UsageSums
from sevenfold.lab.profile.repeats import added


def total(sessions: Sequence[Session], copied_calls: int = 0) -> Total:
    """The sums; of peaks and largest items, the largest."""
    items = [item for session in sessions for item in session.largest_items]
    return Total(
        sessions=len(sessions),
        api_calls=sum(session.api_calls for session in sessions),
        side_calls=sum(session.side_calls for session in sessions),
        copied_calls=copied_calls,
        usage=UsageSums(
            **_counts({n: getattr(s.usage, n) for n in UsageSums.__struct_fields__} for s in sessions)
        ),
        compactions=sum(session.compactions for session in sessions),
        clearings=sum(session.clearings for session in sessions),
        cost_usd=_money(session.cost_usd for session in sessions),
        uncached_cost_usd=_money(session.uncached_cost_usd for session in sessions),
        ideal_cost_usd=_money(session.ideal_cost_usd for session in sessions),
        unpriced_calls=sum(session.unpriced_calls for session in sessions),
        tokens_by_category=_counts(session.tokens_by_category for session in sessions),
        carried_by_category=_counts(session.carried_by_category for session in sessions),
        peak_context_tokens=max((session.peak_context_tokens for session in sessions), default=0),
        cache_breaks=_breaks(sessions),
        largest_items=sorted(items, key=lambda item: -item.tokens)[:LARGEST],
        repeated_reads=added([session.repeated_reads for session in sessions]),
        growth=_growth(sessions),
        models=dict(Counter(_counts(session.models for session in sessions)).most_common()),
        partial_outputs=sum(session.partial_outputs for session in sessions),
        damaged_lines=sum(session.damaged_lines for session in sessions),
        unknown_lines=_counts(session.unknown_lines for session in sessions),
        repairs=_counts(session.repairs for session in sessions),
    )


def _counts(each: Iterable[dict[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for counts in each:
        for name, count in counts.items():
            sums[name] += count
    return dict(sorted(sums.items()))


def _money(each: Iterable[float | None]) -> float | None:
    """The sum of what is known; None only where nothing is."""
    amounts = list(each)
    known = [amount for amount in amounts if amount is not None]
    return fsum(known) if known or not amounts else None


def _breaks(sessions: Sequence[Session]) -> list[BreakSum]:
    found = defaultdict(list)
    for session in sessions:
        for one in session.cache_breaks:
            found[one.cause].append(one)
    sums = [
        BreakSum(cause, sum(one.tokens for one in each), len(each), _money(one.cost_usd for one in each))
        for cause, each in found.items()
    ]
    return sorted(sums, key=lambda one: -one.tokens)


def _growth(sessions: Sequence[Session]) -> Growth:
    """Medians cannot be added up, so a total has none."""
    each = [session.growth for session in sessions]
    return Growth(
        steps=sum(one.steps for one in each),
        actual_tokens=sum(one.actual_tokens for one in each),
        chars4_tokens=sum(one.chars4_tokens for one in each),
        estimate_tokens=sum(one.estimate_tokens for one in each),
    )
