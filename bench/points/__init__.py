"""The acceptance points that `./dev prove` measures.

Each module here has a list `POINTS` of (name, callable). A callable runs in its own process, measures something and
returns outcomes, each of which is one line of the report. Its argument is the folder of real transcripts, or None if
there is none. For a new part of the engine, add a module with its points and list it in `bench/prove.py`. A
measurement that takes minutes should use a smaller sample when `is_quick()`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct


class Outcome(Struct, frozen=True):
    """The result of one check."""

    name: str
    met: bool | None
    """Whether the bar is met; None if it could not be measured here."""
    figure: str
    """What was measured, or why it could not be."""
    bar: str = ""
    """What is required."""


def is_quick() -> bool:
    """Whether measurements should use a small sample."""
    return os.environ.get("SEVENFOLD_PROVE") == "quick"


Measurement = Callable[[Path | None], list[Outcome]]
Point = tuple[str, Measurement]


def at_most(name: str, figure: float, bar: float) -> Outcome:
    """An outcome that is met if the figure is at most the bar."""
    return Outcome(name, figure <= bar, f"{figure:,.3g}", f"at most {bar:g}")


def all_of(name: str, good: int, total: int) -> Outcome:
    """An outcome that is met if all are good and there is at least one."""
    return Outcome(name, good == total > 0, f"{good:,} of {total:,}", "all")


def without_corpus(*names: str) -> list[Outcome]:
    """Skipped outcomes, for points that need real transcripts when there are none."""
    return [Outcome(name, None, "no folder of real transcripts here") for name in names]
