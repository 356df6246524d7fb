"""Whether a key was meant for the question that has just come up, or for the message somebody was writing.

Who types fast would otherwise permit a command with the "y" of a word that was on its way.
"""

from __future__ import annotations

PAUSE = 0.8
"""Seconds without a key after which somebody who was typing is taken to have seen the question."""


class Momentum:
    """Follows when keys came."""

    def __init__(self) -> None:
        self._typed = self._guarded = float("-inf")

    def typed(self, now: float) -> None:
        """Something was written into the message."""
        self._typed = now

    def asked(self, now: float, draft: str) -> None:
        """A question came up while this was in the message."""
        if draft and now - self._typed < PAUSE:
            self._guarded = now + PAUSE

    def carries(self, now: float) -> bool:
        """Is a key that comes now still part of the message?"""
        if now > self._guarded:
            return False
        self._guarded = now + PAUSE
        return True
