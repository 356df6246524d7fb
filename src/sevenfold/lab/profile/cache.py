"""Where the prompt cache was lost, and why.

A call should be able to read what the call before it made cacheable: what that one read and what it
wrote, or its whole prompt where the provider caches by itself. If it reads clearly less, the difference
was paid for again. A shorter prompt is not held against the cache: only what is still in it counts.
"""

from __future__ import annotations

from msgspec import Struct

from sevenfold.profiles import Price, Profile
from sevenfold.record.usage import Usage

BREAK_SHARE, BREAK_TOKENS = 0.05, 2_000
"""A fall by more than this share and more than this many tokens is a break."""

COMPACTION = "compaction"
CLEARING = "clearing"
REWIND = "rewind"
MODEL = "model_changed"
IDLE = "idle_gap"
UNEXPLAINED = "unexplained"
DIAGNOSED = frozenset({MODEL, "system_changed", "tools_changed", "messages_changed"})
"""Reasons a server gives that are reasons; others only say that it does not know."""
_BEFORE_ALL = (COMPACTION, CLEARING, REWIND)


class CachedRequest(Struct, frozen=True):
    """A request, as far as the cache is concerned."""

    usage: Usage
    prompt: int
    model: str
    profile: Profile
    at: float | None = None
    reason: str = ""
    """What the server said about a miss."""


class Loss(Struct, frozen=True):
    """A cache break."""

    cause: str
    tokens: int
    idle: float | None
    cost_usd: float | None


class CacheFollower:
    """Follows the cache of one conversation."""

    def __init__(self) -> None:
        self.lifetime: int | None = None
        """Seconds for which the newest write lives, once one was seen."""
        self._before: CachedRequest | None = None
        self._reads = False
        self._events: set[str] = set()

    def happened(self, event: str) -> None:
        """Note a compaction, a clearing or a rewind since the last call."""
        self._events.add(event)

    def check(self, asked: CachedRequest) -> Loss | None:
        """The break this call met with, if it did."""
        loss = self._loss(self._before, asked) if self._before else None
        self._events.clear()
        self._before = asked
        self._reads = self._reads or asked.usage.cache_read_input_tokens > 0
        self.lifetime = lifetime_of(asked.usage) or self.lifetime
        return loss

    def _loss(self, before: CachedRequest, asked: CachedRequest) -> Loss | None:
        read = asked.usage.cache_read_input_tokens
        expected = min(self._cacheable(before), asked.prompt)
        tokens = expected - read
        if not is_fall(expected, read):
            return None
        idle = None if asked.at is None or before.at is None else max(0.0, asked.at - before.at)
        return Loss(self._cause(before, asked, idle), tokens, idle, _extra_cost(tokens, asked))

    def _cacheable(self, before: CachedRequest) -> int:
        if before.profile.cache.automatic:
            return before.prompt if self._reads else 0
        return before.usage.cache_read_input_tokens + before.usage.cache_creation_input_tokens

    def _cause(self, before: CachedRequest, asked: CachedRequest, idle: float | None) -> str:
        """What we saw happen comes first, then what the server says, then the clock."""
        for event in _BEFORE_ALL:
            if event in self._events:
                return event
        if asked.model != before.model:
            return MODEL
        if asked.reason in DIAGNOSED:
            return asked.reason
        lifetimes = before.profile.cache.lifetimes
        lifetime = self.lifetime or (lifetimes[0] if lifetimes else None)
        return IDLE if lifetime and idle is not None and idle >= lifetime else UNEXPLAINED


def is_fall(before: int, now: int) -> bool:
    """Is this a fall by more than noise?"""
    return before - now > max(BREAK_TOKENS, BREAK_SHARE * before)


def lifetime_of(usage: Usage) -> int | None:
    """Seconds for which a call wrote to the cache: the lifetime most of it was written for."""
    if not usage.cache_creation_input_tokens:
        return None
    return 3600 if usage.cache_creation_1h >= usage.cache_creation_5m else 300


def _extra_cost(tokens: int, asked: CachedRequest) -> float | None:
    """What it cost to pay for those tokens again instead of reading them."""
    price = asked.profile.price(asked.prompt)
    if price is None:
        return None
    again = min(tokens, asked.usage.cache_creation_input_tokens)
    paid = again * _write_price(price, asked.usage) + (tokens - again) * price.input
    return (paid - tokens * price.read) / 1_000_000


def _write_price(price: Price, usage: Usage) -> float:
    return price.write(lifetime_of(usage) or 300)
