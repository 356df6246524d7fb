"""Lines with more behind them: each has a number, and `/show` opens it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec import Struct
from rich.console import RenderableType

from sevenfold.errors import Refused

MOST_KEPT = 500


class Folded(Struct, frozen=True):
    """One line's other side."""

    number: int
    whole: Callable[[], RenderableType]


class Folds:
    """The lines of this run that can be opened."""

    def __init__(self) -> None:
        self._kept: deque[Folded] = deque(maxlen=MOST_KEPT)
        self._number = 0

    def add(self, whole: Callable[[], RenderableType]) -> int:
        """Keep what is behind a line; returns its number."""
        self._number += 1
        self._kept.append(Folded(self._number, whole))
        return self._number

    def open(self, number: int | None = None) -> RenderableType:
        """What is behind a line, or behind the last one."""
        if not self._kept:
            raise Refused("There is nothing to show yet.")
        if number is None:
            return self._kept[-1].whole()
        for one in self._kept:
            if one.number == number:
                return one.whole()
        raise Refused(
            f"There is no [{number}]; the last is [{self._number}], the first {self._kept[0].number}."
        )
