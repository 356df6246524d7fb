"""What recall and memory bring back, and that they say so where nothing matches."""

from __future__ import annotations

from pathlib import Path

from bench import own_recall
from bench.memory import requests
from bench.points import Outcome, Point, is_quick


def abstention(_: Path | None) -> list[Outcome]:
    """Questions about twelve conversations, and questions about others, by every way that is installed."""
    every = own_recall.read()[: own_recall.QUICK if is_quick() else None]
    outcomes: list[Outcome] = []
    plain = 0.0
    by_words = 0.0
    for name, way in own_recall.ways():
        found = own_recall.measure(way, every)[1]
        if way is own_recall.by_fts5:
            plain = found.recall
            continue
        by_words = by_words or found.recall
        answered = f"{found.answered:.0%}"
        silent = found.answered <= own_recall.MOST_ANSWERED
        outcomes.append(
            Outcome(f"{name}: questions about nothing answered", silent, answered, "at most 20%")
        )
        least = max(plain, by_words)
        figure = f"{100 * found.recall:.1f}"
        bar = f"at least {100 * least:.1f}, as plain FTS5 and words"
        outcomes.append(Outcome(f"{name}: R@10, weak hits included", found.recall >= least, figure, bar))
        lost = f"{100 * (found.recall - found.sure):.1f} points"
        kept = found.recall - found.sure <= 0.02
        outcomes.append(Outcome(f"{name}: R@10 that is called weak", kept, lost, "at most 2 points"))
    return outcomes


def memory(_: Path | None) -> list[Outcome]:
    """Requests as people make them, and the entries that bear on them."""
    outcomes: list[Outcome] = []
    for name, tally in zip(("seen", "held out"), requests(), strict=True):
        came = f"{tally.came} of {tally.fitting}"
        enough = tally.came >= 0.4 * tally.fitting
        outcomes.append(
            Outcome(f"requests that bring back their entry, {name}", enough, came, "at least 40%")
        )
        answered = f"{tally.answered} of {tally.nothing}"
        silent = tally.answered <= 0.15 * tally.nothing
        outcomes.append(
            Outcome(f"other requests that bring one back, {name}", silent, answered, "at most 15%")
        )
    return outcomes


POINTS: list[Point] = [("what recall brings back", abstention), ("what memory brings back", memory)]
