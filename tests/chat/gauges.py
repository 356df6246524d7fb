"""Readings of a gauge for tests."""

from __future__ import annotations

from sevenfold.conversation.status import Reading


def gauge(seen: int, usd: float | None = 0.42) -> Reading:
    """A window of 200,000 tokens of which some are used."""
    return Reading(
        seen=seen,
        sent=seen,
        low=seen - 500,
        high=seen + 1_000,
        context=200_000,
        effective=180_000,
        threshold=167_000,
        warning=147_000,
        blocking=177_000,
        limit=167_000,
        percent_left=50,
        above_warning=seen > 147_000,
        above_error=seen > 160_000,
        above_auto_compact=seen > 167_000,
        at_blocking=seen > 177_000,
        wire=0,
        wire_limit=None,
        images=0,
        images_limit=None,
        requests=3,
        usd=usd,
    )
