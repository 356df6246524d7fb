"""Keeping recall up to date beside a session: in a thread, a few lines at a time, never waited for.

It begins when enough was written to be worth a thread, and ends when all of it is read. It takes no more than half
of the time, so the conversation it runs beside keeps the rest. Whatever goes wrong ends it for good: what it did
not take in is caught up with when somebody looks for it, or when a compaction is about to hide it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread
from time import perf_counter

_log = logging.getLogger(__name__)
BYTES_AT_ONCE = 64_000
"""What is left to be read when it is needed is hardly ever more, and is read in a few milliseconds."""


class Follower:
    """Does small steps, beside whoever asks for them, as long as there is more to do."""

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
        """Wait for what is under way, at most so long."""
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
        except Exception:  # noqa: BLE001 (an index can be made again at any time, and nobody waits for this one)
            _log.info("recall no longer follows the session; it catches up when asked", exc_info=True)
            self._over.set()
