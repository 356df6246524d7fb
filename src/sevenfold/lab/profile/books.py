"""What happened in a session, counted as it is read.

Readers of different formats tell the books the same few things: a piece entered the context, a call was made, its
report grew, the context was compacted or cleared. A session has lanes: the main conversation, and one for every
sub-agent whose records are in the same file. Calls, tokens and money are the session's; the context and the cache are
each lane's own.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from math import fsum

from msgspec import structs

from sevenfold.lab.profile import cache as caching
from sevenfold.lab.profile.cache import CacheFollower, CallReport, is_fall, lifetime_of
from sevenfold.lab.profile.context import FileReads, SessionTally, WindowHistory, added
from sevenfold.lab.profile.figures import CacheBreak, Point, SessionProfile, Shrinking, UsageSums
from sevenfold.profiles import Profile, find
from sevenfold.record.usage import BilledCall, Usage, ideal_cost

SHORT_LIFETIME = 300


def seconds(timestamp: str) -> float | None:
    """A timestamp in seconds since 1970; None if it is not one."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError):
        return None


class PrefixRun:
    """Calls that share one growing prefix, and what they cost with a perfect cache."""

    def __init__(self) -> None:
        self._calls: list[BilledCall] = []
        self._profile: Profile | None = None
        self._lifetime = SHORT_LIFETIME
        self._ideal: list[float] = []

    def add(self, prompt: int, output: int, profile: Profile, lifetime: int | None) -> None:
        """Add a call; another model starts another run."""
        if self._profile is not None and profile.model != self._profile.model:
            self.end()
        self._profile = profile
        self._lifetime = lifetime or self._lifetime
        self._calls.append(BilledCall(prompt, output, self._lifetime))

    def end(self) -> None:
        """Give up the prefix: what follows is written again."""
        if self._profile is not None:
            self._ideal.append(ideal_cost(self._calls, self._profile) or 0.0)
        self._calls, self._profile = [], None

    def cost(self) -> float:
        """The ideal cost of all calls whose price is known."""
        self.end()
        return fsum(self._ideal)


class SessionCost:
    """The costs of a session: the sums of calls whose price is known, and the number of the others."""

    def __init__(self) -> None:
        self.unpriced = 0
        self._paid: list[float] = []
        self._uncached: list[float] = []

    def add(self, usage: Usage | None, profile: Profile) -> None:
        """Count one call."""
        paid = usage.cost(profile) if usage else None
        uncached = usage.uncached_cost(profile) if usage else None
        if paid is None or uncached is None:
            self.unpriced += 1
        else:
            self._paid.append(paid)
            self._uncached.append(uncached)

    def sums(self, ideal: float) -> tuple[float | None, float | None, float | None]:
        """Paid, uncached and ideal cost; None if no call at all has a price, because unknown is not zero."""
        if self.unpriced and not self._paid:
            return None, None, None
        return fsum(self._paid), fsum(self._uncached), ideal


class Books:
    """Everything that is counted of one session."""

    def __init__(self) -> None:
        self.tally = SessionTally()
        self.money = SessionCost()
        self.calls = 0
        self.damaged = 0
        self.unknown: Counter[str] = Counter()
        self.repairs: Counter[str] = Counter()
        self.compactions: list[Shrinking] = []
        self.clearings: list[Shrinking] = []
        self.unrecorded: list[Shrinking] = []
        self.breaks: list[CacheBreak] = []
        self.points: list[Point] = []
        self.window: int | None = None
        self.first: str | None = None
        self.last: str | None = None
        self._lanes: list[Lane] = []
        self._sums: Counter[str] = Counter()
        self._models: Counter[str] = Counter()
        self._partial = 0

    def open_lane(self, *, side: bool = False) -> Lane:
        """Books for one more conversation; ``side`` for a sub-agent's."""
        lane = Lane(self, len(self._lanes) + 1 if side else 0)
        self._lanes.append(lane)
        return lane

    def seen_at(self, timestamp: str) -> None:
        """Note the time of a record."""
        self.first = self.first or timestamp or None
        self.last = timestamp or self.last

    def settle(self, report: CallReport) -> None:
        """Count a call for good."""
        self._models[report.model or "unknown"] += 1
        self.money.add(report.usage, report.profile)
        self._partial += not report.whole
        for name in UsageSums.__struct_fields__:
            self._sums[name] += getattr(report.usage, name) if report.usage else 0

    def close(self, file: str, session_id: str, format_name: str) -> SessionProfile:
        """The figures."""
        for lane in self._lanes:
            lane.close()
        paid, uncached, ideal = self.money.sums(sum(lane.run.cost() for lane in self._lanes))
        # If a file holds only a sub-agent's records, that is its main conversation.
        main = min((lane.number for lane in self._lanes if lane.calls), default=0)
        return SessionProfile(
            file=file,
            session_id=session_id,
            format=format_name,
            models=dict(self._models.most_common()),
            started=self.first,
            ended=self.last,
            api_calls=self.calls,
            side_calls=sum(lane.calls for lane in self._lanes if lane.number != main),
            usage=UsageSums(**self._sums),
            compactions=len(self.compactions),
            clearings=len(self.clearings),
            cost_usd=paid,
            uncached_cost_usd=uncached,
            ideal_cost_usd=ideal,
            unpriced_calls=self.money.unpriced,
            tokens_by_category=self.tally.by_category(),
            carried_by_category=self.tally.carried(),
            peak_context_tokens=max((point.tokens for point in self.points), default=0),
            window_tokens=self._window(),
            cache_breaks=self.breaks,
            compaction_events=self.compactions,
            clearing_events=self.clearings,
            unrecorded_events=self.unrecorded,
            largest_items=self.tally.largest(),
            repeated_reads=added([lane.reads.sums() for lane in self._lanes]),
            growth=self.tally.growth(),
            context_over_time=[
                structs.replace(point, lane=0) if point.lane == main else point for point in self.points
            ],
            partial_outputs=self._partial,
            damaged_lines=self.damaged,
            unknown_lines=dict(self.unknown.most_common()),
            repairs=dict(self.repairs),
        )

    def _window(self) -> int | None:
        """The window of the model that answered most, unless the transcript says it."""
        if self.window or not self._models:
            return self.window
        profile = find(self._models.most_common(1)[0][0])
        return profile.window if profile.known else None


