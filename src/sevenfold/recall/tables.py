"""The SQLite tables of a recall index: records, the pieces of their passages, words, and vectors.

The file uses a rollback journal, not a write-ahead log: there is only one writer (the holder of the transcript's lock)
and its writes are short; other processes can read without leaving files behind; and SQLite before 3.51.3 can damage a
database when a write-ahead log starts over.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from sevenfold.errors import TranscriptError
from sevenfold.recall import ranking
from sevenfold.recall.passages import CALL, EDIT, ERROR, RESULT, SPOKEN, Passage, passages, pieces, tidy
from sevenfold.recall.ranking import RecordPlace, labels
from sevenfold.record.decisions import Offloaded
from sevenfold.record.entries import Decision, Entry, Said

SCHEMA_VERSION = 3
"""Increased whenever the tables or their content change; an index of another version is rebuilt."""
WAIT_SECONDS = 5.0
"""How long to wait for a process that is writing or reading."""
IN_MEMORY = ":memory:"
NAMELESS = ""
"""SQLite's name for an unnamed temporary database: in memory while small, and deleted when closed."""

Fetch = Callable[[str], bytes]
"""Returns the full text of an offloaded result, as `sevenfold.ports.Results` does."""

Reached = tuple[int, bytes]
"""The position and the digest of the last complete line of the log that was indexed."""

_ROW = "SELECT piece.id, record.id, uuid, kind, tool, size, timestamp, offset, lane, place"
_ROWS = f"{_ROW} FROM piece JOIN record ON record.id = piece.record"
_SPOKEN = f"kind IN {SPOKEN}"
_VECTORS = """
DROP TABLE IF EXISTS vectors_by; DROP TABLE IF EXISTS vector;
CREATE TABLE IF NOT EXISTS vectors_by (one INTEGER PRIMARY KEY, weights TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS vector (piece INTEGER PRIMARY KEY, numbers BLOB NOT NULL);
"""


class Row(Struct, frozen=True):
    """A piece without its text, and its record."""

    piece: int
    record: int
    uuid: str
    kind: str
    tool: str
    size: int
    timestamp: str
    offset: int
    """The record's position in the log."""
    place: RecordPlace


