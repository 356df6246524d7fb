"""Rate limits: how many requests and tokens a minute, told in headers and, where set, enforced."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime

from msgspec import Struct

from sevenfold.lab.simulator.errors import rate_limited

MINUTE = 60.0


class Limits(Struct, frozen=True):
    """What an account may do in a minute."""

    requests: int = 4_000
    input_tokens: int = 10_000_000
    """Tokens read from the cache do not count."""
    output_tokens: int = 2_000_000


class Spent(Struct, frozen=True):
    """What one request used."""

    at: float
    input_tokens: int
    output_tokens: int


class RateMeter:
    """Counts what was used in the last minute."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._spent: deque[Spent] = deque()

    def admit(self, now: float) -> None:
        """Raise when the minute's requests or tokens are used up."""
        self._forget(now)
        used = self._used()
        if used[0] >= self.limits.requests or used[1] >= self.limits.input_tokens:
            raise rate_limited(max(1.0, self._spent[0].at + MINUTE - now))

    def spend(self, now: float, input_tokens: int, output_tokens: int) -> None:
        """Count an answered request."""
        self._spent.append(Spent(now, input_tokens, output_tokens))

    def headers(self, now: float) -> dict[str, str]:
        """The headers that tell a client where it stands."""
        self._forget(now)
        limits, used = self.limits, self._used()
        both = (limits.input_tokens + limits.output_tokens, used[1] + used[2])
        rows = {
            "requests": (limits.requests, used[0]),
            "tokens": both,
            "input-tokens": (limits.input_tokens, used[1]),
            "output-tokens": (limits.output_tokens, used[2]),
        }
        reset = datetime.fromtimestamp(now + MINUTE, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        headers: dict[str, str] = {}
        for name, (most, taken) in rows.items():
            headers[f"anthropic-ratelimit-{name}-limit"] = str(most)
            headers[f"anthropic-ratelimit-{name}-remaining"] = str(max(0, most - taken))
            headers[f"anthropic-ratelimit-{name}-reset"] = reset
        return headers

    def _used(self) -> tuple[int, int, int]:
        spent = self._spent
        return (
            len(spent),
            sum(each.input_tokens for each in spent),
            sum(each.output_tokens for each in spent),
        )

    def _forget(self, now: float) -> None:
        while self._spent and self._spent[0].at <= now - MINUTE:
            self._spent.popleft()