class Lane:
    """One conversation of a session."""

    def __init__(self, books: Books, number: int) -> None:
        self.number = number
        self.calls = 0
        self.context = WindowHistory(books.tally)
        self.run = PrefixRun()
        self.reads = FileReads()
        self._books = books
        self._cache = CacheFollower()
        self._open: CallReport | None = None
        self._prompt: int | None = None
        self._model = ""
        self._rewound = False
        self._waiting: list[tuple[list[Shrinking], int]] = []

    def called(self, report: CallReport) -> None:
        """A call was made with all that is in the context."""
        self._settle()
        books, prompt = self._books, report.prompt
        books.calls += 1
        self.calls += 1
        self._open = report
        if report.usage is None:
            return
        self.context.called(prompt, report.profile.tokenizer)
        if found := self._cache.check(report, report.usage, books.calls):
            books.breaks.append(found)
        self._note_shrinking(prompt, report.model)
        books.points.append(Point(report.at, prompt, self.number))

    def grew(self, report: CallReport) -> None:
        """The newest call reports again: while an answer comes in, each report has more output."""
        if self._open is None or report.usage is None:
            return
        before = self._open.usage
        if before is None or report.usage.output_tokens >= before.output_tokens:
            self._open = structs.replace(self._open, usage=report.usage, whole=report.whole)

    def compacted(self, trigger: str, before: int | None) -> None:
        """A summary replaced the context."""
        self._settle()
        self.run.end()
        self._cache.happened(caching.COMPACTION)
        self._shrank(self._books.compactions, Shrinking(self._books.calls, trigger, before or self._prompt))

    def cleared(self, trigger: str, results: int) -> None:
        """Old results were taken out of the context."""
        self._cache.happened(caching.CLEARING)
        event = Shrinking(self._books.calls, trigger, self._prompt, None, results)
        self._shrank(self._books.clearings, event)

    def happened(self, event: str) -> None:
        """Something else was taken out of the context, or put back; ``event`` names it as a cause."""
        self._rewound = True
        self._cache.happened(event)

    def close(self) -> None:
        """Count all that is still open."""
        self._settle()
        self.context.close()

    def _note_shrinking(self, prompt: int, model: str) -> None:
        """Note what a compaction or a clearing left, or that the prompt shrank and no record says why."""
        for events, index in self._waiting:
            events[index] = structs.replace(events[index], tokens_after=prompt)
        before = self._prompt or 0
        if not self._waiting and not self._rewound and self._model == model and is_fall(before, prompt):
            event = Shrinking(self._books.calls - 1, "unrecorded", before, prompt)
            self._books.unrecorded.append(event)
        self._waiting, self._rewound = [], False
        self._prompt, self._model = prompt, model

    def _shrank(self, events: list[Shrinking], event: Shrinking) -> None:
        self._waiting.append((events, len(events)))
        events.append(event)

    def _settle(self) -> None:
        """The newest call is over: its last report counts."""
        report, self._open = self._open, None
        if report is None:
            return
        self._books.settle(report)
        if usage := report.usage:
            self.run.add(report.prompt, usage.output_tokens, report.profile, lifetime_of(usage))
