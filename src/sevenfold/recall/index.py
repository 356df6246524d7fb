"""The index behind recall: a file of its own for each transcript, or a database in memory.

The log is the truth and the index a convenience. It knows how far it has read; whatever is wrong with it
(missing, damaged, of another version, behind, or of a log that is no longer the same) is repaired by reading
the log, and where its file cannot be written it lives in memory. So nothing here fails a session. Readers take a copy
into memory and bring that up to date, so a file that is being written, or is not ours, is never touched.

A session keeps its index up to date in a thread, a few lines at a time, and never waits for it. That begins when enough
was written to be worth a thread, and takes no more than half of the time, so the conversation keeps the rest. Whatever
goes wrong ends it for good: what it did not take in is caught up with when a search needs it, or when a compaction is
about to hide it.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import Event, Lock, RLock, Thread
from time import perf_counter
from typing import TypeVar

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.ports import FoundRecord, Log, Results
from sevenfold.recall.meaning import MOST, ByMeaning, Way, installed
from sevenfold.recall.search import Hit, Scorer, Search, SearchOptions, kinds
from sevenfold.recall.tables import IN_MEMORY, NAMELESS, Fetch, Tables, error_code, remove
from sevenfold.record import entries
from sevenfold.record.authorship import Queue
from sevenfold.record.entries import Entry
from sevenfold.record.redact import mask_bytes, mask_json

_log = logging.getLogger(__name__)
LINES_AT_ONCE = 500
"""Lines that are indexed in one transaction, so that readers need not wait longer."""
BYTES_AT_ONCE = 4 * 1024 * 1024
"""Bytes, more or less: what is held at once stays small however long the lines are."""
LINES_IN_PASSING = 20
"""Lines at once while a conversation is going on, which may want to look something up at any moment."""
WORTH_A_THREAD = 64_000
"""Bytes. What is left to be read when it is needed is hardly ever more, and is read in a few milliseconds."""

Progress = Callable[[int], None]
"""Called with the position in the log that the index has reached."""

_T = TypeVar("_T")
_NO_PLACE = frozenset(
    getattr(sqlite3, f"SQLITE_{name}")
    for name in ["BUSY", "LOCKED", "FULL", "IOERR", "READONLY", "CANTOPEN", "PERM"]
)
"""Errors of SQLite after which a new file would fare no better."""


class IndexStatus(Struct, frozen=True):
    """How much is in an index."""

    records: int
    passages: int
    """Those of what was said, which can be compared by meaning."""
    vectors: int
    """How many of them have a vector already."""


class RecallIndex:
    """Everything a log says, ready to be searched; in memory unless a path is given."""

    def __init__(
        self, log: Log, path: Path | None = None, *, fetch: Fetch | None = None, masks: bool = False
    ) -> None:
        """``masks``: secrets are masked in it, those in the model's words too."""
        self._log = log
        self._masks = masks
        self._as_found = False
        """Does it go on as the file was begun, with secrets masked or not?"""
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
        index._since, index._as_found = since, True
        index._tables.close()
        index._tables = Tables.created(NAMELESS)
        if path.is_file():
            with suppress(sqlite3.DatabaseError):
                index._tables = Tables.copied(path)
        return index

    def catch_up(self, progress: Progress | None = None) -> int:
        """Read what was added to the log since last time; says how many records are new."""
        return self._safely(lambda: self._read_on(progress))

    def catch_up_a_little(self) -> bool:
        """Read a few of the lines that were added to the log; True if there are more."""
        return self._safely(self._read_a_few)

    def status(self) -> IndexStatus:
        """How much is in it."""
        return self._safely(lambda: IndexStatus(self._tables.records(), *self._tables.count_spoken()))

    def prepare(self, scorer: Scorer) -> bool:
        """Let a scorer do a little of what its next search needs; True if there is more of it."""
        return self._safely(lambda: scorer.prepare(self._tables))

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
                if error_code(error) not in _NO_PLACE:
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
            remove(self._path)
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
        if (known := self._tables.reached()) is not None:
            lines = self._log.read(known[0])
            position, line = next(lines, (-1, b""))
            # An index that was made with secrets in it, or without, is known by what it says of the last line.
            for masks in (self._masks, not self._masks) if self._as_found else (self._masks,):
                if (position, _digest(line, masks)) == known:
                    self._masks = masks
                    return lines
            self._start_over()
        return self._log.read(self._since)

    def _take(self, batch: Sequence[tuple[int, bytes]]) -> int:
        found: list[tuple[int, Entry]] = []
        for position, line in batch:
            entry = entries.read(mask_json(line, whole=True).raw if self._masks else line)
            found += (*self._queue.due(position, entry), (position, entry))
        last = next(filter(_whole, reversed(batch)), None)
        reached = None if last is None else (last[0], _digest(last[1], self._masks))
        return self._tables.add(found, self._fetched if self._fetch else None, reached)

    def _fetched(self, path: str) -> bytes:
        assert self._fetch is not None
        content = self._fetch(path)
        return mask_bytes(content) if self._masks else content


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
    return Tables.created(IN_MEMORY)


