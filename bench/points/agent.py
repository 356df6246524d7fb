"""The agent: the demonstration held twice, a thousand turns with failures, and the time to the prompt."""

from __future__ import annotations

from pathlib import Path

from bench import soak, startup
from bench.points import Outcome, Point
from sevenfold.lab.demo.figures import bars
from sevenfold.lab.demo.run import FULL, run, scratch_folder


def demonstration(_: Path | None) -> list[Outcome]:
    """What must hold of the demonstration, and that its figures are the same twice."""
    outcomes = []
    for _run in range(2):
        with scratch_folder(keep=False) as folder:
            outcomes.append(run(FULL, folder, lambda told: None))
    first, second = outcomes
    same = first.figures == second.figures
    return [
        *(Outcome("demo", met, says) for says, met in bars(first).items()),
        Outcome("demo: figures of two runs", same, "the same" if same else "not the same", "the same"),
    ]


def long_run(_: Path | None) -> list[Outcome]:
    """A thousand turns with a provider that fails now and then."""
    soaked = soak.measure()
    return [
        Outcome(f"{soak.TURNS} turns: {name}", met, figure)
        for name, figure, met in soak.bars(soaked, soak.TURNS)
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
