"""Tracks what clearing has cost and saved, compared with compacting at the threshold only.

How long a session lasts is unknown, so a clearing that pays off only after enough further requests may be a loss. This
is the ski-rental problem, and the planner solves it the same way: it spends on clearing only what the session can
bear. The ledger tracks the size of a hypothetical conversation: the same one, but never cleared, and compacted at the
threshold. At every request, the actual cost exceeds the hypothetical cost by at most `SHARE`, whatever follows:

- a clearing is made only if the excess stays within that share even if the session ends right after it;
- clearing may postpone a compaction, and each request then costs more than it would after a summary. In that time, the
  price of one more such request, with an expired cache at worst, and of the compaction itself is set aside. Once that
  no longer fits within the share, the compaction is due.

So a session is compacted no more often than without clearing.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

SHARE = 0.01
"""The largest share by which a session may cost more than with compaction at the threshold only."""


class Terms(Struct, frozen=True):
    """The current prices, in US dollars, and sizes of a request and a compaction."""

    read: float
    """Price of reading a token from the cache."""
    write: float
    """Price of writing a token to the cache."""
    cold: bool
    """Whether the cache has expired."""
    fixed: int
    """Tokens of system prompt and tools, which stay in the cache."""
    size_after_compaction: int
    """Tokens of the whole request after a compaction."""
    summary: float
    """Price of the tokens the model writes for a summary."""

    @property
    def rate(self) -> float:
        """Price of a token of the next request that was sent before."""
        return self.write if self.cold else self.read

    @property
    def compaction(self) -> float:
        """Price of a compaction and the request after it, without reading the summarised content."""
        return (
            self.summary + self.fixed * self.read + (self.size_after_compaction - self.fixed) * self.write
        )


class CostLedger(Struct, frozen=True):
    """How a session differs from the same one without clearing."""

    owed: float = 0.0
    """US dollars by which it has cost more; negative if less."""
    ahead: int = 0
    """Tokens by which it is larger; negative if smaller."""
    rate: float = 0.0
    """Price of a token of the newest request that was sent before."""

    def requested(self, requests: int) -> CostLedger:
        """The ledger after this many more requests of the current size."""
        return replace(self, owed=self.owed + requests * self.ahead * self.rate)

    def cleared(self, tokens: int, usd: float, rate: float) -> CostLedger:
        """The ledger after clearing ``tokens``, with ``usd`` paid for rewriting the rest."""
        return CostLedger(self.owed + usd, self.ahead - tokens, rate)

    def grown(self, size: int, threshold: float, terms: Terms) -> CostLedger:
        """The ledger before a request of this size: without clearing, a compaction may have been due."""
        size_without_clearing = size - self.ahead
        if size_without_clearing < threshold or terms.size_after_compaction >= size_without_clearing:
            return replace(self, rate=terms.rate)
        saved = terms.compaction + (size_without_clearing - terms.size_after_compaction) * terms.rate
        return CostLedger(self.owed - saved, size - terms.size_after_compaction, terms.rate)

    def compacted(self, terms: Terms) -> CostLedger:
        """The ledger after a compaction; one that was also due without clearing makes no difference."""
        price = terms.compaction + self.ahead * terms.rate if self.ahead > 0 else 0.0
        return CostLedger(self.owed + price, 0, terms.rate)

    def bears(self, spent: float, terms: Terms) -> bool:
        """Whether a session that has cost ``spent`` stays within the share, whatever comes next."""
        ready = self.ahead * (terms.rate + terms.write) + terms.compaction if self.ahead > 0 else 0.0
        return self.owed + ready <= SHARE * (spent - self.owed)
