"""What a session cost, what it would have cost without a cache, and with a perfect one.

Sums hold the calls whose price is known; the others are counted. Where no call at all has a price, the
sums are None: unknown is not zero.
"""

from __future__ import annotations

from math import fsum

from sevenfold.profiles import Profile
from sevenfold.record.usage import Usage
from sevenfold.request import price
from sevenfold.request.price import Call

SHORT_LIFETIME = 300


class Run:
    """Calls that share one growing prefix, and what they cost with a perfect cache."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._profile: Profile | None = None
        self._lifetime = SHORT_LIFETIME
        self._ideal: list[float] = []

    def add(self, prompt: int, output: int, profile: Profile, lifetime: int | None) -> None:
        """One more call; another model starts another run."""
        if self._profile is not None and profile.model != self._profile.model:
            self.end()
        self._profile = profile
        self._lifetime = lifetime or self._lifetime
        self._calls.append(Call(prompt, output, self._lifetime))

    def end(self) -> None:
        """The prefix is given up: what follows is written anew."""
        if self._profile is not None:
            cost = price.ideal_cost(self._calls, self._profile)
            self._ideal.append(cost or 0.0)
        self._calls, self._profile = [], None

    def cost(self) -> float:
        """The ideal cost of all calls whose price is known."""
        self.end()
        return fsum(self._ideal)


class Money:
    """The costs of a session."""

    def __init__(self) -> None:
        self.unpriced = 0
        self._paid: list[float] = []
        self._uncached: list[float] = []

    def add(self, usage: Usage | None, profile: Profile) -> None:
        """Count one call."""
        paid = price.cost(usage, profile) if usage else None
        uncached = price.uncached_cost(usage, profile) if usage else None
        if paid is None or uncached is None:
            self.unpriced += 1
        else:
            self._paid.append(paid)
            self._uncached.append(uncached)

    def sums(self, ideal: float) -> tuple[float | None, float | None, float | None]:
        """Paid, uncached and ideal."""
        if self.unpriced and not self._paid:
            return None, None, None
        return fsum(self._paid), fsum(self._uncached), ideal
