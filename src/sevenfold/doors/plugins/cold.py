"""What a message to a conversation with an expired cache will cost, and the cheaper ways."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from sevenfold.doors.plugins.tail import NewestAnswer, newest_answer

LEAST_TOKENS = 20_000
"""A smaller conversation is never dear, so the prices need not be looked up."""
LEAST_DOLLARS = 0.25
"""The least difference to a warm cache that is worth a line."""


def notice(transcript: Path, now: float) -> str:
    """What to tell the user before the message goes out; empty if it is neither cold nor dear."""
    newest = newest_answer(transcript)
    if newest is None or newest.context < LEAST_TOKENS or now <= newest.at + newest.lifetime:
        return ""
    prices = _prices(newest)
    if prices is None or prices[0] - prices[1] < LEAST_DOLLARS:
        return ""
    cold, warm = prices
    expired = datetime.fromtimestamp(newest.at + newest.lifetime).strftime("%H:%M")
    return (
        f"The cache of this conversation expired at {expired}: this message writes about {newest.context:,} tokens"
        f" anew, for about ${cold:.2f} at API prices instead of ${warm:.2f}. Cheaper: /clear, if the next task does"
        " not need this conversation; /compact costs about as much once, and every later message less."
    )


def _prices(newest: NewestAnswer) -> tuple[float, float] | None:
    """What the next prompt costs with an expired and with a warm cache; None if the model's prices are unknown."""
    from sevenfold.profiles import find
    from sevenfold.record.usage import Usage

    profile = find(newest.model)
    if newest.lifetime > 300:
        written = Usage(cache_creation_1h=newest.context)
    else:
        written = Usage(cache_creation_5m=newest.context)
    cold = written.cost(profile)
    warm = Usage(cache_read_input_tokens=newest.context).cost(profile)
    return None if cold is None or warm is None else (cold, warm)