class Tables:
    """The indexed pieces, in an SQLite database."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    @classmethod
    def created(cls, name: str) -> Tables:
        """New tables in an empty database."""
        tables = cls(_connected(name))
        tables._create()
        return tables

    @classmethod
    def in_file(cls, path: Path, *, again: bool = False) -> Tables:
        """The tables in a file, rebuilt if it is damaged or of another version; raises if it is busy."""
        path.touch(mode=0o600)
        tables = cls(_connected(str(path)))
        try:
            if path.stat().st_size == 0:
                tables._create()
            tables._check_version()
        except sqlite3.DatabaseError as error:
            tables.close()
            if again or error_code(error) == sqlite3.SQLITE_BUSY:
                raise
            remove(path)
            return cls.in_file(path, again=True)
        return tables

    @classmethod
    def copied(cls, path: Path) -> Tables:
        """A private copy of the tables in a file; raises `sqlite3.DatabaseError` if it cannot be used."""
        source = _connected(path.absolute().as_uri() + "?mode=ro")
        copy = cls(_connected(NAMELESS))
        try:
            source.backup(copy._db)
            copy._check_version()
        except sqlite3.DatabaseError:
            copy.close()
            raise
        finally:
            source.close()
        return copy

    @classmethod
    def restored(cls, content: bytes) -> Tables:
        """The tables that `saved` returned, in memory; raises `sqlite3.DatabaseError` if they cannot be used."""
        tables = cls(_connected(IN_MEMORY))
        try:
            tables._db.deserialize(content)
            tables._check_version()
        except sqlite3.DatabaseError:
            tables.close()
            raise
        return tables

    def saved(self) -> bytes:
        """The tables as bytes, for `restored`."""
        return self._db.serialize()

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _create(self) -> None:
        schema = Path(__file__).with_name("recall_index.sql").read_text(encoding="utf-8")
        self._db.executescript(f"BEGIN;{schema}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;")

    def _check_version(self) -> None:
        version = self._one("PRAGMA user_version")[0]
        if version != SCHEMA_VERSION:
            raise sqlite3.DatabaseError(f"the index has version {version}, not {SCHEMA_VERSION}")

    def _one(self, statement: str, *values: object) -> Any:
        return self._db.execute(statement, values).fetchone()

    # -- indexing --------------------------------------------------------------------------

    def records(self) -> int:
        """The number of records in the index."""
        return int(self._one("SELECT count(*) FROM record")[0])

    def reached(self) -> Reached | None:
        """How far the log was indexed; None if not at all."""
        reached: Reached | None = self._one("SELECT offset, digest FROM reached")
        return reached

    def add(
        self, entries: Iterable[tuple[int, Entry]], fetch: Fetch | None, reached: Reached | None = None
    ) -> int:
        """Index entries, and store how far the log was read, in one transaction; returns the number of new records."""
        with self._db:
            added = sum(self._add(position, entry, fetch) for position, entry in entries)
            if reached is not None:
                self._db.execute("REPLACE INTO reached VALUES (0, ?, ?)", reached)
        return added

    def _add(self, position: int, entry: Entry, fetch: Fetch | None) -> bool:
        """Index an entry; False if it has no text or is already in the index."""
        match entry:
            case Said(uuid=uuid, sidechain=aside, timestamp=timestamp):
                row = (uuid, int(aside), timestamp, position)
                return self._add_record(row, passages(entry, self._tool), fetch)
            case Decision(record=Offloaded(tool_use_id=call, path=path)):
                self._learn(call, path=path)
                self._complete(call, fetch)
                return False
            case Decision(record=decision) if decision.id:
                return self._add_record(
                    (decision.id, 0, decision.timestamp, position), passages(entry), fetch
                )
            case _:
                return False

    def _add_record(
        self, row: tuple[str, int, str, int], passages: list[Passage], fetch: Fetch | None
    ) -> bool:
        if not passages:
            return False
        cursor = self._db.execute(
            "INSERT OR IGNORE INTO record (uuid, lane, place, timestamp, offset)"
            " SELECT ?1, ?2, coalesce(max(place), 0) + 1, ?3, ?4 FROM record WHERE lane = ?2",
            row,
        )
        record = cursor.lastrowid
        if not cursor.rowcount or record is None:
            return False
        for passage in passages:
            tool = passage.tool or self._tool(passage.call)
            self._add_pieces(record, passage.kind, tool, passage.text, row[2])
            if passage.call:
                if passage.kind in (CALL, EDIT):
                    self._learn(passage.call, tool=passage.tool)
                elif passage.kind in (RESULT, ERROR):
                    self._learn(passage.call, result=record, size=len(passage.text))
                self._complete(passage.call, fetch)
        return True

    def _add_pieces(self, record: int, kind: str, tool: str, text: str, timestamp: str = "") -> None:
        for piece in pieces(text):
            row = self._db.execute(
                "INSERT INTO piece (record, kind, tool, size, text) VALUES (?, ?, ?, ?, ?)",
                (record, kind, tool, len(piece), piece),
            ).lastrowid
            self._db.execute(
                "INSERT INTO words (rowid, said, parts, labels) VALUES (?, ?, ?, ?)",
                (row, ranking.spaced(piece), ranking.humps(piece), labels(piece, timestamp)),
            )

    def _learn(self, call: str, **facts: object) -> None:
        """Store facts about a tool call, replacing earlier values."""
        columns = ", ".join(("id", *facts))
        marks = ", ".join("?" * (1 + len(facts)))
        changes = ", ".join(f"{name} = excluded.{name}" for name in facts)
        statement = (
            f"INSERT INTO call ({columns}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {changes}"
        )
        self._db.execute(statement, (call, *facts.values()))

    def _complete(self, call: str, fetch: Fetch | None) -> None:
        """Add the full text of an offloaded result; the log has only its beginning."""
        row = self._one("SELECT tool, result, size, path FROM call WHERE id = ?", call)
        if fetch is None or row is None or row[1] is None or not row[3]:
            return
        tool, record, size, path = row
        try:
            text = tidy(fetch(path).decode(errors="replace"))
        except TranscriptError:
            return
        if len(text) > size:
            self._learn(call, size=len(text))
            self._add_pieces(record, RESULT, tool, text)

    def _tool(self, call: str) -> str:
        row = self._one("SELECT tool FROM call WHERE id = ?", call) if call else None
        return str(row[0]) if row else ""

    # -- queries ------------------------------------------------------------------------------

    def count(self) -> int:
        """The number of pieces."""
        return int(self._one("SELECT coalesce(max(id), 0) FROM piece")[0])

    def with_phrase(self, phrase: str, limit: int) -> Iterator[Row]:
        """The pieces that match an FTS phrase, shortest first."""
        return self._shortest("piece.id IN (SELECT rowid FROM words WHERE words MATCH ?)", phrase, limit)

    def containing(self, needle: str, limit: int) -> Iterator[Row]:
        """The pieces that contain a text anywhere, even inside words, shortest first. Scans all texts."""
        for special in "\\%_":
            needle = needle.replace(special, "\\" + special)
        pattern = "%".join(["", *needle.split(), ""])
        return self._shortest("piece.text LIKE ? ESCAPE '\\'", pattern, limit)

    def _shortest(self, condition: str, value: str, limit: int) -> Iterator[Row]:
        statement = f"{_ROWS} WHERE {condition} ORDER BY piece.size, piece.id LIMIT ?"
        return map(_row, self._db.execute(statement, (value, limit)))

    def among(self, pieces: Collection[int]) -> list[Row]:
        """The pieces with these numbers, in the order in which they were said."""
        statement = f"{_ROWS} WHERE piece.id IN (SELECT value FROM json_each(?)) ORDER BY piece.id"
        return [_row(row) for row in self._db.execute(statement, (json.dumps(list(pieces)),))]

    def around(self, pieces: Collection[int], reach: int, held: Container[int]) -> list[Row]:
        """The pieces in ``held`` whose records are at most ``reach`` places from a record of the given ``pieces``."""
        # Finding the neighbours reads only indexes; most neighbours are not in ``held``, and their rows stay unread.
        statement = (
            "SELECT DISTINCT near.id FROM json_each(?) AS wanted"
            " CROSS JOIN piece ON piece.id = wanted.value CROSS JOIN record ON record.id = piece.record"
            " CROSS JOIN record AS other"
            " ON other.lane = record.lane AND other.place BETWEEN record.place - ?2 AND record.place + ?2"
            " CROSS JOIN piece AS near ON near.record = other.id"
        )
        near = self._db.execute(statement, (json.dumps(list(pieces)), reach))
        return self.among([piece for (piece,) in near if piece in held])

    def postings(self, phrase: str, limit: int) -> list[int]:
        """The numbers of the pieces that match an FTS phrase, at most ``limit``."""
        rows = self._db.execute("SELECT rowid FROM words WHERE words MATCH ? LIMIT ?", (phrase, limit))
        return [piece for (piece,) in rows]

    def text(self, piece: int) -> str:
        """The text of the piece with this number."""
        return str(self._one("SELECT text FROM piece WHERE id = ?", piece)[0])

    def texts(self, record: int) -> Iterator[str]:
        """The texts of a record's pieces."""
        return (text for (text,) in self._db.execute("SELECT text FROM piece WHERE record = ?", (record,)))

    def near(self, lane: int, first: int, last: int) -> Iterator[tuple[str, str, str]]:
        """Records of a conversation by their numbers: the id, kind and first piece of each."""
        return self._db.execute(
            "SELECT uuid, kind, text FROM record JOIN piece ON piece.id ="
            " (SELECT min(id) FROM piece WHERE piece.record = record.id)"
            " WHERE lane = ? AND place BETWEEN ? AND ? ORDER BY place",
            (lane, first, last),
        )

    def spoken_after(self, piece: int, limit: int) -> list[tuple[int, str]]:
        """The numbers and texts of the pieces of conversation text after the given piece."""
        statement = f"SELECT id, text FROM piece WHERE id > ? AND {_SPOKEN} ORDER BY id LIMIT ?"
        return self._db.execute(statement, (piece, limit)).fetchall()

    def count_spoken(self) -> tuple[int, int]:
        """The number of pieces of conversation text, and the number of vectors."""
        count = 0
        with suppress(sqlite3.OperationalError):
            count = int(self._one("SELECT count(*) FROM vector")[0])
        return int(self._one(f"SELECT count(*) FROM piece WHERE {_SPOKEN}")[0]), count

    def vectors(self, weights: str) -> list[tuple[int, bytes]] | None:
        """The stored vectors, if they were made with these weights; otherwise, or if they cannot be read, None."""
        with suppress(sqlite3.OperationalError):
            if self._one("SELECT weights FROM vectors_by") == (weights,):
                return self._db.execute("SELECT piece, numbers FROM vector ORDER BY piece").fetchall()
        return None

    def begin_vectors(self, weights: str) -> None:
        """Drop all vectors and prepare to store those made with these weights; ignores a read-only database."""
        with suppress(sqlite3.OperationalError):
            self._db.executescript(_VECTORS)
            with self._db:
                self._db.execute("INSERT INTO vectors_by VALUES (0, ?)", (weights,))

    def add_vectors(self, vectors: Iterable[tuple[int, bytes]]) -> None:
        """Store the vectors of pieces; ignores a database that cannot be written."""
        with suppress(sqlite3.OperationalError), self._db:
            self._db.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", vectors)


def remove(path: Path) -> None:
    """Remove the file of a database, and its journal."""
    for name in (path.name, path.name + "-journal"):
        path.with_name(name).unlink(missing_ok=True)


def error_code(error: sqlite3.Error) -> int:
    """SQLite's primary error code; 0 if there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _row(columns: Sequence[Any]) -> Row:
    piece, record, uuid, kind, tool, size, timestamp, offset, *place = columns
    return Row(piece, record, uuid, kind, tool, size, timestamp, offset, RecordPlace(*place))


def _connected(name: str) -> sqlite3.Connection:
    db = sqlite3.connect(name, timeout=WAIT_SECONDS, check_same_thread=False, uri=name.startswith("file:"))
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA cache_size = -32768")
    return db
