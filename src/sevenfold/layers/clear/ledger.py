"""What clearing has cost and saved, measured against compaction at the threshold only.

How long a session lasts is not known, so a decision that pays only if enough requests follow may be a loss. Like
someone who rents skis until the rent has reached their price, the planner pays for a clearing only what the session can
bear. The ledger follows a second conversation by its size alone: the same one, in which nothing is cleared and which
is compacted at the threshold. The difference between the two bills is kept at every request within `SHARE` of the
other's, whatever comes next:

- a clearing is made only if the difference stays within that share even if the session ends right after it;
- clearing may put a compaction off, and each request then costs more than it would behind a summary. While that goes
  on, the price of one more such request, with an expired cache at worst, and of the compaction itself is held ready.
  Once that no longer fits within the share, the compaction is due.

So a session is compacted no more often than without clearing.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

SHARE = 0.01
"""The most by which a session may cost more than with compaction at the threshold only."""


class Terms(Struct, frozen=True):
    """The prices, in US dollars, and sizes that a compaction and a request have now."""

    read: float
    """Reading a token from the cache."""
    write: float
    """Writing a token to the cache."""
    cold: bool
    """Has the cache expired?"""
    fixed: int
    """Tokens of system and tools, which stay in the cache."""
    left: int
    """Tokens of all that is sent after a compaction."""
    summary: float
    """What the model's words in a summary cost."""

    @property
    def rate(self) -> float:
        """What a token of the next request costs that is not new."""
        return self.write if self.cold else self.read

    @property
    def compaction(self) -> float:
        """What a compaction and the request behind it cost, without reading what is summarised."""
        return self.summary + self.fixed * self.read + (self.left - self.fixed) * self.write


class CostLedger(Struct, frozen=True):
    """How a session differs from itself without clearing."""

    owed: float = 0.0
    """US dollars by which it has cost more; negative: less."""
    ahead: int = 0
    """Tokens by which it is larger; negative: smaller."""
    rate: float = 0.0
    """What a token of the newest request cost that was not new."""

    def requested(self, requests: int) -> CostLedger:
        """After so many requests as large as the conversation is."""
        return replace(self, owed=self.owed + requests * self.ahead * self.rate)

    def cleared(self, tokens: int, usd: float, rate: float) -> CostLedger:
        """After a clearing of so many tokens, for which the rest is written again at this price."""
        return CostLedger(self.owed + usd, self.ahead - tokens, rate)

    def grown(self, size: int, threshold: float, terms: Terms) -> CostLedger:
        """Before a request of this size: without clearing, a compaction may be due."""
        other = size - self.ahead
        if other < threshold or terms.left >= other:
            return replace(self, rate=terms.rate)
        saved = terms.compaction + (other - terms.left) * terms.rate
        return CostLedger(self.owed - saved, size - terms.left, terms.rate)

    def compacted(self, terms: Terms) -> CostLedger:
        """After a compaction; one that is due without clearing as well makes no difference."""
        price = terms.compaction + self.ahead * terms.rate if self.ahead > 0 else 0.0
        return CostLedger(self.owed + price, 0, terms.rate)

    def bears(self, spent: float, terms: Terms) -> bool:
        """Does a session that has cost so much stay within the share, whatever comes next?"""
        ready = self.ahead * (terms.rate + terms.write) + terms.compaction if self.ahead > 0 else 0.0
        return self.owed + ready <= SHARE * (spent - self.owed)
