"""Deleting results from the cached prefix by reference, where a provider can: nothing is written again.

What was deleted is sent again at its place with every request, for as long as the cache lives. All of it follows
from the log: the results in view in their order, and the decisions about them since the last fresh start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING

from sevenfold.events import Proposed
from sevenfold.layers.clear.policy import OldResult
from sevenfold.record.decisions import Pinned
from sevenfold.request.watch import SECONDS

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
        gone, in_view = self._gone(), {held.call for held in self._c.stock.results}
        # A deletion that names a result that has gone no server would take.
        if gone is None or (gone and (self._expired() or not gone <= in_view)):
            if gone:
                self._c.announce("pinned edits dropped")
                self._c.undelete()
            self._c.transcript.decide(Pinned())
        proposed = self.proposed()
        if proposed is not None and self._c.events.may(proposed):
            before = self._c.size().tokens
            record = self._c.transcript.view.items[-1].said.uuid
            made = self._c.transcript.decide(Pinned(calls=list(proposed.targets), record=record))
            self._c.events.acted(proposed, before, max(0, before - proposed.tokens), made.id)

    def proposed(self) -> Proposed | None:
        """What would be deleted now, behind results that are about to be sent; None for nothing.

        The oldest results beyond the newest that stay, once there are enough of them.
        """
        view, settings = self._c.transcript.view, self._c.settings
        newest = view.items_from(len(view) - 1)[-1:]
        if not (self.used() and newest and newest[0].said.answers) or self._expired():
            return None
        gone = self._gone() or frozenset()
        active = [result for result in self._results() if result.call not in gone]
        calls = tuple(result.call for result in active[: -settings.pinned_keep] if not result.kept)
        if len(active) < settings.pinned_trigger or not calls:
            return None
        count = self._c.gauge.estimator.tokens
        return Proposed(
            layer="clear",
            mechanism="pinned",
            what=f"delete {len(calls)} old tool results by reference",
            why="many results are in the cached prefix",
            items=len(calls),
            tokens=round(sum(count(held.weight) for held in self._c.stock.results if held.call in calls)),
            usd=0.0,
            targets=calls,
        )

    def _gone(self) -> frozenset[str] | None:
        """The calls whose results are deleted; None if results carry no references yet."""
        self._c.stock.follow(self._c.transcript.view)
        gone: frozenset[str] | None = None
        for made in self._c.transcript.view.decisions():
            if isinstance(made, Pinned):
                gone = (gone or frozenset()) | set(made.calls) if made.calls else frozenset()
        return gone

    def _expired(self) -> bool:
        lifetime = SECONDS[self._c.lifetimes.tail] + self._c.settings.gap_margin_seconds
        return lifetime < self._c.idle_seconds() < inf
