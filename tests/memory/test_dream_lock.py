"""The lock of those who consolidate memory: one at a time, and the time of the last (S7.7)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sevenfold.stores.folder import FileFolder, process_start_time

START = 1_790_000_000.0
DAY = 86_400.0


@pytest.mark.spec("S7.7")
def test_one_process_at_a_time_dreams_and_the_time_of_the_last_dream_is_the_file_s(tmp_path):
    folder = FileFolder(tmp_path / "memory")
    one, other = folder.dream_lock(), FileFolder(tmp_path / "memory").dream_lock()
    assert one.last() is None
    assert one.take(START)
    assert not other.take(START + 60)
    one.finish(START + 90)
    assert other.last() == START + 90
    assert (tmp_path / "memory/.consolidate-lock").read_bytes() == b""
    assert other.take(START + DAY * 2)
    other.fail()
    assert other.last() == START + 90


@pytest.mark.spec("S7.7")
def test_a_first_dream_that_fails_leaves_no_lock(tmp_path):
    lock = FileFolder(tmp_path / "memory").dream_lock()
    assert lock.take(START)
    lock.fail()
    assert not (tmp_path / "memory/.consolidate-lock").exists()


@pytest.mark.spec("S7.7")
@pytest.mark.parametrize("how", ["dead", "recycled", "silent"])
def test_the_lock_of_a_process_that_is_gone_is_taken_over_and_the_time_goes_back(tmp_path, how):
    folder = FileFolder(tmp_path / "memory")
    lock = folder.dream_lock()
    lock.take(START - DAY * 3)
    lock.finish(START - DAY * 3)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    pid, began = {
        "dead": (ended.pid, "1"),
        "recycled": (os.getpid(), "1"),
        "silent": (os.getpid(), process_start_time(os.getpid())),
    }[how]
    path = tmp_path / "memory/.consolidate-lock"
    path.write_text(f"{pid}\n{began}\n{START - DAY * 3!r}\n")
    os.utime(path, (START, START))
    assert lock.last() == START - DAY * 3
    assert lock.take(START + 10) == (how != "silent")
    if how == "silent":
        assert lock.take(START + 3601)
    lock.fail()
    assert lock.last() == START - DAY * 3


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe", b"not a number\n", b"12\n", b"12\nx\nnot a time\n", b"9" * 400]
)
def test_a_broken_lock_file_is_no_obstacle(tmp_path, body):
    folder = FileFolder(tmp_path / "memory")
    folder.write(".consolidate-lock", body)
    lock = folder.dream_lock()
    assert lock.take(START + 1e9)
    lock.finish(START)
    assert lock.last() == START


@pytest.mark.spec("S7.7")
@pytest.mark.parametrize("end", ["finish", "fail"])
def test_one_that_was_taken_over_neither_writes_nor_ends_the_dream_of_the_other(tmp_path, end):
    slow, other = (FileFolder(tmp_path / "memory").dream_lock() for _ in range(2))
    assert slow.take(START)
    assert other.take(START + 3601)
    assert not slow.beat(START + 3602)
    slow.finish(START + 3603) if end == "finish" else slow.fail()
    assert other.beat(START + 3604)
    other.finish(START + 3605)
    assert slow.last() == START + 3605


@pytest.mark.spec("S7.7")
def test_a_sign_of_life_keeps_the_lock(tmp_path):
    slow, other = (FileFolder(tmp_path / "memory").dream_lock() for _ in range(2))
    assert slow.take(START)
    assert slow.beat(START + 3500)
    assert not other.take(START + 3700)
    slow.fail()
    assert other.take(START + 3800)


@pytest.mark.spec("S7.7")
def test_a_clock_that_was_put_back_does_not_keep_the_lock_for_ever(tmp_path):
    silent, other = (FileFolder(tmp_path / "memory").dream_lock() for _ in range(2))
    assert silent.take(START + 365 * DAY)
    assert other.take(START)


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_link_in_place_of_the_lock_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "memory").mkdir()
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "memory/.consolidate-lock").symlink_to(tmp_path / "elsewhere")
    lock = FileFolder(tmp_path / "memory").dream_lock()
    assert lock.take(START)
    lock.finish(START + 1)
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert lock.last() == START + 1
