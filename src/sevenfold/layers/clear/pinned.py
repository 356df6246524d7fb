"""Deleting results from the cached prefix by reference, where a provider can: nothing is written anew.

What was deleted is said again at its place with every request, for as long as the cache lives. All of it follows
from the log: the results in view in their order, and the decisions about them since the last fresh start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from sevenfold.layers.clear.moment import Result
from sevenfold.record.decisions import OwnDecision, Pinned
from sevenfold.record.entries import Clearing
from sevenfold.settings import Settings


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


def due(results: Sequence[Result], gone: Deleted, settings: Settings) -> tuple[str, ...]:
    """The oldest results beyond the newest that stay, once there are enough of them."""
    active = [result for result in results if result.call not in gone.calls]
    if len(active) < settings.pinned_trigger:
        return ()
    return tuple(result.call for result in active[: -settings.pinned_keep] if not result.kept)
