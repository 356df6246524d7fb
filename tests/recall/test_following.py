"""What is said is indexed beside the conversation, which never waits for it and is never hurt by it."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from msgspec.structs import replace

import sevenfold
from sevenfold.ports import Log
from sevenfold.recall.index import LINES_IN_PASSING, WORTH_A_THREAD, Follower, RecallIndex, SessionRecall
from sevenfold.session import factory as opened
from sevenfold.session.factory import SessionParts
from sevenfold.stores.home import side_file
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.memory import MemoryLog
from tests.recall.making import harbour
from tests.session.talking import ALONE, BOUND, FREE, SHELL, calling, fake_reply, output
from tests.support import Story

ENOUGH = 30
"""Turns in which enough is said that recall begins to follow."""


def stored(settings: dict[str, object], file: Path | None) -> SessionParts:
    given = {**ALONE, **settings}
    return (
        opened.in_memory("s", given)
        if file is None
        else opened.on_disk("s", {"folder": file.parent, "file": file, "settings": given})
    )


def held(store: SessionParts, **options: Any) -> sevenfold.Session:
    given: Any = {"tools": [SHELL], **options}
    return sevenfold.Session(opened.conversation(store, given.pop("model", FREE), given), store)


def talk(session: sevenfold.Session, turns: int = ENOUGH, size: int = 200) -> None:
    """So many turns in one's own loop, each with a result of so many lines."""
    session.user("begin")
    for number in range(turns):
        _ = session.prepare().body
        session.observe(fake_reply(calling(f"t{number}"), number=number))
        session.tool_results({f"t{number}": output(f"line of part{number}z\n", size)})


# Following


@pytest.mark.spec("S10.2")
@pytest.mark.parametrize("where", ["memory", "file"])
def test_what_is_said_is_indexed_before_anybody_asks(where: str, tmp_path: Path) -> None:
    store = stored({}, tmp_path / "s.jsonl" if where == "file" else None)
    with held(store) as session:
        talk(session)
        session.settle(30)
        assert store.recall.index.search("part0z", kind="tool_result")
        assert side_file(tmp_path / "s.jsonl").exists() == (where == "file")


@pytest.mark.spec("S10.2")
def test_a_conversation_brought_in_is_indexed_at_once() -> None:
    store = stored({}, None)
    with held(store) as session:
        said = [
            {"role": role, "content": f"number{n}z " * 400}
            for n in range(40)
            for role in ("user", "assistant")
        ]
        session.messages(said)
        session.settle(30)
        assert store.recall.index.status().records == len(said)


@pytest.mark.spec("S10.2")
def test_for_those_who_await_it_is_the_same() -> None:
    async def main() -> None:
        store = stored({}, None)
        session = sevenfold.AsyncSession(held(store))
        await session.user("begin")
        for number in range(ENOUGH):
            _ = (await session.prepare()).body
            await session.observe(fake_reply(calling(f"t{number}"), number=number))
            await session.tool_results({f"t{number}": output(f"line of part{number}z\n", 200)})
        await session.settle(30)
        assert store.recall.index.search("part0z")
        await session.close()

    asyncio.run(main())


def test_it_can_be_switched_off_and_then_recall_reads_when_it_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with held(stored({"recall_ahead": False}, file)) as session:
        talk(session)
        session.settle(30)
        assert not side_file(file).exists()
        assert session.recall("part0z")


def test_a_short_session_makes_no_index_nobody_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with held(stored({}, file)) as session:
        talk(session, 3, 50)
        session.settle(30)
    assert not side_file(file).exists()


@pytest.mark.spec("S10.2", "S10.3")
def test_what_was_not_read_yet_is_caught_up_with_by_whoever_asks() -> None:
    with held(stored({}, None)) as session:
        talk(session, ENOUGH, 200)
        assert session.recall(f"part{ENOUGH - 1}z", kind="tool_result")


# While others write


@pytest.mark.parametrize("where", ["memory", "file"])
def test_records_written_while_it_reads_are_all_found(where: str, tmp_path: Path) -> None:
    log: Log = MemoryLog() if where == "memory" else JsonlLog.open(tmp_path / "s.jsonl")
    index = RecallIndex(log, side_file(tmp_path / "s.jsonl") if where == "file" else None)
    follower, story = Follower(index.catch_up_a_little), Story()
    written = 0
    for number in range(1_500):
        story.user(f"record number{number}z " * 5)
        log.append(story.lines[-1:])
        written += WORTH_A_THREAD if number % 40 == 0 else 0
        follower.follow(written)
    follower.settle(60)
    index.catch_up()
    assert index.status().records == 1_500
    assert [hit.position for hit in index.search("number777z")] == [778]
    follower.close()
    index.close()
    log.close()


