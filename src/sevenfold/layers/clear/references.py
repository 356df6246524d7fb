"""Looking after results that are deleted from the cached prefix by reference, where the provider can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from sevenfold.conversation.events import Announcer
from sevenfold.conversation.exchange import Exchange
from sevenfold.conversation.transcript import Transcript
from sevenfold.events import Acted, Proposed
from sevenfold.layers.clear import pinned as references
from sevenfold.layers.clear.moment import Result
from sevenfold.layers.clear.pinned import Deleted
from sevenfold.conversation.stock import Stock
from sevenfold.profiles import Profile
from sevenfold.record.decisions import Pinned
from sevenfold.request.watch import SECONDS
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
        gone = self._gone()
        if not gone.begun or self._stale(gone, settings):
            if gone.calls:
                self._exchange.announce("pinned edits dropped")
            self._transcript.decide(Pinned())
        proposed = self.proposed(settings, results)
        if proposed is not None and self._announcer.may(proposed):
            self._delete(proposed)

    def proposed(self, settings: Settings, results: Callable[[], Sequence[Result]]) -> Proposed | None:
        """What would be deleted now, behind results that are about to be sent; None for nothing."""
        view = self._transcript.view
        newest = view.items_from(len(view) - 1)[-1:]
        if not (self.used(settings) and newest and newest[0].said.answers) or self._expired(settings):
            return None
        gone = self._gone()
        calls = references.due(results(), gone, settings)
        count = self._exchange.gauge.estimator.tokens
        tokens = round(sum(count(held.weight) for held in self._stock.results if held.call in calls))
        what = f"delete {len(calls)} old tool results by reference"
        return Proposed(**_told(what, len(calls)), tokens=tokens, targets=calls) if calls else None

    def _gone(self) -> Deleted:
        self._stock.follow(self._transcript.view)
        return references.deleted(self._transcript.view.decisions())

    def _stale(self, gone: Deleted, settings: Settings) -> bool:
        in_view = [held.call for held in self._stock.results]
        return bool(gone.calls) and (self._expired(settings) or gone.stale(in_view))

    def _expired(self, settings: Settings) -> bool:
        lifetime = SECONDS[self._exchange.lifetimes.tail] + settings.gap_margin_seconds
        return lifetime < self._exchange.idle_seconds() < inf

    def _delete(self, proposed: Proposed) -> None:
        before = self._exchange.size().tokens
        record = self._transcript.view.items[-1].said.uuid
        made = self._transcript.decide(Pinned(calls=list(proposed.targets), record=record))
        self._announcer.tell(
            Acted(
                **_told(proposed.what, proposed.items),
                tokens_before=before,
                tokens_after=max(0, before - proposed.tokens),
                reference=made.id,
                undoable=False,
            )
        )


def _told(what: str, items: int) -> dict[str, Any]:
    why = "many results are in the cached prefix"
    return {"layer": "clear", "mechanism": "pinned", "what": what, "why": why, "items": items, "usd": 0.0}
