"""Doors that act: what keeping costs, what a killed gateway loses, and what programs do to their own lists."""

from __future__ import annotations

import random
from pathlib import Path

from bench import door_kills, keeping_bill, policies, rewrites
from bench.points import Outcome, Point, is_quick, without_corpus

BILL = "bill of the gateway that keeps, beside a program that compacts by itself"
QUICK_KILLS = 10
QUICK_REWRITES = 800


def bill(corpus: Path | None) -> list[Outcome]:
    """Recorded sessions cost less below a gateway that keeps, its own calls included."""
    if corpus is None:
        return without_corpus(BILL)
    models = policies.MODELS[:1]
    rows = [*keeping_bill.measure(corpus, models, keeping_bill.WINDOWS, jobs=policies.WORKERS)]
    return [Outcome(name, met, f"{figure:.3f}") for name, figure, met in keeping_bill.bars(rows)]


def kills(_: Path | None) -> list[Outcome]:
    """A gateway that is killed between a request and its answer records almost nothing again."""
    figures = door_kills.measure(QUICK_KILLS if is_quick() else door_kills.KILLS)
    figure = f"at most {max(figures.new, default=0)}, {figures.refused} refused, in {figures.kills} kills"
    return [Outcome("new messages after a kill", figures.holds, figure, f"at most {door_kills.MOST_NEW}")]


def rewritten_lists(_: Path | None) -> list[Outcome]:
    """Whatever programs do to their own lists, nothing is refused, and no small change undoes anything."""
    seed = random.randrange(10**9)
    count = QUICK_REWRITES if is_quick() else rewrites.COUNT
    figures = rewrites.searched(count, seed, jobs=policies.WORKERS)
    first = next((f"; {problem}, seed {seeds[0]}" for problem, seeds in figures.problems.items()), "")
    met = not figures.problems and figures.rewrites >= count
    return [Outcome("random rewrites of a program's list", met, f"{figures} from seed {seed}{first}", "0")]


POINTS: list[Point] = [
    ("bill of a gateway that keeps", bill),
    ("a gateway that keeps is killed", kills),
    ("random rewrites of a program's list", rewritten_lists),
]
