"""One search: finds the pieces of an index that match a query, and ranks their records, best first."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.recall import ranking
from sevenfold.recall.passages import CALL, EDIT, ERROR, KINDS, RESULT
from sevenfold.recall.ranking import DENSE_RUN, Query, RecordPlace, Strengths, features_close_together, stem
from sevenfold.recall.tables import Row, Tables

LOOKED_AT = 20_000
"""The most pieces whose text is compared with the query, shortest first."""
CANDIDATES = 400
"""The most pieces that are ranked by their words."""
PROXIMITY_CHECKS_PER_HIT = 3
"""Records whose long texts are checked for words close together, per hit wanted."""
SEVERAL = 4
"""Exact matches collected, per hit wanted."""
QUOTATION = 5
"""A query with this many distinctive words that matches exactly is a quotation, so its words are not searched for."""
TOO_COMMON = (500, 20_000)
"""A word in more than a fifth of all pieces is ignored; the least and most pieces that this fifth can be."""
NEIGHBOUR = 160
"""Characters shown of a neighbour."""
EXCERPT = 320
"""Approximate characters in an excerpt."""

_FAMILIES = {CALL: (CALL, EDIT), RESULT: (RESULT, ERROR)}

Span = tuple[int, int]


class Near(Struct, frozen=True):
    """A record before or after a hit, shortened."""

    uuid: str
    kind: str
    text: str


class Hit(Struct, frozen=True):
    """A record that matches."""

    uuid: str
    kind: str
    tool: str
    timestamp: str
    offset: int
    """The record's position in the log."""
    position: int
    """The record's number in its conversation."""
    score: float
    exact: bool
    """Whether it contains the exact query, and not only its words."""
    excerpt: str
    marks: tuple[tuple[int, int], ...] = ()
    """The start and end of each match in the excerpt."""
    before: tuple[Near, ...] = ()
    after: tuple[Near, ...] = ()
    matched: tuple[str, ...] = ()
    """How it was found: ``exact``, ``words``, ``meaning``."""
    weak: bool = False
    """Whether nothing in the search matched well: the nearest there is, and perhaps about something else."""


class Scorer(Protocol):
    """A way of scoring other than by words: by meaning, for example."""

    name: str
    """The name that hits found by it show in ``matched``."""
    weight: float
    """Its weight, where words have weight 1."""
    enough: float
    """A score that justifies an answer even if the words do not."""

    def scores(self, index: Tables, query: str) -> Mapping[int, float]:
        """A score above 0 for each piece of the index worth considering, by the piece's number."""

    def place(self, query: str, text: str) -> int:
        """Where the best-matching part of a piece's text begins."""

    def prepare(self, index: Tables) -> bool:
        """Do a small part of the work that `scores` needs done first; True if there is more to do."""


class SearchOptions(Struct, frozen=True):
    """The parameters of a search other than the query."""

    kinds: frozenset[str]
    k: int
    left_out: Container[str]
    around: int
    scorers: Sequence[Scorer] = ()
    words: bool = True
    weak: bool = False
    """Whether to return the nearest records, marked as weak, if nothing matches well."""


def kinds(wanted: str | Collection[str] | None) -> frozenset[str]:
    """The kinds to search; ``tool_use`` includes edits, and ``tool_result`` includes errors. Raises `InputError`."""
    if wanted is None:
        return frozenset(KINDS)
    names = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    if unknown := [name for name in names if name not in KINDS]:
        raise InputError(f"{unknown[0]!r} is not a kind of passage; choose {', '.join(KINDS)}")
    return frozenset(chain.from_iterable(_FAMILIES.get(name, (name,)) for name in names))


