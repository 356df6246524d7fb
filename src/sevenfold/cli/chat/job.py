"""The one thing a chat does at a time, in a thread of its own, and whatever went wrong in it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

LEAVING_SECONDS = 8.0
"""How long leaving waits for what is under way to come to its end."""


def no_more_interrupts() -> None:
    """From now on the program only writes out what must be whole, and ends; that takes a few seconds at most."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Job:
    """Runs work, one piece after the other."""

    def __init__(self, over: Callable[[BaseException | None], None]) -> None:
        self._over = over
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Is something under way?"""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, work: Callable[[], object]) -> None:
        """Start; ``over`` is told of the end, with the error if there was one."""

        def run() -> None:
            error = None
            try:
                work()
            except BaseException as wrong:  # noqa: BLE001 (handed to whoever shows it; nothing is hidden)
                error = wrong
            self._over(error)

        self._thread = threading.Thread(target=run, daemon=True, name="sevenfold-chat")
        self._thread.start()

    def wait(self, seconds: float = LEAVING_SECONDS) -> bool:
        """Wait for its end; says whether it came."""
        if self._thread is not None:
            self._thread.join(seconds)
        return not self.busy
