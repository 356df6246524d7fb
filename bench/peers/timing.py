"""How a case is measured: its step runs once per turn and its CPU time is recorded; the first run is a warm-up."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench.peers.sessions import TURNS, Session

Given = TypeVar("Given")

BUDGET = 15.0
"""Seconds after which a slow case is no longer repeated."""


class Bench:
    """Records the times of one case."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """For the case's files; deleted afterwards."""
        self.spent: list[float] = []

    def loop(
        self, step: Callable[[Given], object], prepare: Callable[[int], Given], turns: int = TURNS
    ) -> None:
        """Time ``step(prepare(turn))`` for each turn; preparing is not timed."""
        gc.collect()
        begin = time.perf_counter()
        for turn in range(turns):
            given = prepare(turn)
            start = time.process_time()
            step(given)
            self.spent.append((time.process_time() - start) * 1e3)
            if time.perf_counter() - begin > BUDGET and len(self.spent) > 1:
                break

    @property
    def median(self) -> float:
        """The median CPU time of a step in milliseconds, without the warm-up."""
        return statistics.median(self.spent[1:] or self.spent)


@dataclass(frozen=True, slots=True)
class Case:
    """Something an engine does in every turn, or only sometimes."""

    name: str
    """Its name in the table; the part before the colon is the kind of work."""
    what: str
    run: Callable[[Session, Bench], None]


@dataclass(frozen=True, slots=True)
class Adapter:
    """An engine, with the packages to install before measuring it: none if everything is already here."""

    name: str
    cases: tuple[Case, ...]
    packages: tuple[str, ...] = ()
