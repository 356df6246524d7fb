"""A search index that is in no file is kept by the store of its session."""

from __future__ import annotations

from typing import Any

import pytest

import sevenfold
from sevenfold.recall.index import RecallIndex
from sevenfold.stores.memory import MemoryStore

MODEL = "claude-sonnet-5-5"


class CountingLog:
    """A log that counts the lines that were read from it."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.lines = 0

    def read(self, start: int = 0) -> Any:
        for line in self._log.read(start):
            self.lines += 1
            yield line


def talk(store: MemoryStore, *messages: str, **options: Any) -> None:
    with sevenfold.Session.open("s", model=MODEL, store=store, **options) as session:
        for message in messages:
            session.user(message)
        session.recall("harbour")


@pytest.mark.spec("S25.25")
def test_an_index_is_stored_when_a_session_closes_and_is_not_made_again() -> None:
    store = MemoryStore()
    talk(store, *(f"The harbour opens at {hour}." for hour in range(20)))
    log = CountingLog(store.read("s"))
    index = RecallIndex(log, stored=store.recall_index("s"))  # type: ignore[arg-type]
    index.catch_up()
    assert log.lines == 1  # the last one it knows
    assert len(index.search("harbour", k=5)) == 5
    index.close()


@pytest.mark.spec("S25.25")
@pytest.mark.parametrize("damage", [b"", b"no database", b"SQLite format 3\x00" + b"\xff" * 4096])
def test_a_damaged_index_is_made_again(damage: bytes) -> None:
    store = MemoryStore()
    talk(store, "The harbour opens at nine.")
    whole = store.recall_index("s").read()
    assert whole is not None
    store.recall_index("s").write(damage or whole[: len(whole) // 2])
    with sevenfold.Session.open("s", model=MODEL, store=store) as session:
        assert len(session.recall("harbour")) == 1


@pytest.mark.spec("S25.25")
def test_an_index_with_secrets_is_not_used_once_they_are_masked() -> None:
    store = MemoryStore()
    key = "sk-ant-" + "a1B2" * 12
    talk(store, f"The harbour key is {key}.", settings={"redaction": "off"})
    assert key.encode() in (store.recall_index("s").read() or b"")
    talk(store, settings={"redaction": "gate"})
    assert key.encode() not in (store.recall_index("s").read() or b"")


@pytest.mark.spec("S25.25")
def test_a_fork_searches_an_index_of_its_own() -> None:
    store = MemoryStore()
    talk(store, "The harbour opens at nine.")
    talk(store, "The harbour closes at ten.", branch="fork")
    assert store.recall_index("s", "fork").read() is not None
    with sevenfold.Session.open("s", model=MODEL, store=store) as session:
        assert len(session.recall("harbour")) == 1
    with sevenfold.Session.open("s", model=MODEL, store=store, branch="fork") as session:
        assert len(session.recall("harbour")) == 2
