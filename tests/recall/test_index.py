"""The index is a convenience: whatever becomes of it, the log makes it good again."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from sevenfold.errors import ResultMissing
from sevenfold.recall.index import LINES_AT_ONCE, RecallIndex
from sevenfold.record.decisions import Offloaded
from sevenfold.record.entries import Decision, Entry
from sevenfold.stores.home import side_file
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.memory import MemoryLog
from tests.recall.making import harbour, read
from tests.support import Story, answer, call, result, transcript

Open = Callable[[], RecallIndex]


@pytest.fixture(params=["memory", "file"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Story, Open]]:
    """A session and how to open an index of it."""
    story, opened = harbour(), []

    def open_index() -> RecallIndex:
        path = tmp_path / "s.recall.sqlite" if request.param == "file" else None
        opened.append(RecallIndex(MemoryLog(story.lines), path))
        return opened[-1]

    yield story, open_index
    for index in opened:
        index.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A transcript on disk."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(harbour().lines))
    return path


def add(index: RecallIndex, found: Iterable[tuple[int, Entry]]) -> int:
    return index._tables.add(list(found), index._fetch)


def holds(index: RecallIndex, query: str = "clock_face") -> bool:
    return any(hit.exact for hit in index.search(query))


# Every index


def test_entries_are_searchable_as_soon_as_they_are_added(kept: tuple[Story, Open]) -> None:
    story, open_index = kept
    index = open_index()
    assert not holds(index)
    assert add(index, read(story)) == len(story.lines) == index.status().records
    assert holds(index)


def test_what_is_added_twice_is_there_once(kept: tuple[Story, Open]) -> None:
    story, open_index = kept
    index = open_index()
    add(index, read(story))
    assert (add(index, read(story)), index.catch_up(), index.status().records) == (0, 0, len(story.lines))
    assert len(index.search("clock_face")) == 1


def test_hits_say_where_in_the_log_they_stand(kept: tuple[Story, Open]) -> None:
    story, open_index = kept
    index = open_index()
    index.catch_up()
    (hit,) = index.search("clock_face")
    assert next(MemoryLog(story.lines).read(hit.offset))[1] == story.lines[2]


def test_damaged_lines_and_decisions_are_passed_over(kept: tuple[Story, Open]) -> None:
    story, open_index = kept
    story.raw(b'{"type":"user","uuid":')
    story.boundary()
    story.user("afterwards")
    index = open_index()
    index.catch_up()
    assert holds(index, "afterwards")


# Catching up


def test_only_what_is_new_is_read(file: Path) -> None:
    class Counted(JsonlLog):
        lines = 0

        def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
            for line in super().read(start):
                self.lines += 1
                yield line

    log = Counted(file)
    index = RecallIndex(log)
    assert index.catch_up() == 10
    log.lines = 0
    more = Story()
    more.user("one thing more")
    with file.open("ab") as out:
        out.write(more.lines[0])
    assert (index.catch_up(), log.lines) == (1, 2)
    assert holds(index, "one thing more")


def test_an_index_left_behind_by_a_crash_catches_up(file: Path) -> None:
    first = RecallIndex(JsonlLog(file), side_file(file))
    first.catch_up()
    first.close()
    more = Story()
    more.user("written while nobody indexed", uuid="late")
    with file.open("ab") as out:
        out.write(more.lines[0])
    second = RecallIndex(JsonlLog(file), side_file(file))
    assert (second.catch_up(), holds(second, "nobody indexed")) == (1, True)
    second.close()


def test_a_line_that_is_still_being_written_is_read_when_it_is_whole(file: Path) -> None:
    more = Story()
    more.user("cut in the middle", uuid="torn")
    more.user("and the next", uuid="next")
    half = len(more.lines[0]) // 2
    with file.open("ab") as out:
        out.write(more.lines[0][:half])
    index = RecallIndex(JsonlLog(file))
    assert index.catch_up() == 10
    with file.open("ab") as out:
        out.write(more.lines[0][half:] + more.lines[1])
    assert index.catch_up() == 2
    assert holds(index, "cut in the middle")


def test_a_process_killed_while_indexing_leaves_an_index_that_can_be_finished(file: Path) -> None:
    story = Story()
    for number in range(3 * LINES_AT_ONCE):
        story.user(f"record number {number}", uuid=f"r{number}")
    file.write_bytes(b"".join(story.lines))
    script = (
        "import os, sys; from pathlib import Path\n"
        "from sevenfold.stores.jsonl.log import JsonlLog\n"
        "from sevenfold.recall.index import RecallIndex\n"
        "from sevenfold.stores.home import side_file\n"
        "path = Path(sys.argv[1])\n"
        "calls = []\n"
        "def stop(reached):\n"
        "    calls.append(reached)\n"
        "    if len(calls) == 2: os._exit(9)\n"
        "RecallIndex(JsonlLog(path), side_file(path)).catch_up(stop)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(file)], check=False).returncode == 9
    index = RecallIndex(JsonlLog(file), side_file(file))
    assert index.status().records == 2 * LINES_AT_ONCE
    assert index.catch_up() == LINES_AT_ONCE
    assert all(holds(index, f"record number {number}") for number in (0, 700, 1400))
    index.close()


def test_progress_is_told_in_places_of_the_log() -> None:
    story = Story()
    for number in range(2 * LINES_AT_ONCE + 1):
        story.user(str(number))
    reached: list[int] = []
    RecallIndex(MemoryLog(story.lines)).catch_up(reached.append)
    offsets = [offset for offset, _ in MemoryLog(story.lines).read()]
    assert reached == [offsets[LINES_AT_ONCE - 1], offsets[2 * LINES_AT_ONCE - 1], offsets[-1]]


# Never trusted over the log


def test_another_log_in_the_same_place_makes_the_index_start_over(file: Path) -> None:
    index = RecallIndex(JsonlLog(file), side_file(file))
    index.catch_up()
    other = Story()
    other.user("an entirely different talk")
    file.write_bytes(other.lines[0])
    assert index.catch_up() == 1
    assert holds(index, "entirely different")
    assert not holds(index)
    index.close()


@pytest.mark.parametrize("damage", [b"", b"this is no database" * 100, None])
def test_a_missing_or_damaged_side_file_is_made_again(file: Path, damage: bytes | None) -> None:
    index = RecallIndex(JsonlLog(file), side_file(file))
    index.catch_up()
    index.close()
    if damage is None:
        side_file(file).unlink()
    else:
        side_file(file).write_bytes(damage)
    index = RecallIndex(JsonlLog(file), side_file(file))
    assert index.catch_up() == 10
    assert holds(index)
    index.close()


def test_damage_found_during_a_search_is_mended_from_the_log(file: Path) -> None:
    index = RecallIndex(JsonlLog(file), side_file(file))
    index.catch_up()
    index.close()
    whole = side_file(file).read_bytes()
    side_file(file).write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    index = RecallIndex(JsonlLog(file), side_file(file))
    assert holds(index)
    assert index.catch_up() == 0
    index.close()


def test_an_index_of_another_version_is_made_again(file: Path) -> None:
    with sqlite3.connect(side_file(file)) as db:
        db.execute("CREATE TABLE record (something_else)")
        db.execute("PRAGMA user_version = 99")
    db.close()
    index = RecallIndex(JsonlLog(file), side_file(file))
    assert index.catch_up() == 10
    assert holds(index)
    index.close()


def test_where_no_file_can_be_written_the_index_lives_in_memory(file: Path, tmp_path: Path) -> None:
    index = RecallIndex(JsonlLog(file), tmp_path / "no such folder" / "x.sqlite")
    assert index.catch_up() == 10
    assert holds(index)
    index.close()


def test_a_file_that_another_process_keeps_locked_is_left_to_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sevenfold.recall.tables.WAIT_SECONDS", 0.01)
    index = RecallIndex(JsonlLog(file), side_file(file))
    other = sqlite3.connect(side_file(file))
    other.execute("BEGIN EXCLUSIVE")
    index.catch_up()
    assert index.status().records == 10
    assert holds(index)
    other.rollback()
    assert other.execute("SELECT count(*) FROM record").fetchone() == (0,)
    other.close()
    index.close()


@pytest.mark.skipif(os.name == "nt", reason="permissions are not bits there")
def test_the_side_file_is_for_its_owner_alone(file: Path) -> None:
    index = RecallIndex(JsonlLog(file), side_file(file))
    index.catch_up()
    assert side_file(file).stat().st_mode & 0o077 == 0
    index.close()


# Reading beside a writer


def test_a_reader_sees_all_of_the_log_and_leaves_no_trace(file: Path) -> None:
    writer = RecallIndex(JsonlLog(file), side_file(file))
    writer.catch_up()
    more = Story()
    more.user("newer than the index")
    with file.open("ab") as out:
        out.write(more.lines[0])
    before = {path.name: path.read_bytes() for path in file.parent.iterdir()}
    reader = RecallIndex.for_reading(JsonlLog(file), side_file(file))
    assert reader.catch_up() == 1
    assert holds(reader)
    assert holds(reader, "newer than the index")
    assert {path.name: path.read_bytes() for path in file.parent.iterdir()} == before
    assert writer.catch_up() == 1
    writer.close()
    reader.close()


@pytest.mark.parametrize("beside", [b"", b"nonsense" * 1000, None])
def test_a_reader_needs_no_side_file(file: Path, beside: bytes | None) -> None:
    if beside is not None:
        side_file(file).write_bytes(beside)
    reader = RecallIndex.for_reading(JsonlLog(file), side_file(file))
    assert reader.catch_up() == 10
    assert side_file(file).exists() is (beside is not None)
    assert holds(reader)
    reader.close()


# A live session, and results that were moved out


def test_a_session_is_indexed_as_it_is_written() -> None:
    log = MemoryLog()
    script, index = transcript(log), RecallIndex(log)
    for number in range(5):
        script.model(answer(f"step {number} is done", id=f"m{number}"))
        assert index.catch_up() == 1
        assert holds(index, f"step {number} is done")


@pytest.mark.parametrize("decided", ["before", "after"])
def test_the_full_text_of_a_result_that_was_moved_out_is_found(decided: str) -> None:
    story = Story()
    story.assistant(call("t1", "Bash", command="make"))
    asked = read(story)
    story.user([result("t1", "The beginning of it [more on disk]")], uuid="preview")
    answered = read(story)[1:]
    moved: list[tuple[int, Entry]] = [
        (0, Decision(Offloaded(id="d", tool_use_id="t1", preview="", path="p/t1.txt", size=1, sha256="")))
    ]
    stored = {"p/t1.txt": b"The beginning of it " + b"and on " * 2_000 + b"error LNK2019 at the end"}
    index = RecallIndex(MemoryLog(), fetch=stored.__getitem__)
    add(index, [*asked, *(moved + answered if decided == "before" else answered + moved)])
    add(index, moved)
    (hit,) = index.search("LNK2019")
    assert (hit.uuid, hit.kind, hit.tool) == ("preview", "tool_result", "Bash")


def test_a_result_that_is_gone_leaves_its_preview() -> None:
    def missing(path: str) -> bytes:
        raise ResultMissing(path)

    story = Story()
    story.user([result("t1", "The beginning")], uuid="preview")
    index = RecallIndex(MemoryLog(), fetch=missing)
    moved = Decision(Offloaded(id="d", tool_use_id="t1", preview="", path="p", size=1, sha256=""))
    add(index, [*read(story), (0, moved)])
    assert holds(index, "The beginning")
