"""How large a conversation is and how fast it grows, by the sizes that its provider reports."""

from __future__ import annotations

from collections import deque
from statistics import mean
from typing import Literal

RECENT = 3
"""How many of the newest answers tell how much the next one may add."""
USUAL = 8
"""How many of them tell how much one adds usually."""
Compacting = Literal["we", "program"]


class ConversationGrowth:
    """The growth of one conversation."""

    def __init__(self, *, is_new: bool = True) -> None:
        """A conversation that is not new has answers that were not reported here."""
        self.size = 0
        """The size after the newest answer."""
        self.first = 0
        """The size after the first answer of all: about what no compaction takes out; 0 if it is not known."""
        self.behind: dict[Compacting, int] = {}
        """How large the conversation was behind the newest compaction of ours, and behind that of the program's."""
        self._is_new = is_new
        self._compacted_by: Compacting | None = None
        self._before = 0
        """The size after the answer before the newest."""
        self._recent: deque[int] = deque(maxlen=USUAL)

    def compacted_by(self, whom: Compacting) -> None:
        """Take note of a compaction: the next answer tells how much is left."""
        self._compacted_by = whom

    def answered(self, size: int) -> None:
        """Take note of the size of the conversation after an answer; it is smaller after something has left."""
        if size > self.size > 0:
            self._recent.append(size - self.size)
        if self._is_new:
            self._is_new = False
            self.first = size
        if self._compacted_by is not None:
            self.behind[self._compacted_by] = size
            self._compacted_by = None
        self._before = self.size
        self.size = size

    @property
    def usual(self) -> float:
        """How many tokens an answer and what leads to it usually add; 0 if that is not known yet."""
        return mean(self._recent) if self._recent else 0.0

    def went_on_beyond(self, threshold: int) -> bool:
        """Whether the program has gone on beyond its threshold: then it does not compact by itself."""
        return threshold <= self._before < self.size

    def is_time_for_summary(self, threshold: int) -> bool:
        """Whether a summary that is begun now would be used.

        A program that compacts by itself does so before it sends what would go beyond the threshold: then nobody would
        use our summary.
        """
        return self.went_on_beyond(threshold) or self.size + self._most < threshold

    def is_last_chance(self, threshold: int) -> bool:
        """Whether the answer after the next one may reach the threshold: a summary begun then comes too late."""
        return self.size + 2 * self._most >= threshold

    @property
    def _most(self) -> int:
        """How many tokens the next answer may add."""
        return max(list(self._recent)[-RECENT:], default=0)
