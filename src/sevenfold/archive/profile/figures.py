"""The figures of a profile, and their sums over sessions; their names and nesting are the JSON contract.

`docs/profile.md` explains each one; names may be added, never changed. Tokens are whole numbers. Money is in US
dollars, None if no price is known.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from itertools import chain
from math import fsum
from typing import Any

from msgspec import Struct, structs

LARGEST = 100
"""How many of a session's largest items are kept."""


class UsageSums(Struct, frozen=True):
    """The usage that the provider reported, summed over the calls."""

    input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens: int = 0

    @property
    def prompt(self) -> int:
        """All prompt tokens, however they were billed."""
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens


class CacheBreak(Struct, frozen=True):
    """Prompt tokens that were paid for again instead of being read from the cache."""

    cause: str
    tokens: int
    call: int
    """The number of the call, counted from 1 over the whole session."""
    idle_seconds: int | None = None
    """Seconds since the previous request of the same conversation."""
    cost_usd: float | None = None
    """The extra cost compared with reading the same tokens from the cache."""
    request: int = 0
    """The number of the request within its conversation, counted from 1."""
    lane: int = 0
    """The conversation: 0 for the main one."""


class Shrinking(Struct, frozen=True):
    """A compaction or a clearing."""

    call: int
    """The number of calls before it."""
    trigger: str
    tokens_before: int | None = None
    tokens_after: int | None = None
    """The size of the next prompt, as reported; None if no call followed."""
    results: int = 0
    """How many tool results were cleared."""
    request: int = 0
    """The number of requests of the same conversation before it."""
    lane: int = 0
    """The conversation: 0 for the main one."""


class LargeItem(Struct, frozen=True):
    """One of the largest pieces of content in the context."""

    category: str
    tool: str
    what: str
    """The file, the command, or the first words."""
    tokens: int
    calls: int
    """How many prompts contained it."""


class Repeats(Struct, frozen=True):
    """Files that were read again although their text had not changed."""

    reads: int = 0
    """Reads whose text was still in the context from an earlier read."""
    tokens: int = 0
    after_loss: int = 0
    """Reads that were needed because the earlier text had been compacted or cleared."""


class Growth(Struct, frozen=True):
    """Growth of the prompt from call to call, and two estimates of it: four characters per token, and ours."""

    steps: int = 0
    actual_tokens: int = 0
    chars4_tokens: int = 0
    estimate_tokens: int = 0
    chars4_median_error: float | None = None
    estimate_median_error: float | None = None

    @property
    def chars4_share(self) -> float | None:
        """The estimate by four characters per token, as a share of the real growth."""
        return self.chars4_tokens / self.actual_tokens if self.actual_tokens > 0 else None

    @property
    def estimate_share(self) -> float | None:
        """Our estimate, as a share of the real growth."""
        return self.estimate_tokens / self.actual_tokens if self.actual_tokens > 0 else None


class Point(Struct, frozen=True, array_like=True):
    """The size of one prompt: seconds since 1970, tokens, and the lane, which is 0 for the main conversation."""

    at: float | None
    tokens: int
    lane: int = 0


class DayUsage(Struct, frozen=True, kw_only=True):
    """The calls of a session to one model on one day."""

    day: str | None
    """The date in the local time zone, as YYYY-MM-DD."""
    model: str
    api_calls: int
    usage: UsageSums
    cost_usd: float | None
    unpriced_calls: int = 0


class ProfileSums(Struct, frozen=True, kw_only=True):
    """The figures that exist for one session and for all sessions together."""

    models: dict[str, int] = {}
    """Calls by model."""
    api_calls: int = 0
    side_calls: int = 0
    """How many of `api_calls` were made by sub-agents in the same file."""
    engine_calls: int = 0
    """How many of `api_calls` Sevenfold made for its own work: notes, summaries, memory."""
    usage: UsageSums = UsageSums()
    compactions: int = 0
    clearings: int = 0
    cost_usd: float | None = 0.0
    uncached_cost_usd: float | None = 0.0
    ideal_cost_usd: float | None = 0.0
    unpriced_calls: int = 0
    tokens_by_category: dict[str, int] = {}
    carried_by_category: dict[str, int] = {}
    """Each token counted once for every prompt that contained it, as it is billed."""
    peak_context_tokens: int = 0
    """The largest prompt; in a total, that of any session."""
    largest_items: list[LargeItem] = []
    repeated_reads: Repeats = Repeats()
    growth: Growth = Growth()
    hour_lifetime_extra_usd: float = 0.0
    """What the same cache writes would have cost more with a lifetime of one hour, where it was five minutes."""
    partial_outputs: int = 0
    """Calls whose output was recorded before it was complete, so their cost is too low."""
    damaged_lines: int = 0
    unknown_lines: dict[str, int] = {}
    """Records of unknown types, by type."""
    repairs: dict[str, int] = {}
    """Defects of the recorded conversation that a server would refuse, by kind."""


class SessionProfile(ProfileSums, frozen=True, kw_only=True):
    """The profile of one transcript file."""

    file: str
    session_id: str
    title: str = ""
    """The title of the session, or the user's first words."""
    project: str = ""
    """The folder it worked in."""
    agent_id: str | None = None
    """The sub-agent, if the file contains only its records."""
    parent: str | None = None
    """The id of the session that started it, if the file contains only a sub-agent's records."""
    format: str
    started: str | None = None
    ended: str | None = None
    window_tokens: int | None = None
    window_source: str | None = None
    """Where the window is from: ``recorded``, ``inferred`` from what happened, or the ``model``'s."""
    usage_by_day: list[DayUsage] = []
    cache_breaks: list[CacheBreak] = []
    compaction_events: list[Shrinking] = []
    clearing_events: list[Shrinking] = []
    unrecorded_events: list[Shrinking] = []
    """Drops in prompt size that no record explains."""
    context_over_time: list[Point] = []


