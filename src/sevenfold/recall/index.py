"""The index behind recall: one file per transcript, or a database in memory.

The log is the truth; the index is derived from it. It remembers how far it has read. If it is missing, damaged, behind,
of another version or of another log, it is repaired by reading the log; if its file cannot be written, it lives in
memory. So nothing here can make a session fail. Readers work on a private copy and bring that up to date: they never
touch a file that is being written, or that is not ours.

A session updates its index in a background thread, a few lines at a time, and never waits for it. The thread starts
once enough has been written to be worth it, and works at most half of the time, so the conversation keeps the rest.
After any error it stops for good; whatever it did not index is indexed when a search needs it, or when a compaction is
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

from sevenfold.errors import InputError, TranscriptError
from sevenfold.ports import FoundRecord, Log, Results, StoredIndex
from sevenfold.recall.meaning import MAX_PASSAGES, ByMeaning, Way, installed
from sevenfold.recall.search import Hit, Scorer, Search, SearchOptions, kinds
from sevenfold.recall.tables import IN_MEMORY, NAMELESS, Fetch, Reached, Tables, error_code, remove
from sevenfold.record import entries
from sevenfold.record.authorship import Queue
from sevenfold.record.entries import Entry
from sevenfold.record.redact import mask_bytes, mask_json

_log = logging.getLogger(__name__)
LINES_AT_ONCE = 500
"""Lines indexed in one transaction; the limit keeps readers from waiting long."""
BYTES_AT_ONCE = 4 * 1024 * 1024
"""Approximate bytes indexed in one transaction, so that memory use stays small however long the lines are."""
LINES_IN_PASSING = 20
"""Lines indexed per step in the background; small, because the conversation may need a search at any moment."""
WORTH_A_THREAD = 64_000
"""Bytes of new records that justify starting the thread; fewer are indexed in milliseconds when a search needs them."""

Progress = Callable[[int], None]
"""Called with the position in the log that the index has reached."""

_T = TypeVar("_T")
_NO_PLACE = frozenset(
    getattr(sqlite3, f"SQLITE_{name}")
    for name in ["BUSY", "LOCKED", "FULL", "IOERR", "READONLY", "CANTOPEN", "PERM"]
)
"""SQLite errors that a new file would not fix."""


class IndexStatus(Struct, frozen=True):
    """How much an index contains."""

    records: int
    passages: int
    """Pieces of conversation text, which can be compared by meaning."""
    vectors: int
    """How many of them have a vector."""


class RecallIndex:
    """A searchable index of everything said in a log; in memory unless a path is given."""

    def __init__(
        self,
        log: Log,
        path: Path | None = None,
        *,
        fetch: Fetch | None = None,
        masks: bool = False,
        stored: StoredIndex | None = None,
    ) -> None:
        """``masks``: mask secrets in the index, including those in the model's words.

        Without a ``path``, the index begins with what is ``stored``, and is stored there again when it is closed.
        """
        self._log = log
        self._masks = masks
        self._as_found = False
        """Whether to keep masking secrets, or not, just as the existing file does."""
        self._path = path
        self._fetch = fetch
        self._since = 0
        self._queue = Queue()
        self._lock = RLock()
        self._stored = stored if path is None else None
        self._tables = _opened(path, self._stored)
        self._saved = self._reached()

    @classmethod
    def for_reading(
        cls, log: Log, path: Path, *, fetch: Fetch | None = None, since: int = 0
    ) -> RecallIndex:
        """A private index for reading, which starts from a copy of the file, if it exists; the file is not changed.

        The copy may be large, so it is kept in an unnamed temporary database that disappears when closed. Whatever the
        copy lacks is read from the log, starting at ``since`` if there is no usable copy.
        """
        index = cls(log, fetch=fetch)
        index._since = since
        index._as_found = True
        index._tables.close()
        index._tables = Tables.created(NAMELESS)
        if path.is_file():
            with suppress(sqlite3.DatabaseError):
                index._tables = Tables.copied(path)
        return index

    def catch_up(self, progress: Progress | None = None) -> int:
        """Index what was appended to the log since last time; returns the number of new records."""
        return self._safely(lambda: self._read_on(progress))

    def catch_up_a_little(self) -> bool:
        """Index a few of the lines appended to the log; True if there may be more."""
        return self._safely(self._read_a_few)

    def status(self) -> IndexStatus:
        """How much the index contains."""
        return self._safely(lambda: IndexStatus(self._tables.records(), *self._tables.count_spoken()))

    def prepare(self, scorer: Scorer) -> bool:
        """Let a scorer do a small part of the work for its next search; True if there is more to do."""
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
        weak: bool = False,
    ) -> list[Hit]:
        """The records that match the query, best first, at most ``k``; empty if nothing matches well enough.

        With ``weak``, the nearest records are returned even then, marked as `Hit.weak`.

        ``kind`` is one or more of `sevenfold.recall.passages.KINDS`. ``visible`` has the ids of the records that the
        model still sees in full; with ``only_hidden`` they are skipped. Each hit comes with ``around`` records before
        and after it. ``scorers`` add to the score by words; if ``words`` is false, they replace it.
        """
        if k < 1 or around < 0:
            raise InputError(f"k must be at least 1 and around at least 0, got {k} and {around}")
        options = SearchOptions(
            kinds(kind), k, visible if only_hidden else (), around, scorers, words, weak
        )
        return self._safely(lambda: Search(self._tables, query, options).hits())

    def close(self) -> None:
        """Close the database; store the index first, if it has changed and is not in a file."""
        with self._lock:
            # No caller waits for an index: what is not stored is read from the log the next time.
            with suppress(sqlite3.DatabaseError, TranscriptError):
                if self._stored is not None and self._reached() != self._saved:
                    self._stored.write(self._tables.saved())
            self._tables.close()

    def _reached(self) -> Reached | None:
        """How far the log is indexed, as long as the index is kept by the store."""
        if self._stored is None:
            return None
        with suppress(sqlite3.DatabaseError):
            return self._tables.reached()
        return None

    def _safely(self, work: Callable[[], _T]) -> _T:
        """Do some work; after a database error, rebuild the index from the log and try once more."""
        with self._lock:
            try:
                return work()
            except sqlite3.ProgrammingError:
                raise
            except sqlite3.DatabaseError as error:
                if error_code(error) not in _NO_PLACE:
                    with suppress(sqlite3.DatabaseError):
                        return self._rebuild_and_retry(work, self._path)
                return self._rebuild_and_retry(work, None)

    def _rebuild_and_retry(self, work: Callable[[], _T], path: Path | None) -> _T:
        """Rebuild the index and do the work; without a path, in memory, leaving the old file alone."""
        self._path = path
        self._start_over()
        self._read_on(None)
        return work()

    def _start_over(self) -> None:
        self._tables.close()
        if self._path:
            remove(self._path)
        self._tables = _opened(self._path, None)

    def _read_on(self, progress: Progress | None) -> int:
        lines = self._unread()
        new_records = 0
        while batch := list(_some(lines)):
            new_records += self._take(batch)
            if progress:
                progress(batch[-1][0])
        return new_records

    def _read_a_few(self) -> bool:
        batch = list(islice(self._unread(), LINES_IN_PASSING))
        self._take(batch)
        # Without a complete line there is no progress: the same lines would be read forever.
        return len(batch) == LINES_IN_PASSING and any(map(_whole, batch))

    def _unread(self) -> Iterator[tuple[int, bytes]]:
        """The lines after the last one indexed, if that is still in the log; otherwise all, in a new index."""
        if (reached := self._tables.reached()) is not None:
            lines = self._log.read(reached[0])
            position, line = next(lines, (-1, b""))
            # The digest stored for the last line shows whether the index was built with masked secrets.
            for masks in (self._masks, not self._masks) if self._as_found else (self._masks,):
                if (position, _digest(line, masks)) == reached:
                    self._masks = masks
                    return lines
            self._start_over()
        return self._log.read(self._since)

    def _take(self, batch: Sequence[tuple[int, bytes]]) -> int:
        queued_and_read: list[tuple[int, Entry]] = []
        for position, line in batch:
            entry = entries.read(mask_json(line, whole=True).raw if self._masks else line)
            queued_and_read += (*self._queue.due(position, entry), (position, entry))
        last = next(filter(_whole, reversed(batch)), None)
        reached = None if last is None else (last[0], _digest(last[1], self._masks))
        return self._tables.add(queued_and_read, self._fetched if self._fetch else None, reached)

    def _fetched(self, path: str) -> bytes:
        assert self._fetch is not None
        content = self._fetch(path)
        return mask_bytes(content) if self._masks else content


def _some(lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """As many lines as are indexed in one transaction."""
    room = BYTES_AT_ONCE
    for position, line in islice(lines, LINES_AT_ONCE):
        yield position, line
        room -= len(line)
        if room <= 0:
            break


def _whole(line: tuple[int, bytes]) -> bool:
    """Whether a line is complete. If not, it may still be growing and is read again next time."""
    return line[1].endswith(b"\n")


def _opened(path: Path | None, stored: StoredIndex | None) -> Tables:
    """The tables in a file; in memory if there is no path or the file cannot be used, beginning with what is stored."""
    if path is not None:
        with suppress(OSError, sqlite3.DatabaseError):
            return Tables.in_file(path)
    if stored is not None:
        with suppress(sqlite3.DatabaseError, TranscriptError):
            content = stored.read()
            if content is not None:
                return Tables.restored(content)
    return Tables.created(IN_MEMORY)


def _digest(line: bytes, masked: bool) -> bytes:
    return blake2b(line, digest_size=16, person=b"masked" if masked else b"").digest()


# -- recall as a session uses it --------------------------------------------------------------


class Follower:
    """Runs a step repeatedly in a background thread, as long as there is more to do."""

    def __init__(self, step: Callable[[], bool]) -> None:
        self._step = step
        self._over = Event()
        self._thread: Thread | None = None
        self._begun_at = 0

    def follow(self, written: int) -> None:
        """Start if enough was written since the last start; never waits, never raises."""
        if written - self._begun_at >= WORTH_A_THREAD and self.begin():
            self._begun_at = written

    def begin(self) -> bool:
        """Start, unless already running or stopped for good; returns whether it started."""
        if self._over.is_set() or (self._thread is not None and self._thread.is_alive()):
            return False
        thread = Thread(target=self._run, daemon=True, name="sevenfold-recall")
        try:
            thread.start()
        except RuntimeError:
            # The system is out of threads, or is shutting down.
            self._over.set()
            return False
        self._thread = thread
        return True

    def settle(self, seconds: float) -> None:
        """Wait for the running thread, at most this many seconds."""
        if self._thread is not None:
            self._thread.join(seconds)

    def close(self) -> None:
        """Stop for good, after the current step."""
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
    """Recall for one session; a `sevenfold.ports.Recall`."""

    def __init__(
        self,
        log: Log,
        stored: StoredIndex | None,
        results: Results,
        *,
        masks: bool = False,
        index: Callable[[], RecallIndex] | None = None,
        vectors: int = MAX_PASSAGES,
    ) -> None:
        """Keep the index where it is ``stored``, or only in memory; ``masks`` masks secrets in it.

        ``index`` replaces the default way to create the index; ``vectors`` is the most passages that get a vector.
        """
        file = stored.file if stored is not None else None
        self._make = index or (
            lambda: RecallIndex(log, file, fetch=results.fetch, masks=masks, stored=stored)
        )
        self._index: RecallIndex | None = None
        self._opening = Lock()
        self._follower = Follower(self._step)
        self.meaning = ByMeaning(partial(installed, vectors))

    @property
    def index(self) -> RecallIndex:
        """The index, created on first use."""
        with self._opening:
            if self._index is None:
                self._index = self._make()
            return self._index

    def catch_up(self) -> None:
        """Index everything said so far."""
        self.index.catch_up()

    def follow(self, written: int) -> None:
        """Index new records in the background; see `sevenfold.ports.Recall`."""
        self._follower.follow(written)

    def settle(self, seconds: float) -> None:
        """Wait for background indexing, at most this many seconds."""
        self._follower.settle(seconds)

    def search(
        self,
        query: str,
        *,
        kind: str | None = None,
        k: int = 10,
        by: Way | None = None,
        meant: bool = True,
        weak: bool = False,
    ) -> list[Hit]:
        """Search everything said so far; ``meant`` includes meaning, if installed, and ``by`` overrides ``meant``.

        With ``weak``, the nearest records are returned, marked as such, if nothing matches well.
        """
        scorers = self.meaning.scorers(by, switched_on=meant)
        self.catch_up()
        hits = self.index.search(query, kind=kind, k=k, scorers=scorers, words=by != "meaning", weak=weak)
        if any(map(self.index.prepare, scorers)):
            self._follower.begin()
        return hits

    def _step(self) -> bool:
        """Index a few new records; if there are none, prepare vectors, once a search by meaning has asked for them."""
        scorer = self.meaning.loaded
        return self.index.catch_up_a_little() or (scorer is not None and self.index.prepare(scorer))

    def found(self, query: str, kinds: Sequence[str], most: int) -> Sequence[FoundRecord]:
        """The best matches of these kinds."""
        hits = self.index.search(query, kind=kinds or None, k=most, around=0)
        return [FoundRecord(hit.uuid, hit.exact) for hit in hits]

    def close(self) -> None:
        """Stop background indexing and close the index."""
        self._follower.close()
        if self._index is not None:
            self._index.close()
