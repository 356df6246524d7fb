"""What every log must do, whatever it keeps its lines in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.archive.rewrite import DraftLog
from sevenfold.errors import Refused
from sevenfold.ports import Log
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.log import BranchLog
from sevenfold.stores.memory import MemoryLog
from tests.stores.records import Model, records


def drafted(folder: Path) -> Log:
    """A draft after a file that exists and has nothing in it yet."""
    path = folder / "log.jsonl"
    path.touch()
    return DraftLog(path)


MAKERS: dict[str, Callable[[Path], Log]] = {
    "memory": lambda folder: MemoryLog(),
    "jsonl": lambda folder: JsonlLog.open(folder / "log.jsonl"),
    "draft": drafted,
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
    Model([]).agrees(log)


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
    Model(there).agrees(log)
    if cut < len(lines):
        Model(there[:cut]).agrees(log.upto(positions[cut]))
    log.close()


@given(lines=st.lists(records(), max_size=12), cut=st.integers(0, 12))
def test_a_branch_answers_for_what_it_began_with_and_what_it_added(lines, cut):
    parent = MemoryLog(lines[:cut])
    branch = BranchLog(parent.upto(parent.end), MemoryLog(start=parent.end), parent.end)
    parent.append([b'{"type":"user","uuid":"a1"}\n'])
    branch.append(lines[cut:])
    whole = list(MemoryLog(lines).read())
    assert list(branch.read()) == whole
    Model(whole).agrees(branch)
