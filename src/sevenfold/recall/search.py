"""One search: finds the pieces of an index that match a query, and ranks their records, best first."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.recall import ranking
from sevenfold.recall.by_words import WordMatches, WordSearch
from sevenfold.recall.passages import CALL, EDIT, ERROR, KINDS, RESULT
from sevenfold.recall.ranking import DENSE_RUN, Query, stem
from sevenfold.recall.tables import Row, Tables

LOOKED_AT = 20_000
"""The most pieces whose text is compared with the query, shortest first."""
SEVERAL = 4
"""Exact matches collected, per hit wanted."""
QUOTATION = 5
"""A query with this many distinctive words that matches exactly is a quotation, so its words are not searched for."""
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


class _Opinion(Struct, frozen=True):
    """What a scorer says about the records of an index."""

    weight: float
    scores: Mapping[str, float]
    """The score of each record, by its id."""
    vouches: bool
    """Whether its best score alone justifies an answer."""


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
        by_words = WordMatches()
        if self._options.words:
            by_words = WordSearch(self._index, self._query, self._options.k, self._may_show).matches()
        for uuid, row in by_words.shown.items():
            self._shown.setdefault(uuid, row)
            self._matched[uuid] = ["words"]
        opinions = list(self._opinions())
        # Matches by words count as soon as anything justifies an answer, even if only another scorer does.
        self._weak = not by_words.enough and not any(opinion.vouches for opinion in opinions)
        if self._weak and not self._options.weak:
            return {}
        weighted = [(opinion.weight, opinion.scores) for opinion in opinions]
        return ranking.fused([(1.0, by_words.scores), *weighted])

    def _opinions(self) -> Iterator[_Opinion]:
        for scorer in self._options.scorers:
            scores = scorer.scores(self._index, self._text)
            best: dict[str, Row] = {}
            for row in filter(self._may_show, self._index.among(scores)):
                if row.uuid not in best or scores[row.piece] > scores[best[row.uuid].piece]:
                    best[row.uuid] = row
            for uuid, row in best.items():
                # Where another way of searching shows another piece, this scorer has no say about where to look in it.
                if self._shown.setdefault(uuid, row).piece == row.piece and uuid not in self._matched:
                    self._found_by[uuid] = scorer
                self._matched.setdefault(uuid, []).append(scorer.name)
            of_records = {uuid: scores[row.piece] for uuid, row in best.items()}
            vouches = any(score >= scorer.enough for score in of_records.values())
            yield _Opinion(scorer.weight, of_records, vouches)

    def _may_show(self, row: Row) -> bool:
        return row.kind in self._options.kinds and row.uuid not in self._options.left_out

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
