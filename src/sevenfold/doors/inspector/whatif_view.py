"""What the same requests would have cost otherwise, as far as their recorded usage tells.

Only what leaves every request as it was can be told without running the session again: how long the cache lives, and
whether there is one.
"""

from __future__ import annotations

from typing import Any

from sevenfold.archive.lifetimes import LaneHistory, SentRequest
from sevenfold.archive.profile.cache import EXPIRED
from sevenfold.archive.profile.figures import CacheBreak
from sevenfold.doors.inspector.shelf import OpenSession

SHORT = 300
HOUR = 3600
POINTS = 600


def whatif_view(session: OpenSession) -> dict[str, Any]:
    """The cost so far at each request: as it was, with a lifetime of an hour throughout, and without a cache."""
    lane = session.reader.history.main
    breaks = {lost.request: lost for lost in session.reader.reader.books.breaks if lost.lane == lane.number}
    recorded: list[float] = []
    hour: list[float] = []
    uncached: list[float] = []
    sums = [0.0, 0.0, 0.0]
    for sent in lane.requests:
        paid = sent.usd or 0.0
        without = sent.report.used.uncached_cost(sent.report.profile)
        sums[0] += paid
        sums[1] += paid + hour_difference(sent, breaks.get(sent.request))
        sums[2] += paid if without is None else without
        for column, total in zip((recorded, hour, uncached), sums, strict=True):
            column.append(total)
    places = _thinned(lane)
    curves = (
        ("recorded", "as it was", recorded),
        ("hour", "with a cache lifetime of one hour", hour),
        ("uncached", "without a cache", uncached),
    )
    return {
        "request": [lane.requests[index].request for index in places],
        "curves": [
            {"name": name, "label": label, "usd": [column[index] for index in places]}
            for name, label, column in curves
        ],
        "unpriced": len(lane.requests) - lane.sums.priced,
    }


def hour_difference(sent: SentRequest, lost: CacheBreak | None) -> float:
    """How much more a request would have cost if everything before and in it had been cached for an hour.

    Every write costs more. What had expired after a pause of less than an hour would have been read instead.
    """
    price = sent.report.profile.price(sent.report.prompt)
    lifetimes = sent.report.profile.cache.lifetimes
    if price is None or HOUR not in lifetimes:
        return 0.0
    written = sent.report.used.cache_creation_5m
    saved = 0
    if lost is not None and lost.cause == EXPIRED and SHORT <= (lost.idle_seconds or 0) < HOUR:
        saved = min(lost.tokens, written)
    dearer = (written - saved) * (price.write(HOUR) - price.write(SHORT))
    return (dearer - saved * (price.write(SHORT) - price.read)) / 1e6


def _thinned(lane: LaneHistory) -> list[int]:
    """The places that are drawn: evenly spread, the last among them."""
    count = len(lane.requests)
    step = max(1, -(-count // POINTS))
    places = list(range(0, count, step))
    return places if not count or places[-1] == count - 1 else [*places, count - 1]
