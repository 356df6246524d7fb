"""The vectors of a session's passages, kept in its recall index, and the search among them.

They are made when somebody first looks by meaning, and from then on for what is new. In the index each takes a byte
a dimension: directions are all that counts, and that is enough to keep them. Whatever is not as it should be (made
with other weights, or no vectors at all) is made again; where the index takes no writing, they live in memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sevenfold.recall import meaning
from sevenfold.recall.meaning import ORDINARY, SPOKEN, Likeness

AT_ONCE = 1_000
"""Passages that are read and compared in one go."""
STRETCH = 320
"""Characters that are compared when it is to be shown where in a passage the match is."""
FINEST = 127
"""The largest number a byte holds."""
TINY = 1e-9
CANDIDATES = 400
"""Pieces that are looked at any further."""

_TABLES = """
CREATE TABLE IF NOT EXISTS vectors_by (one INTEGER PRIMARY KEY, weights TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS vector (piece INTEGER PRIMARY KEY, numbers BLOB NOT NULL);
"""
_ANEW = "DROP TABLE IF EXISTS vectors_by; DROP TABLE IF EXISTS vector;" + _TABLES
_SPOKEN = ", ".join("?" * len(SPOKEN))
_NEW_PIECES = f"SELECT id, text FROM piece WHERE id > ? AND kind IN ({_SPOKEN}) ORDER BY id LIMIT ?"

Floats = NDArray[np.float32]
Bytes = NDArray[np.int8]


class Rows(NamedTuple):
    """Vectors in bytes, of the pieces with these numbers."""

    pieces: NDArray[np.int64]
    numbers: Bytes
    lengths: Floats
    total: Floats
    """The sum of their directions."""

    @classmethod
    def of(cls, pieces: Sequence[int], numbers: Bytes) -> Rows:
        """With their lengths and sum."""
        exact = numbers.astype(np.float32)
        lengths = np.maximum(np.linalg.norm(exact, axis=1), TINY).astype(np.float32)
        total: Floats = (exact / lengths[:, None]).sum(axis=0)
        return cls(np.array(pieces, np.int64), numbers, lengths, total)

    @classmethod
    def empty(cls, dimensions: int) -> Rows:
        """None."""
        return cls.of([], np.empty((0, dimensions), np.int8))

    @classmethod
    def together(cls, several: Sequence[Rows]) -> Rows:
        """All of them, in order."""
        pieces, numbers, lengths, totals = zip(*several, strict=True)
        total = np.sum(totals, axis=0)
        return cls(np.concatenate(pieces), np.concatenate(numbers), np.concatenate(lengths), total)

    @property
    def last(self) -> int:
        """The highest number of a piece; 0 if there is none."""
        return int(self.pieces[-1]) if len(self.pieces) else 0

    def along(self, directions: Floats) -> Floats:
        """How far each row goes in each of the directions, which are columns; a part of the rows at a time."""
        parts = range(0, len(self.pieces), AT_ONCE)
        far = [self.numbers[start : start + AT_ONCE].astype(np.float32) @ directions for start in parts]
        none = np.empty((0, directions.shape[1]), np.float32)
        made: Floats = np.divide(np.concatenate([none, *far]), self.lengths[:, None], dtype=np.float32)
        return made


class Embedder(Protocol):
    """Turns texts into vectors."""

    fingerprint: str
    """Changes whenever the same text would get another vector."""
    dimensions: int

    def vectors(self, texts: Sequence[str]) -> Floats:
        """A row of length 1 for each text; of length 0 for one that says nothing."""
        ...


class Meaning:
    """An opinion on what a query means; a `sevenfold.recall.search.Scorer`. For one index at a time."""

    name = "meaning"
    weight = meaning.WEIGHT

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._db: sqlite3.Connection | None = None
        self._rows = Rows.empty(embedder.dimensions)

    def scores(self, db: sqlite3.Connection, query: str) -> Mapping[int, float]:
        """A score for each piece that is alike enough, by its number."""
        least = meaning.enough(query)
        if least is None:
            return {}
        if self._db is not db:
            self._rows, self._db = self._kept(db), db
        self._catch_up(db)
        return meaning.trusted(self._likeness(self._embedder.vectors([query])[0]), least)

    def place(self, query: str, text: str) -> int:
        """Where in a text the stretch begins that is most alike."""
        starts = range(0, max(1, len(text) - STRETCH // 2), STRETCH // 2)
        rows = self._embedder.vectors([query, *(text[start : start + STRETCH] for start in starts)])
        return starts[int(np.argmax(rows[1:] @ rows[0]))]

    def _likeness(self, query: Floats) -> list[Likeness]:
        """Of the pieces that are most alike; see `sevenfold.recall.meaning` for the two likenesses."""
        shared = self._rows.total / (len(self._rows.pieces) + ORDINARY)
        near, common = self._rows.along(np.stack([query, shared], axis=1)).T
        amount, turned = float(shared @ shared), float(shared @ query)
        own = np.sqrt(np.maximum(TINY, 1 - 2 * common + amount))
        apart = (near - common - turned + amount) / (own * max(TINY, 1 - 2 * turned + amount) ** 0.5)
        alike = np.argsort(-apart)[:CANDIDATES]
        taken = zip(self._rows.pieces[alike], near[alike], apart[alike], strict=True)
        return [Likeness(int(piece), float(as_is), float(rest)) for piece, as_is, rest in taken]

    # -- the table -------------------------------------------------------------------------

    def _kept(self, db: sqlite3.Connection) -> Rows:
        """What the index holds; nothing if that is of other weights, or damaged."""
        with suppress(sqlite3.OperationalError, TypeError, ValueError):
            if db.execute("SELECT weights FROM vectors_by").fetchone() == (self._embedder.fingerprint,):
                found = db.execute("SELECT piece, numbers FROM vector ORDER BY piece").fetchall()
                flat = np.frombuffer(b"".join(numbers for _, numbers in found), np.int8)
                numbers = flat.reshape(len(found), self._embedder.dimensions)
                return Rows.of([piece for piece, _ in found], numbers)
        with suppress(sqlite3.OperationalError):
            db.executescript(_ANEW)
            with db:
                db.execute("INSERT INTO vectors_by VALUES (0, ?)", (self._embedder.fingerprint,))
        return Rows.empty(self._embedder.dimensions)

    def _catch_up(self, db: sqlite3.Connection) -> None:
        """Make the vectors of pieces that have none yet."""
        last = self._rows.last
        made = [self._rows]
        while found := db.execute(_NEW_PIECES, (last, *SPOKEN, AT_ONCE)).fetchall():
            last = found[-1][0]
            numbers = _coarse(self._embedder.vectors([text for _, text in found]))
            made.append(Rows.of([piece for piece, _ in found], numbers))
            with suppress(sqlite3.OperationalError), db:
                rows = zip(made[-1].pieces.tolist(), map(bytes, numbers), strict=True)
                db.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", rows)
        if len(made) > 1:
            self._rows = Rows.together(made)


def _coarse(rows: Floats) -> Bytes:
    """The rows in bytes; each as large as a byte can hold, since their lengths say nothing."""
    most = np.abs(rows).max(axis=1, keepdims=True)
    made: Bytes = np.rint(rows * (FINEST / np.where(most > 0, most, 1))).astype(np.int8)
    return made
