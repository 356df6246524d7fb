"""The agent: the demonstration held twice, a thousand turns with failures, and the time to the prompt."""

from __future__ import annotations

from pathlib import Path

from bench import soak, startup
from bench.points import Outcome, Point, is_quick
from sevenfold.lab.demo.figures import bars
from sevenfold.lab.demo.run import FAST, FULL, run, scratch_folder

QUICK_TURNS = 120


def demonstration(_: Path | None) -> list[Outcome]:
    """What must hold of the demonstration, and that its figures are the same twice."""
    outcomes = []
    scale = FAST if is_quick() else FULL
    for _run in range(2):
        with scratch_folder(keep=False) as folder:
            outcomes.append(run(scale, folder, lambda told: None))
    first, second = outcomes
    same = first.figures == second.figures
    return [
        *(Outcome("demo", met, says) for says, met in bars(first).items()),
        Outcome("demo: figures of two runs", same, "the same" if same else "not the same", "the same"),
    ]


def long_run(_: Path | None) -> list[Outcome]:
    """A thousand turns with a provider that fails now and then; of a few, the memory says nothing."""
    turns = QUICK_TURNS if is_quick() else soak.TURNS
    soaked = soak.measure(turns)
    return [
        Outcome(f"{turns} turns: {name}", met, figure)
        for name, figure, met in soak.bars(soaked, turns)
        if not (is_quick() and name.startswith("memory"))
    ]


def start(_: Path | None) -> list[Outcome]:
    """How long the terminal app takes to its prompt."""
    found = startup.measure()
    bar = f"under {startup.MOST_SECONDS} s; a bare Python takes {found['bare']:.2f} s"
    return [Outcome("chat: to the prompt", startup.verdict(found), f"{found['chat']:.2f} s", bar)]


POINTS: list[Point] = [
    ("the demonstration", demonstration),
    ("a long run with failures", long_run),
    ("start of the terminal app", start),
]
