"""Looking after results that are deleted from the cached prefix by reference, where the provider can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from sevenfold.events import Acted, Proposed
from sevenfold.layers import references
from sevenfold.layers.moment import Result
from sevenfold.layers.references import Deleted
from sevenfold.layers.stock import Stock
from sevenfold.profiles import Profile
from sevenfold.record.decisions import Pinned
from sevenfold.request.watch import SECONDS
from sevenfold.runtime.announce import Announcer
from sevenfold.runtime.exchange import Exchange
from sevenfold.runtime.transcript import Transcript
from sevenfold.settings import Settings


class References:
    """Decides, before each request, what is deleted; all it knows follows from the log."""

    def __init__(
        self,
        transcript: Transcript,
        exchange: Exchange,
        announcer: Announcer,
        profile: Profile,
        stock: Stock,
    ) -> None:
        self._transcript = transcript
        self._exchange = exchange
        self._announcer = announcer
        self._profile = profile
        self._stock = stock

    def used(self, settings: Settings) -> bool:
        """Are results deleted this way? Not where reasoning is bound: dropping a deletion would change the past."""
        return self._profile.pinned_edits and settings.pinned_edits and not self._profile.thinking.bound

    def tend(self, settings: Settings, results: Callable[[], Sequence[Result]]) -> None:
        """Drop deletions that are stale, and delete what has become old."""
        if not self.used(settings):
            return
        view = self._transcript.view
        self._stock.follow(view)
        gone = references.deleted(view.decisions())
        expired = bool(gone.calls) and self._expired(settings)
        if not gone.begun or expired or gone.stale([held.call for held in self._stock.results]):
            gone = self._begin_anew(gone)
        calls = () if expired else references.due(results(), gone, settings)
        newest = view.items_from(len(view) - 1)[-1:]
        if calls and newest and newest[0].said.answers:
            self._delete(calls, newest[0].said.uuid)

    def _expired(self, settings: Settings) -> bool:
        lifetime = SECONDS[self._exchange.lifetimes.tail] + settings.gap_margin_seconds
        return lifetime < self._exchange.idle_seconds() < inf

    def _begin_anew(self, gone: Deleted) -> Deleted:
        if gone.calls:
            self._exchange.announce("pinned edits dropped")
        self._transcript.decide(Pinned())
        self._stock.follow(self._transcript.view)
        return Deleted(begun=True)

    def _delete(self, calls: tuple[str, ...], record: str) -> None:
        count = self._exchange.gauge.estimator.tokens
        tokens = round(sum(count(held.weight) for held in self._stock.results if held.call in calls))
        before = self._exchange.size().tokens
        shared: dict[str, Any] = {
            "layer": "clear",
            "mechanism": "pinned",
            "what": f"delete {len(calls)} old tool results by reference",
            "why": "many results are in the cached prefix",
            "items": len(calls),
            "usd": 0.0,
        }
        if not self._announcer.may(Proposed(**shared, tokens=tokens, targets=calls)):
            return
        made = self._transcript.decide(Pinned(calls=list(calls), record=record))
        after = max(0, before - tokens)
        self._announcer.tell(
            Acted(**shared, tokens_before=before, tokens_after=after, reference=made.id, undoable=False)
        )
