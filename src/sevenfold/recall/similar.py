"""Recall by words that are similar in meaning: "job" finds "work", and "jogging" finds "running".

Comparing whole texts by the mean of their word vectors blurs what they are about: measured on long conversations, it
ranks worse than plain words. So the vectors are used word by word. Each word of a query counts in a passage as much as
the most similar word there, an exact match counting in full; everything else is as in the search by words (rarity,
length, the credit for neighbours). It can therefore only add to what words find.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from sevenfold.recall import meaning, ranking
from sevenfold.recall.ranking import Query, RecordPlace, Strengths
from sevenfold.recall.tables import Tables

if TYPE_CHECKING:
    from sevenfold.recall.vectors import Floats, StaticVectors

LEAST_SIMILAR = 0.3
"""Word vectors less similar than this are taken for unrelated; from here to 1, a match counts from nothing to all."""
SAME = 0.7
"""From this similarity on, a word counts as another form of the same word."""
MARGIN = 1.1
"""How much more of a question must match than by exact words, since similar words meet more easily by chance."""
PATIENCE = 2.0
"""Seconds that a search waits for passages that are not read yet."""
BEHIND = 0.3
"""Passages with less than this share of the best score are dropped."""
CANDIDATES = 400


class _WeightedPiece(Struct, frozen=True):
    """A piece, and how strongly it matches each word of the query."""

    piece: int
    strengths: Strengths
    total: float


class SimilarWords:
    """Scores pieces by similar words; a `sevenfold.recall.search.Scorer`. For one index at a time."""

    name = "meaning"
    weight = 1.0
    enough = 1.0

    def __init__(self, embedder: StaticVectors, max_passages: int = meaning.MAX_PASSAGES) -> None:
        """``max_passages``: only this many passages of an index, from the beginning, are compared."""
        self.embedder = embedder
        self._max_passages = max_passages
        self._start(None)

    def _start(self, index: Tables | None) -> None:
        self._index = index
        self._last = 0
        self._places: dict[int, RecordPlace] = {}
        self._sizes: dict[int, int] = {}
        self._holding: dict[str, list[int]] = {}
        """The pieces that contain each word."""
        self._vectors: list[Floats] = []
        """The vectors of these words, in the same order."""

    def prepare(self, index: Tables) -> bool:
        """Read the words of a few passages; True if there may be more."""
        if self._index is not index:
            self._start(index)
        room = min(self.embedder.at_once, self._max_passages - len(self._places))
        passages = index.spoken_after(self._last, room) if room > 0 else []
        if not passages:
            return False
        words_before = len(self._holding)
        for piece, text in passages:
            for word in self.embedder.words(text.casefold()):
                self._holding.setdefault(word, []).append(piece)
        new_words = list(self._holding)[words_before:]
        if new_words:
            self._vectors.append(self.embedder.vectors(new_words))
        for row in index.among([piece for piece, _ in passages]):
            self._places[row.piece] = row.place
            self._sizes[row.piece] = row.size
        self._last = passages[-1][0]
        return len(passages) == room

    def scores(self, index: Tables, query: str) -> Mapping[int, float]:
        """The share of the query that each piece and those around it hold, in words or similar ones."""
        parsed = Query.of(query)
        query_words = [feature.casefold() for feature in parsed.features if feature.isalpha()]
        if len(query_words) < meaning.FEWEST or len(query.split()) < meaning.FEWEST:
            return {}
        until = monotonic() + PATIENCE
        while self.prepare(index) and monotonic() < until:
            pass
        if not self._places:
            return {}
        held, weights = self._held(query_words)
        strengths_of, piece_of = self._best_pieces(held, weights)
        needed = MARGIN * parsed.enough(index.count()) * (sum(weights) or 1.0)
        spread = ranking.spread(strengths_of)
        scores = {piece_of[place]: sum(strengths.values()) / needed for place, strengths in spread.items()}
        ranked = sorted(scores, key=lambda piece: -scores[piece])[:CANDIDATES]
        return {piece: scores[piece] for piece in ranked if scores[piece] >= BEHIND * scores[ranked[0]]}

    def _held(self, query_words: list[str]) -> tuple[dict[int, Strengths], list[float]]:
        """How similar the words of each piece are to each word of the query, from 0 to 1, and the weights of these."""
        held_words = list(self._holding)
        near = np.concatenate(self._vectors) @ self.embedder.vectors(query_words).T
        held: dict[int, Strengths] = {}
        weights: list[float] = []
        for number, word in enumerate(query_words):
            column = near[:, number]
            forms: set[int] = set(self._holding.get(word, ()))
            for number_of_word in np.flatnonzero(column > LEAST_SIMILAR):
                held_word = held_words[number_of_word]
                similarity = float(column[number_of_word])
                strength = min(1.0, (similarity - LEAST_SIMILAR) / (1 - LEAST_SIMILAR))
                if similarity >= SAME:
                    forms.update(self._holding[held_word])
                for piece in self._holding[held_word]:
                    strengths = held.setdefault(piece, {})
                    strengths[number] = max(strength, strengths.get(number, 0.0))
            # In a small session nothing is rare yet: as if there were ordinary passages besides.
            weights.append(ranking.rarity(len(forms), len(self._places) + meaning.ORDINARY))
        return held, weights

    def _best_pieces(
        self, held: Mapping[int, Strengths], weights: list[float]
    ) -> tuple[dict[RecordPlace, Strengths], dict[RecordPlace, int]]:
        """The weighted strengths of each record's best piece, and that piece."""
        usual = sum(self._sizes[piece] for piece in held) / max(1, len(held))
        best: dict[RecordPlace, _WeightedPiece] = {}
        for piece, strengths in held.items():
            factor = ranking.for_length(self._sizes[piece], usual)
            weighted = {number: factor * weights[number] * share for number, share in strengths.items()}
            candidate = _WeightedPiece(piece, weighted, sum(weighted.values()))
            record = self._places[piece]
            if record not in best or candidate.total > best[record].total:
                best[record] = candidate
        strengths_of = {record: candidate.strengths for record, candidate in best.items()}
        return strengths_of, {record: candidate.piece for record, candidate in best.items()}

    def place(self, query: str, text: str) -> int:
        """Where a match begins: at the start, since the excerpt shows the words themselves."""
        return 0
