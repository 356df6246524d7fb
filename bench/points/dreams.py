"""Which memory entries a dream says are contradicted."""

from __future__ import annotations

from pathlib import Path

from bench.dreams import NOTICED, closings
from bench.points import Outcome, Point


def closing(_: Path | None) -> list[Outcome]:
    """Statements that contradict each other, and statements that only look alike."""
    found = closings()
    kept = found.contradicting - len(found.missed)
    return [
        Outcome(
            "unrelated facts that a dream calls contradicted",
            not found.wrong,
            f"{len(found.wrong)} of {found.unrelated}",
            "none",
        ),
        Outcome(
            "facts of other pairs that would end each other",
            not found.crossed,
            f"{len(found.crossed)}",
            "none",
        ),
        Outcome(
            "contradicted facts that a dream notices",
            kept >= NOTICED * found.contradicting,
            f"{kept} of {found.contradicting}",
            f"at least {NOTICED:.0%}",
        ),
    ]


POINTS: list[Point] = [("what dreams notice", closing)]
