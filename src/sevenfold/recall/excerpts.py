"""The part of a text that shows why it was found, with the matches marked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sevenfold.recall.nearness import stem
from sevenfold.recall.recall import DENSE_RUN, Query

EXCERPT = 320
"""Characters of an excerpt, about."""

Span = tuple[int, int]


def excerpt(text: str, query: Query, place: int | None = None) -> tuple[str, tuple[Span, ...]]:
    """The part of a text around the match, or from a place on, and where in it the matches are."""
    spans = _exact(text, query) or _words(text, query)
    first = _densest(spans) if place is None else (place, place)
    start = max(0, first[0] - EXCERPT // 3) if place is None else place
    end = min(len(text), max(start + EXCERPT, first[1]))
    lead, tail = "…" if start else "", "…" if end < len(text) else ""
    shift = len(lead) - start
    inside = tuple((begin + shift, stop + shift) for begin, stop in spans if start <= begin and stop <= end)
    return lead + text[start:end] + tail, inside


def beginning(text: str, most: int) -> str:
    """The text in one line, cut where it gets too long."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 1] + "…"


def _exact(text: str, query: Query) -> list[Span]:
    for needle in query.needles:
        pattern = r"\s+".join(map(re.escape, needle.split()))
        if found := [hit.span() for hit in re.finditer(pattern, text, re.IGNORECASE)]:
            return found
    return []


def _words(text: str, query: Query) -> list[Span]:
    words = {stem(word) for feature in query.features for word in feature.split()}
    if not words:
        return []
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    inflected = "|".join(re.escape(word) for word in longest_first)
    dense = [re.escape(word) for word in longest_first if DENSE_RUN.fullmatch(word)]
    pattern = "|".join([rf"(?<![^\W_])(?:{inflected})[^\W_]*", *dense])
    return [hit.span() for hit in re.finditer(pattern, text, re.IGNORECASE)]


def _densest(spans: Sequence[Span]) -> Span:
    """The first match of the stretch with the most of them."""
    best, most, last = (0, 0), 0, 0
    for number, span in enumerate(spans):
        while last < len(spans) and spans[last][1] <= span[0] + EXCERPT // 2:
            last += 1
        if last - number > most or best == (0, 0):
            best, most = span, last - number
    return best
