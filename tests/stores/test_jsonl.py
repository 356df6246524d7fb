"""A transcript file: nothing in it is ever lost or changed, and every trouble says what it is."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.agent.home import AgentHome
from sevenfold.conversation.resume import fold
from sevenfold.errors import (
    TranscriptDenied,
    TranscriptError,
    TranscriptForeign,
    TranscriptFull,
    TranscriptLocked,
    TranscriptMissing,
    TranscriptOvertaken,
)
from sevenfold.record import blocks
from sevenfold.stores.files import explain, safe_name
from sevenfold.stores.jsonl import log as lines
from sevenfold.stores.jsonl import store as stored
from sevenfold.stores.jsonl.log import JsonlLog, Sync
from sevenfold.stores.jsonl.store import JsonlStore
from tests.support import Story, shown, transcript


@pytest.mark.spec("S12.3")
@pytest.mark.parametrize("replaced", [False, True])
def test_a_transcript_deleted_or_replaced_while_it_is_open_takes_no_more_records(tmp_path, replaced):
    path = tmp_path / "s.jsonl"
    log = JsonlLog.open(path)
    log.append([b'{"a":1}\n'])
    if replaced:
        (tmp_path / "other").write_bytes(b"")
        (tmp_path / "other").replace(path)
    else:
        path.unlink()
    with pytest.raises(TranscriptMissing, match="nothing was written"):
        log.append([b'{"b":1}\n'])
    log.close()
    assert path.exists() == replaced


@pytest.mark.spec("S12.3")
def test_a_transcript_that_is_moved_while_it_is_open_goes_on_in_its_new_place(tmp_path):
    path = tmp_path / "s.jsonl"
    log = JsonlLog.open(path)
    path.rename(tmp_path / "moved.jsonl")
    log.append([b'{"a":1}\n'])
    log.close()
    assert (tmp_path / "moved.jsonl").read_bytes() == b'{"a":1}\n'


@pytest.mark.spec("S8.4")
def test_a_torn_last_line_is_ended_and_nothing_is_removed(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"whole":1}\n{"torn":')
    log = JsonlLog.open(path)
    assert log.was_torn
    log.append([b'{"new":1}\n'])
    log.close()
    assert path.read_bytes() == b'{"whole":1}\n{"torn":\n{"new":1}\n'


def test_looking_at_a_torn_file_changes_nothing(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"whole":1}\n{"torn":')
    JsonlLog.open(path).close()
    assert path.read_bytes() == b'{"whole":1}\n{"torn":'


@pytest.mark.spec("S8.4")
def test_a_last_record_that_only_lacks_its_line_end_is_not_lost(tmp_path):
    story = Story()
    story.user("go")
    story.assistant("yes")
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(story.lines)[:-1])
    script = transcript(JsonlLog.open(path))
    assert shown(script.view) == [("user", "go"), ("assistant", "yes")]
    script.user([blocks.text("on")])
    script.close()
    assert shown(fold(JsonlLog(path))) == [("user", "go"), ("assistant", "yes"), ("user", "on")]


def test_only_its_owner_can_read_it(tmp_path):
    path = tmp_path / "deep" / "s.jsonl"
    JsonlLog.open(path).close()
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_second_writer_is_refused_with_the_name_of_the_first(tmp_path):
    path = tmp_path / "s.jsonl"
    first = JsonlLog.open(path)
    with pytest.raises(TranscriptLocked, match=f"process {os.getpid()} on .*that only read"):
        JsonlLog.open(path)
    first.close()
    JsonlLog.open(path).close()


def test_readers_need_no_lock(tmp_path):
    path = tmp_path / "s.jsonl"
    writer = JsonlLog.open(path)
    writer.append([b"one\n"])
    assert [line for _, line in JsonlLog(path).read()] == [b"one\n"]
    writer.close()


@pytest.mark.spec("S25.30")
def test_an_import_that_is_killed_leaves_nothing_of_the_session(tmp_path):
    program = f"""
        import os, signal
        from pathlib import Path
        from sevenfold.stores.jsonl.store import JsonlStore

        def lines():
            for number in range(20_000):
                yield b'{{"number":%d}}\\n' % number
            os.kill(os.getpid(), signal.SIGKILL)

        JsonlStore(Path({str(tmp_path)!r})).import_("s", lines())
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert killed.returncode < 0
    store = JsonlStore(tmp_path)
    assert list(store.sessions()) == []
    store.import_("s", [b"{}\n"])
    assert list(store.export("s")) == [b"{}\n"]


