"""Sums over sessions: all of them together, and by day, week, month, model or project."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from math import fsum
from typing import Any

from msgspec import structs

from sevenfold.lab.profile.figures import (
    LARGEST,
    BreakSum,
    DayUsage,
    Growth,
    ProfileSums,
    ProfileTotal,
    Repeats,
    SessionProfile,
    UsageGroup,
    UsageSums,
)


def _week(day: str) -> str:
    """The Monday of a day's week."""
    found = date.fromisoformat(day)
    return (found - timedelta(days=found.weekday())).isoformat()


GROUPS: dict[str, Callable[[SessionProfile, DayUsage], str | None]] = {
    "day": lambda session, used: used.day,
    "week": lambda session, used: used.day and _week(used.day),
    "month": lambda session, used: used.day and used.day[:7],
    "model": lambda session, used: used.model,
    "project": lambda session, used: session.project or None,
}
"""By what sessions can be grouped; each finds the group of some calls, None if the transcript does not say."""
_TIMES = ("day", "week", "month")


def groups(sessions: Iterable[SessionProfile], by: str) -> list[UsageGroup]:
    """What was used in each group: times in their order, anything else by cost."""
    found: defaultdict[str | None, list[tuple[str, DayUsage]]] = defaultdict(list)
    for session in sessions:
        for used in session.usage_by_day:
            found[GROUPS[by](session, used)].append((session.session_id, used))
    made = [
        UsageGroup(
            group=group,
            sessions=len({session for session, _ in each}),
            api_calls=sum(used.api_calls for _, used in each),
            usage=UsageSums(**counts(structs.asdict(used.usage) for _, used in each)),
            cost_usd=money(used.cost_usd for _, used in each),
            unpriced_calls=sum(used.unpriced_calls for _, used in each),
        )
        for group, each in found.items()
    ]
    if by in _TIMES:
        return sorted(made, key=lambda one: one.group or "")
    return sorted(made, key=lambda one: (-(one.cost_usd or 0.0), -one.usage.prompt, one.group or ""))


def total(sessions: Sequence[SessionProfile], copied_calls: int = 0) -> ProfileTotal:
    """The sums; of peaks and largest items, the largest."""
    sums: dict[str, Any] = {}
    for one in structs.fields(ProfileSums):
        each = [getattr(session, one.name) for session in sessions]
        if one.type is int:
            sums[one.name] = sum(each)
        elif one.type == float | None:
            sums[one.name] = money(each)
        elif one.type == dict[str, int]:
            sums[one.name] = counts(each)
    items = [item for session in sessions for item in session.largest_items]
    # Medians cannot be added up.
    steps = ("steps", "actual_tokens", "chars4_tokens", "estimate_tokens")
    growths = ({name: getattr(session.growth, name) for name in steps} for session in sessions)
    sums |= {
        "models": dict(Counter(sums["models"]).most_common()),
        "usage": UsageSums(**counts(structs.asdict(session.usage) for session in sessions)),
        "peak_context_tokens": max((session.peak_context_tokens for session in sessions), default=0),
        "largest_items": sorted(items, key=lambda item: -item.tokens)[:LARGEST],
        "repeated_reads": Repeats(**counts(structs.asdict(session.repeated_reads) for session in sessions)),
        "growth": Growth(**counts(growths)),
    }
    return ProfileTotal(
        **sums, sessions=len(sessions), copied_calls=copied_calls, cache_breaks=_breaks(sessions)
    )


def counts(each: Iterable[dict[str, int]]) -> dict[str, int]:
    """The sum of some numbers, name by name."""
    sums: Counter[str] = Counter()
    for counts in each:
        for name, count in counts.items():
            sums[name] += count
    return dict(sorted(sums.items()))


def money(each: Iterable[float | None]) -> float | None:
    """The sum of the known amounts; None if there are amounts and none is known."""
    amounts = list(each)
    known = [amount for amount in amounts if amount is not None]
    return fsum(known) if known or not amounts else None


def _breaks(sessions: Sequence[SessionProfile]) -> list[BreakSum]:
    found = defaultdict(list)
    for session in sessions:
        for one in session.cache_breaks:
            found[one.cause].append(one)
    sums = [
        BreakSum(cause, sum(one.tokens for one in each), len(each), money(one.cost_usd for one in each))
        for cause, each in found.items()
    ]
    return sorted(sums, key=lambda one: -one.tokens)
