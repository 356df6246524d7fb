"""What memory keeps of labelled conversations."""

from __future__ import annotations

from pathlib import Path

from bench.points import Outcome, Point, is_quick
from bench.remembering import (
    CHANGED,
    KEPT,
    RIGHT,
    WISHES,
    PerfectModel,
    Score,
    SloppyModel,
    measure,
    share,
    wishes,
)


def perfect(_: Path | None) -> list[Outcome]:
    """With a model that answers as asked."""
    return _outcomes("perfect model", PerfectModel)


def sloppy(_: Path | None) -> list[Outcome]:
    """With a model that misquotes and believes too much."""
    return _outcomes("sloppy model", SloppyModel)


def _outcomes(name: str, kind: type[PerfectModel]) -> list[Outcome]:
    scores = measure(kind, sample=8 if is_quick() else 1)
    total = Score()
    for score in scores.values():
        total = total.plus(score)
    outcomes = [
        _at_least(f"{name}: statements kept as the user's", total.kept, total.wanted, KEPT),
        _at_least(f"{name}: trusted entries that are right", total.right, total.trusted, RIGHT),
        _at_least(
            f"{name}: changed minds of which the later statement counts",
            total.changed,
            total.changes,
            CHANGED,
        ),
        _at_least(f"{name}: closed statements that can be brought back", total.undone, total.changes, 1.0),
    ]
    outcomes += [
        _at_least(f"{name}, {language}: statements kept", score.kept, score.wanted, KEPT)
        for language, score in scores.items()
    ]
    kept, told = wishes(kind)
    return [
        *outcomes,
        _at_least(f"{name}: wishes in a row that were kept, or told", kept + told, WISHES, 1.0),
    ]


def _at_least(name: str, part: int, whole: int, bar: float) -> Outcome:
    return Outcome(name, share(part, whole) >= bar, f"{part} of {whole}", f"at least {bar:.0%}")


POINTS: list[Point] = [
    ("remembering with a perfect model", perfect),
    ("remembering with a sloppy model", sloppy),
]