@pytest.mark.spec("S25.30")
def test_a_line_that_could_not_be_read_again_is_not_imported(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LINE_LIMIT", 100)
    monkeypatch.setattr(stored, "LINE_LIMIT", 100)
    store = JsonlStore(tmp_path)
    with pytest.raises(TranscriptError, match="a record of 101 bytes is over the limit of 100"):
        store.import_("s", [b"{}\n", b"x" * 100 + b"\n"])
    assert list(store.sessions()) == []


def test_the_lock_of_a_killed_process_is_free_and_its_records_are_there(tmp_path):
    path = tmp_path / "s.jsonl"
    program = f"""
        import os, signal
        from pathlib import Path
        from sevenfold.stores.jsonl.log import JsonlLog
        log = JsonlLog.open(Path({str(path)!r}))
        log.append([b"one\\n"])
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert killed.returncode < 0
    log = JsonlLog.open(path)
    assert [line for _, line in log.read()] == [b"one\n"]
    log.close()


@pytest.mark.spec("S21.8")
def test_the_lock_that_a_killed_process_left_to_a_starting_child_is_free_as_soon_as_that_has_started(
    tmp_path,
):
    path = tmp_path / "s.jsonl"
    program = f"""
        import os, signal, subprocess, sys
        from pathlib import Path
        from sevenfold.stores.jsonl.log import JsonlLog
        log = JsonlLog.open(Path({str(path)!r}))
        for fd in range(3, 64):
            try:
                os.set_inheritable(fd, True)
            except OSError:
                pass
        # This child holds the lock as one does that was forked and has not started its program yet.
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"], close_fds=False)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert killed.returncode < 0
    JsonlLog.open(path).close()


@pytest.mark.spec("S21.8")
def test_a_copy_of_the_process_that_holds_the_lock_does_not_keep_it(tmp_path):
    path = tmp_path / "s.jsonl"
    program = f"""
        import os, signal, sys
        from pathlib import Path
        from sevenfold.stores.jsonl.log import JsonlLog
        log = JsonlLog.open(Path({str(path)!r}))
        if os.fork() == 0:
            print("copied", flush=True)
            sys.stdin.read()
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"copied\n"
    holder.wait()
    try:
        JsonlLog.open(path).close()
    finally:
        holder.communicate(b"")


def test_waiting_for_the_lock_gets_it_once_it_is_free(tmp_path):
    path = tmp_path / "s.jsonl"
    program = f"""
        import sys
        from pathlib import Path
        from sevenfold.stores.jsonl.log import JsonlLog
        log = JsonlLog.open(Path({str(path)!r}))
        print("held", flush=True)
        sys.stdin.read()
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(TranscriptLocked, match=str(holder.pid)):
        JsonlLog.open(path)
    holder.communicate(b"")
    JsonlLog.open(path, wait=30).close()


RECORD = b'{"type":"user","uuid":"a"}\n'


def fails_after(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk be full after so many bytes more."""
    real, left, here = os.write, [room], threading.get_ident()

    def nearly_full(fd: int, data: bytes) -> int:
        if threading.get_ident() != here:
            return real(fd, data)  # a thread that another test has left behind
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, bytes(data[: left.pop()]))

    monkeypatch.setattr(os, "write", nearly_full)


@pytest.mark.spec("S12.3")
@pytest.mark.parametrize("room", [3, len(RECORD) - 1])
def test_a_write_that_fails_leaves_nothing_and_the_log_goes_on_when_there_is_room(
    tmp_path, monkeypatch, room
):
    path = tmp_path / "s.jsonl"
    log = JsonlLog.open(path)
    log.append([b"one\n"])
    fails_after(room, monkeypatch)
    with pytest.raises(TranscriptFull, match=r"No space left.*Free some space"):
        log.append([RECORD])
    monkeypatch.undo()
    assert log.append([b"third\n"]) == (4,)
    log.close()
    assert path.read_bytes() == b"one\nthird\n"


@pytest.mark.spec("S8.4")
def test_what_cannot_be_taken_back_is_ended_as_a_torn_line(tmp_path, monkeypatch):
    path = tmp_path / "s.jsonl"
    log = JsonlLog.open(path)
    fails_after(3, monkeypatch)
    monkeypatch.setattr(os, "ftruncate", lambda *_: (_ for _ in ()).throw(PermissionError()))
    with pytest.raises(TranscriptFull):
        log.append([RECORD])
    monkeypatch.undo()
    assert log.append([b"third\n"]) == (4,)
    log.close()
    assert path.read_bytes() == b'{"t\nthird\n'


@pytest.mark.spec("S12.3")
def test_a_write_that_fails_takes_back_nothing_that_others_have_written(tmp_path, monkeypatch):
    path = tmp_path / "s.jsonl"
    log = JsonlLog.open(path)
    log.append([b"one\n"])
    real = os.write

    def full(fd: int, data: bytes) -> int:
        with path.open("ab") as file:
            file.write(b"by hand\n")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(TranscriptFull):
        log.append([RECORD])
    monkeypatch.setattr(os, "write", real)
    assert log.append([b"third\n"]) == (12,)
    log.close()
    assert path.read_bytes() == b"one\nby hand\nthird\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_device_that_is_really_full_is_recognised(tmp_path):
    (tmp_path / "s.jsonl").symlink_to("/dev/full")
    log = JsonlLog.open(tmp_path / "s.jsonl", sync=Sync.NEVER)
    with pytest.raises(TranscriptFull):
        log.append([b"one\n"])
    log.close()


def test_a_record_that_could_not_be_stored_is_not_seen_either(tmp_path, monkeypatch):
    script = transcript(JsonlLog.open(tmp_path / "s.jsonl"))
    script.user([blocks.text("go")])

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(TranscriptFull):
        script.user([blocks.text("lost")])
    monkeypatch.undo()
    assert shown(script.view) == [("user", "go")]
    script.close()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TranscriptMissing, match=r"nowhere\.jsonl.*no such file"):
        list(JsonlLog(tmp_path / "nowhere.jsonl").read())


def test_a_directory_is_not_a_transcript(tmp_path):
    with pytest.raises(TranscriptForeign, match="directory"):
        list(JsonlLog(tmp_path).read())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path):
    path = tmp_path / "s.jsonl"
    path.touch(mode=0o000)
    with pytest.raises(TranscriptDenied, match="permissions"):
        list(JsonlLog(path).read())


def test_a_refusal_of_the_system_is_explained(tmp_path):
    refused = explain(PermissionError(errno.EACCES, "Permission denied"), tmp_path / "s.jsonl")
    assert isinstance(refused, TranscriptDenied)
    assert "s.jsonl: Permission denied; check its owner" in str(refused)


def test_nothing_can_be_appended_without_opening(tmp_path):
    with pytest.raises(TranscriptError, match="reading only"):
        JsonlLog(tmp_path / "s.jsonl").append([b"x\n"])


def test_a_line_of_200_megabytes_is_counted_and_stepped_over(tmp_path):
    path = tmp_path / "s.jsonl"
    story = Story()
    story.user("before")
    with path.open("wb") as file:
        file.write(story.lines[0] + b'{"type":"user","message":"')
        for _ in range(200):
            file.write(b"x" * 1_000_000)
        story.user("after")
        file.write(b'"}\n' + story.lines[1])
    problems = [line.problem for line in lines.scan(path) if line.problem]
    assert problems == ["a line of 200,000,029 bytes, over the limit of 67,108,864"]
    view = fold(JsonlLog(path))
    assert shown(view) == [("user", "before after")]
    assert view.damaged == 1


def test_a_record_over_the_limit_is_refused_before_anything_is_written(tmp_path):
    log = JsonlLog.open(tmp_path / "s.jsonl", limit=100)
    with pytest.raises(TranscriptError, match="101 bytes is over the limit of 100"):
        log.append([b"ok\n", b"x" * 100 + b"\n"])
    assert list(log.read()) == []
    log.close()


@pytest.mark.parametrize("sync", Sync)
def test_every_way_of_forcing_writes_keeps_them(tmp_path, sync):
    log = JsonlLog.open(tmp_path / "s.jsonl", sync=sync)
    log.append([b"one\n"], durable=True)
    log.close()
    assert [line for _, line in JsonlLog(tmp_path / "s.jsonl").read()] == [b"one\n"]


def test_long_lines_are_found_from_the_end_across_chunks(tmp_path):
    path = tmp_path / "s.jsonl"
    rows = [b"a" * 600_000 + b"needle" + b"b" * 600_000 + b"\n", b"c" * 300_000 + b"\n", b"needle\n"]
    path.write_bytes(b"".join(rows))
    assert list(lines.find(path, b"needle")) == [(len(rows[0]) + len(rows[1]), rows[2]), (0, rows[0])]


@pytest.mark.parametrize("before", range(8))
def test_a_text_is_found_wherever_the_edge_of_a_chunk_cuts_it(tmp_path, before):
    # The file is read from its end, and its last chunk begins with the text, or some bytes later.
    path = tmp_path / "s.jsonl"
    padding = lines._CHUNK - len(b"needle") + before - 1
    row = b"first\nneedle" + b"b" * padding + b"\n"
    path.write_bytes(row)
    assert [found for _, found in lines.find(path, b"needle")] == [row[6:]]


@given(st.text())
def test_any_id_makes_a_harmless_file_name(foreign):
    name = safe_name(foreign)
    assert name == Path(name).name
    assert not name.startswith((".", "-"))
    assert len(name.encode()) <= 64


@given(st.text(max_size=8), st.text(max_size=8))
def test_two_ids_never_share_a_file_name(one, other):
    assert (safe_name(one) == safe_name(other)) == (one == other)


@pytest.mark.parametrize(
    "hostile", ["../../etc/passwd", "a/b", "..", "", "CON", "nul", "x" * 500, "a\x00b", "\ud800"]
)
def test_hostile_ids_stay_inside_the_folder(hostile, tmp_path):
    assert (tmp_path / safe_name(hostile)).parent == tmp_path


@pytest.mark.spec("S12.3")
@pytest.mark.parametrize(
    ("written", "torn"),
    [
        (b"first\nsecond\n", [False, False]),
        (b"first\nsecond", [False, True]),
        (b"first\nfar too long a line\n", [False, False]),
        (b"first\nfar too long a line", [False, False]),
    ],
)
def test_only_a_last_line_within_the_limit_that_lacks_its_end_is_torn(tmp_path, written, torn):
    path = tmp_path / "s.jsonl"
    path.write_bytes(written)
    read = list(lines.scan(path, limit=10))
    assert [line.torn for line in read] == torn
    assert [line.offset for line in read] == [0, 6]


@pytest.mark.spec("S19.22")
@pytest.mark.parametrize(
    "what", ["notes", "the state of an agent", "a result", "the state of an agent in its home"]
)
def test_an_overtaken_writer_replaces_no_file_of_the_session(tmp_path, what):
    def write(store: JsonlStore, text: str) -> None:
        if what == "notes":
            store.notes("s").write(text)
        elif what == "a result":
            store.results("s").keep(f"result-{text}", text.encode())
        elif what == "the state of an agent":
            store.agent_state("s").write(text)
        else:
            saved = AgentHome.for_session(store, "s").saved
            assert saved is not None
            saved.write(text)

    store = JsonlStore(tmp_path)
    with closing(store.open("s")) as overtaken:
        first = store.fenced(overtaken)
        write(first, "first")
        with closing(store.open("s", take=True)) as writer:
            second = store.fenced(writer)
            write(second, "second")
            before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
            with pytest.raises(TranscriptOvertaken, match="taken over"):
                write(first, "late")
            write(second, "second")
            after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.spec("S19.22")
def test_a_writer_that_was_not_overtaken_and_one_that_closed_replace_their_notes(tmp_path):
    store = JsonlStore(tmp_path)
    with closing(store.open("s")) as log:
        fenced = store.fenced(log)
        fenced.notes("s").write("open")
    fenced.notes("s").write("closed")
    assert store.notes("s").read() == "closed"
