"""The agent: two runs of the demo, a thousand turns with failures, and the time until the chat prompt appears."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from bench import soak, startup
from bench.points import Outcome, Point, is_quick
from sevenfold.lab.demo.figures import bars
from sevenfold.lab.demo.run import FAST, FULL, run, scratch_folder

QUICK_TURNS = 120
ORDER_OF_REQUESTS = 0.001
"""The share of a cost that depends on which of two simultaneous requests finds the other's cache entry."""


def demonstration(_: Path | None) -> list[Outcome]:
    """The bars of the demo, and that two runs give the same figures."""
    outcomes = []
    scale = FAST if is_quick() else FULL
    for _run in range(2):
        with scratch_folder(keep=False) as folder:
            outcomes.append(run(scale, folder, lambda told: None))
    first, second = (msgspec.structs.asdict(outcome.figures) for outcome in outcomes)
    apart = [name for name in first if not _same(first[name], second[name])]
    figure, asked = (
        f"differ in {', '.join(apart)}" if apart else "the same",
        f"within {ORDER_OF_REQUESTS:.1%}",
    )
    return [
        *(Outcome("demo", met, says) for says, met in bars(outcomes[0]).items()),
        Outcome("demo: figures of two runs", not apart, figure, asked),
    ]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=ORDER_OF_REQUESTS)
    return bool(one == other)


def long_run(_: Path | None) -> list[Outcome]:
    """A thousand turns with a provider that sometimes fails; a quick run is too short to judge memory growth."""
    turns = QUICK_TURNS if is_quick() else soak.TURNS
    soaked = soak.measure(turns)
    return [
        Outcome(f"{turns} turns: {name}", met, figure)
        for name, figure, met in soak.bars(soaked, turns)
        if not (is_quick() and name.startswith("memory"))
    ]


def start(_: Path | None) -> list[Outcome]:
    """How long the terminal app takes to show its prompt."""
    found = startup.measure()
    bar = f"under {startup.MOST_SECONDS} s; a bare Python takes {found['bare']:.2f} s"
    return [Outcome("chat: to the prompt", startup.verdict(found), f"{found['chat']:.2f} s", bar)]


POINTS: list[Point] = [
    ("the demonstration", demonstration),
    ("a long run with failures", long_run),
    ("start of the terminal app", start),
]
