"""Compaction: nothing is lost or invented, the context becomes small, and few model calls are needed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench import compaction, inventing
from bench.compaction import BADLY, BY_CODE, BY_PROVIDER, NOT_AT_ALL, Bar
from bench.points import Outcome, Point, without_corpus

SORTS = (BY_CODE, BADLY, NOT_AT_ALL, BY_PROVIDER)


def _outcomes(bars: Iterable[Bar]) -> list[Outcome]:
    return [Outcome(name, met, figure, asked) for name, figure, asked, met in bars]


def real_sessions(corpus: Path | None) -> list[Outcome]:
    """Every session compacted at five points: by code alone, by bad or failing models, and by the provider."""
    if corpus is None:
        return without_corpus(*(f"sessions compacted {sort}" for sort in SORTS))
    tallies = compaction.compact_all(corpus)
    return _outcomes(bar for sort, tally in tallies.items() for bar in tally.bars(sort))


def next_requests(corpus: Path | None) -> list[Outcome]:
    """The request after a compaction of every session, sent to the simulated provider."""
    if corpus is None:
        return without_corpus("requests after a compaction")
    return _outcomes(compaction.sent_bars(compaction.send_some(corpus)))


def in_a_row(_: Path | None) -> list[Outcome]:
    """Ten compactions in a row."""
    return _outcomes(compaction.chain_bars(compaction.chained()))


def price(_: Path | None) -> list[Outcome]:
    """The time and the model calls that compactions take."""
    return _outcomes([*compaction.time_bars(compaction.timed()), *compaction.cost_bars(compaction.costs())])


def claims(_: Path | None) -> list[Outcome]:
    """Planted claims and honest sentences by all writers, in every summary layout."""
    sets = {"": inventing.SETS, " (not learnt from)": inventing.FRESH}
    return _outcomes(
        (f"{name}{which}", figure, asked, met)
        for which, files in sets.items()
        for name, figure, asked, met in inventing.together(files, lambda figures, wrong: None)
    )


POINTS: list[Point] = [
    ("compaction: real sessions", real_sessions),
    ("compaction: the next request", next_requests),
    ("compaction: ten in a row", in_a_row),
    ("compaction: time and calls", price),
    ("compaction: claims", claims),
]
