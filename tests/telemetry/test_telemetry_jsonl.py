"""Events in a file: every line whole, nobody else's to read, never more than two generations."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.errors import SettingError
from sevenfold.events import Acted, Event, Failed, Masked, Proposed, Repaired
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.telemetry.jsonl import JsonlSink
from tests.telemetry.making import SAMPLES, any_event, kinds, stamped

REPAIRED = Repaired(what="mended", where="record 7", session="s1")


def read(path: Path) -> list[Any]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def test_there_is_a_sample_of_every_kind_of_event():
    assert [type(sample) for sample in SAMPLES] == list(kinds())


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_every_kind_of_event_becomes_a_line_that_reads_back_the_same(event, tmp_path):
    path = tmp_path / "events.jsonl"
    with JsonlSink(path) as sink:
        sink(stamped(event))
    assert msgspec.json.decode(path.read_bytes(), type=type(event)) == stamped(event)
    assert read(path)[0]["event"] == type(event).__name__


@pytest.mark.spec("S2.11")
def test_a_clearing_is_told_with_its_count_sizes_mechanism_and_cost(tmp_path):
    path = tmp_path / "events.jsonl"
    with JsonlSink(path) as sink:
        sink(
            Acted(
                layer="clear",
                mechanism="local",
                what="12 results cleared",
                why="the cache had expired",
                items=12,
                tokens_before=90_000,
                tokens_after=30_000,
                usd=-0.2,
            )
        )
    line = read(path)[0]
    assert (line["items"], line["tokens_before"], line["tokens_after"]) == (12, 90_000, 30_000)
    assert (line["mechanism"], line["usd"]) == ("local", -0.2)


def test_only_its_owner_can_read_it_even_if_it_was_open_to_all_before(tmp_path):
    path = tmp_path / "deep" / "events.jsonl"
    JsonlSink(path).close()
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0
    path.chmod(0o644)
    JsonlSink(path).close()
    assert path.stat().st_mode & 0o077 == 0


def test_a_new_sink_goes_on_behind_what_is_there(tmp_path):
    path = tmp_path / "events.jsonl"
    for _ in range(2):
        with JsonlSink(path) as sink:
            sink(REPAIRED)
    assert len(read(path)) == 2


def test_a_line_that_a_crash_cut_short_costs_no_other(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"event":"Repaired","wh')
    with JsonlSink(path) as sink:
        sink(REPAIRED)
        sink(REPAIRED)
    torn, *whole = path.read_bytes().splitlines()
    assert torn == b'{"event":"Repaired","wh'
    assert [msgspec.json.decode(line, type=Repaired) for line in whole] == [REPAIRED, REPAIRED]


def test_a_full_file_is_put_aside_and_the_one_before_it_goes(tmp_path):
    path = tmp_path / "events.jsonl"
    line = len(msgspec.json.encode(REPAIRED)) + 1
    with JsonlSink(path, limit=3 * line) as sink:
        for _ in range(10):
            sink(REPAIRED)
    assert sorted(file.name for file in tmp_path.glob("*.jsonl*") if file.suffix != ".lock") == [
        "events.jsonl",
        "events.jsonl.1",
    ]
    assert (len(read(path)), len(read(sink.previous))) == (1, 3)
    assert sink.previous.stat().st_mode & 0o077 == 0


@given(sizes=st.lists(st.integers(0, 300), max_size=40), limit=st.integers(1, 700))
def test_no_generation_outgrows_the_limit_unless_by_a_single_line(sizes, limit, tmp_path_factory):
    path = tmp_path_factory.mktemp("events") / "events.jsonl"
    with JsonlSink(path, limit=limit) as sink:
        for size in sizes:
            sink(Repaired(what="w" * size, where="here"))
    for file in (path, sink.previous):
        if file.exists():
            assert file.stat().st_size <= limit or len(read(file)) == 1
    assert sink.dropped == 0


def test_a_second_writer_follows_to_the_new_file(tmp_path):
    path = tmp_path / "events.jsonl"
    line = len(msgspec.json.encode(REPAIRED)) + 1
    with JsonlSink(path, limit=2 * line) as one, JsonlSink(path, limit=2 * line) as other:
        for sink in (one, one, one, other):
            sink(REPAIRED)
    assert (len(read(path)), len(read(one.previous))) == (2, 2)


def test_while_another_process_puts_the_file_aside_lines_still_go_somewhere(tmp_path):
    path = tmp_path / "events.jsonl"
    with JsonlSink(path, limit=1) as sink:
        sink(REPAIRED)
        lock = FileLock(path)
        sink(REPAIRED)
        lock.release()
        assert len(read(path)) == 2
        sink(REPAIRED)
    assert (len(read(path)), len(read(sink.previous))) == (1, 2)


def many(sink: JsonlSink) -> None:
    for _ in range(100):
        sink(REPAIRED)


def test_many_threads_share_a_sink(tmp_path):
    path = tmp_path / "events.jsonl"
    with JsonlSink(path, limit=20_000) as sink:
        threads = [threading.Thread(target=many, args=(sink,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sink.dropped == 0
    assert {msgspec.json.encode(line) for line in read(path) + read(sink.previous)} == {
        msgspec.json.encode(REPAIRED)
    }


def test_every_text_is_masked_and_nothing_else_changes(tmp_path):
    path = tmp_path / "events.jsonl"
    with JsonlSink(path, mask=lambda text: text.replace("hunter2", "***")) as sink:
        sink(
            Proposed(
                layer="clear", mechanism="m", what="w hunter2", why="y", items=3, targets=("hunter2", "b")
            )
        )
        sink(Failed(request="r", model="m", provider="p", error="E", reason="key hunter2 refused"))
        sink(Masked(kinds=("hunter2",), count=1))
    assert b"hunter2" not in path.read_bytes()
    proposed, failed, masked = read(path)
    assert (proposed["what"], proposed["targets"], proposed["items"]) == ("w ***", ["***", "b"], 3)
    assert failed["reason"] == "key *** refused"
    assert masked["kinds"] == ["***"]


@given(events=st.lists(any_event(), max_size=8))
def test_whatever_happens_is_a_line(events, tmp_path_factory):
    path = tmp_path_factory.mktemp("events") / "events.jsonl"
    with JsonlSink(path) as sink:
        for event in events:
            sink(event)
    assert [line["event"] for line in read(path)] == [type(event).__name__ for event in events]


# When it cannot


def test_a_file_that_cannot_be_written_is_refused_at_once_with_a_reason(tmp_path):
    with pytest.raises(SettingError, match=r"telemetry cannot be written there .*name another file"):
        JsonlSink(tmp_path)


def test_a_full_disk_costs_events_and_nothing_else(tmp_path):
    script = """
