"""Sessions in PostgreSQL under fire."""

from __future__ import annotations

from pathlib import Path

from bench import fire
from bench.points import Outcome, Point, is_quick


def under_fire(_: Path | None) -> list[Outcome]:
    """Workers are killed and frozen; then the tables are compared with a bill that others kept."""
    verdict = fire.run(sessions=60, kills=6, freezes=6) if is_quick() else fire.run()
    enough = verdict.acknowledged == verdict.questions and not verdict.faults
    return [
        Outcome("nothing lost, doubled or out of order", enough, str(verdict), "0 faults"),
        Outcome(
            "repeated paid calls",
            verdict.repeated <= verdict.in_hand,
            f"{verdict.repeated:,}",
            f"at most the {verdict.in_hand:,} in hand",
        ),
    ]


def without_fence(_: Path | None) -> list[Outcome]:
    """The control: writers that trust their leases double answers, so the run above can fail."""
    verdict = fire.run(sessions=40, kills=0, freezes=8, unfenced=True)
    return [
        Outcome("without the fencing number it fails", bool(verdict.faults), str(verdict), "some faults")
    ]


POINTS: list[Point] = [
    ("PostgreSQL: workers killed and frozen", under_fire),
    ("PostgreSQL: the same without a fence", without_fence),
]
