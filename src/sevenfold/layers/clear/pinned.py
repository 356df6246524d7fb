"""Deleting results from the cached prefix by reference, where a provider can: nothing is written again.

What was deleted is sent again at its place with every request, for as long as the cache lives. All of it follows
from the log: the results in view in their order, and the decisions about them since the last fresh start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sevenfold.events import Acted, Proposed
from sevenfold.layers.clear.policy import OldResult
from sevenfold.record.decisions import OwnDecision, Pinned
from sevenfold.record.entries import Clearing
from sevenfold.request.watch import SECONDS
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation


class PinnedEdits:
    """Decides before each request what is deleted; all it knows follows from the log."""

    def __init__(self, c: Conversation, results: Callable[[], Sequence[OldResult]]) -> None:
        self._c = c
        self._results = results

    def used(self) -> bool:
        """Are results deleted this way? Not where reasoning is bound: dropping a deletion would change the past."""
        return (
            self._c.profile.pinned_edits
            and self._c.settings.pinned_edits
            and not self._c.profile.thinking.bound
        )

    def tend(self) -> None:
        """Drop deletions that are stale, and delete what has become old."""
        if not self.used():
            return
        gone = self._gone()
        if not gone.begun or self._stale(gone):
            if gone.calls:
                self._c.announce("pinned edits dropped")
                self._c.undelete()
            self._c.transcript.decide(Pinned())
        proposed = self.proposed()
        if proposed is not None and self._c.events.may(proposed):
            self._delete(proposed)

    def proposed(self) -> Proposed | None:
        """What would be deleted now, behind results that are about to be sent; None for nothing."""
        view = self._c.transcript.view
        newest = view.items_from(len(view) - 1)[-1:]
        if not (self.used() and newest and newest[0].said.answers) or self._expired():
            return None
        gone = self._gone()
        calls = due(self._results(), gone, self._c.settings)
        count = self._c.gauge.estimator.tokens
        tokens = round(sum(count(held.weight) for held in self._c.stock.results if held.call in calls))
        what = f"delete {len(calls)} old tool results by reference"
        return Proposed(**_told(what, len(calls)), tokens=tokens, targets=calls) if calls else None

    def _gone(self) -> Deleted:
        self._c.stock.follow(self._c.transcript.view)
        return deleted(self._c.transcript.view.decisions())

    def _stale(self, gone: Deleted) -> bool:
        in_view = [held.call for held in self._c.stock.results]
        return bool(gone.calls) and (self._expired() or gone.stale(in_view))

    def _expired(self) -> bool:
        lifetime = SECONDS[self._c.lifetimes.tail] + self._c.settings.gap_margin_seconds
        return lifetime < self._c.idle_seconds() < inf

    def _delete(self, proposed: Proposed) -> None:
        before = self._c.size().tokens
        record = self._c.transcript.view.items[-1].said.uuid
        made = self._c.transcript.decide(Pinned(calls=list(proposed.targets), record=record))
        self._c.events.tell(
            Acted(
                **_told(proposed.what, proposed.items),
                tokens_before=before,
                tokens_after=max(0, before - proposed.tokens),
                reference=made.id,
                undoable=False,
            )
        )


class Deleted(Struct, frozen=True):
    """What is deleted, and whether results carry references at all."""

    begun: bool = False
    calls: frozenset[str] = frozenset()

    def stale(self, in_view: Collection[str]) -> bool:
        """Has a result gone that a deletion names? No server would take it."""
        return not self.calls <= set(in_view)


def deleted(decisions: Iterable[OwnDecision | Clearing]) -> Deleted:
    """What the decisions of a view come to."""
    found = Deleted()
    for made in decisions:
        if isinstance(made, Pinned):
            found = Deleted(True, found.calls | set(made.calls) if made.calls else frozenset())
    return found


def due(results: Sequence[OldResult], gone: Deleted, settings: Settings) -> tuple[str, ...]:
    """The oldest results beyond the newest that stay, once there are enough of them."""
    active = [result for result in results if result.call not in gone.calls]
    if len(active) < settings.pinned_trigger:
        return ()
    return tuple(result.call for result in active[: -settings.pinned_keep] if not result.kept)


def _told(what: str, items: int) -> dict[str, Any]:
    why = "many results are in the cached prefix"
    return {"layer": "clear", "mechanism": "pinned", "what": what, "why": why, "items": items, "usd": 0.0}
