"""Follows one conversation of a session from call to call: its context, its cache, and what it would cost at best."""

from __future__ import annotations

from itertools import groupby
from math import fsum
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from sevenfold.archive.profile import cache as caching
from sevenfold.archive.profile.cache import SHORT_LIFETIME, CacheFollower, CallReport, is_fall, lifetime_of
from sevenfold.archive.profile.context import WindowHistory
from sevenfold.archive.profile.figures import Point, Shrinking
from sevenfold.profiles import Profile
from sevenfold.record.usage import BilledCall, ideal_cost

if TYPE_CHECKING:
    from sevenfold.archive.profile.books import Books


class _LaneCall(Struct, frozen=True):
    """What a call adds to the bill."""

    compactions: int
    """The number of compactions before it."""
    profile: Profile
    """The profile of its model."""
    bill: BilledCall


class Lane:
    """One conversation of a session."""

    def __init__(self, books: Books, number: int) -> None:
        self.number = number
        self.calls = 0
        self.context = WindowHistory(books.tally, books.watch.window(number) if books.watch else None)
        self._books = books
        self._cache = CacheFollower()
        self._open: CallReport | None = None
        """The newest call, whose report may still grow."""
        self._prompt: int | None = None
        """The size of the newest prompt."""
        self._model = ""
        """The model that it was sent to."""
        self._rewound = False
        """Whether content left or returned since the last call for another reason than a compaction or clearing."""
        self._skipped = False
        """Whether a call of this lane was not counted, because it is outside the scope."""
        self._compactions = 0
        self._lifetime = SHORT_LIFETIME
        self._billed: list[_LaneCall] = []
        """The calls whose reports are final."""
        self._compacted: list[Shrinking] = []
        self._cleared: list[Shrinking] = []
        """Compactions and clearings since the last call: how much they removed is known with the next prompt."""

    def skipped(self, report: CallReport) -> None:
        """Follow a call that is not counted; drops the compactions and clearings just before it as well."""
        self._settle()
        self._skipped = True
        if report.usage is not None:
            self.context.called(report.prompt, report.profile.tokenizer, counted=False)
            self._cache.check(report, 0)
            self._compacted = []
            self._cleared = []
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
        self._compacted.append(self._shrinking(trigger, tokens_before or self._prompt))

    def cleared(self, trigger: str, results: int) -> None:
        """Record a clearing: old results were removed from the context."""
        self._cache.happened(caching.CLEARING)
        self._cleared.append(self._shrinking(trigger, self._prompt, results=results))

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

    @property
    def open_compactions(self) -> list[Shrinking]:
        """The compactions after which no prompt came yet."""
        return self._compacted if self._is_counted else []

    @property
    def open_clearings(self) -> list[Shrinking]:
        """The clearings after which no prompt came yet."""
        return self._cleared if self._is_counted else []

    @property
    def _is_counted(self) -> bool:
        """Whether anything of this lane counts; nothing does if all its calls were skipped."""
        return bool(self.calls) or not self._skipped

    def close(self) -> None:
        """Count everything still pending."""
        self._settle()
        if self._is_counted:
            self._count_shrinkings(None)
        self.context.close()

    def ideal_cost(self) -> float:
        """The cost of the priced calls with a perfect cache, which restarts at compactions and model changes."""
        costs = []
        calls = [*self._billed, *self._bill_of(self._open)]
        for _, run in groupby(calls, key=lambda call: (call.compactions, call.profile.model)):
            calls_of_run = list(run)
            bills = [call.bill for call in calls_of_run]
            costs.append(ideal_cost(bills, calls_of_run[0].profile) or 0.0)
        return fsum(costs)

    def _note_shrinking(self, prompt: int, model: str) -> None:
        """Record the size after a compaction or clearing, or a drop in prompt size that no record explains."""
        prompt_before = self._prompt or 0
        recorded = bool(self._compacted or self._cleared)
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
        """Add the compactions and clearings since the last call to the books, with the size of the next prompt."""
        for event in self._compacted:
            self._books.compactions.append(structs.replace(event, tokens_after=prompt))
        for event in self._cleared:
            self._books.clearings.append(structs.replace(event, tokens_after=prompt))
        self._compacted = []
        self._cleared = []

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

    def _bill_of(self, report: CallReport | None) -> list[_LaneCall]:
        """What a call adds to the bill; nothing if its usage is not known."""
        if report is None or report.usage is None:
            return []
        lifetime = lifetime_of(report.usage) or self._lifetime
        bill = BilledCall(report.prompt, report.usage.output_tokens, lifetime)
        return [_LaneCall(self._compactions, report.profile, bill)]
