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
from itertools import chain, groupby
from math import fsum
from typing import Any, Protocol, TypeVar

from msgspec import Struct, structs

from sevenfold.archive.profile import cache as caching
from sevenfold.archive.profile import figures
from sevenfold.archive.profile.cache import CacheFollower, CallReport, is_fall, lifetime_of
from sevenfold.archive.profile.context import SessionTally, WindowHistory, WindowWatch
from sevenfold.archive.profile.figures import DayUsage, Point, SessionProfile, Shrinking, UsageSums, money
from sevenfold.profiles import Profile, find, names
from sevenfold.record.usage import BilledCall, ideal_cost

SHORT_LIFETIME = 300
HOUR = 3600
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
        self.breaks: list[figures.CacheBreak] = []
        self.points: list[Point] = []
        self.peak = 0
        """The largest prompt of them."""
        self.window: int | None = None
        self.first: str | None = None
        self.last: str | None = None
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
        compactions = [*self.compactions, *self._pending(self.compactions)]
        clearings = [*self.clearings, *self._pending(self.clearings)]
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

    def _pending(self, events: list[Shrinking]) -> list[Shrinking]:
        """The events of this list after which no prompt came yet."""
        return [*chain.from_iterable(lane.pending_of(events) for lane in self._lanes)]

    def window_of(self, models: Counter[str]) -> tuple[int | None, str | None]:
        """The window and its source: recorded in the transcript, inferred from what happened, or the model's.

        A client compacts automatically shortly before its window is full. So if it did so far below the model's window,
        it used a smaller one: the smallest window of any of the provider's models that fits every prompt.
        """
        if self.window:
            return self.window, "recorded"
        profile = find(models.most_common(1)[0][0]) if models else None
        if profile is None or not profile.known:
            return None, None
        sizes_at_compaction = [
            event.tokens_before or 0 for event in self.compactions if event.trigger == "auto"
        ]
        compacted_early = sizes_at_compaction and max(sizes_at_compaction) < LEAST_FILLED * profile.window
        if compacted_early or self.peak > profile.window:
            provider_windows = (
                profile_of_model.window
                for profile_of_model in map(find, names())
                if profile_of_model.provider == profile.provider
            )
            fitting = (window for window in provider_windows if window >= self.peak)
            inferred = min(fitting, default=profile.window)
            if inferred != profile.window:
                return inferred, "inferred"
        return profile.window, "model"


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


