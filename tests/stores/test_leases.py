"""Leases that expire are renewed as long as their process lives."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from sevenfold.errors import TranscriptError, TranscriptOvertaken
from sevenfold.stores.leases import LeaseKeeper
from sevenfold.stores.memory import MemoryLog

pytestmark = pytest.mark.spec("S25.21")


class Leased(MemoryLog):
    """A log that counts how often its lease was renewed, and fails as told."""

    def __init__(self, failures: Sequence[Exception] = ()) -> None:
        super().__init__()
        self.renewals = 0
        self.twice = threading.Event()
        self._failures = list(failures)

    def renew(self) -> None:
        self.renewals += 1
        if self.renewals == 2:
            self.twice.set()
        if self._failures:
            raise self._failures.pop(0)


def test_a_lease_is_renewed_again_and_again_while_its_holder_is_silent() -> None:
    keeper, log = LeaseKeeper(0.01), Leased()
    keeper.keep(log)
    assert log.twice.wait(30)
    keeper.close()


def test_a_log_that_is_closed_or_overtaken_is_renewed_no_longer() -> None:
    keeper = LeaseKeeper(3600)
    closed, overtaken, failing = (
        Leased(),
        Leased([TranscriptOvertaken()]),
        Leased([TranscriptError("no"), OSError()]),
    )
    for log in (closed, overtaken, failing):
        keeper.keep(log)
    keeper.let_go(closed)
    for _ in range(3):
        keeper.renew()
    keeper.close()
    assert (closed.renewals, overtaken.renewals, failing.renewals) == (0, 1, 3)


def test_the_thread_ends_with_the_last_log_and_another_begins_with_the_next() -> None:
    waiting, go = threading.Semaphore(0), threading.Semaphore(0)

    def wait(seconds: float) -> None:
        assert seconds == 20
        waiting.release()
        go.acquire()

    others = set(threading.enumerate())
    keeper = LeaseKeeper(60, wait)
    log = Leased()
    keeper.keep(log)
    assert waiting.acquire(timeout=30)
    (thread,) = (
        thread
        for thread in threading.enumerate()
        if thread.name == "sevenfold-leases" and thread not in others
    )
    keeper.let_go(log)
    go.release()
    thread.join(30)
    assert not thread.is_alive()
    keeper.keep(log)
    assert waiting.acquire(timeout=30)
    go.release()
    assert waiting.acquire(timeout=30)
    assert log.renewals == 1
    keeper.close()
    go.release()
