"""What every log must do, whatever it keeps its lines in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.ports import Log
from sevenfold.stores.jsonl.draft import DraftedLog
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.memory.log import MemoryLog


def drafted(folder: Path) -> Log:
    """A draft behind a file that is there and has nothing in it yet."""
    path = folder / "log.jsonl"
    path.touch()
    return DraftedLog(path)


MAKERS: dict[str, Callable[[Path], Log]] = {
    "memory": lambda folder: MemoryLog(),
    "jsonl": lambda folder: JsonlLog.open(folder / "log.jsonl"),
    "drafted": drafted,
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
    assert list(log.holding(b"x")) == []


def test_append_returns_where_the_first_line_stands(log):
    log.append([b"one\n"])
    offset = log.append([b"two\n", b"three\n"])
    assert [line for _, line in log.read(offset)] == [b"two\n", b"three\n"]


def test_every_offset_is_a_place_to_read_from(log):
    log.append([b"one\n", b"two\n", b"three\n"])
    for place, (offset, line) in enumerate(list(log.read())):
        assert next(log.read(offset))[1] == line
        assert len(list(log.read(offset))) == 3 - place


def test_lines_that_hold_something_are_found_newest_first(log):
    log.append([b"a needle\n", b"hay\n", b"needle needle\n"])
    offsets = [offset for offset, _ in log.read()]
    assert list(log.holding(b"needle")) == [offsets[2], offsets[0]]
    assert list(log.holding(b"needle", offsets[2])) == [offsets[0]]
    assert list(log.holding(b"absent")) == []


def test_reading_sees_what_was_appended_meanwhile(log):
    log.append([b"one\n"])
    log.append([b"two\n"])
    assert len(list(log.read())) == 2


LINES = st.lists(st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"") + b"\n"), max_size=20)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@given(batches=st.lists(LINES, max_size=5), needle=st.binary(min_size=1, max_size=3))
def test_any_lines_are_kept_and_found(make, batches, needle, tmp_path_factory):
    log = make(tmp_path_factory.mktemp("log"))
    for batch in batches:
        log.append(batch)
    lines = list(log.read())
    assert [line for _, line in lines] == [line for batch in batches for line in batch]
    if b"\n" not in needle:
        assert list(log.holding(needle)) == [offset for offset, line in reversed(lines) if needle in line]
    log.close()
