"""Search by words: scores the records that contain words of a query, or are near records that do.

What the query looks for are *terms*: its features (words, and compound terms such as paths), then its labels (the
speakers and days that it may name). What a piece contains is a bit mask with a bit for each term, in that order: an
index can have a hundred thousand pieces, and comparing integers is what keeps a search of them fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from sevenfold.recall import ranking
from sevenfold.recall.ranking import Query, RecordPlace, Strengths, features_close_together
from sevenfold.recall.tables import Row, Tables

CANDIDATES = 400
"""The most pieces that are ranked by their words."""
PROXIMITY_CHECKS_PER_HIT = 3
"""Records whose long texts are checked for words close together, per hit wanted."""
TOO_COMMON = (500, 20_000)
"""A word in more than a fifth of all pieces is ignored; the least and most pieces that this fifth can be."""


class WordMatches(Struct, frozen=True):
    """The records that match by words."""

    scores: Mapping[str, float] = {}
    """The score of each record, by its id, best first."""
    shown: Mapping[str, Row] = {}
    """The piece to show for each of them."""
    enough: bool = False
    """Whether the best of them match enough of the query to be an answer."""


class _Term(Struct, frozen=True):
    """Something to look for, and where it is."""

    pieces: Sequence[int]
    weight: float


class _Terms(Struct, frozen=True):
    """All terms of a query, and which pieces contain them."""

    masks: Mapping[int, int]
    """The terms that each piece contains, as a bit mask, by the piece's number; other pieces contain none."""
    weights: Sequence[float]
    feature_count: int
    """How many of the terms are features; the rest are labels."""

    @property
    def feature_weights(self) -> Sequence[float]:
        return self.weights[: self.feature_count]

    def features_in(self, row: Row) -> int:
        """The bit mask of the features in a piece, without the labels."""
        return self.masks.get(row.piece, 0) & ((1 << self.feature_count) - 1)

    def worth_of_labels(self, row: Row) -> float:
        """The weight of the labels that a piece has: who said it, and when."""
        labels = self.masks.get(row.piece, 0) >> self.feature_count
        return ranking.worth(labels, self.weights[self.feature_count :])


class _ScoredRow(Struct, frozen=True):
    """A piece, and how well it matches by itself."""

    row: Row
    score: float


