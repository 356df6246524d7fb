"""How fast a conversation grows, and whether a summary that is begun now would be used."""

from __future__ import annotations

from collections import deque

RECENT = 3
"""How many of the newest answers tell how much the next one will add."""


class ConversationGrowth:
    """The growth of one conversation, by the sizes that its provider reports."""

    def __init__(self) -> None:
        self._size = 0
        self._before = 0
        """The size after the answer before the newest."""
        self._recent: deque[int] = deque(maxlen=RECENT)

    def answered(self, size: int) -> None:
        """Take note of the size of the conversation after an answer; it is smaller after something has left."""
        if size > self._size > 0:
            self._recent.append(size - self._size)
        self._before = self._size
        self._size = size

    def is_time_for_summary(self, threshold: int) -> bool:
        """Whether a summary that is begun now would be used.

        A program that compacts by itself does so before it sends what would go beyond the threshold: then nobody would
        use our summary. One that has gone on beyond it does not compact.
        """
        went_on_beyond = threshold <= self._before < self._size
        return went_on_beyond or self._size + max(self._recent, default=0) < threshold
