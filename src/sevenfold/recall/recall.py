"""Recall as a session uses it: opened when it is first needed, and kept up to date while the session goes on.

Keeping up happens in a thread, a few lines at a time, and is never waited for. It begins when enough was written to be
worth a thread, and ends when all of it is read. It takes no more than half of the time, so the conversation keeps
the rest. Whatever goes wrong ends it for good: what it did not take in is caught up with when a search needs it, or
when a compaction is about to hide it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from time import perf_counter

from sevenfold.ports import FoundRecord, Log, Results
from sevenfold.recall.index import RecallIndex
from sevenfold.recall.meaning import ByMeaning, Way
from sevenfold.recall.search import Hit

_log = logging.getLogger(__name__)
BYTES_AT_ONCE = 64_000
"""What is left to be read when it is needed is hardly ever more, and is read in a few milliseconds."""


class Follower:
    """Takes small steps in a thread, as long as there is more to do."""

    def __init__(self, step: Callable[[], bool]) -> None:
        self._step = step
        self._over = Event()
        self._thread: Thread | None = None
        self._begun_at = 0

    def follow(self, written: int) -> None:
        """Begin if enough was written since the last time and nothing is under way; never waits, never raises."""
        busy = self._thread is not None and self._thread.is_alive()
        if busy or self._over.is_set() or written - self._begun_at < BYTES_AT_ONCE:
            return
        self._begun_at = written
        thread = Thread(target=self._run, daemon=True, name="sevenfold-recall")
        try:
            thread.start()
        except RuntimeError:
            # The system has no thread to give, or is shutting down.
            self._over.set()
        else:
            self._thread = thread

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
        index: Callable[[], RecallIndex] | None = None,
    ) -> None:
        """The index is kept in ``file``, or in memory; ``index`` makes another one."""
        self._make = index or (lambda: RecallIndex(log, file, fetch=results.fetch))
        self._index: RecallIndex | None = None
        self._opening = Lock()
        self._follower = Follower(lambda: self.index.catch_up_a_little())
        self._meaning = ByMeaning()

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
        scorers = self._meaning.scorers(by, switched_on=meant)
        self.catch_up()
        return self.index.search(query, kind=kind, k=k, scorers=scorers, words=by != "meaning")

    def found(self, query: str, kinds: Sequence[str], most: int) -> Sequence[FoundRecord]:
        """The records that fit best, of these kinds."""
        hits = self.index.search(query, kind=kinds or None, k=most, around=0)
        return [FoundRecord(hit.uuid, hit.exact) for hit in hits]

    def close(self) -> None:
        """Stop following, and close the index."""
        self._follower.close()
        if self._index is not None:
            self._index.close()
