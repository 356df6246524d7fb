"""Time, memory, and the packages an install brings in."""

from __future__ import annotations

from pathlib import Path

from bench import importing, open_cost, resume, turn_cost
from bench.points import Outcome, Point, at_most, is_quick

QUICK_SIZE = 100 * resume.MB


def turns(_: Path | None) -> list[Outcome]:
    """The cost of a turn does not grow with the session and stays near the floor."""
    rows = turn_cost.measure_all(turn_cost.SIZES)
    return [at_most(name, figure, bar) for name, figure, bar, _ in turn_cost.bars(rows)]


def opening_whole(_: Path | None) -> list[Outcome]:
    """Opening a long session that was never compacted, up to the body of its first request."""
    return [
        at_most(name, figure, bar) if met is not None else Outcome(name, None, "no peer is installed")
        for name, figure, bar, met in open_cost.bars(open_cost.measure())
    ]


def opening_own(_: Path | None) -> list[Outcome]:
    """A large transcript in our own format, opened from its end and read whole."""
    return _opening("own", ("decode", "fold"))


def opening_foreign(_: Path | None) -> list[Outcome]:
    """The same for a large transcript in the format of other tools."""
    return _opening("foreign", ("decode",))


def _opening(shape: str, whole: tuple[str, ...]) -> list[Outcome]:
    found = resume.measure(QUICK_SIZE if is_quick() else resume.SIZE, shape=shape, whole=whole)
    head = f"{found['size'] / 1e9:.1f} GB, {shape} shape"
    outcomes = [at_most(f"{head}, {name}", figure, bar) for name, figure, bar, _ in found["bars"]]
    spent = found["tails"][0]["open"]["cpu_ms"]
    for way, row in found["whole"].items():
        times = row["cpu_ms"] / spent
        name = f"{head}: to {way} it whole takes, x opening it"
        outcomes.append(Outcome(name, times > 1, f"{times:,.0f}", "more than 1"))
    return outcomes


def package(_: Path | None) -> list[Outcome]:
    """The cost of importing the package, and the packages an install brings in."""
    return [
        Outcome(name, met, figure if isinstance(figure, str) else f"{figure:,.3g}", f"at most {bar}")
        for name, figure, bar, met in importing.measure()["bars"]
    ]


POINTS: list[Point] = [
    ("cost of a turn", turns),
    ("opening a session that was never compacted", opening_whole),
    ("opening a large transcript of ours", opening_own),
    ("opening a large transcript of other tools", opening_foreign),
    ("import and install", package),
]
