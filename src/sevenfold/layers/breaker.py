"""The rules for pausing a layer that keeps failing or gains nothing.

After several failures in a row, a model is not asked again at once: automatic summaries stop until one succeeds, and
notes are retried at longer and longer intervals. A layer also pauses if it keeps freeing next to nothing, or if the
next request fills up what it freed; it resumes once the conversation has changed. What counts is how much it frees, not
how often it was tried.
"""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from sevenfold.record.window import Window

FAILURES = 3


def is_open(failures: int) -> bool:
    """Whether to skip the engines that call a model; notes and the extractive engine remain available."""
    return failures >= FAILURES


def interval_factor(failures: int) -> int:
    """Factor by which to lengthen the interval to the next try; it doubles with each failure from the third on."""
    return 2 ** (failures - FAILURES + 1) if is_open(failures) else 1


WASTED = 3
"""Passes in a row without progress after which a layer pauses."""
LITTLE = 0.02
"""Share of the effective window below which what a pass freed counts as next to nothing."""


class Pass(Struct, frozen=True):
    """One action of a layer and its effect."""

    request: int
    """Number of requests sent before it."""
    freed: int
    size: int
    """Tokens of the conversation afterwards."""


class Progress(Struct, frozen=True):
    """What a layer's most recent passes achieved."""

    passes: tuple[Pass, ...] = ()

    def after(self, requests: int, freed: int, size: int) -> Progress:
        """The progress with one more pass, which came after ``requests``, freed ``freed`` tokens and left ``size``."""
        return Progress((*self.passes, Pass(requests, freed, size))[-WASTED:])

    def rests(self, window: Window, size: int) -> str:
        """Why the layer should pause when the conversation has ``size`` tokens; empty if it may act."""
        lately = self.passes
        if len(lately) < WASTED:
            return ""
        little = LITTLE * window.effective
        if all(earlier_pass.freed < little for earlier_pass in lately) and size - lately[-1].size < little:
            return f"its last {WASTED} passes freed next to nothing"
        full_again = size >= lately[-1].size + lately[-1].freed
        if full_again and all(_refilled(earlier, later) for earlier, later in pairwise(lately)):
            return f"what its last {WASTED} passes freed was filled again by the next request"
        return ""


def _refilled(earlier: Pass, later: Pass) -> bool:
    """Whether the conversation was back at its old size by the request after ``earlier``."""
    return later.request - earlier.request <= 1 and later.size + later.freed >= earlier.size + earlier.freed
