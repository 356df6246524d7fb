"""Counts what happens in a session as it is read.

The reader reports a few kinds of events to the books: a piece entered the context, a call was made, its report was
updated, the context was compacted or cleared. A session has lanes: one for the main conversation, and one for every
sub-agent whose records are in the same file. Calls, tokens and money are counted per session; the context and the
cache are followed per lane.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import chain
from math import fsum
from typing import Any, Protocol, TypeVar

from msgspec import Struct, structs

from sevenfold.archive.profile import figures
from sevenfold.archive.profile.cache import HOUR, SHORT_LIFETIME, CallReport
from sevenfold.archive.profile.context import SessionTally, WindowWatch
from sevenfold.archive.profile.figures import DayUsage, Point, SessionProfile, Shrinking, UsageSums, money
from sevenfold.archive.profile.lane import Lane
from sevenfold.profiles import Profile, find, names

LEAST_FILLED = 0.6
"""The least share of its window that a client fills before it compacts automatically."""


def seconds(timestamp: str) -> float | None:
    """Convert a timestamp to seconds since 1970; None if it is invalid."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError):
        return None


class Scope(Struct, frozen=True):
    """Which calls are counted."""

    since: float | None = None
    """Count only calls at this time or later, in seconds since 1970."""
    elsewhere: Collection[int] = ()
    """The hashes of calls that are also in another file and counted there."""

    def counts(self, call: str, at: float | None) -> bool:
        """Whether a call is counted."""
        return self.is_late(at) and not (self.elsewhere and call_hash(call) in self.elsewhere)

    def is_late(self, at: float | None) -> bool:
        """Whether a time is not before ``since``; an unknown time counts only without ``since``."""
        return self.since is None or (at is not None and at >= self.since)


def call_hash(call: str) -> int:
    """A hash of a call id, the same in every process."""
    return int.from_bytes(blake2b(call.encode(errors="replace"), digest_size=8).digest())


class SessionWatch(Protocol):
    """Looks on as a session is read; lanes have the numbers under which the books opened them, the main one's is 0."""

    def window(self, lane: int) -> WindowWatch:
        """Look on at the context of a lane that was just opened."""

    def called(self, lane: int, request: int, report: CallReport) -> None:
        """A call with a known usage was made, the ``request``-th of its lane."""

    def updated(self, lane: int, report: CallReport) -> None:
        """The newest call of a lane has a newer report."""


