"""What a chart of a session's context marks: where it shrank, and where the cache was lost.

Charts show the main conversation; events are numbered by the calls of the whole session. Here the two are
brought together.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from sevenfold.cli.phrases import cause, count, money, plural
from sevenfold.lab.profile import cache as caching
from sevenfold.lab.profile.figures import SessionProfile, Shrinking

COMPACTION = "compaction"
CLEARING = "clearing"
UNRECORDED = "shrank unrecorded"
LOST = "cache lost"


class Mark(Struct, frozen=True):
    """One sign in a chart."""

    kind: str
    place: int
    """The prompt of the main conversation it stands at, counted from 0."""
    text: str


def main_sizes(session: SessionProfile) -> list[int]:
    """The sizes of the main conversation's prompts."""
    return [point.tokens for point in session.context_over_time if not point.lane]


def marks(session: SessionProfile) -> Iterator[Mark]:
    """All marks of a session; those that matter most come last."""
    last = len(main_sizes(session)) - 1

    def place(call: int) -> int:
        return min(last, sum(not point.lane for point in session.context_over_time[:call]))

    for one in session.cache_breaks:
        if one.cause not in (caching.COMPACTION, caching.CLEARING):
            cost = "" if one.cost_usd is None else f", {money(one.cost_usd)}"
            yield Mark(
                LOST,
                place(one.call - 1),
                f"{cause(one.cause)}: {count(one.tokens)} tokens paid again{cost}",
            )
    for event in session.unrecorded_events:
        yield Mark(UNRECORDED, place(event.call), f"shrank without a record: {_change(event)}")
    for event in session.clearing_events:
        yield Mark(
            CLEARING, place(event.call), f"{plural(event.results, 'result')} cleared: {_change(event)}"
        )
    for event in session.compaction_events:
        yield Mark(COMPACTION, place(event.call), f"compaction ({event.trigger}): {_change(event)}")


def _change(event: Shrinking) -> str:
    before, after = (
        "?" if size is None else count(size) for size in (event.tokens_before, event.tokens_after)
    )
    return f"{before} → {after} tokens"
