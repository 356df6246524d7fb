"""Fifty sub-agents over a simulated hour, with compactions and kills of their parent."""

from __future__ import annotations

from pathlib import Path

from bench import team_hour
from bench.points import Outcome, Point, is_quick

QUICK_ROUNDS = 3


def hour(_: Path | None) -> list[Outcome]:
    """Each sub-agent runs once and each result arrives once, whatever happens to the parent."""
    rounds = QUICK_ROUNDS if is_quick() else team_hour.ROUNDS
    found = team_hour.measure(rounds)
    name = f"{found.agents} sub-agents, {found.kills} kills"
    return [Outcome(f"{name}: {says}", met, figure) for says, figure, met in team_hour.bars(found)]


POINTS: list[Point] = [("sub-agents over an hour", hour)]
