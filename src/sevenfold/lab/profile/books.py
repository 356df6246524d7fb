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

from msgspec import Struct, field, structs

from sevenfold.lab.profile import cache as caching
from sevenfold.lab.profile.cache import CacheFollower, CallReport, is_fall, lifetime_of
from sevenfold.lab.profile.context import FileReads, SessionTally, WindowHistory, added
from sevenfold.lab.profile.figures import CacheBreak, DayUsage, Point, SessionProfile, Shrinking, UsageSums
from sevenfold.profiles import Profile, find, names
from sevenfold.record.usage import BilledCall, ideal_cost

SHORT_LIFETIME = 300
LEAST_FILLED = 0.6
"""The share of its window that a client fills at least before it compacts by itself."""


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


class DayTally(Struct):
    """The calls to one model on one day."""

    calls: int = 0
    unpriced: int = 0
    usage: Counter[str] = field(default_factory=Counter)
    paid: list[float] = field(default_factory=list)
    uncached: list[float] = field(default_factory=list)

    def add(self, report: CallReport) -> None:
        """Count one call."""
        self.calls += 1
        usage, profile = report.usage, report.profile
        for name in UsageSums.__struct_fields__:
            self.usage[name] += getattr(usage, name) if usage else 0
        paid = usage.cost(profile) if usage else None
        uncached = usage.uncached_cost(profile) if usage else None
        if paid is None or uncached is None:
            self.unpriced += 1
        else:
            self.paid.append(paid)
            self.uncached.append(uncached)


class Books:
    """Everything that is counted of one session."""

    def __init__(self) -> None:
        self.tally = SessionTally()
        self.calls = 0
        self.engine_calls = 0
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
        self._days: dict[tuple[str | None, str], DayTally] = {}
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

    def billed(self, report: CallReport) -> None:
        """Count a call of the engine's own, whose prompt and answer are not part of the conversation."""
        self.calls += 1
        self.engine_calls += 1
        self.settle(report)

    def settle(self, report: CallReport) -> None:
        """Count a call for good."""
        day = None if report.at is None else datetime.fromtimestamp(report.at).date().isoformat()
        self._days.setdefault((day, report.model or "unknown"), DayTally()).add(report)
        self._partial += not report.whole

    def close(self, file: str, session_id: str, format_name: str) -> SessionProfile:
        """The figures."""
        for lane in self._lanes:
            lane.close()
        tallies = self._days.values()
        models, sums = Counter[str](), Counter[str]()
        for (_, model), tally in self._days.items():
            models[model] += tally.calls
            sums.update(tally.usage)
        unpriced = sum(tally.unpriced for tally in tallies)
        # Without any call whose price is known, the costs are not zero but unknown.
        priced = not unpriced or any(tally.paid for tally in tallies)
        window, known_from = self._window(models)
        # If a file holds only a sub-agent's records, that is its main conversation.
        main = min((lane.number for lane in self._lanes if lane.calls), default=0)
        return SessionProfile(
            file=file,
            session_id=session_id,
            format=format_name,
            models=dict(models.most_common()),
            started=self.first,
            ended=self.last,
            api_calls=self.calls,
            side_calls=sum(lane.calls for lane in self._lanes if lane.number != main),
            engine_calls=self.engine_calls,
            usage=UsageSums(**sums),
            compactions=len(self.compactions),
            clearings=len(self.clearings),
            cost_usd=fsum(paid for tally in tallies for paid in tally.paid) if priced else None,
            uncached_cost_usd=fsum(cost for tally in tallies for cost in tally.uncached)
            if priced
            else None,
            ideal_cost_usd=fsum(lane.run.cost() for lane in self._lanes) if priced else None,
            unpriced_calls=unpriced,
            tokens_by_category=self.tally.by_category(),
            carried_by_category=self.tally.carried(),
            peak_context_tokens=max((point.tokens for point in self.points), default=0),
            window_tokens=window,
            window_source=known_from,
            usage_by_day=[_day_usage(day, model, tally) for (day, model), tally in self._days.items()],
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

    def _window(self, models: Counter[str]) -> tuple[int | None, str | None]:
        """The window, and how it is known: the transcript says it, or what happened shows it, or the model has it.

        A client that compacts by itself does so shortly before its window is full, so if it did so far below the
        model's window, it worked with a smaller one: the smallest that a model has and that held every prompt.
        """
        if self.window:
            return self.window, "recorded"
        profile = find(models.most_common(1)[0][0]) if models else None
        if profile is None or not profile.known:
            return None, None
        peak = max((point.tokens for point in self.points), default=0)
        full = [event.tokens_before or 0 for event in self.compactions if event.trigger == "auto"]
        early = full and max(full) < LEAST_FILLED * profile.window
        if early or peak > profile.window:
            others = (one.window for one in map(find, names()) if one.provider == profile.provider)
            inferred = min((window for window in others if window >= peak), default=profile.window)
            if inferred != profile.window:
                return inferred, "inferred"
        return profile.window, "model"


def _day_usage(day: str | None, model: str, tally: DayTally) -> DayUsage:
    return DayUsage(
        day=day,
        model=model,
        api_calls=tally.calls,
        usage=UsageSums(**tally.usage),
        cost_usd=fsum(tally.paid) if tally.paid or not tally.unpriced else None,
        unpriced_calls=tally.unpriced,
    )


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
        self._skipped = False
        self._pending: list[tuple[list[Shrinking], Shrinking]] = []
        """What has shrunk since the last call, with the list that it goes to."""

    def skipped(self, report: CallReport) -> None:
        """A call was made that is not counted, and with it what had shrunk before it."""
        self._settle()
        self._skipped = True
        if report.usage is not None:
            self.context.called(report.prompt, report.profile.tokenizer, counted=False)
            self._cache.check(report, report.usage, 0)
            self._pending, self._rewound = [], False
            self._prompt, self._model = report.prompt, report.model

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
        event = Shrinking(self._books.calls, trigger, before or self._prompt)
        self._pending.append((self._books.compactions, event))

    def cleared(self, trigger: str, results: int) -> None:
        """Old results were taken out of the context."""
        self._cache.happened(caching.CLEARING)
        event = Shrinking(self._books.calls, trigger, self._prompt, None, results)
        self._pending.append((self._books.clearings, event))

    def happened(self, event: str) -> None:
        """Something else was taken out of the context, or put back; ``event`` names it as a cause."""
        self._rewound = True
        self._cache.happened(event)

    def close(self) -> None:
        """Count all that is still open."""
        self._settle()
        if self.calls or not self._skipped:
            self._count_shrinkings(None)
        self.context.close()

    def _note_shrinking(self, prompt: int, model: str) -> None:
        """Note what a compaction or a clearing left, or that the prompt shrank and no record says why."""
        before, recorded = self._prompt or 0, bool(self._pending)
        self._count_shrinkings(prompt)
        if not recorded and not self._rewound and self._model == model and is_fall(before, prompt):
            event = Shrinking(self._books.calls - 1, "unrecorded", before, prompt)
            self._books.unrecorded.append(event)
        self._rewound = False
        self._prompt, self._model = prompt, model

    def _count_shrinkings(self, prompt: int | None) -> None:
        for events, event in self._pending:
            events.append(structs.replace(event, tokens_after=prompt))
        self._pending = []

    def _settle(self) -> None:
        """The newest call is over: its last report counts."""
        report, self._open = self._open, None
        if report is None:
            return
        self._books.settle(report)
        if usage := report.usage:
            self.run.add(report.prompt, usage.output_tokens, report.profile, lifetime_of(usage))
