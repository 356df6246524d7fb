"""What the requests of a replay cost, and what they should have found in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import fsum

from sevenfold.lab.replay.figures import Series
from sevenfold.lab.replay.provider import COMPACT, MAIN, BilledRequest, ReplayProvider
from sevenfold.record.usage import BilledCall, ideal_cost

BREAK_SHARE = 0.05
BREAK_TOKENS = 2_000
"""A loss of the cache is a fall of the tokens read by more than this share and by more than so many tokens."""
SHORT = 300
HOUR = 3_600


class ReplayBill:
    """The bill of one replay; `answered` is called after each request of the session itself."""

    def __init__(self, provider: ReplayProvider) -> None:
        self.breaks = 0
        """Losses of the cache that neither a decision nor a pause explains."""
        self.contexts: list[int] = []
        """The size of each prompt of the session itself."""
        self._provider = provider
        self._runs: list[list[BilledCall]] = [[]]
        """The calls between two summaries, which share one prefix."""
        self._last: BilledRequest | None = None

    @property
    def _requests(self) -> Sequence[BilledRequest]:
        return self._provider.requests

    def answered(self, *, announced: bool, compactions: int) -> None:
        """Take note of the newest request of the session; ``announced`` says that what had been sent was changed."""
        request = next(billed for billed in reversed(self._requests) if billed.source == MAIN)
        usage = request.usage.first_round
        while len(self._runs) <= compactions:
            self._runs.append([])
        lifetime = HOUR if usage.cache_creation_1h > usage.cache_creation_5m else SHORT
        self._runs[-1].append(BilledCall(usage.prompt, request.usage.billed.output_tokens, lifetime))
        self.contexts.append(usage.prompt)
        last = self._last
        if last is not None and not announced and request.at - last.at < lifetime:
            cached_before = last.usage.cache_read_input_tokens + last.usage.cache_creation_input_tokens
            fall = cached_before - usage.cache_read_input_tokens
            self.breaks += fall > BREAK_TOKENS and fall > BREAK_SHARE * cached_before
        self._last = request

    @property
    def cost(self) -> float | None:
        """What all requests cost; None if a price is unknown."""
        return _sum([request.usd for request in self._requests])

    @property
    def ideal_cost(self) -> float | None:
        """The cost with a perfect cache: each token is written once; requests of the layers cost what they cost."""
        run_costs: list[float | None] = []
        for number, run in enumerate(self._runs):
            # A summary leaves system prompt and tools in the cache.
            cached_opening = [BilledCall(self._provider.opening, 0, SHORT)] if number else []
            cost_with_opening = ideal_cost([*cached_opening, *run], self._provider.profile)
            opening_cost = ideal_cost(cached_opening, self._provider.profile)
            run_costs.append(
                None
                if cost_with_opening is None or opening_cost is None
                else cost_with_opening - opening_cost
            )
        return _sum([*run_costs, *(request.usd for request in self._requests if request.source != MAIN)])

    @property
    def prompt_tokens(self) -> int:
        """The tokens of all prompts."""
        return sum(request.usage.billed.prompt for request in self._requests)

    @property
    def read_tokens(self) -> int:
        """How many of them were read from the cache."""
        return sum(request.usage.billed.cache_read_input_tokens for request in self._requests)

    @property
    def foreground_waits(self) -> int:
        """How often the session waited for a summary, however many requests it took."""
        return len(
            {request.step for request in self._requests if request.source == COMPACT and request.in_session}
        )

    @property
    def series(self) -> Series:
        """The course of the session, request by request."""
        spent = [0.0] * len(self.contexts)
        for request in self._requests:
            if request.step < len(spent):
                spent[request.step] += request.usd or 0.0
        is_priced = all(request.usd is not None for request in self._requests)
        costs = tuple(accumulate(spent)) if is_priced else (None,) * len(spent)
        return Series(tuple(range(1, len(spent) + 1)), tuple(self.contexts), costs)


def _sum(costs: Sequence[float | None]) -> float | None:
    known_costs = [cost for cost in costs if cost is not None]
    return fsum(known_costs) if len(known_costs) == len(costs) else None
