"""What every log must do, whatever it keeps its lines in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.archive.rewrite import DraftLog
from sevenfold.errors import Refused
from sevenfold.ports import Log, LogIdentity
from sevenfold.record.decisions import Pin
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.log import BranchLog
from sevenfold.stores.marks import Mark, marks_of, text_with
from sevenfold.stores.memory import MemoryLog
from sevenfold.testing.logs import Answers, message
from tests.stores.records import records
from tests.stores.servers import in_postgres


def drafted(folder: Path) -> Log:
    """A draft after a file that exists and has nothing in it yet."""
    path = folder / "log.jsonl"
    path.touch()
    return DraftLog(path)


class IndexedLog(MemoryLog):
    """A log with an index that is exact: it yields the lines with a mark and no others."""

    def marked(self, mark: Mark, name: str = "", before: int | None = None) -> Iterator[tuple[int, bytes]]:
        for position, line in reversed(list(self.read())):
            if (before is None or position < before) and (mark, name) in set(marks_of(line)):
                yield position, line


MAKERS: dict[str, Callable[[Path], Log]] = {
    "memory": lambda folder: MemoryLog(),
    "jsonl": lambda folder: JsonlLog.open(folder / "log.jsonl"),
    "draft": drafted,
    "indexed": lambda folder: IndexedLog(),
    "postgres": lambda folder: in_postgres(folder).open("s"),
    "branch": lambda folder: BranchLog(MemoryLog(), JsonlLog.open(folder / "log.jsonl"), 0),
}


@pytest.fixture(params=MAKERS)
def log(request, tmp_path):
    made = MAKERS[request.param](tmp_path)
    yield made
    made.close()


def test_it_keeps_the_port(log):
    assert isinstance(log, Log)


def test_lines_come_back_in_order_and_byte_for_byte(log):
    lines = [b'{"a": 1.0}\n', b"not json\n", b"\n", "{}\u00e9\n".encode()]
    log.append(lines[:2])
    log.append(lines[2:], durable=True)
    assert [line for _, line in log.read()] == lines


def test_an_empty_log_has_no_lines(log):
    assert list(log.read()) == []
    Answers([]).check(log)


def test_append_returns_where_each_line_is(log):
    log.append([b"one\n"])
    positions = log.append([b"two\n", b"three\n"])
    assert [line for _, line in log.read(positions[0])] == [b"two\n", b"three\n"]
    assert [line for _, line in log.read(positions[1])] == [b"three\n"]
    assert list(log.append([])) == []


def test_every_position_is_a_place_to_read_from(log):
    log.append([b"one\n", b"two\n", b"three\n"])
    for place, (position, line) in enumerate(list(log.read())):
        assert next(log.read(position))[1] == line
        assert len(list(log.read(position))) == 3 - place


def test_reading_sees_what_was_appended_meanwhile(log):
    log.append([b"one\n"])
    log.append([b"two\n"])
    assert len(list(log.read())) == 2


def test_a_log_as_it_was_has_what_it_had_and_takes_nothing(log):
    log.append([b"one\n"])
    position = log.append([b"two\n"])[0]
    before = log.upto(position)
    log.append([b"three\n"])
    assert [line for _, line in before.read()] == [b"one\n"]
    with pytest.raises(Refused, match="earlier time"):
        before.append([b"four\n"])
    before.close()


LINES = st.lists(st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"") + b"\n"), max_size=20)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@given(batches=st.lists(LINES, max_size=5))
def test_any_lines_are_kept(make, batches, tmp_path_factory):
    log = make(tmp_path_factory.mktemp("log"))
    positions = [position for batch in batches for position in log.append(batch)]
    assert list(log.read()) == list(
        zip(positions, [one for batch in batches for one in batch], strict=True)
    )
    log.close()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@given(lines=st.lists(records(), max_size=12), cut=st.integers(0, 12))
def test_every_query_finds_what_looking_at_every_record_finds(make, lines, cut, tmp_path_factory):
    log = make(tmp_path_factory.mktemp("log"))
    positions = [*log.append(lines[:cut]), *log.append(lines[cut:])]
    there = list(zip(positions, lines, strict=True))
    Answers(there).check(log)
    if cut < len(lines):
        Answers(there[:cut]).check(log.upto(positions[cut]))
    log.close()


@pytest.mark.spec("S25.29")
def test_all_queries_but_that_for_a_text_use_the_index_of_marks_on_branches_too():
    class NeverSearched(IndexedLog):
        def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
            raise AssertionError(f"searched for {text!r}")

    parent = NeverSearched([message("u1", "", "user", "c1", what="result", sevenfold_key="k")])
    child = BranchLog(parent.upto(parent.end), NeverSearched(start=parent.end), parent.end)
    branch = BranchLog(child.upto(parent.end), NeverSearched(start=parent.end), parent.end)
    branch.append([message("u2", "u1", "assistant", "c2", what="call")])
    assert branch.keyed("k") == "u1"
    assert branch.result("c1") is not None
    assert branch.called("c2")
    assert branch.record("u1") is not None
    assert [said.uuid for said in branch.said()] == ["u2", "u1"]
    assert [said.uuid for said in branch.answers()] == ["u2"]
    assert branch.stored("c1") is None
    assert branch.decided_at("u1") is None
    assert list(branch.boundaries()) == []
    assert list(branch.decisions(Pin)) == []
    assert branch.identity() == LogIdentity()
    with pytest.raises(AssertionError, match="searched for b'about c1'"):
        branch.mentions("about c1")


@given(lines=st.lists(records(), max_size=12), cut=st.integers(0, 12))
def test_a_branch_answers_for_what_it_began_with_and_what_it_added(lines, cut):
    parent = MemoryLog(lines[:cut])
    branch = BranchLog(parent.upto(parent.end), MemoryLog(start=parent.end), parent.end)
    parent.append([b'{"type":"user","uuid":"a1"}\n'])
    branch.append(lines[cut:])
    whole = list(MemoryLog(lines).read())
    assert list(branch.read()) == whole
    Answers(whole).check(branch)


@given(line=records())
def test_a_line_contains_the_texts_that_are_searched_for_its_marks(line):
    assert all(text_with(mark, name) in line for mark, name in marks_of(line))
