"""What every store of tool results must do, and what one on disk must do besides."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.errors import ResultMissing, TranscriptDenied, TranscriptError, TranscriptFull
from sevenfold.ports import Results
from sevenfold.stores.jsonl.store import FileResults
from sevenfold.stores.memory import MemoryResults

MAKERS: dict[str, Callable[[Path], Results]] = {
    "memory": lambda folder: MemoryResults(),
    "files": FileResults,
}


@pytest.fixture(params=MAKERS)
def results(request, tmp_path) -> Results:
    return MAKERS[request.param](tmp_path / "tool-results" / "s-1")


@pytest.mark.spec("S1.1")
def test_what_was_kept_comes_back_byte_for_byte(results):
    content = b"one\r\ntwo\x00\xff" * 1000
    assert results.fetch(results.keep("toolu_01", content)) == content


@pytest.mark.spec("S1.1")
def test_a_path_names_the_call_and_the_content(results):
    path = Path(results.keep("toolu_01", b"text"))
    assert path.name.removeprefix("result:") == f"toolu_01-{hashlib.sha256(b'text').hexdigest()[:8]}.txt"
    assert results.keep("toolu_01.txt", b"text") == str(path)
    assert Path(results.keep("toolu_01.json", b"{}")).name.removeprefix("result:").startswith("toolu_01-")
    assert Path(results.keep("toolu_01.json", b"{}")).suffix == ".json"


def test_the_same_name_and_content_give_the_same_path_again(results):
    assert results.keep("t", b"one") == results.keep("t", b"one")
    assert results.keep("t", b"one") != results.keep("t", b"two")
    assert results.keep("t", b"one") != results.keep("u", b"one")


def test_an_empty_result_is_a_result(results):
    assert results.fetch(results.keep("t", b"")) == b""


HOSTILE = ["../../etc/passwd", "/etc/passwd", "..", "", "a/b", "a\x00b", "\ud800", "CON", "x" * 5000, "~/x"]


@pytest.mark.spec("S1.5")
@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_can_be_kept(results, name):
    assert results.fetch(results.keep(name, b"content")) == b"content"


@pytest.mark.spec("S1.5")
@pytest.mark.parametrize("path", [*HOSTILE, "/etc/../etc/passwd", "s-1/../s-1/x", "memory/..", "s-1/"])
def test_a_path_that_was_never_given_out_is_missing(results, path):
    results.keep("t", b"one")
    with pytest.raises(ResultMissing, match="no stored result"):
        results.fetch(path)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@given(kept=st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=4))
def test_many_results_never_get_mixed_up(make, kept, tmp_path_factory):
    results = make(tmp_path_factory.mktemp("results"))
    paths = [results.keep(name, content) for name, content in kept]
    assert [results.fetch(path) for path in paths] == [content for _, content in kept]


# -- on disk ---------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path) -> FileResults:
    return FileResults(tmp_path / "home" / "tool-results" / "s-1")


def test_only_their_owner_can_read_them(files):
    path = Path(files.keep("t", b"one"))
    for one in (path, path.parent, path.parent.parent, path.parent.parent.parent):
        assert one.stat().st_mode & 0o077 == 0


def test_nothing_is_made_until_the_first_one_comes(files):
    with pytest.raises(ResultMissing):
        files.fetch(str(files.folder / "t-00000000.txt"))
    assert not files.folder.exists()


@pytest.mark.spec("S1.5")
def test_every_name_stays_inside_the_folder(files):
    for name in HOSTILE:
        path = Path(files.keep(name, b"content"))
        assert path.parent == files.folder
        assert path.resolve().parent == files.folder.resolve()


def test_a_link_is_not_followed_when_reading(files, tmp_path):
    files.keep("t", b"one")
    (tmp_path / "secret").write_bytes(b"not yours")
    (files.folder / "link.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(ResultMissing):
        files.fetch(str(files.folder / "link.txt"))


def test_a_link_is_not_followed_when_writing(files, tmp_path):
    path = Path(files.keep("t", b"one"))
    path.unlink()
    (tmp_path / "victim").write_bytes(b"precious")
    path.symlink_to(tmp_path / "victim")
    assert files.fetch(files.keep("t", b"one")) == b"one"
    assert (tmp_path / "victim").read_bytes() == b"precious"


def test_a_folder_that_is_a_link_is_refused(files, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    files.folder.parent.mkdir(parents=True)
    files.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TranscriptDenied, match="link"):
        files.keep("t", b"one")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_no_result(files, kind):
    files.keep("t", b"one")
    odd = files.folder / "odd.txt"
    odd.mkdir() if kind == "folder" else os.mkfifo(odd)
    with pytest.raises(ResultMissing):
        files.fetch(str(odd))


def test_results_are_found_after_their_home_was_moved(files, tmp_path):
    path = files.keep("t", b"one")
    (tmp_path / "home").rename(tmp_path / "new-home")
    assert FileResults(tmp_path / "new-home" / "tool-results" / "s-1").fetch(path) == b"one"


def test_another_sessions_results_are_out_of_reach(files):
    path = files.keep("t", b"one")
    other = FileResults(files.folder.parent / "s-2")
    other.keep("t", b"two")
    with pytest.raises(ResultMissing):
        other.fetch(path)


def test_a_file_changed_by_somebody_else_is_not_taken_for_the_result(files):
    path = Path(files.keep("t", b"one"))
    path.write_bytes(b"changed")
    again = files.keep("t", b"one")
    assert files.fetch(again) == b"one"
    assert path.read_bytes() == b"changed"


@pytest.mark.spec("S1.5")
def test_a_full_disk_says_so_and_leaves_nothing_behind(files, monkeypatch):
    files.keep("before", b"one")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TranscriptFull, match=r"No space left.*Free some space"):
        files.keep("t", b"two")
    monkeypatch.undo()
    assert [path.name for path in files.folder.iterdir()] == [Path(files.keep("before", b"one")).name]


@pytest.mark.spec("S1.5")
def test_a_place_that_cannot_be_written_says_so(files):
    files.folder.parent.mkdir(parents=True)
    files.folder.write_bytes(b"a file where the folder should be")
    with pytest.raises(TranscriptError, match="s-1"):
        files.keep("t", b"one")


def test_a_writer_killed_half_way_leaves_no_result(files):
    program = f"""
        import os, signal
        from pathlib import Path
        from sevenfold.stores.jsonl.store import FileResults
        os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
        FileResults(Path({str(files.folder)!r})).keep("t", b"x" * 100_000)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path for path in files.folder.iterdir() if not path.name.startswith(".")] == []
    assert files.fetch(files.keep("t", b"x" * 100_000)) == b"x" * 100_000