class Search:
    """One search in an index."""

    def __init__(self, index: Tables, text: str, options: SearchOptions) -> None:
        self._index = index
        self._text = text
        self._query = Query.of(text)
        self._options = options
        self._shown: dict[str, Row] = {}
        """The piece to show for each record."""
        self._matched: dict[str, list[str]] = {}
        """How each record was found, other than by its exact text."""
        self._weak = False
        """Whether nothing but exact matches matches well."""
        self._found_by: dict[str, Scorer] = {}
        """The scorer that alone found a record, and can tell where in its piece the match is."""

    def hits(self) -> list[Hit]:
        """The records that match, best first."""
        if not self._query.needles:
            return []
        first = ranking.phrase_of(self._query.needles[0])
        exact = dict(self._verified(self._index.with_phrase(first, LOOKED_AT)))
        if not exact and self._may_be_inside_words():
            exact = dict(self._verified(self._index.containing(self._query.needles[0], LOOKED_AT)))
        ranked = sorted(exact, key=lambda uuid: -exact[uuid])[: self._options.k]
        scores = {uuid: 1 + exact[uuid] for uuid in ranked}
        quoted = ranked and len(self._query.features) >= QUOTATION
        if len(ranked) < self._options.k and not quoted:
            inexact = {uuid: score for uuid, score in self._inexact_matches().items() if uuid not in scores}
            ranked += sorted(inexact, key=lambda uuid: -inexact[uuid])[: self._options.k - len(ranked)]
            scores |= inexact
        return [self._hit(uuid, scores[uuid], uuid in exact) for uuid in ranked]

    # -- exact matches ---------------------------------------------------------------------

    def _may_be_inside_words(self) -> bool:
        """Whether a text could contain the query without matching its phrase, if it begins or ends inside words."""
        units = self._query.needles[0].split()
        return len(units) <= 3 or not any(character.isalnum() for character in "".join(units[1:-1]))

    def _verified(self, rows: Iterator[Row]) -> Iterator[tuple[str, float]]:
        """The records of these pieces that contain all needles, each with the share of the text that they make up."""
        needles = [ranking.folded(needle) for needle in self._query.needles]
        verified: set[str] = set()
        for row in rows:
            if row.uuid in verified or not self._may_show(row):
                continue
            text = ranking.folded(self._index.text(row.piece))
            if needles[0] in text and all(self._holds(row.record, needle) for needle in needles[1:]):
                verified.add(row.uuid)
                self._shown[row.uuid] = row
                yield row.uuid, ranking.closeness(needles, text)
            if len(verified) >= SEVERAL * self._options.k:
                return

    def _holds(self, record: int, needle: str) -> bool:
        return any(needle in ranking.folded(text) for text in self._index.texts(record))

    # -- matches by words and by meaning ---------------------------------------------------

    def _inexact_matches(self) -> dict[str, float]:
        """The records that match by words or by another scorer, with their combined scores."""
        by_words, enough = self._by_words() if self._options.words else ({}, False)
        self._matched = {uuid: ["words"] for uuid in by_words}
        opinions = list(self._opinions())
        # Matches by words count as soon as anything justifies an answer, even if only another scorer does.
        self._weak = not enough and not any(vouches for _, _, vouches in opinions)
        if self._weak and not self._options.weak:
            return {}
        return ranking.fused([(1.0, by_words), *((weight, scores) for weight, scores, _ in opinions)])

    def _opinions(self) -> Iterator[tuple[float, dict[str, float], bool]]:
        for scorer in self._options.scorers:
            scores = scorer.scores(self._index, self._text)
            best: dict[str, Row] = {}
            for row in filter(self._may_show, self._index.among(scores)):
                if row.uuid not in best or scores[row.piece] > scores[best[row.uuid].piece]:
                    best[row.uuid] = row
            for uuid, row in best.items():
                if self._shown.setdefault(uuid, row).piece == row.piece and uuid not in self._matched:
                    self._found_by[uuid] = scorer
                self._matched.setdefault(uuid, []).append(scorer.name)
            by_meaning = {uuid: scores[row.piece] for uuid, row in best.items()}
            yield scorer.weight, by_meaning, any(score >= scorer.enough for score in by_meaning.values())

    def _by_words(self) -> tuple[dict[str, float], bool]:
        """The scores of the records that contain any of the words, and whether the best match enough of the query."""
        postings, weights = self._features()
        held = ranking.holding(postings)
        best = ranking.strongest(held, weights, CANDIDATES)
        rows = self._index.around(best, len(ranking.NEIGHBOUR_CREDIT), held.keys())
        strengths_of, shown = self._records(rows, held, weights)
        held_around = ranking.spread(strengths_of)
        feature_count = len(self._query.features)
        scores: dict[RecordPlace, float] = {}
        for place, row in shown.items():
            # The bits behind those of the features are the labels: the speakers and days that the query names.
            named = ranking.worth(held.get(row.piece, 0) >> feature_count, weights[feature_count:])
            scores[place] = sum(held_around[place].values()) + named
        fit = sorted(scores, key=lambda place: -scores[place])
        # The words of a question occur around its answer; a statement must match the record itself.
        holds = held_around if self._query.asks else strengths_of
        shares = (ranking.share(holds[place], weights[:feature_count]) for place in fit[: self._options.k])
        enough = max(shares, default=0.0) >= self._query.enough(self._index.count())
        fit = [place for place in fit if scores[place] >= ranking.BEHIND * scores[fit[0]]]
        for place in fit:
            self._shown.setdefault(shown[place].uuid, shown[place])
        return {shown[place].uuid: scores[place] for place in fit}, enough

    def _records(
        self, rows: Sequence[Row], held: Mapping[int, int], weights: Sequence[float]
    ) -> tuple[dict[RecordPlace, Strengths], dict[RecordPlace, Row]]:
        """The strengths of each record's best piece, and the piece to show for it."""
        feature_bits = (1 << len(self._query.features)) - 1
        sizes = [row.size for row in rows if row.piece in held]
        usual = sum(sizes) / max(1, len(sizes))
        best: dict[RecordPlace, tuple[float, Row]] = {}
        shown: dict[RecordPlace, tuple[float, Row]] = {}
        for row in rows:
            bits = held.get(row.piece, 0) & feature_bits
            scored_row = ranking.worth(bits, weights) * ranking.for_length(row.size, usual), row
            if row.place not in best or scored_row[0] > best[row.place][0]:
                best[row.place] = scored_row
            better = row.place not in shown or scored_row[0] > shown[row.place][0]
            if bits and better and self._may_show(row):
                shown[row.place] = scored_row
        strengths_of = {}
        for rank, (_, row) in enumerate(sorted(best.values(), key=lambda scored: -scored[0])):
            bits = held.get(row.piece, 0) & feature_bits
            if row.size > ranking.STRETCH and rank < PROXIMITY_CHECKS_PER_HIT * self._options.k:
                bits = features_close_together(self._index.text(row.piece), self._query.features, bits)
            strengths_of[row.place] = ranking.strengths(bits, weights, ranking.for_length(row.size, usual))
        return strengths_of, {place: row for place, (_, row) in shown.items()}

    def _may_show(self, row: Row) -> bool:
        return row.kind in self._options.kinds and row.uuid not in self._options.left_out

    def _features(self) -> tuple[list[Sequence[int]], list[float]]:
        """The pieces that contain each feature or label, and their weights; those that are too common weigh nothing."""
        total = self._index.count()
        lower, upper = TOO_COMMON
        common = min(upper, max(lower, total // 5))
        postings: list[Sequence[int]] = []
        for feature in self._query.features:
            pieces = self._index.postings(ranking.phrase(feature), common + 1)
            if not pieces and len(feature) > 3:
                pieces = self._index.postings(ranking.phrase(feature, open_end=True), common + 1)
            postings.append(pieces)
        telling = any(len(pieces) <= common for pieces in postings)
        weights = []
        for feature, held_by in zip(self._query.features, postings, strict=True):
            too_common = telling and len(held_by) > common
            only_a_date = not held_by and feature in self._query.dates
            is_ignored = too_common or only_a_date
            weights.append(0.0 if is_ignored else ranking.rarity(len(held_by), total))
        for label in (*self._query.features, *self._query.days):
            pieces = self._index.postings(f"labels : {ranking.phrase(label)}", common + 1)
            is_day = len(postings) >= 2 * len(self._query.features)
            is_telling = 0 < len(pieces) <= common
            postings.append(pieces)
            counts = ranking.rarity(len(pieces), total) if is_day else ranking.SPOKE
            weights.append(counts if is_telling else 0.0)
        return [pieces if weight else () for pieces, weight in zip(postings, weights, strict=True)], weights

    # -- results ---------------------------------------------------------------------------

    def _hit(self, uuid: str, score: float, exact: bool) -> Hit:
        row = self._shown[uuid]
        text = self._index.text(row.piece)
        scorer = None if exact else self._found_by.get(uuid)
        shown, marks = excerpt(text, self._query, scorer.place(self._text, text) if scorer else None)
        lane = row.place.lane
        number = row.place.number
        around = self._options.around
        return Hit(
            uuid=uuid,
            kind=row.kind,
            tool=row.tool,
            timestamp=row.timestamp,
            offset=row.offset,
            position=number,
            score=score,
            exact=exact,
            excerpt=shown,
            marks=marks,
            before=self._near(lane, number - around, number - 1),
            after=self._near(lane, number + 1, number + around),
            matched=("exact",) if exact else tuple(self._matched[uuid]),
            weak=self._weak and not exact,
        )

    def _near(self, lane: int, first: int, last: int) -> tuple[Near, ...]:
        rows = self._index.near(lane, first, last)
        return tuple(Near(uuid, kind, beginning(text, NEIGHBOUR)) for uuid, kind, text in rows)


# -- excerpts ----------------------------------------------------------------------------------


def excerpt(text: str, query: Query, start_near: int | None = None) -> tuple[str, tuple[Span, ...]]:
    """The part of a text around the densest matches, or from ``start_near`` on, and the spans of the matches in it."""
    spans = _exact(text, query) or _words(text, query)
    first = _densest(spans) if start_near is None else (start_near, start_near)
    start = max(0, first[0] - EXCERPT // 3) if start_near is None else start_near
    end = min(len(text), max(start + EXCERPT, first[1]))
    lead = "…" if start else ""
    tail = "…" if end < len(text) else ""
    shift = len(lead) - start
    inside = tuple((begin + shift, stop + shift) for begin, stop in spans if start <= begin and stop <= end)
    return lead + text[start:end] + tail, inside


def beginning(text: str, limit: int) -> str:
    """The beginning of a text on one line, cut with an ellipsis if too long."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit and len(text) <= 4 * limit else line[: limit - 1] + "…"


def _exact(text: str, query: Query) -> list[Span]:
    for needle in query.needles:
        pattern = r"\s+".join(map(re.escape, needle.split()))
        if spans := [hit.span() for hit in re.finditer(pattern, text, re.IGNORECASE)]:
            return spans
    return []


def _words(text: str, query: Query) -> list[Span]:
    stems = set(map(stem, " ".join(query.features).split()))
    if not stems:
        return []
    longest_first = sorted(stems, key=lambda word: (-len(word), word))
    inflected = "|".join(re.escape(word) for word in longest_first)
    dense = map(re.escape, filter(DENSE_RUN.fullmatch, longest_first))
    pattern = "|".join([rf"(?<![^\W_])(?:{inflected})[^\W_]*", *dense])
    return [hit.span() for hit in re.finditer(pattern, text, re.IGNORECASE)]


def _densest(spans: Sequence[Span]) -> Span:
    """The first match in the stretch with the most matches."""
    best = (0, 0)
    matches = 0
    last = 0
    for number, span in enumerate(spans):
        while last < len(spans) and spans[last][1] <= span[0] + EXCERPT // 2:
            last += 1
        if last - number > matches or best == (0, 0):
            best = span
            matches = last - number
    return best
