"""The index behind recall: a file of its own for each transcript, or a database in memory.

The log is the truth and the index a convenience. It knows how far it has read; whatever is wrong with it
(missing, damaged, of another version, behind, or of a log that is no longer the same) is repaired by reading
the log, and where its file cannot be written it lives in memory. So nothing here fails a session.

The file has a rollback journal, not a write-ahead log: there is one writer (the one that holds the transcript's lock)
and its writes are short, other processes read without leaving files behind, and SQLite before 3.51.3 can
damage a database when a write-ahead log starts over. Readers take a copy into memory and bring that
up to date, so a file that is being written, or is not ours, is never touched.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from sevenfold.errors import InputError, TranscriptError
from sevenfold.ports import Log
from sevenfold.recall import ranking
from sevenfold.recall.passages import CALL, EDIT, ERROR, RESULT, Passage, passages, pieces, tidy
from sevenfold.recall.ranking import RecordPlace
from sevenfold.recall.search import Hit, IndexedPiece, Row, Scorer, Search, SearchOptions, kinds
from sevenfold.record import entries
from sevenfold.record.authorship import Queue
from sevenfold.record.decisions import Offloaded
from sevenfold.record.entries import Decision, Entry, Said

SCHEMA_VERSION = 2
"""Goes up whenever the tables, or what is put in them, change: an index of another version is made again."""
WAIT_SECONDS = 5.0
"""How long to wait for a process that is just writing or reading."""
LINES_AT_ONCE = 500
"""Lines that are indexed in one transaction, so that readers need not wait longer."""
BYTES_AT_ONCE = 4 * 1024 * 1024
"""Bytes, more or less: what is held at once stays small however long the lines are."""
LINES_IN_PASSING = 20
"""Lines at once while a conversation is going on, which may want to look something up at any moment."""

Progress = Callable[[int], None]
"""Called with the position in the log that the index has reached."""
Fetch = Callable[[str], bytes]
"""Gives the full text of a result that was moved out of the context, as `sevenfold.ports.Results` does."""

_T = TypeVar("_T")
_IN_MEMORY = ":memory:"
_NAMELESS = ""
"""What SQLite calls a database without a name: in memory while it is small, and deleted when it is closed."""
_NO_PLACE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
    }
)
_ROWS = (
    "SELECT piece.id, record.id, record.uuid, piece.kind, piece.size, record.lane, record.place"
    " FROM piece JOIN record ON record.id = piece.record"
)
_VECTORS = """
DROP TABLE IF EXISTS vectors_by; DROP TABLE IF EXISTS vector;
CREATE TABLE IF NOT EXISTS vectors_by (one INTEGER PRIMARY KEY, weights TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS vector (piece INTEGER PRIMARY KEY, numbers BLOB NOT NULL);
"""


class RecallIndex:
    """Everything a log says, ready to be searched; in memory unless a path is given."""

    def __init__(self, log: Log, path: Path | None = None, *, fetch: Fetch | None = None) -> None:
        self._log = log
        self._path = path
        self._fetch = fetch
        self._since = 0
        self._queue = Queue()
        self._lock = RLock()
        self._tables = _opened(path)

    @classmethod
    def for_reading(
        cls, log: Log, path: Path, *, fetch: Fetch | None = None, since: int = 0
    ) -> RecallIndex:
        """An index of its own that begins with what is in a file, if there is one; that is left as it is.

        It may be large, so it is kept in a file without a name, which is gone when it is closed. What the file
        does not know is read from the log, from ``since`` on.
        """
        index = cls(log, fetch=fetch)
        index._since = since
        index._tables.close()
        index._tables = Tables.created(_NAMELESS)
        if path.is_file():
            with suppress(sqlite3.DatabaseError):
                index._tables = Tables.copied(path)
        return index

    @property
    def size(self) -> int:
        """How many records are in it."""
        return self._safely(lambda: self._tables.records())

    def add(self, found: Iterable[tuple[int, Entry]]) -> int:
        """Take in entries with their positions; says how many are new, those already here are passed over."""
        taken = list(found)
        return self._safely(lambda: self._tables.add(taken, self._fetch))

    def catch_up(self, progress: Progress | None = None) -> int:
        """Read what was added to the log since last time; says how many records are new."""
        return self._safely(lambda: self._read_on(progress))

    def catch_up_a_little(self) -> bool:
        """Read a few of the lines that were added to the log; True if there are more."""
        return self._safely(self._read_a_few)

    def search(
        self,
        query: str,
        *,
        kind: str | Collection[str] | None = None,
        k: int = 10,
        visible: Container[str] = (),
        only_hidden: bool = False,
        around: int = 1,
        scorers: Sequence[Scorer] = (),
        words: bool = True,
    ) -> list[Hit]:
        """Records that fit the query, the best first, at most ``k``; none if nothing fits.

        ``kind`` is one or more of `sevenfold.recall.passages.KINDS`. With ``only_hidden`` those in ``visible``
        are left out: the ids of the records the model still sees in full. Each hit comes with ``around``
        records before and after it. ``scorers`` count besides the words; without ``words``, instead of them.
        """
        if k < 1 or around < 0:
            raise InputError(
                f"recall cannot give {k} hits with {around} neighbours; ask for at least 1 and 0"
            )
        options = SearchOptions(kinds(kind), k, visible if only_hidden else (), around, scorers, words)
        return self._safely(lambda: Search(self._tables, query, options).hits())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._tables.close()

    def _safely(self, work: Callable[[], _T]) -> _T:
        """Do it; if the database is at fault, do it again with one made again from the log."""
        with self._lock:
            try:
                return work()
            except sqlite3.ProgrammingError:
                raise
            except sqlite3.DatabaseError as error:
                if not _no_place(error):
                    with suppress(sqlite3.DatabaseError):
                        return self._again(work, self._path)
                return self._again(work, None)

    def _again(self, work: Callable[[], _T], path: Path | None) -> _T:
        """Do it with a new database, in memory if there is no path: then the file is left as it is."""
        self._path = path
        self._start_over()
        self._read_on(None)
        return work()

    def _start_over(self) -> None:
        self._tables.close()
        if self._path:
            _remove(self._path)
        self._tables = _opened(self._path)

    def _read_on(self, progress: Progress | None) -> int:
        lines, new = self._unread(), 0
        while batch := list(_some(lines)):
            new += self._take(batch)
            if progress:
                progress(batch[-1][0])
        return new

    def _read_a_few(self) -> bool:
        batch = list(islice(self._unread(), LINES_IN_PASSING))
        self._take(batch)
        # If none of them is whole, the same lines would be read again and again.
        return len(batch) == LINES_IN_PASSING and any(map(_whole, batch))

    def _unread(self) -> Iterator[tuple[int, bytes]]:
        """The lines after the last one that was read, if that is still there; else all of them."""
        known = self._tables.reached()
        if known is None:
            return self._log.read(self._since)
        lines = self._log.read(known[0])
        position, line = next(lines, (-1, b""))
        if (position, _digest(line)) == known:
            return lines
        self._start_over()
        return self._log.read(self._since)

    def _take(self, batch: Sequence[tuple[int, bytes]]) -> int:
        found = [one for position, line in batch for one in self._said(position, entries.read(line))]
        last = next(filter(_whole, reversed(batch)), None)
        reached = None if last is None else (last[0], _digest(last[1]))
        return self._tables.add(found, self._fetch, reached)

    def _said(self, position: int, entry: Entry) -> Iterator[tuple[int, Entry]]:
        yield from self._queue.due(position, entry)
        yield position, entry


class Tables:
    """The database of an index: `sevenfold.recall.search.Pieces` in SQLite."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    @classmethod
    def created(cls, name: str) -> Tables:
        """New ones in an empty database."""
        tables = cls(_connected(name))
        tables._create()
        return tables

    @classmethod
    def in_file(cls, path: Path, *, again: bool = False) -> Tables:
        """Those in a file, made again if it is damaged or of another version."""
        path.touch(mode=0o600)
        tables = cls(_connected(str(path)))
        try:
            if path.stat().st_size == 0:
                tables._create()
            tables._check_version()
        except sqlite3.DatabaseError as error:
            tables.close()
            if again or _code(error) == sqlite3.SQLITE_BUSY:
                raise
            _remove(path)
            return cls.in_file(path, again=True)
        return tables

    @classmethod
    def copied(cls, path: Path) -> Tables:
        """A copy of those in a file."""
        source = _connected(path.absolute().as_uri() + "?mode=ro")
        copy = cls(_connected(_NAMELESS))
        try:
            source.backup(copy._db)
            copy._check_version()
        except sqlite3.DatabaseError:
            copy.close()
            raise
        finally:
            source.close()
        return copy

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

    # -- what was read ---------------------------------------------------------------------

    def records(self) -> int:
        """How many records are in it."""
        return int(self._one("SELECT count(*) FROM record")[0])

    def reached(self) -> tuple[int, bytes] | None:
        """The last line of the log that was read whole, and its digest."""
        found: tuple[int, bytes] | None = self._one("SELECT offset, digest FROM reached")
        return found

    def add(
        self,
        found: Iterable[tuple[int, Entry]],
        fetch: Fetch | None,
        reached: tuple[int, bytes] | None = None,
    ) -> int:
        """Take in entries in one transaction, and how far in the log they reach; says how many are new."""
        with self._db:
            new = sum(self._add(position, entry, fetch) for position, entry in found)
            if reached is not None:
                self._db.execute("REPLACE INTO reached VALUES (0, ?, ?)", reached)
        return new

    def _add(self, position: int, entry: Entry, fetch: Fetch | None) -> bool:
        """Take in an entry; false if it says nothing or is there already."""
        match entry:
            case Said(uuid=uuid, sidechain=aside, timestamp=timestamp):
                row = (uuid, int(aside), timestamp, position)
                return self._add_record(row, passages(entry, self._tool), fetch)
            case Decision(made=Offloaded(tool_use_id=call, path=path)):
                self._db.execute(
                    "INSERT INTO call (id, path) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET path = excluded.path",
                    (call, path),
                )
                self._complete(call, fetch)
                return False
            case Decision(made=made) if made.id:
                return self._add_record((made.id, 0, made.timestamp, position), passages(entry), fetch)
            case _:
                return False

    def _add_record(
        self, row: tuple[str, int, str, int], found: list[Passage], fetch: Fetch | None
    ) -> bool:
        if not found:
            return False
        made = self._db.execute(
            "INSERT OR IGNORE INTO record (uuid, lane, place, timestamp, offset)"
            " SELECT ?1, ?2, coalesce(max(place), 0) + 1, ?3, ?4 FROM record WHERE lane = ?2",
            row,
        )
        record = made.lastrowid
        if not made.rowcount or record is None:
            return False
        for passage in found:
            tool = passage.tool or self._tool(passage.call)
            self._add_pieces(record, passage.kind, tool, passage.text)
            if passage.call:
                self._add_call(record, passage)
                self._complete(passage.call, fetch)
        return True

    def _add_pieces(self, record: int, kind: str, tool: str, text: str) -> None:
        for piece in pieces(text):
            row = self._db.execute(
                "INSERT INTO piece (record, kind, tool, size, text) VALUES (?, ?, ?, ?, ?)",
                (record, kind, tool, len(piece), piece),
            ).lastrowid
            self._db.execute(
                "INSERT INTO words (rowid, said, parts) VALUES (?, ?, ?)",
                (row, ranking.spaced(piece), ranking.humps(piece)),
            )

    def _add_call(self, record: int, passage: Passage) -> None:
        if passage.kind in (CALL, EDIT):
            self._db.execute(
                "INSERT INTO call (id, tool) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET tool = excluded.tool",
                (passage.call, passage.tool),
            )
        elif passage.kind in (RESULT, ERROR):
            self._db.execute(
                "INSERT INTO call (id, result, size) VALUES (?, ?, ?) ON CONFLICT (id)"
                " DO UPDATE SET result = excluded.result, size = excluded.size",
                (passage.call, record, len(passage.text)),
            )

    def _complete(self, call: str, fetch: Fetch | None) -> None:
        """Add the full text of a result of which the log holds only the beginning."""
        row = self._one("SELECT tool, result, size, path FROM call WHERE id = ?", call)
        if fetch is None or row is None or row[1] is None or not row[3]:
            return
        tool, record, size, path = row
        try:
            text = tidy(fetch(path).decode(errors="replace"))
        except TranscriptError:
            return
        if len(text) > size:
            self._db.execute("UPDATE call SET size = ? WHERE id = ?", (len(text), call))
            self._add_pieces(record, RESULT, tool, text)

    def _tool(self, call: str) -> str:
        row = self._one("SELECT tool FROM call WHERE id = ?", call) if call else None
        return str(row[0]) if row else ""

    # -- what a search asks; see `sevenfold.recall.search.Pieces` -----------------------------

    def count(self) -> int:
        """How many pieces there are."""
        return int(self._one("SELECT coalesce(max(id), 0) FROM piece")[0])

    def with_phrase(self, phrase: str, most: int) -> Iterator[Row]:
        """Pieces that have these words in a row, the shortest first."""
        return self._shortest("piece.id IN (SELECT rowid FROM words WHERE words MATCH ?)", phrase, most)

    def containing(self, needle: str, most: int) -> Iterator[Row]:
        """Pieces that contain a text anywhere, also within words, the shortest first."""
        for special in "\\%_":
            needle = needle.replace(special, "\\" + special)
        pattern = "%".join(["", *needle.split(), ""])
        return self._shortest("piece.text LIKE ? ESCAPE '\\'", pattern, most)

    def _shortest(self, condition: str, value: str, most: int) -> Iterator[Row]:
        statement = f"{_ROWS} WHERE {condition} ORDER BY piece.size, piece.id LIMIT ?"
        return map(_row, self._db.execute(statement, (value, most)))

    def among(self, pieces: Collection[int]) -> list[Row]:
        """The pieces with these numbers."""
        statement = f"{_ROWS} WHERE piece.id IN (SELECT value FROM json_each(?))"
        return [_row(found) for found in self._db.execute(statement, (json.dumps(list(pieces)),))]

    def postings(self, phrase: str, most: int) -> list[int]:
        """The numbers of pieces that have these words in a row."""
        found = self._db.execute("SELECT rowid FROM words WHERE words MATCH ? LIMIT ?", (phrase, most))
        return [piece for (piece,) in found]

    def piece(self, piece: int) -> IndexedPiece:
        """The piece with this number."""
        kind, tool, text, lane, place, timestamp, position = self._one(
            "SELECT kind, tool, text, lane, place, timestamp, offset"
            " FROM piece JOIN record ON record.id = piece.record WHERE piece.id = ?",
            piece,
        )
        return IndexedPiece(kind, tool, text, RecordPlace(lane, place), timestamp, position)

    def text(self, piece: int) -> str:
        """Its text alone."""
        return str(self._one("SELECT text FROM piece WHERE id = ?", piece)[0])

    def texts(self, record: int) -> Iterator[str]:
        """What a record says, piece by piece."""
        return (text for (text,) in self._db.execute("SELECT text FROM piece WHERE record = ?", (record,)))

    def near(self, lane: int, first: int, last: int) -> Iterator[tuple[str, str, str]]:
        """Records of a conversation by their numbers."""
        return self._db.execute(
            "SELECT uuid, kind, text FROM record JOIN piece ON piece.id ="
            " (SELECT min(id) FROM piece WHERE piece.record = record.id)"
            " WHERE lane = ? AND place BETWEEN ? AND ? ORDER BY place",
            (lane, first, last),
        )

    def after(self, piece: int, kinds: Sequence[str], most: int) -> list[tuple[int, str]]:
        """Numbers and texts of pieces of these kinds that came after one."""
        marks = ", ".join("?" * len(kinds))
        statement = f"SELECT id, text FROM piece WHERE id > ? AND kind IN ({marks}) ORDER BY id LIMIT ?"
        return self._db.execute(statement, (piece, *kinds, most)).fetchall()

    def vectors(self, weights: str) -> list[tuple[int, bytes]] | None:
        """The vectors of pieces that were made with these weights."""
        with suppress(sqlite3.OperationalError):
            if self._one("SELECT weights FROM vectors_by") == (weights,):
                return self._db.execute("SELECT piece, numbers FROM vector ORDER BY piece").fetchall()
        return None

    def begin_vectors(self, weights: str) -> None:
        """Forget all vectors; from now on those made with these weights are kept."""
        with suppress(sqlite3.OperationalError):
            self._db.executescript(_VECTORS)
            with self._db:
                self._db.execute("INSERT INTO vectors_by VALUES (0, ?)", (weights,))

    def add_vectors(self, made: Iterable[tuple[int, bytes]]) -> None:
        """Keep the vectors of pieces."""
        with suppress(sqlite3.OperationalError), self._db:
            self._db.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", made)


def _row(found: Sequence[Any]) -> Row:
    piece, record, uuid, kind, size, lane, number = found
    return Row(piece, record, uuid, kind, size, RecordPlace(lane, number))


def _some(lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """As many of the lines as are taken in at once."""
    room = BYTES_AT_ONCE
    for position, line in islice(lines, LINES_AT_ONCE):
        yield position, line
        room -= len(line)
        if room <= 0:
            break


def _whole(line: tuple[int, bytes]) -> bool:
    """Has it its end? If not it may still be growing, and is read again next time."""
    return line[1].endswith(b"\n")


def _opened(path: Path | None) -> Tables:
    """The tables in a file; in memory if there is none, or it cannot be written."""
    if path is not None:
        with suppress(OSError, sqlite3.DatabaseError):
            return Tables.in_file(path)
    return Tables.created(_IN_MEMORY)


def _connected(name: str) -> sqlite3.Connection:
    db = sqlite3.connect(name, timeout=WAIT_SECONDS, check_same_thread=False, uri=name.startswith("file:"))
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA cache_size = -32768")
    return db


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _no_place(error: sqlite3.Error) -> bool:
    """Is not the content at fault, but another process that keeps the file busy, or a full disk?"""
    return _code(error) in _NO_PLACE


def _remove(path: Path) -> None:
    for name in (path.name, path.name + "-journal"):
        path.with_name(name).unlink(missing_ok=True)


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=16).digest()
