"""What a message to a conversation with an expired cache will cost, and the cheaper ways."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sevenfold.doors.plugins.tail import LONG_LIFETIME, SHORT_LIFETIME, newest_answer

if TYPE_CHECKING:
    from sevenfold.profiles import Profile

LEAST_TOKENS = 20_000
"""A smaller conversation is never dear, so the prices need not be looked up."""
LEAST_TOKENS_WITHOUT_PRICE = 100_000
"""From how many tokens on a conversation counts as dear if the prices of its model are unknown."""
LEAST_DOLLARS = 0.25
"""The least difference to a warm cache that is worth a line."""


class PromptPrices(NamedTuple):
    """What a prompt costs with an expired and with a warm cache, in dollars."""

    cold: float
    warm: float


def notice(transcript: Path, now: float) -> str:
    """What to tell the user before the message goes out; empty if it is neither cold nor dear."""
    newest = newest_answer(transcript)
    if newest is None or newest.context < LEAST_TOKENS or now <= newest.at + SHORT_LIFETIME:
        return ""
    from sevenfold.profiles import find

    profile = find(newest.model)
    lifetime = newest.lifetime or (profile.cache.lifetimes[0] if profile.cache.lifetimes else 0)
    if not lifetime or now <= newest.at + lifetime:
        return ""
    prices = _prices(newest.context, lifetime, profile)
    if not _is_dear(newest.context, prices):
        return ""
    cost = (
        f", for about ${prices.cold:.2f} at API prices instead of ${prices.warm:.2f}"
        if prices
        else ", without the discount for what is in the cache"
    )
    expired = datetime.fromtimestamp(newest.at + lifetime).strftime("%H:%M")
    return (
        f"The cache of this conversation expired at {expired}: this message writes about {newest.context:,} tokens"
        f" anew{cost}. Cheaper: /clear, if the next task does not need this conversation; /compact costs about as"
        " much once, and every later message less."
    )


def _is_dear(tokens: int, prices: PromptPrices | None) -> bool:
    if prices is None:
        return tokens >= LEAST_TOKENS_WITHOUT_PRICE
    return prices.cold - prices.warm >= LEAST_DOLLARS


def _prices(tokens: int, lifetime: int, profile: Profile) -> PromptPrices | None:
    """What a prompt of this size costs; None if the model's prices are unknown."""
    from sevenfold.record.usage import Usage

    if not profile.cache.markers:
        written = Usage(input_tokens=tokens)
    elif lifetime >= LONG_LIFETIME:
        written = Usage(cache_creation_1h=tokens)
    else:
        written = Usage(cache_creation_5m=tokens)
    cold = written.cost(profile)
    warm = Usage(cache_read_input_tokens=tokens).cost(profile)
    return None if cold is None or warm is None else PromptPrices(cold, warm)