import resource, signal, sys
from sevenfold.telemetry.jsonl import JsonlSink
from sevenfold.events import Repaired
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sink = JsonlSink(sys.argv[1])
sink(Repaired(what="before", where=""))
resource.setrlimit(resource.RLIMIT_FSIZE, (150, resource.RLIM_INFINITY))
sink(Repaired(what="full" * 30, where=""))
sink(Repaired(what="full" * 30, where=""))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
sink(Repaired(what="after", where=""))
print(sink.dropped, sink.problem)
"""
    path = tmp_path / "events.jsonl"
    ran = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.startswith(f"2 OSError: [Errno {errno.EFBIG}]")
    first, *_, last = path.read_bytes().splitlines()
    assert msgspec.json.decode(first)["what"] == "before"
    assert msgspec.json.decode(last)["what"] == "after"


def test_a_mask_that_fails_lets_nothing_through_and_stops_nobody(tmp_path):
    def broken(text):
        raise RuntimeError("no idea")

    path = tmp_path / "events.jsonl"
    with JsonlSink(path, mask=broken) as sink:
        sink(REPAIRED)
    assert (path.read_bytes(), sink.dropped, sink.problem) == (b"", 1, "RuntimeError: no idea")


def test_an_event_nobody_foresaw_is_dropped_and_counted(tmp_path):
    class Odd(Event, frozen=True, kw_only=True):
        thing: object

    path = tmp_path / "events.jsonl"
    with JsonlSink(path) as sink:
        sink(Odd(thing=object()))
        sink(REPAIRED)
    assert (len(read(path)), sink.dropped) == (1, 1)


def test_what_comes_after_the_end_is_only_counted(tmp_path):
    path = tmp_path / "events.jsonl"
    sink = JsonlSink(path)
    sink.close()
    sink.close()
    sink(REPAIRED)
    assert (path.read_bytes(), sink.dropped, sink.problem) == (b"", 1, "ValueError: the sink is closed")
