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

from sevenfold.errors import InputError
from sevenfold.ports import Log
from sevenfold.recall import recall, tables
from sevenfold.recall.recall import Hit
from sevenfold.recall.search import Scorer, Search, Wanted
from sevenfold.recall.tables import Fetch
from sevenfold.record import entries
from sevenfold.record.entries import Entry
from sevenfold.stores.home import INDEX

WAIT_SECONDS = 5.0
"""How long to wait for a process that is just writing or reading."""
LINES_AT_ONCE = 500
"""Lines that are indexed in one transaction: those who read need not wait longer…"""
BYTES_AT_ONCE = 4 * 1024 * 1024
"""…and bytes, more or less: what is held at once stays small however long the lines are."""
PASSING = ""
"""What SQLite calls a database without a name: in memory while it is small, and deleted when it is closed."""
LINES_IN_PASSING = 20
"""The same beside a conversation, which may want to look something up at any moment."""

Progress = Callable[[int], None]
"""Told how far in the log the index has come."""

_T = TypeVar("_T")
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


def side_file(transcript: Path) -> Path:
    """Where the index of a transcript is kept."""
    return transcript.with_name(transcript.stem + INDEX)


class RecallIndex:
    """Everything a log says, ready to be searched; in memory unless a path is given."""

    def __init__(self, log: Log, path: Path | None = None, *, fetch: Fetch | None = None) -> None:
        self._log = log
        self._path = path
        self._fetch = fetch
        self._since = 0
        self._lock = RLock()
        self._db = _opened(path)

    @classmethod
    def for_reading(
        cls, log: Log, path: Path, *, fetch: Fetch | None = None, since: int = 0
    ) -> RecallIndex:
        """An index of its own that begins with what is in a side file, if there is one; that is left as it is.

        It may be large, so it is kept in a file without a name, which is gone when it is closed. What the side file
        does not know is read from the log, from ``since`` on.
        """
        index = cls(log, fetch=fetch)
        index._since = since
        index._db.close()
        index._db = _passing()
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
        records before and after it. ``scorers`` are heard beside the words; without ``words``, in their place.
        """
        if k < 1 or around < 0:
            raise InputError(
                f"recall cannot give {k} hits with {around} neighbours; ask for at least 1 and 0"
            )
        wanted = Wanted(recall.kinds(kind), k, visible if only_hidden else (), around, scorers, words)
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
                if not _no_place(error):
                    with suppress(sqlite3.DatabaseError):
                        return self._anew(work, self._path)
                return self._anew(work, None)

    def _anew(self, work: Callable[[], _T], path: Path | None) -> _T:
        """Do it with a database made anew, in memory where there is no path: then the file is left as it is."""
        self._path = path
        self._start_over()
        self._read_on(None)
        return work()

    def _start_over(self) -> None:
        self._db.close()
        if self._path:
            _remove(self._path)
        self._db = _opened(self._path)

    def _add(self, found: Iterable[tuple[int, Entry]]) -> int:
        with self._db:
            return sum(tables.add(self._db, offset, entry, self._fetch) for offset, entry in found)

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
        # Where none could be read to its end one would read the same lines again.
        return len(batch) == LINES_IN_PASSING and any(map(_whole, batch))

    def _unread(self) -> Iterator[tuple[int, bytes]]:
        """The lines behind the last one that was read, if that is still there; else all of them."""
        known = self._db.execute("SELECT offset, digest FROM reached").fetchone()
        if known is None:
            return self._log.read(self._since)
        lines = self._log.read(known[0])
        offset, line = next(lines, (-1, b""))
        if (offset, _digest(line)) == known:
            return lines
        self._start_over()
        return self._log.read(self._since)

    def _take(self, batch: Sequence[tuple[int, bytes]]) -> int:
        with self._db:
            new = sum(
                tables.add(self._db, offset, entries.read(line), self._fetch) for offset, line in batch
            )
            for offset, line in islice(filter(_whole, reversed(batch)), 1):
                self._db.execute("REPLACE INTO reached VALUES (0, ?, ?)", (offset, _digest(line)))
        return new


def _some(lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """As many of the lines as are taken in at once."""
    room = BYTES_AT_ONCE
    for offset, line in islice(lines, LINES_AT_ONCE):
        yield offset, line
        room -= len(line)
        if room <= 0:
            break


def _whole(line: tuple[int, bytes]) -> bool:
    """Has it its end? If not it may still be growing, and is read again next time."""
    return line[1].endswith(b"\n")


def _opened(path: Path | None) -> sqlite3.Connection:
    """The database in a file, made anew where it is damaged or of another version; else one in memory."""
    if path is not None:
        with suppress(OSError, sqlite3.DatabaseError):
            return _in_file(path)
    db = _connected(":memory:")
    tables.create(db)
    return db


def _passing() -> sqlite3.Connection:
    db = _connected(PASSING)
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
    copy = _connected(PASSING)
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
    db.execute("PRAGMA cache_size = -32768")
    return db


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _busy(error: sqlite3.Error) -> bool:
    return _code(error) == sqlite3.SQLITE_BUSY


def _no_place(error: sqlite3.Error) -> bool:
    """Is it not the content that is at fault, but that somebody keeps the file busy, or the disk takes no more?"""
    return _code(error) in _NO_PLACE


def _check_version(db: sqlite3.Connection) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != tables.SCHEMA_VERSION:
        raise sqlite3.DatabaseError(f"the index has version {version}, not {tables.SCHEMA_VERSION}")


def _remove(path: Path) -> None:
    for name in (path.name, path.name + "-journal"):
        path.with_name(name).unlink(missing_ok=True)


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=16).digest()