def _digest(line: bytes, masked: bool) -> bytes:
    return blake2b(line, digest_size=16, person=b"masked" if masked else b"").digest()


# -- recall as a session uses it --------------------------------------------------------------


class Follower:
    """Takes small steps in a thread, as long as there is more to do."""

    def __init__(self, step: Callable[[], bool]) -> None:
        self._step = step
        self._over = Event()
        self._thread: Thread | None = None
        self._begun_at = 0

    def follow(self, written: int) -> None:
        """Begin if enough was written since the last time; never waits, never raises."""
        if written - self._begun_at >= WORTH_A_THREAD and self.begin():
            self._begun_at = written

    def begin(self) -> bool:
        """Begin, unless it is under way or over; says whether it did."""
        if self._over.is_set() or (self._thread is not None and self._thread.is_alive()):
            return False
        thread = Thread(target=self._run, daemon=True, name="sevenfold-recall")
        try:
            thread.start()
        except RuntimeError:
            # The system has no thread to give, or is shutting down.
            self._over.set()
            return False
        self._thread = thread
        return True

    def settle(self, seconds: float) -> None:
        """Wait for what is under way, at most this long."""
        if self._thread is not None:
            self._thread.join(seconds)

    def close(self) -> None:
        """End after the step under way."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                began = perf_counter()
                if not self._step():
                    return
                self._over.wait(perf_counter() - began)
        except Exception:  # noqa: BLE001 (an index can be made again at any time)
            _log.info("recall no longer follows the session; it catches up when asked", exc_info=True)
            self._over.set()


class SessionRecall:
    """Finds again what a session said; a `sevenfold.ports.Recall`."""

    def __init__(
        self,
        log: Log,
        file: Path | None,
        results: Results,
        *,
        masks: bool = False,
        index: Callable[[], RecallIndex] | None = None,
        vectors: int = MOST,
    ) -> None:
        """The index is kept in ``file``, or in memory, with secrets masked or not; ``index`` makes another one.

        ``vectors``: passages that get a vector at most.
        """
        self._make = index or (lambda: RecallIndex(log, file, fetch=results.fetch, masks=masks))
        self._index: RecallIndex | None = None
        self._opening = Lock()
        self._follower = Follower(self._step)
        self.meaning = ByMeaning(partial(installed, vectors))

    @property
    def index(self) -> RecallIndex:
        """The index itself."""
        with self._opening:
            if self._index is None:
                self._index = self._make()
            return self._index

    def catch_up(self) -> None:
        """Take in everything that was said up to now."""
        self.index.catch_up()

    def follow(self, written: int) -> None:
        """Take in what is new while the conversation goes on; see `sevenfold.ports.Recall`."""
        self._follower.follow(written)

    def settle(self, seconds: float) -> None:
        """Wait for what is being taken in, at most this long."""
        self._follower.settle(seconds)

    def search(
        self, query: str, *, kind: str | None = None, k: int = 10, by: Way | None = None, meant: bool = True
    ) -> list[Hit]:
        """Look for it in everything that was said up to now; by meaning too if that is ``meant`` and installed."""
        scorers = self.meaning.scorers(by, switched_on=meant)
        self.catch_up()
        hits = self.index.search(query, kind=kind, k=k, scorers=scorers, words=by != "meaning")
        if any(map(self.index.prepare, scorers)):
            self._follower.begin()
        return hits

    def _step(self) -> bool:
        """Take in a little of what is new, or go on with what searches by meaning need, if there were any."""
        scorer = self.meaning.loaded
        return self.index.catch_up_a_little() or (scorer is not None and self.index.prepare(scorer))

    def found(self, query: str, kinds: Sequence[str], most: int) -> Sequence[FoundRecord]:
        """The records that fit best, of these kinds."""
        hits = self.index.search(query, kind=kinds or None, k=most, around=0)
        return [FoundRecord(hit.uuid, hit.exact) for hit in hits]

    def close(self) -> None:
        """Stop following, and close the index."""
        self._follower.close()
        if self._index is not None:
            self._index.close()