class WordSearch:
    """One search by words in an index."""

    def __init__(self, index: Tables, query: Query, k: int, may_show: Callable[[Row], bool]) -> None:
        """``k`` is the number of hits wanted; ``may_show`` tells which pieces may be hits."""
        self._index = index
        self._query = query
        self._k = k
        self._may_show = may_show

    def matches(self) -> WordMatches:
        """The records that match."""
        terms = self._terms()
        best_pieces = ranking.strongest(terms.masks, terms.weights, CANDIDATES)
        rows = self._index.around(best_pieces, len(ranking.NEIGHBOUR_CREDIT), terms.masks.keys())
        usual_size = sum(row.size for row in rows) / max(1, len(rows))
        scored_rows = [_ScoredRow(row, _score(row, terms, usual_size)) for row in rows]
        # Records that may not be hits (still in the context, for example) count for their neighbours all the same.
        best = _best_of_each_record(scored_rows)
        showable = _best_of_each_record(
            [
                scored
                for scored in scored_rows
                if terms.features_in(scored.row) and self._may_show(scored.row)
            ]
        )
        own = self._strengths(best, terms, usual_size)
        with_neighbours = ranking.spread(own)
        scores = {
            place: sum(with_neighbours[place].values()) + terms.worth_of_labels(scored.row)
            for place, scored in showable.items()
        }
        ranked = sorted(scores, key=lambda place: -scores[place])
        # The words of a question occur around its answer; a statement must match the record itself.
        matched = with_neighbours if self._query.asks else own
        shares = [ranking.share(matched[place], terms.feature_weights) for place in ranked[: self._k]]
        close = [place for place in ranked if scores[place] >= ranking.BEHIND * scores[ranked[0]]]
        return WordMatches(
            scores={showable[place].row.uuid: scores[place] for place in close},
            shown={showable[place].row.uuid: showable[place].row for place in close},
            enough=max(shares, default=0.0) >= self._query.enough(self._index.count()),
        )

    def _strengths(
        self, best: Mapping[RecordPlace, _ScoredRow], terms: _Terms, usual_size: float
    ) -> dict[RecordPlace, Strengths]:
        """How strongly each record matches each feature.

        In a long text most words occur by chance, so only those close together count. To know that its text must be
        read, so this is done for the best records alone; the others will hardly be shown.
        """
        strengths: dict[RecordPlace, Strengths] = {}
        best_first = sorted(best.values(), key=lambda scored: -scored.score)
        for rank, scored in enumerate(best_first):
            row = scored.row
            features = terms.features_in(row)
            if row.size > ranking.STRETCH and rank < PROXIMITY_CHECKS_PER_HIT * self._k:
                text = self._index.text(row.piece)
                features = features_close_together(text, self._query.features, features)
            factor = ranking.for_length(row.size, usual_size)
            strengths[row.place] = ranking.strengths(features, terms.feature_weights, factor)
        return strengths

    # -- terms -----------------------------------------------------------------------------

    def _terms(self) -> _Terms:
        """Look up all terms of the query; those that weigh nothing are in no mask."""
        total = self._index.count()
        fewest, most = TOO_COMMON
        common = min(most, max(fewest, total // 5))
        terms = [*self._features(total, common), *self._labels(total, common)]
        return _Terms(
            masks=ranking.holding([term.pieces if term.weight else () for term in terms]),
            weights=[term.weight for term in terms],
            feature_count=len(self._query.features),
        )

    def _features(self, total: int, common: int) -> list[_Term]:
        """The features of the query; those in more than ``common`` pieces weigh nothing, unless all are."""
        postings = [self._pieces_with(feature, common) for feature in self._query.features]
        has_rare_feature = any(len(pieces) <= common for pieces in postings)
        terms = []
        for feature, pieces in zip(self._query.features, postings, strict=True):
            too_common = has_rare_feature and len(pieces) > common
            # A turn of that day need not contain the date: its label has it.
            only_a_date = not pieces and feature in self._query.dates
            is_ignored = too_common or only_a_date
            terms.append(_Term(pieces, 0.0 if is_ignored else ranking.rarity(len(pieces), total)))
        return terms

    def _pieces_with(self, feature: str, common: int) -> list[int]:
        """The pieces that contain a feature; if none does, those with a word that begins with it."""
        # One more than is common is enough to know that it is too common.
        pieces = self._index.postings(ranking.phrase(feature), common + 1)
        if not pieces and len(feature) > 3:
            pieces = self._index.postings(ranking.phrase(feature, open_end=True), common + 1)
        return pieces

    def _labels(self, total: int, common: int) -> list[_Term]:
        """The labels of the query: any of its words may be a speaker's name, and it may name days."""
        labels = []
        for name in self._query.features:
            pieces = self._labelled(name, common)
            labels.append(_Term(pieces, ranking.SPOKE if 0 < len(pieces) <= common else 0.0))
        for day in self._query.days:
            pieces = self._labelled(day, common)
            rarity = ranking.rarity(len(pieces), total)
            labels.append(_Term(pieces, rarity if 0 < len(pieces) <= common else 0.0))
        return labels

    def _labelled(self, label: str, common: int) -> list[int]:
        return self._index.postings(f"labels : {ranking.phrase(label)}", common + 1)


def _score(row: Row, terms: _Terms, usual_size: float) -> float:
    worth = ranking.worth(terms.features_in(row), terms.feature_weights)
    return worth * ranking.for_length(row.size, usual_size)


def _best_of_each_record(scored_rows: Sequence[_ScoredRow]) -> dict[RecordPlace, _ScoredRow]:
    """The piece of each record that matches best by itself."""
    best: dict[RecordPlace, _ScoredRow] = {}
    for scored in scored_rows:
        place = scored.row.place
        if place not in best or scored.score > best[place].score:
            best[place] = scored
    return best