def test_a_few_lines_at_a_time_come_to_the_same_as_all_at_once() -> None:
    lines = [line for _ in range(10) for line in harbour().lines]
    story = Story()
    for number in range(3 * LINES_IN_PASSING):
        story.user(f"record number{number}z")
    few, all_ = (
        RecallIndex(MemoryLog([*lines, *story.lines])),
        RecallIndex(MemoryLog([*lines, *story.lines])),
    )
    while few.catch_up_a_little():
        pass
    all_.catch_up()
    assert few.status().records == all_.status().records
    assert few.search("number7z clock_face") == all_.search("number7z clock_face")
    few.close()
    all_.close()


def test_lines_that_cannot_be_read_do_not_keep_it_busy() -> None:
    class Unreadable(MemoryLog):
        def read(self, start: int = 0) -> Any:
            return ((offset, b"") for offset, _ in super().read(start))

    index = RecallIndex(Unreadable(harbour().lines * 10))
    assert not index.catch_up_a_little()
    index.close()


# Whatever goes wrong


@pytest.mark.spec("S8.5")
def test_a_step_that_fails_ends_it_and_nobody_hears_of_it() -> None:
    calls = []

    def step() -> bool:
        calls.append(1)
        raise OSError("the disk is gone")

    follower = Follower(step)
    for times in range(1, 4):
        follower.follow(times * WORTH_A_THREAD)
        follower.settle(30)
    follower.close()
    assert calls == [1]


def test_it_ends_after_the_step_under_way_when_the_session_ends() -> None:
    begun, steps = Event(), []

    def step() -> bool:
        steps.append(1)
        begun.set()
        return True

    follower = Follower(step)
    follower.follow(WORTH_A_THREAD)
    assert begun.wait(30)
    follower.close()
    done = len(steps)
    follower.follow(9 * WORTH_A_THREAD)
    follower.settle(30)
    assert len(steps) == done


class Deaf(MemoryLog):
    """A log that can no longer be read."""

    def read(self, start: int = 0) -> Any:
        raise OSError("nobody can read this")


@pytest.mark.spec("S8.5", "S4.11")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_a_session_whose_index_cannot_be_made_goes_on_and_compacts(model: str) -> None:
    store = stored({}, None)
    deaf = SessionRecall(Deaf(), None, store.results)
    with held(replace(store, recall=deaf), model=model) as session:
        talk(session)
        session.settle(30)
        done = session.compact(engine="extractive")
        assert done is not None
        assert done.score.total.lost == 0
        talk(session, 2)


@pytest.mark.spec("S8.5")
@pytest.mark.parametrize("beside", [b"", b"nonsense" * 1_000])
def test_a_broken_index_is_mended_beside_the_conversation(beside: bytes, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    side_file(file).write_bytes(beside)
    store = stored({}, file)
    with held(store) as session:
        talk(session)
        session.settle(30)
        assert store.recall.index.search("part0z")


@pytest.mark.spec("S8.5")
def test_an_index_somebody_else_keeps_locked_is_left_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sevenfold.recall.tables.WAIT_SECONDS", 0.01)
    file = tmp_path / "s.jsonl"
    other = sqlite3.connect(side_file(file))
    other.execute("CREATE TABLE mine (x)")
    other.execute("BEGIN EXCLUSIVE")
    with held(stored({}, file)) as session:
        talk(session)
        session.settle(30)
        assert session.recall("part0z")
        assert session.compact(engine="extractive") is not None
    other.rollback()
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]
    other.close()


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.recall.index import RecallIndex
from sevenfold.stores.home import side_file

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file, already = Path(sys.argv[1]), sys.argv[2] == "already"
index = RecallIndex(JsonlLog(file), side_file(file))
if already:
    index.catch_up_a_little()
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
while index.catch_up_a_little():
    pass
assert index.search("number1z") and index.search("number999z"), "not found"
print(index.status().records)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files there")
@pytest.mark.spec("S8.5")
@pytest.mark.parametrize("begun", ["already", "not yet"])
def test_where_the_disk_takes_no_more_the_index_lives_in_memory(begun: str, tmp_path: Path) -> None:
    file, story = tmp_path / "s.jsonl", Story()
    for number in range(1_000):
        story.user(f"record number{number}z of many " * 10)
    file.write_bytes(b"".join(story.lines))
    assert run(FULL_DISK, [str(file), begun]) == "1000\n"


def run(program: str, arguments: Sequence[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