class Lane:
    """One conversation of a session."""

    def __init__(self, books: Books, number: int) -> None:
        self.number = number
        self.calls = 0
        self.context = WindowHistory(books.tally, books.watch.window(number) if books.watch else None)
        self._books = books
        self._cache = CacheFollower()
        self._open: CallReport | None = None
        self._prompt: int | None = None
        self._model = ""
        self._rewound = False
        self._skipped = False
        self._compactions = 0
        self._lifetime = SHORT_LIFETIME
        self._billed: list[tuple[int, Profile, BilledCall]] = []
        """Calls, each with the number of compactions before it and its model's profile."""
        self._pending: list[tuple[list[Shrinking], Shrinking]] = []
        """Compactions and clearings since the last call, each with the list it is added to."""

    def skipped(self, report: CallReport) -> None:
        """Follow a call that is not counted; drops the compactions and clearings just before it as well."""
        self._settle()
        self._skipped = True
        if report.usage is not None:
            self.context.called(report.prompt, report.profile.tokenizer, counted=False)
            self._cache.check(report, 0)
            self._pending = []
            self._rewound = False
            self._prompt = report.prompt
            self._model = report.model

    def called(self, report: CallReport) -> None:
        """Count a call with everything in the context."""
        self._settle()
        books = self._books
        prompt = report.prompt
        books.calls += 1
        self.calls += 1
        self._open = report
        if report.usage is None:
            return
        self.context.called(prompt, report.profile.tokenizer)
        if lost := self._cache.check(report, books.calls):
            books.breaks.append(structs.replace(lost, request=self.calls, lane=self.number))
        self._note_shrinking(prompt, report.model)
        books.points.append(Point(report.at, prompt, self.number))
        books.peak = max(books.peak, prompt)
        if books.watch is not None:
            books.watch.called(self.number, self.calls, report)

    def update_report(self, report: CallReport) -> None:
        """Update the report of the newest call: while an answer streams in, each report has more output."""
        if self._open is None or report.usage is None:
            return
        usage_so_far = self._open.usage
        if usage_so_far is None or report.usage.output_tokens >= usage_so_far.output_tokens:
            self._open = structs.replace(self._open, usage=report.usage, whole=report.whole)
            if self._books.watch is not None:
                self._books.watch.updated(self.number, self._open)

    def compacted(self, trigger: str, tokens_before: int | None) -> None:
        """Record a compaction: a summary replaced the context."""
        self._settle()
        self._compactions += 1
        self._cache.happened(caching.COMPACTION)
        event = self._shrinking(trigger, tokens_before or self._prompt)
        self._pending.append((self._books.compactions, event))

    def cleared(self, trigger: str, results: int) -> None:
        """Record a clearing: old results were removed from the context."""
        self._cache.happened(caching.CLEARING)
        event = self._shrinking(trigger, self._prompt, results=results)
        self._pending.append((self._books.clearings, event))

    def happened(self, event: str) -> None:
        """Record that something else left the context or returned to it; ``event`` names the cause."""
        self._rewound = True
        self._cache.happened(event)

    def changed(self, cause: str) -> None:
        """Record that a request differs from the one before it, as a gateway saw it; ``cause`` says in what."""
        self._cache.happened(cause)

    @property
    def open_report(self) -> CallReport | None:
        """The report of the newest call, which may still grow."""
        return self._open

    def pending_of(self, events: list[Shrinking]) -> list[Shrinking]:
        """What is still to be added to this list of the books, in a lane that counts it."""
        counted = self.calls or not self._skipped
        return [event for target, event in self._pending if target is events and counted]

    def close(self) -> None:
        """Count everything still pending."""
        self._settle()
        if self.calls or not self._skipped:
            self._count_shrinkings(None)
        self.context.close()

    def ideal_cost(self) -> float:
        """The cost of the priced calls with a perfect cache, which restarts at compactions and model changes."""
        runs = groupby(
            [*self._billed, *self._bill_of(self._open)], key=lambda call: (call[0], call[1].model)
        )
        listed = [list(run) for _, run in runs]
        return fsum(ideal_cost([call for *_, call in run], run[0][1]) or 0.0 for run in listed)

    def _note_shrinking(self, prompt: int, model: str) -> None:
        """Record the size after a compaction or clearing, or a drop in prompt size that no record explains."""
        prompt_before = self._prompt or 0
        recorded = bool(self._pending)
        self._count_shrinkings(prompt)
        if not recorded and not self._rewound and self._model == model and is_fall(prompt_before, prompt):
            event = Shrinking(
                self._books.calls - 1,
                "unrecorded",
                prompt_before,
                prompt,
                request=self.calls - 1,
                lane=self.number,
            )
            self._books.unrecorded.append(event)
        self._rewound = False
        self._prompt = prompt
        self._model = model

    def _shrinking(self, trigger: str, tokens_before: int | None, results: int = 0) -> Shrinking:
        return Shrinking(
            self._books.calls, trigger, tokens_before, None, results, request=self.calls, lane=self.number
        )

    def _count_shrinkings(self, prompt: int | None) -> None:
        for events, event in self._pending:
            events.append(structs.replace(event, tokens_after=prompt))
        self._pending = []

    def _settle(self) -> None:
        """Finish the newest call: its last report is final."""
        report = self._open
        self._open = None
        if report is None:
            return
        self._books.settled.append(report)
        self._billed += self._bill_of(report)
        if report.usage:
            self._lifetime = lifetime_of(report.usage) or self._lifetime

    def _bill_of(self, report: CallReport | None) -> list[tuple[int, Profile, BilledCall]]:
        """What a call adds to the bill; nothing if its usage is not known."""
        if report is None or report.usage is None:
            return []
        lifetime = lifetime_of(report.usage) or self._lifetime
        call = BilledCall(report.prompt, report.usage.output_tokens, lifetime)
        return [(self._compactions, report.profile, call)]
