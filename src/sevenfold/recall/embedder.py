"""Recall by meaning where it is installed: found when it is first asked for, and loaded then.

It needs the extra `meaning`. Without it recall looks for words alone, and says so only to who asks for more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from sevenfold.errors import InputError
from sevenfold.recall.meaning import Way

if TYPE_CHECKING:
    from sevenfold.recall.search import Scorer

WEIGHTS = "wordllama"
"""The package whose word vectors are used."""
NEEDED = ("numpy", WEIGHTS)


def installed() -> Scorer | None:
    """Recall by meaning with the weights that are installed; None if there are none, or they cannot be read."""
    found = [find_spec(name) for name in NEEDED]
    place = found[-1].submodule_search_locations if all(found) and found[-1] else None
    if not place:
        return None
    with suppress(ImportError, OSError, ValueError):
        from sevenfold.recall.static_vectors import StaticVectors
        from sevenfold.recall.vectors import Meaning

        return Meaning(StaticVectors(Path(place[0])))
    return None


class ByMeaning:
    """The other opinions a search is to hear, by how it was asked for."""

    def __init__(self, find: Callable[[], Scorer | None] = installed) -> None:
        self._find = find
        self._looked = False
        self._scorer: Scorer | None = None

    def scorers(self, by: Way | None, *, switched_on: bool = True) -> tuple[Scorer, ...]:
        """None for a search by words; unless it is said how to look, also where the setting or the extra is missing."""
        if by == "words" or (by is None and not switched_on):
            return ()
        if not self._looked:
            self._scorer, self._looked = self._find(), True
        if self._scorer is None and by is not None:
            raise InputError(
                "looking by meaning needs word vectors, which are not installed; "
                "run: pip install 'sevenfold[meaning]', or look by words"
            )
        return (self._scorer,) if self._scorer else ()
