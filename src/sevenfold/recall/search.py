"""Searching the tables of the recall index."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from sevenfold.recall import recall
from sevenfold.recall.excerpts import beginning, excerpt
from sevenfold.recall.nearness import together
from sevenfold.recall.recall import Hit, Match, Near, Place, Query

LOOKED_AT = 20_000
"""Pieces whose text is compared with the query at most; the shortest first."""
CANDIDATES = 400
"""Pieces that are weighed by their words."""
WEIGHED = 3
"""Records whose words are looked at in their place, for each one that is wanted."""
SEVERAL = 4
"""Exact matches that are looked for, for each one that is wanted."""
QUOTATION = 5
"""Telling words from which on a query that is found as it stands was meant as it stands."""
TOO_COMMON = (500, 5_000)
"""A word in more than a fifth of all pieces tells nothing, within these bounds."""
NEIGHBOUR = 160
"""Characters of a neighbour that are shown."""


class Scorer(Protocol):
    """Another opinion on what fits, by meaning for example."""

    name: str
    """What a hit is said to be matched by."""
    weight: float
    """How much it counts beside the words, which count 1."""

    def scores(self, db: sqlite3.Connection, query: str) -> Mapping[int, float]:
        """A score above 0 for each piece of the index worth considering, by its number."""
        ...

    def place(self, query: str, text: str) -> int:
        """Where in the text of such a piece the part begins that fits best."""
        ...


class Wanted(Struct, frozen=True):
    """What is asked for beside the query itself."""

    kinds: frozenset[str]
    k: int
    left_out: Container[str]
    around: int
    scorers: Sequence[Scorer] = ()
    words: bool = True


class Row(Struct, frozen=True):
    """A piece without its text, and the record it is of."""

    piece: int
    record: int
    uuid: str
    kind: str
    size: int
    lane: int
    number: int

    @property
    def place(self) -> Place:
        """Where the record stands."""
        return Place(self.lane, self.number)


_ROWS = (
    "SELECT piece.id, record.id, record.uuid, piece.kind, piece.size, record.lane, record.place"
    " FROM piece JOIN record ON record.id = piece.record"
)


class Search:
    """One search."""

    def __init__(self, db: sqlite3.Connection, text: str, wanted: Wanted) -> None:
        self._db = db
        self._text = text
        self._query = Query.of(text)
        self._wanted = wanted
        self._pieces: dict[str, int] = {}
        """The piece of each record that is shown."""
        self._matched: dict[str, list[str]] = {}
        """What else than its exact text each record was found by."""
        self._found_by: dict[str, Scorer] = {}
        """Who alone brought a record in, and can say where in its piece the match is."""

    def hits(self) -> list[Hit]:
        """What fits, the best first."""
        if not self._query.needles:
            return []
        exact = dict(self._exact())
        if not exact and self._may_be_inside_words():
            exact = dict(self._verified(self._holding(self._query.needles[0])))
        ranked = sorted(exact, key=lambda uuid: -exact[uuid])[: self._wanted.k]
        scores = {uuid: 1 + exact[uuid] for uuid in ranked}
        if len(ranked) < self._wanted.k and not (ranked and self._is_quotation()):
            others = {uuid: score for uuid, score in self._otherwise().items() if uuid not in scores}
            ranked += sorted(others, key=lambda uuid: -others[uuid])[: self._wanted.k - len(ranked)]
            scores |= others
        return [self._hit(uuid, scores[uuid], uuid in exact) for uuid in ranked]

    def _is_quotation(self) -> bool:
        """Is it so long that, found word for word, it leaves nothing else to look for?"""
        return len(self._query.features) >= QUOTATION

    # -- the query as it is ----------------------------------------------------------------

    def _exact(self) -> Iterator[tuple[str, float]]:
        """Records that hold all needles, each with how much of it they are."""
        first = recall.phrase_of(self._query.needles[0])
        rows = self._rows("WHERE piece.id IN (SELECT rowid FROM words WHERE words MATCH ?)", first)
        return self._verified(rows)

    def _holding(self, needle: str) -> Iterator[Row]:
        """Pieces that hold the needle anywhere, also within words: all texts are looked through."""
        for special in "\\%_":
            needle = needle.replace(special, "\\" + special)
        pattern = "%".join(["", *needle.split(), ""])
        return self._rows("WHERE piece.text LIKE ? ESCAPE '\\'", pattern)

    def _may_be_inside_words(self) -> bool:
        """Could a text hold the query although the phrase was not found, since it begins or ends within words?"""
        units = self._query.needles[0].split()
        return len(units) <= 3 or not any(character.isalnum() for character in "".join(units[1:-1]))

    def _rows(self, condition: str, value: str) -> Iterator[Row]:
        """Pieces that may be shown, the shortest first."""
        statement = f"{_ROWS} {condition} ORDER BY piece.size, piece.id LIMIT ?"
        for found in self._db.execute(statement, (value, LOOKED_AT)):
            row = Row(*found)
            if row.kind in self._wanted.kinds and row.uuid not in self._wanted.left_out:
                yield row

    def _verified(self, rows: Iterator[Row]) -> Iterator[tuple[str, float]]:
        needles = [recall.folded(needle) for needle in self._query.needles]
        seen: set[str] = set()
        for row in rows:
            if row.uuid in seen:
                continue
            text = recall.folded(self._text_of(row.piece))
            if needles[0] in text and all(self._holds(row.record, needle) for needle in needles[1:]):
                seen.add(row.uuid)
                self._pieces[row.uuid] = row.piece
                yield row.uuid, recall.closeness(needles, text)
            if len(seen) >= SEVERAL * self._wanted.k:
                return

    def _holds(self, record: int, needle: str) -> bool:
        texts = self._db.execute("SELECT text FROM piece WHERE record = ?", (record,))
        return any(needle in recall.folded(text) for (text,) in texts)

    # -- its words, and what they mean -----------------------------------------------------

    def _otherwise(self) -> dict[str, float]:
        """Records that fit by their words, or that another scorer brings in."""
        words = self._by_words() if self._wanted.words else {}
        self._matched = {uuid: ["words"] for uuid in words}
        return recall.fused([(1.0, words), *self._opinions()])

    def _opinions(self) -> Iterator[tuple[float, dict[str, float]]]:
        for scorer in self._wanted.scorers:
            scores = scorer.scores(self._db, self._text)
            rows = self._db.execute(f"{_ROWS} WHERE piece.id {_AMONG}", (json.dumps(list(scores)),))
            best: dict[str, Row] = {}
            for row in filter(self._may_show, (Row(*found) for found in rows)):
                if row.uuid not in best or scores[row.piece] > scores[best[row.uuid].piece]:
                    best[row.uuid] = row
            for uuid, row in best.items():
                if self._pieces.setdefault(uuid, row.piece) == row.piece and uuid not in self._matched:
                    self._found_by[uuid] = scorer
                self._matched.setdefault(uuid, []).append(scorer.name)
            yield scorer.weight, {uuid: scores[row.piece] for uuid, row in best.items()}

    def _by_words(self) -> dict[str, float]:
        """Records that fit by their words."""
        found, weights = self._features()
        pieces = recall.matches(found, weights)
        places, shown = self._records(pieces)
        smooth = recall.smoothed(places)
        words = {}
        for place in sorted(shown, key=lambda place: -smooth[place])[: WEIGHED * self._wanted.k]:
            row = shown[place]
            near = together(self._text_of(row.piece), self._query.features, pieces[row.piece].held)
            fits = recall.share(near, recall.lent(places, place), weights)
            if fits >= recall.ENOUGH:
                words[row.uuid] = fits * smooth[place]
                self._pieces.setdefault(row.uuid, row.piece)
        return words

    def _records(self, pieces: Mapping[int, Match]) -> tuple[dict[Place, Match], dict[Place, Row]]:
        """The best pieces by the records they are of, and the piece of each that would be shown."""
        best = sorted(pieces, key=lambda piece: -pieces[piece].score)[:CANDIDATES]
        rows = [
            Row(*row) for row in self._db.execute(f"{_ROWS} WHERE piece.id {_AMONG}", (json.dumps(best),))
        ]
        usual = sum(row.size for row in rows) / max(1, len(rows))
        places: dict[Place, Match] = {}
        shown: dict[Place, Row] = {}
        for row in rows:
            match, place = pieces[row.piece], row.place
            score = recall.for_length(match.score, row.size, usual)
            before = places.get(place, Match(0.0, 0))
            places[place] = Match(max(score, before.score), match.held | before.held)
            if self._may_show(row) and (place not in shown or score > before.score):
                shown[place] = row
        return places, shown

    def _may_show(self, row: Row) -> bool:
        return row.kind in self._wanted.kinds and row.uuid not in self._wanted.left_out

    def _features(self) -> tuple[dict[int, Sequence[int]], list[float]]:
        """The pieces that hold each feature, and what each counts; what is everywhere counts for nothing."""
        (total,) = self._db.execute("SELECT coalesce(max(id), 0) FROM piece").fetchone()
        least, most = TOO_COMMON
        common = min(most, max(least, total // 5))
        found: dict[int, Sequence[int]] = {}
        for number, feature in enumerate(self._query.features):
            pieces = self._postings(recall.phrase(feature), common + 1)
            if not pieces and len(feature) > 3:
                pieces = self._postings(recall.phrase(feature, open_end=True), common + 1)
            found[number] = pieces
        telling = {number: pieces for number, pieces in found.items() if len(pieces) <= common} or found
        weights = [
            recall.rarity(len(found[number]), total) if number in telling else 0.0 for number in found
        ]
        return telling, weights

    def _postings(self, phrase: str, most: int) -> list[int]:
        found = self._db.execute("SELECT rowid FROM words WHERE words MATCH ? LIMIT ?", (phrase, most))
        return [piece for (piece,) in found]

    # -- what comes back -------------------------------------------------------------------

    def _hit(self, uuid: str, score: float, exact: bool) -> Hit:
        piece = self._pieces[uuid]
        kind, tool, text, lane, place, timestamp, offset = self._db.execute(
            "SELECT kind, tool, text, lane, place, timestamp, offset"
            " FROM piece JOIN record ON record.id = piece.record WHERE piece.id = ?",
            (piece,),
        ).fetchone()
        scorer = None if exact else self._found_by.get(uuid)
        shown, marks = excerpt(text, self._query, scorer.place(self._text, text) if scorer else None)
        around = self._wanted.around
        return Hit(
            uuid=uuid,
            kind=kind,
            tool=tool,
            timestamp=timestamp,
            offset=offset,
            position=place,
            score=score,
            exact=exact,
            excerpt=shown,
            marks=marks,
            before=self._near(lane, place - around, place - 1),
            after=self._near(lane, place + 1, place + around),
            matched=("exact",) if exact else tuple(self._matched[uuid]),
        )

    def _near(self, lane: int, first: int, last: int) -> tuple[Near, ...]:
        rows = self._db.execute(
            "SELECT uuid, kind, text FROM record JOIN piece ON piece.id ="
            " (SELECT min(id) FROM piece WHERE piece.record = record.id)"
            " WHERE lane = ? AND place BETWEEN ? AND ? ORDER BY place",
            (lane, first, last),
        )
        return tuple(Near(uuid, kind, beginning(text, NEIGHBOUR)) for uuid, kind, text in rows)

    def _text_of(self, piece: int) -> str:
        (text,) = self._db.execute("SELECT text FROM piece WHERE id = ?", (piece,)).fetchone()
        return str(text)


_AMONG = "IN (SELECT value FROM json_each(?))"