class Books:
    """All counts of one session."""

    def __init__(self, watch: SessionWatch | None = None) -> None:
        self.watch = watch
        self.tally = SessionTally()
        self.calls = 0
        self.engine_reports: list[CallReport] = []
        """The calls the engine made for its own work."""
        self.damaged = 0
        self.unknown: Counter[str] = Counter()
        self.repairs: Counter[str] = Counter()
        self.compactions: list[Shrinking] = []
        self.clearings: list[Shrinking] = []
        self.unrecorded: list[Shrinking] = []
        """Drops of the prompt's size that no record explains."""
        self.breaks: list[figures.CacheBreak] = []
        self.points: list[Point] = []
        """The size of every prompt, in the order of the calls."""
        self.peak = 0
        """The largest prompt of them."""
        self.window: int | None = None
        """The window, where the transcript records it."""
        self.first: str | None = None
        self.last: str | None = None
        """The times of the first and the newest record, as they are written there."""
        self._lanes: list[Lane] = []
        self.settled: list[CallReport] = []
        """The calls whose report is final."""

    def open_lane(self, *, side: bool = False) -> Lane:
        """Open a lane for another conversation; ``side`` for a sub-agent's."""
        lane = Lane(self, len(self._lanes) + 1 if side else 0)
        self._lanes.append(lane)
        return lane

    def seen_at(self, timestamp: str) -> None:
        """Note the time of a record."""
        self.first = self.first or timestamp or None
        self.last = timestamp or self.last

    def billed(self, report: CallReport) -> None:
        """Count a call the engine made for its own work, outside the conversation."""
        self.calls += 1
        self.engine_reports.append(report)
        self.settled.append(report)

    def close(self, **known: Any) -> SessionProfile:
        """Close all lanes and return the profile; ``known`` holds the fields that are not counted here."""
        for lane in self._lanes:
            lane.close()
        return self.figures(**known)

    def figures(self, **known: Any) -> SessionProfile:
        """The profile if nothing came after what was read so far; changes nothing, so more can be read."""
        settled = [*self.settled, *(lane.open_report for lane in self._lanes if lane.open_report)]
        tally = self.tally.copied()
        for lane in self._lanes:
            lane.context.book_into(tally)
        days: dict[tuple[str | None, str], list[CallReport]] = {}
        for report in settled:
            days.setdefault((report.day, report.model or "unknown"), []).append(report)
        models = Counter(report.model or "unknown" for report in settled)
        spent = _spent(settled)
        ideal = fsum(lane.ideal_cost() for lane in self._lanes)
        window, known_from = self.window_of(models)
        # If a file contains only a sub-agent's records, that is its main conversation.
        main = min((lane.number for lane in self._lanes if lane.calls), default=0)
        compactions = [
            *self.compactions,
            *chain.from_iterable(lane.open_compactions for lane in self._lanes),
        ]
        clearings = [*self.clearings, *chain.from_iterable(lane.open_clearings for lane in self._lanes)]
        return SessionProfile(
            **known,
            models=dict(models.most_common()),
            started=self.first,
            ended=self.last,
            side_calls=sum(lane.calls for lane in self._lanes if lane.number != main),
            engine_calls=len(self.engine_reports),
            **spent,
            compactions=len(compactions),
            clearings=len(clearings),
            uncached_cost_usd=money(uncached for _, uncached in map(_costs, settled)),
            ideal_cost_usd=None if spent["cost_usd"] is None else ideal,
            hour_lifetime_extra_usd=fsum(map(_hour_extra, settled)),
            tokens_by_category=tally.by_category(),
            carried_by_category=tally.carried(),
            peak_context_tokens=self.peak,
            window_tokens=window,
            window_source=known_from,
            usage_by_day=[
                DayUsage(day=day, model=model, **_spent(calls)) for (day, model), calls in days.items()
            ],
            cache_breaks=_renumbered(self.breaks, main),
            compaction_events=_renumbered(compactions, main),
            clearing_events=_renumbered(clearings, main),
            unrecorded_events=_renumbered(self.unrecorded, main),
            largest_items=tally.largest(),
            repeated_reads=tally.repeats(),
            growth=tally.growth(),
            context_over_time=[
                structs.replace(point, lane=0) if point.lane == main else point for point in self.points
            ],
            partial_outputs=sum(not report.whole for report in settled),
            damaged_lines=self.damaged,
            unknown_lines=dict(self.unknown.most_common()),
            repairs=dict(self.repairs),
        )

    def window_of(self, models: Counter[str]) -> tuple[int | None, str | None]:
        """The window and its source: recorded in the transcript, inferred from what happened, or the model's."""
        if self.window:
            return self.window, "recorded"
        profile = find(models.most_common(1)[0][0]) if models else None
        if profile is None or not profile.known:
            return None, None
        inferred = self._inferred_window(profile)
        return (profile.window, "model") if inferred == profile.window else (inferred, "inferred")

    def _inferred_window(self, profile: Profile) -> int:
        """The window that the client seems to have used: the smallest of the provider's that fits every prompt.

        A client compacts automatically shortly before its window is full. So if it did so far below the model's window,
        it used a smaller one; and if a prompt was larger than that window, it used a larger one.
        """
        sizes_at_compaction = [
            event.tokens_before or 0 for event in self.compactions if event.trigger == "auto"
        ]
        compacted_early = sizes_at_compaction and max(sizes_at_compaction) < LEAST_FILLED * profile.window
        if not compacted_early and self.peak <= profile.window:
            return profile.window
        candidates = map(find, names())
        windows = [candidate.window for candidate in candidates if candidate.provider == profile.provider]
        return min((window for window in windows if window >= self.peak), default=profile.window)


def _spent(calls: Sequence[CallReport]) -> dict[str, Any]:
    """The usage and cost of some calls, under the field names of the figures."""
    names = UsageSums.__struct_fields__
    costs = [paid for paid, _ in map(_costs, calls)]
    usages = [call.usage for call in calls if call.usage]
    return {
        "api_calls": len(calls),
        "usage": UsageSums(**{name: sum(getattr(usage, name) for usage in usages) for name in names}),
        "cost_usd": money(costs),
        "unpriced_calls": costs.count(None),
    }


def _costs(call: CallReport) -> tuple[float, float] | tuple[None, None]:
    """The cost of a call, and its cost without a cache; None for both if either is unknown."""
    if call.usage is None:
        return None, None
    paid = call.usage.cost(call.profile)
    uncached = call.usage.uncached_cost(call.profile)
    return (None, None) if paid is None or uncached is None else (paid, uncached)


def _hour_extra(call: CallReport) -> float:
    """What a call would have cost more if its five-minute cache writes had been written for an hour."""
    price = call.profile.price(call.prompt)
    lifetimes = call.profile.cache.lifetimes
    if price is None or HOUR not in lifetimes:
        return 0.0
    short = call.used.cache_creation_input_tokens - call.used.cache_creation_1h
    return max(0, short) * (price.write(HOUR) - price.write(SHORT_LIFETIME)) / 1_000_000


E = TypeVar("E", figures.CacheBreak, Shrinking)


def _renumbered(events: Sequence[E], main: int) -> list[E]:
    """The events, with lane 0 for the main conversation, whichever its number was."""
    return [structs.replace(event, lane=0) if event.lane == main else event for event in events]
