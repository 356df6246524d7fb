"""Leases that expire, for stores that several machines share: no other machine can see whether a writer is alive.

A writer has to show that it lives, also while its user thinks for an hour. So such a store renews the leases of all its
open logs in the background, and only those of a process that died or was stopped expire.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from weakref import WeakSet

from sevenfold.errors import TranscriptOvertaken
from sevenfold.ports import Log

_log = logging.getLogger(__name__)
RENEWALS = 3
"""How many times a lease is renewed before it would expire, so that one failure does not lose it."""


class LeaseKeeper:
    """Renews the leases of a store's open logs from one thread, which runs as long as there are any."""

    def __init__(self, seconds: float, wait: Callable[[float], object] | None = None) -> None:
        """``seconds`` is how long a lease lasts; ``wait`` waits that long, until `close` at most."""
        self._closed = threading.Event()
        self._seconds = seconds / RENEWALS
        self._wait = wait or self._closed.wait
        self._logs: WeakSet[Log] = WeakSet()
        self._lock = threading.Lock()
        self._running = False

    def keep(self, log: Log) -> None:
        """Renew the lease of a log that was opened, until it is let go."""
        with self._lock:
            self._logs.add(log)
            if self._running or self._closed.is_set():
                return
            self._running = True
        threading.Thread(target=self._run, daemon=True, name="sevenfold-leases").start()

    def let_go(self, log: Log) -> None:
        """Renew the lease of a log no longer, because it is closed."""
        with self._lock:
            self._logs.discard(log)

    def close(self) -> None:
        """Renew nothing any more."""
        self._closed.set()

    def renew(self) -> None:
        """Renew all leases once."""
        with self._lock:
            logs = list(self._logs)
        for log in logs:
            try:
                log.renew()
            except TranscriptOvertaken:
                self.let_go(log)  # its next append says so
            except Exception:  # noqa: BLE001 (a store may fail in any way, and the next renewal may succeed)
                _log.info("a lease could not be renewed", exc_info=True)

    def _run(self) -> None:
        while True:
            self._wait(self._seconds)
            with self._lock:
                if not self._logs or self._closed.is_set():
                    self._running = False
                    return
            self.renew()
