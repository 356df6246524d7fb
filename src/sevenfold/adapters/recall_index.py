"""The index behind recall: a side file beside the transcript, or a database in memory.

The log is the truth and the index a convenience. It knows how far it has read; whatever is wrong with it
(missing, damaged, of another version, behind, or of a log that is no longer the same) is mended by reading
the log, and where its file cannot be written it lives in memory. So nothing here fails a session.

The file has a rollback journal, not a write-ahead log: there is one writer (who holds the transcript's lock)
and its writes are short, other processes read without leaving files behind, and SQLite before 3.51.3 can
damage a database when a write-ahead log starts over. Who only reads takes a copy into memory and brings that
up to date, so a file that is being written, or is not ours, is never touched.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import TypeVar

from sevenfold.adapters import recall_tables as tables
from sevenfold.adapters.recall_search import Search, Wanted
from sevenfold.adapters.recall_tables import Fetch
from sevenfold.errors import InputError
from sevenfold.memory import recall
from sevenfold.memory.recall import Hit, Scorer
from sevenfold.ports import Log
from sevenfold.record import entries
from sevenfold.record.entries import Entry

SUFFIX = ".recall.sqlite"
WAIT_SECONDS = 5.0
"""How long to wait for a process that is just writing or reading."""
LINES_AT_ONCE = 500
"""Lines that are indexed in one transaction: those who read need not wait longer."""

Progress = Callable[[int], None]
"""Told how far in the log the index has come."""

_T = TypeVar("_T")


def side_file(transcript: Path) -> Path:
    """Where the index of a transcript is kept."""
    return transcript.with_name(transcript.stem + SUFFIX)


class RecallIndex:
    """Everything a log says, ready to be searched; in memory unless a path is given."""

    def __init__(self, log: Log, path: Path | None = None, *, fetch: Fetch | None = None) -> None:
        self._log = log
        self._path = path
        self._fetch = fetch
        self._lock = RLock()
        self._db = _opened(path)

    @classmethod
    def for_reading(cls, log: Log, path: Path, *, fetch: Fetch | None = None) -> RecallIndex:
        """An index in memory that begins with what is in a side file, if there is one; nothing is written."""
        index = cls(log, fetch=fetch)
        if path.is_file():
            with suppress(sqlite3.DatabaseError):
                index._db = _copied(path)
        return index

    @property
    def size(self) -> int:
        """How many records are in it."""
        return self._safely(lambda: int(self._db.execute("SELECT count(*) FROM record").fetchone()[0]))

    def add(self, found: Iterable[tuple[int, Entry]]) -> int:
        """Take in entries with their offsets; says how many are new, those already here are passed over."""
        taken = list(found)
        return self._safely(lambda: self._add(taken))

    def catch_up(self, progress: Progress | None = None) -> int:
        """Read what was added to the log since last time; says how many records are new."""
        return self._safely(lambda: self._read_on(progress))

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
    ) -> list[Hit]:
        """Records that fit the query, the best first, at most ``k``; none if nothing fits.

        ``kind`` is one or more of `sevenfold.memory.passages.KINDS`. With ``only_hidden`` those in ``visible``
        are left out: the ids of the records the model still sees in full. Each hit comes with ``around``
        records before and after it.
        """
        if k < 1 or around < 0:
            raise InputError(
                f"recall cannot give {k} hits with {around} neighbours; ask for at least 1 and 0"
            )
        wanted = Wanted(recall.kinds(kind), k, visible if only_hidden else (), around, scorers)
        return self._safely(lambda: Search(self._db, query, wanted).hits())

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._db.close()

    def _safely(self, work: Callable[[], _T]) -> _T:
        """Do it; if the database is at fault, do it again with one made anew from the log."""
        with self._lock:
            try:
                return work()
            except sqlite3.ProgrammingError:
                raise
            except sqlite3.DatabaseError as error:
                # A file that somebody else keeps busy is left to them.
                self._start_over(leave_file=_busy(error))
                self._read_on(None)
                return work()

    def _start_over(self, *, leave_file: bool = False) -> None:
        self._db.close()
        if leave_file:
            self._path = None
        if self._path:
            _remove(self._path)
        self._db = _opened(self._path)

    def _add(self, found: Iterable[tuple[int, Entry]]) -> int:
        with self._db:
            return sum(tables.add(self._db, offset, entry, self._fetch) for offset, entry in found)

    def _read_on(self, progress: Progress | None) -> int:
        lines, new = self._unread(), 0
        while batch := list(islice(lines, LINES_AT_ONCE)):
            new += self._take(batch)
            if progress:
                progress(batch[-1][0])
        return new

    def _unread(self) -> Iterator[tuple[int, bytes]]:
        """The lines behind the last one that was read, if that is still there; else all of them."""
        known = self._db.execute("SELECT offset, digest FROM reached").fetchone()
        if known is None:
            return self._log.read()
        lines = self._log.read(known[0])
        offset, line = next(lines, (-1, b""))
        if (offset, _digest(line)) == known:
            return lines
        self._start_over()
        return self._log.read()

    def _take(self, batch: Sequence[tuple[int, bytes]]) -> int:
        with self._db:
            new = sum(
                tables.add(self._db, offset, entries.read(line), self._fetch) for offset, line in batch
            )
            # A line without its end may still be growing: it is read again next time.
            whole = [(offset, _digest(line)) for offset, line in batch if line.endswith(b"\n")]
            self._db.executemany("REPLACE INTO reached VALUES (0, ?, ?)", whole[-1:])
        return new


def _opened(path: Path | None) -> sqlite3.Connection:
    """The database in a file, made anew where it is damaged or of another version; else one in memory."""
    if path is not None:
        with suppress(OSError, sqlite3.DatabaseError):
            return _in_file(path)
    db = _connected(":memory:")
    tables.create(db)
    return db


def _in_file(path: Path, *, again: bool = False) -> sqlite3.Connection:
    path.touch(mode=0o600)
    db = _connected(str(path))
    try:
        if path.stat().st_size == 0:
            tables.create(db)
        _check_version(db)
    except sqlite3.DatabaseError as error:
        db.close()
        if again or _busy(error):
            raise
        _remove(path)
        return _in_file(path, again=True)
    return db


def _copied(path: Path) -> sqlite3.Connection:
    source = _connected(path.absolute().as_uri() + "?mode=ro")
    copy = _connected(":memory:")
    try:
        source.backup(copy)
        _check_version(copy)
    except sqlite3.DatabaseError:
        copy.close()
        raise
    finally:
        source.close()
    return copy


def _connected(name: str) -> sqlite3.Connection:
    db = sqlite3.connect(name, timeout=WAIT_SECONDS, check_same_thread=False, uri=name.startswith("file:"))
    db.execute("PRAGMA synchronous = NORMAL")
    return db


def _busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _check_version(db: sqlite3.Connection) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != tables.SCHEMA_VERSION:
        raise sqlite3.DatabaseError(f"the index has version {version}, not {tables.SCHEMA_VERSION}")


def _remove(path: Path) -> None:
    for name in (path.name, path.name + "-journal"):
        path.with_name(name).unlink(missing_ok=True)


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=16).digest()
