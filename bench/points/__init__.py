"""What must hold, point by point, for `./dev prove`.

Each module here has a list `POINTS` of (name, callable). A callable measures something, in a process of its own,
and returns the outcomes that follow from it: one line each in the report. It is given the folder of real
transcripts, or None where there is none. A new part of the engine adds its points in a module of its own and
names that module in `bench/prove.py`. Where a full measurement takes minutes, it takes a smaller sample when
`is_quick()`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct


class Outcome(Struct, frozen=True):
    """Whether something holds."""

    name: str
    met: bool | None
    """None when it could not be found out here."""
    figure: str
    """What was found."""
    bar: str = ""
    """What was asked for."""


def is_quick() -> bool:
    """Should a measurement be content with a small sample?"""
    return os.environ.get("SEVENFOLD_PROVE") == "quick"


Measurement = Callable[[Path | None], list[Outcome]]
Point = tuple[str, Measurement]


def at_most(name: str, figure: float, bar: float) -> Outcome:
    """An outcome that is met up to a bar."""
    return Outcome(name, figure <= bar, f"{figure:,.3g}", f"at most {bar:g}")


def all_of(name: str, good: int, total: int) -> Outcome:
    """An outcome that is met if nothing is left out, and there was something."""
    return Outcome(name, good == total > 0, f"{good:,} of {total:,}", "all")


def without_corpus(*names: str) -> list[Outcome]:
    """Outcomes that cannot be had for want of real transcripts."""
    return [Outcome(name, None, "no folder of real transcripts here") for name in names]
