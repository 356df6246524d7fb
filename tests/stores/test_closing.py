"""Who opened a store closes it."""

from __future__ import annotations

import pytest

import sevenfold
from sevenfold.errors import TranscriptLocked
from sevenfold.stores.memory import MemoryStore
from sevenfold.stores.registry import register

MODEL = "claude-sonnet-5-5"


class Closing(MemoryStore):
    """A store that knows whether it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.mark.spec("S25.28")
def test_a_store_is_closed_with_its_session_if_it_was_opened_for_it() -> None:
    store = Closing()
    register("closing", lambda url: store)
    with sevenfold.Session.open("s", model=MODEL, store="closing://here") as session:
        session.user("Hello.")
        assert store.closed == 0
        with pytest.raises(TranscriptLocked):
            sevenfold.Session.open("s", model=MODEL, store="closing://here")
        assert store.closed == 1  # it could not be opened
    assert store.closed == 2


@pytest.mark.spec("S25.28")
def test_a_store_that_the_caller_made_is_the_callers_to_close() -> None:
    store = Closing()
    with sevenfold.Session.open("s", model=MODEL, store=store) as session:
        session.user("Hello.")
    assert store.closed == 0
