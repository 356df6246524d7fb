"""`sevenfold gc`: what nobody will ask for again goes, and nothing that is needed ever does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sevenfold.cli import gc as gc_command
from sevenfold.record import blocks
from sevenfold.record.decisions import CompactMetadata, Pin, Rewound, Segment, Undone
from sevenfold.record.entries import Stored
from sevenfold.record.log import Place, Stamp, said_by_user
from sevenfold.stores.home import Home
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.jsonl.store import FileResults
from tests.storage.making import Worker, run

OLD = 100 * 86_400


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


@pytest.fixture
def worker(home) -> Worker:
    return Worker(home, "s-1")


def compact(worker: Worker, about: CompactMetadata | None = None, anchor: str = "") -> str:
    return worker.script.compact(about or CompactMetadata(), [blocks.text("in short")], anchor=anchor)


def age(worker: Worker) -> None:
    """Let all stored results be a hundred days old, in the order of their names."""
    for place, path in enumerate(worker.files.stored_results()):
        then = time.time() - OLD + place
        os.utime(path, (then, then))


def gc(worker: Worker, *options: str) -> list[str]:
    """The calls whose results are left."""
    worker.close()
    age(worker)
    assert run(gc_command, *options) == 0
    return [path.name.partition("-")[0] for path in worker.files.stored_results()]


@pytest.mark.parametrize(("days", "left"), [("30", []), ("300", ["t1"])])
def test_limits_come_from_the_settings_unless_they_are_given(worker, monkeypatch, days, left):
    monkeypatch.setenv("SEVENFOLD_KEEP_RESULTS_DAYS", days)
    worker.result("t1", "one")
    compact(worker)
    compact(worker)
    assert gc(worker) == left


def test_without_limits_a_result_lives_as_long_as_its_transcript(worker):
    worker.result("t1", "one")
    compact(worker)
    compact(worker)
    assert gc(worker) == ["t1"]
    worker.files.transcript.unlink()
    assert gc(worker) == []
    assert not worker.files.results.exists()


def test_what_is_in_view_stays_whatever_the_limits(worker):
    worker.result("t1", "one")
    worker.result("t2", "two")
    assert gc(worker, "--days", "1", "--megabytes", "0") == ["t1", "t2"]


def test_what_undoing_the_last_compaction_would_bring_back_stays(worker):
    worker.result("t1", "one")
    compact(worker)
    worker.result("t2", "two")
    compact(worker)
    worker.result("t3", "three")
    assert gc(worker, "--days", "1") == ["t2", "t3"]


def test_with_one_compaction_everything_can_come_back(worker):
    worker.result("t1", "one")
    compact(worker)
    assert gc(worker, "--days", "1") == ["t1"]


def test_what_a_compaction_that_could_come_back_keeps_stays(worker):
    worker.result("t0", "zero")
    kept = worker.turn("keep from here", id="k")
    worker.result("t1", "one")
    last = worker.script.view.items[-1].record.uuid
    anchor = worker.script.new_id()
    compact(worker, CompactMetadata(preserved_segment=Segment(kept, anchor, last)), anchor=anchor)
    worker.turn(id="l")
    compact(worker)
    assert gc(worker, "--days", "1") == ["t1"]


def test_after_an_undo_it_is_reckoned_from_what_is_seen_then(worker):
    worker.result("t1", "one")
    compact(worker)
    worker.result("t2", "two")
    second = compact(worker)
    worker.script.decide(Undone(decision=second))
    assert gc(worker, "--days", "1") == ["t1", "t2"]


def test_a_branch_that_was_left_after_the_last_compaction_can_be_returned_to(worker):
    compact(worker)
    compact(worker)
    start = worker.turn(id="a")
    worker.result("t1", "on a branch")
    worker.script.decide(Rewound(to=start))
    worker.turn(id="b")
    assert gc(worker, "--days", "1") == ["t1"]


def test_what_is_pinned_stays(worker):
    worker.result("t1", "one")
    worker.result("t2", "two")
    holding = [item.record for item in worker.script.view.items if "t1" in item.record.answers]
    worker.script.decide(Pin(record=holding[0].uuid))
    compact(worker)
    compact(worker)
    assert gc(worker, "--days", "1") == ["t1"]


def test_results_stored_before_they_were_logged_count_the_same(worker):
    def embedded(call: str) -> None:
        path = worker.results.keep(call, call.encode())
        script = worker.script
        at = Stamp(Place("s-1"), script.new_id(), script.view.tip, "2026-11-01T00:00:00.000Z")
        where = {call: Stored(path, 2, "0" * 64)}
        written = said_by_user(at, [blocks.result(call, "preview")], stored=where)
        worker.script._write(written)

    embedded("t1")
    compact(worker)
    embedded("t2")
    compact(worker)
    assert gc(worker, "--days", "1") == ["t2"]


def test_a_compaction_of_another_tool_lets_nothing_go(worker):
    worker.result("t1", "one")
    worker.close()
    with worker.files.transcript.open("ab") as file:
        for name in ("b1", "b2"):
            line = f'{{"type":"system","subtype":"compact_boundary","uuid":"{name}","parentUuid":null}}\n'
            file.write(line.encode())
    assert gc(worker, "--days", "1") == ["t1"]


def test_a_transcript_of_a_newer_version_lets_nothing_go(worker):
    worker.result("t1", "one")
    compact(worker)
    compact(worker)
    worker.close()
    with worker.files.transcript.open("ab") as file:
        file.write(b'{"type":"sevenfold","v":1,"kind":"unheard_of"}\n')
    assert gc(worker, "--days", "1") == ["t1"]


def test_a_fork_keeps_what_it_took_over(home, worker):
    path = Path(worker.result("t1", "one"))
    worker.close()
    fork = worker.project.session("fork").transcript
    fork.write_bytes(worker.files.transcript.read_bytes())
    worker.files.transcript.unlink()
    assert run(gc_command) == 0
    assert path.exists()
    fork.unlink()
    assert run(gc_command) == 0
    assert not path.exists()


def test_beyond_the_size_the_oldest_go_first_and_only_as_many_as_needed(worker):
    for number in range(1, 5):
        worker.result(f"t{number}", str(number) * 400_000)
    compact(worker)
    compact(worker)
    worker.result("t5", "5" * 400_000)
    assert gc(worker, "--megabytes", "1.3") == ["t3", "t4", "t5"]


def test_young_results_stay(worker):
    worker.result("t1", "one")
    compact(worker)
    compact(worker)
    assert gc(worker, "--days", "101") == ["t1"]
    assert gc(worker, "--days", "99") == []


def test_a_dry_run_says_what_would_go_and_removes_nothing(worker, capsys):
    worker.result("t1", "one")
    compact(worker)
    compact(worker)
    worker.result("t2", "two!")
    assert gc(worker, "--days", "1", "--dry-run") == ["t1", "t2"]
    out = capsys.readouterr().out
    assert "3 bytes, old" in out
    assert "Would remove 1 file, 3 bytes; kept 1 file, 4 bytes." in out


def test_a_session_in_use_is_left_alone(worker, capsys):
    worker.result("t1", "one")
    compact(worker)
    compact(worker)
    worker.close()
    (worker.files.results / ".t9.abc.tmp").write_bytes(b"being written")
    lock = FileLock(worker.files.transcript)
    left = gc(worker, "--days", "1")
    lock.release()
    assert left == [".t9.abc.tmp", "t1"]
    assert "In use, so left alone: s-1" in capsys.readouterr().out


def test_what_unfinished_writes_left_goes(worker):
    worker.result("t1", "one")
    left = [worker.files.results / ".t9-1.txt.abc.tmp", worker.project.folder / ".s-1.jsonl.abc.tmp"]
    for path in left:
        path.write_bytes(b"half")
    assert gc(worker) == ["t1"]
    assert not any(path.exists() for path in left)


def test_results_of_other_sessions_are_judged_by_their_own(home, worker):
    other = Worker(home, "s-2")
    other.result("t1", "one")
    other.close()
    worker.close()
    worker.files.transcript.unlink()
    FileResults(worker.files.results).keep("t1", b"orphan")
    assert run(gc_command) == 0
    assert worker.files.stored_results() == []
    assert len(other.files.stored_results()) == 1


def test_an_empty_home_has_nothing_to_collect(home, capsys):
    assert run(gc_command) == 0
    assert capsys.readouterr().out == "Removed 0 files, 0 bytes; kept 0 files, 0 bytes.\n"


@pytest.mark.parametrize("limit", ["-1", "many", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(home, limit, capsys):
    with pytest.raises(SystemExit):
        run(gc_command, "--days", limit)
    assert "not a number from 0 upwards" in capsys.readouterr().err