class BreakSum(Struct, frozen=True):
    """All cache breaks of one cause."""

    cause: str
    tokens: int
    count: int
    cost_usd: float | None = None


class ProfileTotal(ProfileSums, frozen=True, kw_only=True):
    """All sessions together."""

    sessions: int
    copied_calls: int
    """Copies of calls in other files, because a session was resumed or forked; they are not counted again."""
    cache_breaks: list[BreakSum]


class UsageGroup(Struct, frozen=True, kw_only=True):
    """The usage of one day, week, month, model or project."""

    group: str | None
    """The name of the group: a week is named by its first day, a month as YYYY-MM; None if unknown."""
    sessions: int
    api_calls: int
    usage: UsageSums
    cost_usd: float | None
    unpriced_calls: int


class FailedFile(Struct, frozen=True):
    """A file that could not be profiled."""

    file: str
    error: str


class ProfileReport(Struct, frozen=True):
    """The result of profiling a set of files."""

    sessions: list[SessionProfile]
    total: ProfileTotal
    errors: list[FailedFile] = []
    by: str | None = None
    """The grouping of `groups`: ``day``, ``week``, ``month``, ``model`` or ``project``."""
    groups: list[UsageGroup] = []
    since: str | None = None
    """The time from which calls are counted."""


# -- sums over sessions ------------------------------------------------------------------------


def _week(day: str) -> str:
    """The Monday of a day's week."""
    day_of_week = date.fromisoformat(day)
    return (day_of_week - timedelta(days=day_of_week.weekday())).isoformat()


GROUPS: dict[str, Callable[[SessionProfile, DayUsage], str | None]] = {
    "day": lambda session, used: used.day,
    "week": lambda session, used: used.day and _week(used.day),
    "month": lambda session, used: used.day and used.day[:7],
    "model": lambda session, used: used.model,
    "project": lambda session, used: session.project or None,
}
"""The possible groupings; each function returns the group of some calls, None if the transcript does not say."""
_TIMES = ("day", "week", "month")


def groups(sessions: Iterable[SessionProfile], by: str) -> list[UsageGroup]:
    """The usage of each group; times are in order, other groups by cost, highest first."""
    by_group: defaultdict[str | None, list[tuple[str, DayUsage]]] = defaultdict(list)
    for session in sessions:
        for used in session.usage_by_day:
            by_group[GROUPS[by](session, used)].append((session.session_id, used))
    sums = [
        UsageGroup(
            group=group,
            sessions=len({session for session, _ in used_by_session}),
            **_added(DayUsage, [used for _, used in used_by_session]),
        )
        for group, used_by_session in by_group.items()
    ]
    if by in _TIMES:
        return sorted(sums, key=lambda usage: usage.group or "")
    return sorted(
        sums, key=lambda usage: (-(usage.cost_usd or 0.0), -usage.usage.prompt, usage.group or "")
    )


def total(sessions: Sequence[SessionProfile], copied_calls: int = 0) -> ProfileTotal:
    """Add up sessions; for peaks and largest items, take the largest."""
    sums = _added(ProfileSums, sessions)
    items = chain.from_iterable(session.largest_items for session in sessions)
    # Only the sums: medians cannot be added up.
    steps = ("steps", "actual_tokens", "chars4_tokens", "estimate_tokens")
    growths = ({name: getattr(session.growth, name) for name in steps} for session in sessions)
    sums |= {
        "models": dict(Counter(sums["models"]).most_common()),
        "peak_context_tokens": max((session.peak_context_tokens for session in sessions), default=0),
        "largest_items": sorted(items, key=lambda item: -item.tokens)[:LARGEST],
        "growth": Growth(**counts(growths)),
    }
    return ProfileTotal(
        **sums, sessions=len(sessions), copied_calls=copied_calls, cache_breaks=_breaks(sessions)
    )


def _added(kind: type[Struct], structs_to_add: Sequence[Struct]) -> dict[str, Any]:
    """The sums of all fields whose type can be added up."""
    sums: dict[str, Any] = {}
    for field in structs.fields(kind):
        values = [getattr(usage, field.name) for usage in structs_to_add]
        if field.type is int:
            sums[field.name] = sum(values)
        elif field.type == float | None:
            sums[field.name] = money(values)
        elif field.type is float:
            sums[field.name] = fsum(values)
        elif field.type == dict[str, int]:
            sums[field.name] = counts(values)
        elif field.type in (UsageSums, Repeats):
            sums[field.name] = field.type(**counts(map(structs.asdict, values)))
    return sums


def counts(several: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add up several counts, name by name."""
    sums: Counter[str] = Counter()
    for counts in several:
        for name, count in counts.items():
            sums[name] += count
    return dict(sorted(sums.items()))


def money(optional_amounts: Iterable[float | None]) -> float | None:
    """Add up the known amounts; None if there are amounts but none is known."""
    amounts = list(optional_amounts)
    known_amounts = [amount for amount in amounts if amount is not None]
    return fsum(known_amounts) if known_amounts or not amounts else None


def _breaks(sessions: Sequence[SessionProfile]) -> list[BreakSum]:
    by_cause = defaultdict(list)
    for session in sessions:
        for broken in session.cache_breaks:
            by_cause[broken.cause].append(broken)
    sums = [
        BreakSum(
            cause,
            sum(broken.tokens for broken in breaks),
            len(breaks),
            money(broken.cost_usd for broken in breaks),
        )
        for cause, breaks in by_cause.items()
    ]
    return sorted(sums, key=lambda broken: -broken.tokens)
