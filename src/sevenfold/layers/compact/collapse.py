"""Another way to keep a conversation small: finished spans are folded, one by one, into summaries of their own.

It starts later than auto-compaction would, changes less at a time, and leaves everything else as it was said. While
it is on, auto-compaction stands down.
"""

from __future__ import annotations

from collections.abc import Callable

from sevenfold.layers.compact import scope
from sevenfold.layers.compact.request import Wish
from sevenfold.record.layout import Item
from sevenfold.record.view import View
from sevenfold.record.window import Window

STARTS = 0.90
"""Share of the effective window at which spans are folded…"""
BLOCKS = 0.95
"""…and at which nothing is sent any more if that did not help."""
SPAN = 0.25
"""Share of the effective window one span has, about."""
LEAST = 0.02
"""Share of the effective window below which folding a span is not worth it."""
MOST = 4
"""Spans folded before one request."""


def due(tokens: int, window: Window) -> bool:
    """Is it time to fold?"""
    return tokens >= STARTS * window.effective


def blocked(tokens: int, window: Window) -> bool:
    """May nothing be sent?"""
    return tokens >= BLOCKS * window.effective


def next_span(view: View, window: Window, tokens: Callable[[Item], int]) -> Wish | None:
    """What to fold next; None if nothing is left that would help."""
    effective = window.effective
    found = scope.finished(view, int(LEAST * effective), int(SPAN * effective), tokens)
    if found is None:
        return None
    return Wish(trigger="collapse", span="range", record=found[0], until=found[1])
