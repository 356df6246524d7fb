"""What looks for lasting facts may cost, and what they have cost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sevenfold.conversation.flow import Flow, in_thread
from sevenfold.layers.remember import policy
from sevenfold.layers.remember.reports import SOURCE
from sevenfold.layers.remember.span import SearchSpan
from sevenfold.memory.memory import Memory
from sevenfold.request.watch import SECONDS

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation


class LookBudget:
    """The budget of one session: a share of its bill, within what all sessions of the project may spend in a day."""

    def __init__(self, c: Conversation, memory: Memory) -> None:
        self._c = c
        self._memory = memory
        self._usd = 0.0
        """Cost of looking for facts in this session."""
        self._reported_share = False
        """Whether it was reported that looks wait because of their share of the bill."""
        self._reported_day = ""
        """The day on which the daily budget was last reported as spent."""

    def spend(self, cost: float | None) -> Flow[None]:
        """Count the cost of a request; None or 0 if it is unknown or free."""
        if cost:
            self._usd += cost
            yield from in_thread(partial(self._memory.spend, cost))

    def allows_look(self) -> bool:
        """Whether a look before the end of the session can be afforded; if not, it waits, which is reported once."""
        size = self._c.size().tokens
        price = self._c.profile.price(size)
        costs = policy.cost_of_plain_call(price, policy.PLAIN_TOKENS), policy.cost_of_fork(price, size)
        expected = min(filter(None, costs), default=None)
        if not policy.affordable(self._usd, expected, self._c.account.usd):
            if not self._reported_share:
                self._reported_share = True
                self._report(f"it would take more than {policy.USUAL_SHARE:.1%} of the bill now")
            return False
        daily_budget = self._c.settings.memory_daily_budget
        today = self._memory.today()
        spent = self._memory.spent
        if daily_budget is None or spent < daily_budget:
            return True
        if self._reported_day != today:
            self._reported_day = today
            self._report(f"${spent:.2f} of ${daily_budget:.2f} are spent today (memory_daily_budget)")
        return False

    def allows_reading(self) -> bool:
        """Whether a look may take one more request to read files."""
        return policy.may_read(self._usd, self._c.account)

    def prefers_fork(self, span: SearchSpan) -> bool:
        """Whether the cache still holds the conversation, and reading it from there costs less than a plain call."""
        c = self._c
        price = c.profile.price(c.size().tokens)
        if price is None:
            return True
        is_cached = c.idle_seconds() < SECONDS[c.epoch.lifetimes.tail]
        plain_size = policy.PLAIN_TOKENS + sum(map(c.count, span.messages.values()))
        fork_usd = policy.cost_of_fork(price, c.size().tokens) or 0.0
        plain_usd = policy.cost_of_plain_call(price, plain_size) or 0.0
        return is_cached and fork_usd <= plain_usd

    def _report(self, why: str) -> None:
        self._c.events.aside(
            "memory", f"looking for lasting facts waits until the session ends: {why}", source=SOURCE
        )
