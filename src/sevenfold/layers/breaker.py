"""When a layer rests.

A model that fails to give something several times in a row is not asked again at once: summaries not until one
succeeds, notes after longer and longer pauses. And a layer that keeps freeing next to nothing, or whose gain is
filled again at once, is left alone until the conversation has changed: what counts is what it frees, not how often
it was tried.
"""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from sevenfold.errors import ModelError, RateLimited
from sevenfold.record.window import Window

FAILURES = 3


def opened(failures: int) -> bool:
    """Are model engines to be left out? Notes and the extractive engine stay."""
    return failures >= FAILURES


def pause(failures: int) -> int:
    """How many times as far as usual it is to the next try: twice as far with every failure once it rests."""
    return 2 ** (failures - FAILURES + 1) if opened(failures) else 1


FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""If a provider wants a longer pause than this, the request is not repeated."""


def pause_before_retry(error: ModelError, attempt: int) -> float | None:
    """Seconds to wait before a request is made again: twice as long each time; None if the error is final."""
    if not error.retryable:
        return None
    wanted = error.retry_after if isinstance(error, RateLimited) else None
    if wanted is None:
        return min(LONGEST_PAUSE, FIRST_PAUSE * float(2**attempt))
    return wanted if wanted <= LONGEST_PAUSE else None


WASTED = 3
"""So many passes in a row without progress, and the layer rests."""
LITTLE = 0.02
"""A pass that frees a smaller share of the window got nowhere."""


class Pass(Struct, frozen=True):
    """One time a layer acted."""

    request: int
    """How many requests had gone out before."""
    freed: int
    size: int
    """Of the conversation, afterwards."""


class Progress(Struct, frozen=True):
    """What a layer achieved lately."""

    passes: tuple[Pass, ...] = ()

    def after(self, requests: int, freed: int, size: int) -> Progress:
        """With one more pass: after so many requests it freed so much, and left a conversation of that size."""
        return Progress((*self.passes, Pass(requests, freed, size))[-WASTED:])

    def rests(self, window: Window, size: int) -> str:
        """Why the layer should not be tried now, with a conversation of that size; empty if it may."""
        lately = self.passes
        if len(lately) < WASTED:
            return ""
        little = LITTLE * window.effective
        if all(one.freed < little for one in lately) and size - lately[-1].size < little:
            return f"its last {WASTED} passes freed next to nothing"
        full_again = size >= lately[-1].size + lately[-1].freed
        if full_again and all(_refilled(earlier, later) for earlier, later in pairwise(lately)):
            return f"what its last {WASTED} passes freed was filled again by the next request"
        return ""


def _refilled(earlier: Pass, later: Pass) -> bool:
    """Was the conversation as large as before one request after a pass?"""
    return later.request - earlier.request <= 1 and later.size + later.freed >= earlier.size + earlier.freed
