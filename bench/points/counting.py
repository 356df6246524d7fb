"""The estimator compared with the prompt sizes that servers reported in real transcripts."""

from __future__ import annotations

from pathlib import Path

from bench import estimator
from bench.points import Outcome, Point, without_corpus


def estimates(corpus: Path | None) -> list[Outcome]:
    """All bars of `bench/estimator.py`, with the rates that ship with the package."""
    if corpus is None:
        return without_corpus("estimates against reported sizes")
    return [
        Outcome(name, met, f"{figure:.2%}" if figure < 0.5 else f"{figure:.3f}")
        for name, figure, met in estimator.measure(corpus)["bars"]
    ]


POINTS: list[Point] = [("counting tokens", estimates)]
