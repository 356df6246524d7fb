"""Finds cache breaks and their causes.

A call should read from the cache what the previous call made available: what that call read and wrote, or its whole
prompt if the provider caches automatically. If it reads clearly less, the difference was paid for again. A shorter
prompt is no break: only what is still in the prompt can be read.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from sevenfold.archive.profile.figures import CacheBreak
from sevenfold.profiles import Profile, find
from sevenfold.record.usage import Usage

BREAK_SHARE = 0.05
BREAK_TOKENS = 2_000
"""A drop in cache reads by more than this share and more than this many tokens is a break."""

SHORT_LIFETIME = 300
HOUR = 3600
"""The lifetimes of cache entries that are priced, in seconds."""

COMPACTION = "compaction"
CLEARING = "clearing"
REWIND = "rewind"
MODEL = "model_changed"
EXPIRED = "expired"
UNEXPLAINED = "unexplained"
RELAYED = ("model_changed", "tools_changed", "system_changed", "settings_changed", "messages_changed")
"""What a gateway saw change between two requests, in the order in which the cache depends on it."""
DIAGNOSED = frozenset({MODEL, "system_changed", "tools_changed", "messages_changed"})
"""Reasons from the server that explain a miss; other reasons only say that it does not know."""


class CallReport(Struct, frozen=True, gc=False):
    """A transcript's information about one call."""

    model: str
    usage: Usage | None
    last_prompt: int | None = None
    """The size of the last prompt, in case the usage sums up several."""
    at: float | None = None
    """The time of the call, in seconds since 1970."""
    reason: str = ""
    """The server's reason for a cache miss, if it gives one."""
    whole: bool = True
    """False for a report made before the answer was complete."""

    @property
    def day(self) -> str | None:
        """The local date of the call, as YYYY-MM-DD."""
        return None if self.at is None else datetime.fromtimestamp(self.at).date().isoformat()

    @property
    def profile(self) -> Profile:
        """The profile of its model."""
        return find(self.model)

    @property
    def used(self) -> Usage:
        """Its usage; all zeros if unknown."""
        return self.usage or Usage()

    @property
    def prompt(self) -> int:
        """The tokens of the prompt; 0 if the usage is unknown."""
        return self.used.prompt if self.last_prompt is None else self.last_prompt


class CacheFollower:
    """Follows the prompt cache of one conversation from call to call."""

    def __init__(self) -> None:
        self._lifetime: int | None = None
        """The lifetime of the newest cache write, in seconds; None before the first."""
        self._before: CallReport | None = None
        self._reads = False
        self._events: set[str] = set()

    def happened(self, event: str) -> None:
        """Note a compaction, a clearing or a rewind since the last call."""
        self._events.add(event)

    def check(self, report: CallReport, call: int) -> CacheBreak | None:
        """The cache break of a call whose usage is known, if it had one; ``call`` is its number."""
        broken = self._break(self._before, report, call) if self._before else None
        self._events.clear()
        self._before = report
        self._reads = self._reads or report.used.cache_read_input_tokens > 0
        self._lifetime = lifetime_of(report.used) or self._lifetime
        return broken

    def _break(self, previous: CallReport, report: CallReport, call: int) -> CacheBreak | None:
        read = report.used.cache_read_input_tokens
        earlier = previous.used
        if previous.profile.cache.automatic:
            cacheable = previous.prompt if self._reads else 0
        else:
            cacheable = earlier.cache_read_input_tokens + earlier.cache_creation_input_tokens
        expected = min(cacheable, report.prompt)
        if not is_fall(expected, read):
            return None
        idle = None if report.at is None or previous.at is None else max(0.0, report.at - previous.at)
        cause = self._cause(previous, report, idle)
        lost = expected - read
        return CacheBreak(
            cause, lost, call, None if idle is None else round(idle), _extra_cost(lost, report)
        )

    def _cause(self, previous: CallReport, report: CallReport, idle: float | None) -> str:
        """The cause of a break: the idle time, then recorded events, then the provider's reason."""
        lifetimes = previous.profile.cache.lifetimes
        lifetime = self._lifetime or (lifetimes[0] if lifetimes else None)
        if lifetime and idle is not None and idle >= lifetime:
            # Nothing was left that an event could have lost.
            return EXPIRED
        for event in (COMPACTION, CLEARING, REWIND):
            if event in self._events:
                return event
        if report.model != previous.model:
            return MODEL
        if report.reason in DIAGNOSED:
            return report.reason
        return next((event for event in RELAYED if event in self._events), UNEXPLAINED)


def is_fall(earlier: int, later: int) -> bool:
    """Whether a number of tokens fell by more than noise."""
    return earlier - later > max(BREAK_TOKENS, BREAK_SHARE * earlier)


def lifetime_of(usage: Usage) -> int | None:
    """The lifetime, in seconds, of most of what a call wrote to the cache; None if it wrote nothing."""
    if not usage.cache_creation_input_tokens:
        return None
    return 3600 if usage.cache_creation_1h >= usage.cache_creation_5m else 300


def _extra_cost(tokens: int, report: CallReport) -> float | None:
    """The extra cost of paying for tokens again instead of reading them from the cache; None if unknown."""
    price = report.profile.price(report.prompt)
    if price is None:
        return None
    again = min(tokens, report.used.cache_creation_input_tokens)
    paid = again * price.write(lifetime_of(report.used) or 300) + (tokens - again) * price.input
    return (paid - tokens * price.read) / 1_000_000
