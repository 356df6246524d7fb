"""What every store must do, wherever it keeps its sessions."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

import sevenfold
from sevenfold.errors import (
    InputError,
    ResultMissing,
    TranscriptError,
    TranscriptFull,
    TranscriptLocked,
    TranscriptMissing,
    TranscriptOvertaken,
)
from sevenfold.ports import AgentMessage, Folder, Log, Store
from sevenfold.stores import registry
from sevenfold.stores.home import Project
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.jsonl.store import FileStore, JsonlStore
from sevenfold.stores.memory import MemoryStore
from tests.stores.records import Model, records

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


@cache
def documented() -> dict[str, Any]:
    """The store the documentation shows, and everything else it defines."""
    (code,) = (
        code
        for code in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
        if "class SqliteStore" in code
    )
    names: dict[str, Any] = {"__name__": "documented"}
    exec(code.partition('register("sqlite"')[0], names)
    return names


def sqlite(folder: Path) -> Store:
    folder.mkdir(exist_ok=True)
    made: Store = documented()["SqliteStore"](f"sqlite://{folder / 'sessions.db'}")
    return made


MAKERS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "jsonl": lambda folder: JsonlStore(folder / "sessions"),
    "documented": sqlite,
}


@pytest.fixture(params=MAKERS)
def store(request, tmp_path) -> Store:
    return MAKERS[request.param](tmp_path)


def said(log: Log) -> list[bytes]:
    return [line for _, line in log.read()]


def filled(store: Store, session: str, *lines: bytes) -> None:
    log = store.open(session)
    log.append(lines)
    log.close()


def test_it_keeps_the_port(store):
    assert registry.open_store(store) is store


def test_a_session_is_continued_where_it_ended(store):
    filled(store, "s", b"one\n")
    filled(store, "s", b"two\n")
    assert said(store.read("s")) == [b"one\n", b"two\n"]
    assert [one.name for one in store.sessions()] == ["s"]
    assert store.sessions()[0].size == 8


def test_sessions_do_not_share_anything(store):
    filled(store, "a", b"one\n")
    filled(store, "b", b"two\n")
    store.notes("a").write("notes")
    path = store.results("a").keep("call", b"result")
    assert said(store.read("b")) == [b"two\n"]
    assert store.notes("b").read() is None
    with pytest.raises(ResultMissing):
        store.results("b").fetch(path)


@pytest.mark.parametrize("session", ["plain", "with space", "../up", "é" * 80, "CON"])
def test_a_session_of_any_name_is_listed_under_it(store, session):
    filled(store, session, b'{"type":"user","sessionId":%s,"cwd":"/w"}\n' % _json(session))
    (info,) = store.sessions()
    assert info.name == session
    assert said(store.read(info.name)) == said(store.read(session))


def _json(text: str) -> bytes:
    import msgspec

    return msgspec.json.encode(text)


def test_what_is_not_there_cannot_be_read(store):
    with pytest.raises(TranscriptMissing):
        said(store.read("nowhere"))
    with pytest.raises(TranscriptMissing):
        store.branch("nowhere", "fork")
    assert list(store.sessions()) == []


# -- leases ----------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_until_the_first_closes(store):
    first = store.open("s")
    with pytest.raises(TranscriptLocked):
        store.open("s")
    first.append([b"one\n"])
    first.close()
    second = store.open("s")
    assert second.fence > first.fence > 0
    second.close()
    with pytest.raises(TranscriptError):
        first.append([b"late\n"])


def test_waiting_for_a_writer_gets_the_log_when_it_closes(store):
    first = store.open("s")
    done: list[int] = []

    def wait() -> None:
        second = store.open("s", wait=30)
        done.append(second.fence)
        second.close()

    thread = Thread(target=wait)
    thread.start()
    first.append([b"one\n"])
    first.close()
    thread.join()
    assert done == [first.fence + 1]


def test_a_writer_that_was_overtaken_is_refused_and_writes_nothing(store):
    first = store.open("s")
    first.append([b"one\n"])
    second = store.open("s", take=True)
    assert second.fence > first.fence
    second.append([b"two\n"])
    with pytest.raises(TranscriptOvertaken, match=r"taken over|took over"):
        first.append([b"three\n"])
    first.close()
    second.append([b"four\n"])
    with pytest.raises(TranscriptLocked):
        store.open("s")
    second.close()
    assert said(store.read("s")) == [b"one\n", b"two\n", b"four\n"]
    third = store.open("s")
    assert third.fence > second.fence
    third.close()


def test_taking_a_session_that_is_free_just_opens_it(store):
    log = store.open("s", take=True)
    log.append([b"one\n"])
    log.close()
    assert said(store.read("s")) == [b"one\n"]


def test_readers_need_no_lease(store):
    writer = store.open("s")
    writer.append([b"one\n"])
    assert store.read("s").fence == 0
    assert said(store.read("s")) == [b"one\n"]
    writer.close()


def test_locks_exclude_one_another_by_name(store):
    with store.lock("index"):
        with pytest.raises(TranscriptLocked), store.lock("index"):
            pass
        with store.lock("other"):
            pass
    with store.lock("index", wait=1):
        pass


# -- branches --------------------------------------------------------------------------------------


def test_a_branch_begins_with_its_parent_and_goes_its_own_way(store):
    parent = store.open("s")
    positions = parent.append([b"one\n", b"two\n"])
    branch = store.branch("s", "fork")
    parent.append([b"parent\n"])
    at = branch.append([b"branch\n"])
    assert said(branch) == [b"one\n", b"two\n", b"branch\n"]
    assert said(parent) == [b"one\n", b"two\n", b"parent\n"]
    assert list(at) == [8]
    assert next(branch.read(positions[1]))[1] == b"two\n"
    assert next(branch.read(at[0]))[1] == b"branch\n"
    branch.close()
    parent.close()
    assert [one.name for one in store.sessions()] == ["s"]
    assert list(store.branches("s")) == ["fork"]


def test_a_branch_is_continued_where_it_ended(store):
    filled(store, "s", b"one\n", b"two\n")
    for line in (b"three\n", b"four\n"):
        branch = store.branch("s", "fork", at=4)
        branch.append([line])
        branch.close()
    branch = store.branch("s", "fork")
    assert said(branch) == [b"one\n", b"three\n", b"four\n"]
    assert [line for _, line in branch.upto(10).read()] == [b"one\n", b"three\n"]
    branch.close()


def test_a_branch_has_a_lease_of_its_own(store):
    parent = store.open("s")
    first = store.branch("s", "fork")
    other = store.branch("s", "other")
    with pytest.raises(TranscriptLocked):
        store.branch("s", "fork")
    second = store.branch("s", "fork", take=True)
    assert second.fence > first.fence
    with pytest.raises(TranscriptOvertaken):
        first.append([b"late\n"])
    parent.append([b"one\n"])
    for log in (first, second, other, parent):
        log.close()


@pytest.mark.parametrize("empty", [False, True])
def test_a_branch_begins_with_another_branch_and_all_three_go_their_own_way(store, empty):
    filled(store, "s", b"one\n", b"two\n")
    branch = store.branch("s", "agent", at=0 if empty else None)
    branch.append([b"three\n"])
    fork = store.branch("s", "fork", of="agent")
    branch.append([b"four\n"])
    filled(store, "s", b"five\n")
    (at,) = fork.append([b"six\n"])
    before = [] if empty else [b"one\n", b"two\n"]
    assert said(fork) == [*before, b"three\n", b"six\n"]
    assert said(branch) == [*before, b"three\n", b"four\n"]
    assert next(fork.read(at)) == (at, b"six\n")
    assert next(fork.upto(at).find(b"three"))[1] == b"three\n"
    assert not list(fork.find(b"four")) + list(fork.find(b"five"))
    fork.close()
    branch.close()
    again = store.branch("s", "fork", of="agent")
    again.append([b"seven\n"])
    assert said(again) == [*before, b"three\n", b"six\n", b"seven\n"]
    again.close()
    assert sorted(store.branches("s")) == ["agent", "fork"]


def test_a_branch_cannot_begin_with_a_branch_that_is_not_there(store):
    filled(store, "s", b"one\n")
    with pytest.raises(TranscriptMissing):
        store.branch("s", "fork", of="nowhere")
    assert list(store.branches("s")) == []


def test_a_branch_may_begin_where_the_branch_it_comes_from_does(store):
    filled(store, "s", b"one\n")
    store.branch("s", "first").close()
    filled(store, "s", b"two\n")
    second = store.branch("s", "second", of="first")
    second.append([b"three\n"])
    assert said(second) == [b"one\n", b"three\n"]
    second.close()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("of", ["", "agent"])
def test_a_branch_answers_every_query(make, of, tmp_path_factory):
    from hypothesis import given

    @given(lines=st.lists(records(), min_size=1, max_size=12), cut=st.integers(0, 12))
    def holds(lines: list[bytes], cut: int) -> None:
        store = make(tmp_path_factory.mktemp("store"))
        filled(store, "s", *lines[: cut // 2 if of else cut])
        if of:
            parent = store.branch("s", of)
            parent.append(lines[cut // 2 : cut])
        branch = store.branch("s", "fork", of=of)
        filled(store, "s", b'{"type":"user","uuid":"a1"}\n')
        if of:
            parent.append([b'{"type":"user","uuid":"a2"}\n'])
            parent.close()
        branch.append(lines[cut:])
        there = list(branch.read())
        assert [line for _, line in there] == lines
        Model(there).agrees(branch)
        branch.close()

    holds()


# -- results, notes, state -------------------------------------------------------------------------


def test_results_come_back_byte_for_byte(store):
    results = store.results("s")
    one, other = results.keep("toolu/1", b"a\x00b"), results.keep("toolu/1", b"other")
    assert one != other
    assert results.keep("toolu/1", b"a\x00b") == one
    assert store.results("s").fetch(one) == b"a\x00b"
    for missing in ("elsewhere/x.txt", "result:x.txt", "result:../x.txt", "result:"):
        with pytest.raises(ResultMissing):
            results.fetch(missing)


@pytest.mark.spec("S25.3")
@pytest.mark.parametrize("name", ["toolu_1", "toolu/1", "a b.json", "../é"])
def test_a_result_is_in_a_file_or_named_so_that_tools_know_it(store, name):
    results = store.results("s")
    path = results.keep(name, b"content")
    if results.directory is not None:
        assert Path(path).read_bytes() == b"content"
        assert Path(path).is_relative_to(results.directory)
    else:
        assert re.fullmatch(r"result:[^/\s]+", path)


@pytest.mark.parametrize("kind", ["notes", "agent_state"])
def test_documents_are_replaced_as_a_whole(store, kind):
    document = getattr(store, kind)("s")
    assert document.read() is None
    document.write("long text")
    document.write("é")
    assert getattr(store, kind)("s").read() == "é"
    assert document.path


# -- agent files and memory ------------------------------------------------------------------------

FOLDERS: dict[str, Callable[[Store], Folder]] = {
    "agent files": lambda store: store.agent_files("s"),
    "agent files of a branch": lambda store: store.agent_files("s", "fork"),
    "memory": lambda store: store.memory(),
    "user memory": lambda store: store.user_memory(),
}


@pytest.mark.spec("S25.1", "S25.2")
@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_holds_files_by_name(store, name):
    folder = FOLDERS[name](store)
    assert list(folder.names()) == []
    assert folder.read("a.md") is None
    folder.write("a.md", b"long content")
    folder.write("a.md", b"\x00\xff")
    folder.append("deep/er/log.jsonl", b"one")
    folder.append("deep/er/log.jsonl", b"two")
    folder.write("deep/.hidden/b", b"old")
    again = FOLDERS[name](store)
    assert again.read("a.md") == b"\x00\xff"
    assert again.read("a.md", most=1) is None
    assert again.read("deep/er/log.jsonl") == b"one\ntwo\n"
    assert list(again.names()) == ["a.md", "deep/er/log.jsonl"]
    assert list(again.names("deep")) == ["deep/er/log.jsonl"]
    assert list(again.names("deep/.hidden")) == ["deep/.hidden/b"]
    again.remove("a.md")
    again.remove("a.md")
    assert folder.read("a.md") is None
    for outside in ("../a.md", "/a.md", "a/../b", ""):
        with pytest.raises(InputError):
            folder.write(outside, b"")


@pytest.mark.spec("S25.1", "S25.2")
def test_no_folder_shows_the_files_of_another(store):
    folders = [make(store) for make in FOLDERS.values()]
    folders += [store.agent_files("t"), store.agent_files("s", "other")]
    for number, folder in enumerate(folders):
        folder.write("a.md", b"%d" % number)
    assert [folder.read("a.md") for folder in folders] == [b"%d" % number for number in range(len(folders))]


def test_a_folders_lock_excludes_other_users_of_the_folder(store):
    with store.memory().lock(), pytest.raises(TranscriptLocked), store.memory().lock():
        pass
    with store.memory().lock():
        pass


def test_memory_is_consolidated_by_one_at_a_time_and_the_time_of_the_last_is_kept(store):
    now = time.time()
    lock = store.memory().dream_lock()
    assert lock.last() is None
    assert lock.take(now)
    assert not store.memory().dream_lock().take(now)
    assert lock.beat(now)
    lock.fail()
    assert lock.last() is None
    assert lock.take(now)
    lock.finish(now)
    assert store.memory().dream_lock().last() == pytest.approx(now, abs=0.01)


def test_mail_waits_in_the_store_for_its_recipient(store):
    with closing(store.mailbox()) as mailbox:
        assert mailbox.send(AgentMessage("m1", "a", "b", "hello")) == "queued"
        (message,) = mailbox.waiting("b")
        assert message.text == "hello"
        mailbox.acknowledge([message])
        assert list(mailbox.waiting("b")) == []


# -- export and import -----------------------------------------------------------------------------


@pytest.mark.parametrize("other", MAKERS.values(), ids=MAKERS)
def test_a_session_goes_from_store_to_store_without_loss(store, other, tmp_path):
    lines = [b'{"a": 1.0}\n', b"\n", b"damaged\n", "é\n".encode()]
    filled(store, "s", *lines)
    target = other(tmp_path / "other")
    target.import_("copy", store.export("s"))
    assert list(target.read("copy").read()) == list(store.read("s").read())
    with pytest.raises(InputError, match="already"):
        target.import_("copy", lines)
    assert list(target.export("copy")) == lines


# -- any order of things ---------------------------------------------------------------------------


class Stores(RuleBasedStateMachine):
    """A store, a second one over the same data where that is possible, and what they should hold."""

    logs: Bundle[Any] = Bundle("logs")
    make: Callable[[], Store]

    @initialize()
    def begin(self) -> None:
        self.store = self.make()
        self.lines: dict[tuple[str, str], list[bytes]] = {}
        self.holder: dict[tuple[str, str], Log] = {}
        self.fences: dict[tuple[str, str], int] = {}

    @rule(target=logs, session=st.sampled_from("ab"), branch=st.sampled_from(["", "x"]), take=st.booleans())
    def open(self, session: str, branch: str, take: bool) -> Any:
        key = (session, branch)
        if branch and (session, "") not in self.lines:
            return multiple()
        if key in self.holder and not take:
            with pytest.raises(TranscriptLocked):
                self._open(session, branch, take=False)
            return multiple()
        log = self._open(session, branch, take=take)
        if key not in self.lines:
            self.lines[key] = list(self.lines[(session, "")]) if branch else []
        assert log.fence > self.fences.get(key, 0)
        self.fences[key] = log.fence
        self.holder[key] = log
        return key, log

    def _open(self, session: str, branch: str, *, take: bool) -> Log:
        if branch:
            return self.store.branch(session, branch, take=take)
        return self.store.open(session, take=take)

    @rule(given=logs, lines=st.lists(st.sampled_from([b"one\n", b"two\n", b"\n"]), max_size=3))
    def append(self, given: Any, lines: list[bytes]) -> None:
        key, log = given
        if key in self.holder and self.holder[key] is log:
            log.append(lines)
            self.lines[key] += lines
        else:
            with pytest.raises(TranscriptOvertaken):
                log.append(lines)

    @rule(given=consumes(logs))
    def close(self, given: Any) -> None:
        key, log = given
        log.close()
        if self.holder.get(key) is log:
            del self.holder[key]

    @invariant()
    def everything_is_as_it_should_be(self) -> None:
        for (session, branch), lines in self.lines.items():
            if not branch:
                assert said(self.store.read(session)) == lines
        for key, log in self.holder.items():
            assert said(log) == self.lines[key]

    def teardown(self) -> None:
        for log in self.holder.values():
            log.close()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_in_any_order_a_store_holds_what_its_writers_wrote(make, tmp_path_factory):
    from hypothesis.stateful import run_state_machine_as_test

    class Machine(Stores):
        make = staticmethod(lambda: make(tmp_path_factory.mktemp("store")))

    run_state_machine_as_test(Machine)


# -- the store of files ----------------------------------------------------------------------------


def test_a_process_that_was_overtaken_while_it_slept_cannot_write_when_it_wakes(tmp_path):
    store = JsonlStore(tmp_path)
    program = f"""
        import sys
        from pathlib import Path
        from sevenfold.errors import TranscriptOvertaken
        from sevenfold.stores.jsonl.store import JsonlStore
        log = JsonlStore(Path({str(tmp_path)!r})).open("s")
        log.append([b"one\\n"])
        print("written", flush=True)
        sys.stdin.readline()
        try:
            log.append([b"late\\n"])
        except TranscriptOvertaken as error:
            print(error, flush=True)
    """
    sleeper = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert sleeper.stdout is not None
    assert sleeper.stdout.readline() == "written\n"
    os.kill(sleeper.pid, signal.SIGSTOP)
    with pytest.raises(TranscriptLocked, match=str(sleeper.pid)):
        store.open("s")
    log = store.open("s", take=True)
    log.append([b"two\n"])
    os.kill(sleeper.pid, signal.SIGCONT)
    told, _ = sleeper.communicate("\n")
    assert f"taken over by process {os.getpid()}" in told
    log.close()
    assert (tmp_path / "s.jsonl").read_bytes() == b"one\ntwo\n"


def test_a_line_counts_when_its_append_returned_and_only_then_however_a_writer_is_overtaken(tmp_path):
    store = JsonlStore(tmp_path)
    program = f"""
        from itertools import count
        from pathlib import Path
        from sevenfold.errors import TranscriptOvertaken
        from sevenfold.stores.jsonl.store import JsonlStore
        log = JsonlStore(Path({str(tmp_path)!r})).open("s")
        for number in count():
            try:
                log.append([b"%d\\n" % number])
            except TranscriptOvertaken:
                break
            print(number, flush=True)
    """
    for _ in range(5):
        (tmp_path / "s.jsonl").unlink(missing_ok=True)
        busy = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
        )
        assert busy.stdout is not None
        before = [busy.stdout.readline() for _ in range(20)]
        log = store.open("s", take=True)
        log.append([b"taken\n"])
        after, _ = busy.communicate()
        log.close()
        acknowledged = [*"".join(before).split(), *after.split()]
        assert (tmp_path / "s.jsonl").read_text().split() == [*acknowledged, "taken"]


def test_a_writer_stopped_between_its_write_and_the_check_is_told_the_truth(tmp_path, monkeypatch):
    store = JsonlStore(tmp_path)
    first = store.open("s")
    first.append([b"one\n"])
    real, taken = os.write, list[Log]()

    def overtaken_after(fd: int, data: bytes) -> int:
        monkeypatch.undo()
        written = real(fd, data)
        taken.append(store.open("s", take=True))
        return written

    monkeypatch.setattr(os, "write", overtaken_after)
    assert first.append([b"two\n"]) == (4,)
    assert said(taken[0]) == [b"one\n", b"two\n"]
    taken[0].append([b"three\n"])
    with pytest.raises(TranscriptOvertaken):
        first.append([b"three\n"])
    first.close()
    taken[0].close()
    assert (tmp_path / "s.jsonl").read_bytes() == b"one\ntwo\nthree\n"


def test_a_takeover_that_fails_lets_go_of_the_session(tmp_path, monkeypatch):
    store = JsonlStore(tmp_path)
    first = store.open("s")
    first.append([b"one\n"])
    real = os.replace

    def refused(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(TranscriptFull):
        store.open("s", take=True)
    monkeypatch.setattr(os, "replace", real)
    second = store.open("s")
    assert [line for line in said(second) if line.strip()] == [b"one\n"]
    with pytest.raises(TranscriptOvertaken):
        first.append([b"two\n"])
    first.close()
    second.close()


def test_a_writer_is_overtaken_even_where_its_file_has_another_name(tmp_path):
    store = JsonlStore(tmp_path)
    first = store.open("s")
    first.append([b"one\n"])
    os.link(tmp_path / "s.jsonl", tmp_path / "backup")
    second = store.open("s", take=True)
    with pytest.raises(TranscriptOvertaken):
        first.append([b"two\n"])
    second.append([b"three\n"])
    first.close()
    second.close()
    assert (tmp_path / "s.jsonl").read_bytes() == b"one\nthree\n"


def test_what_someone_adds_to_a_file_without_a_lease_moves_what_comes_after(tmp_path):
    log = JsonlStore(tmp_path).open("s")
    log.append([b"one\n"])
    with (tmp_path / "s.jsonl").open("ab") as file:
        file.write(b"by hand\n")
    assert log.append([b"two\n"]) == (12,)
    assert log.append([b"three\n"]) == (16,)
    assert said(log) == [b"one\n", b"by hand\n", b"two\n", b"three\n"]
    log.close()


def test_a_lock_file_that_was_deleted_stops_nobody_until_another_writer_comes(tmp_path):
    store = JsonlStore(tmp_path)
    first = store.open("s")
    (tmp_path / "s.jsonl.lock").unlink()
    first.append([b"one\n"])
    second = store.open("s")
    with pytest.raises(TranscriptOvertaken):
        first.append([b"two\n"])
    first.close()
    second.close()


def test_a_branch_of_a_torn_transcript_begins_after_the_fragment(tmp_path):
    store = JsonlStore(tmp_path)
    (tmp_path / "s.jsonl").write_bytes(b"one\ntor")
    branch = store.branch("s", "fork")
    filled(store, "s", b"two\n")
    at = branch.append([b"branch\n"])
    assert said(branch) in ([b"one\n", b"tor", b"branch\n"], [b"one\n", b"tor\n", b"branch\n"])
    assert next(branch.read(at[0]))[1] == b"branch\n"
    branch.close()


def test_a_branch_can_only_begin_where_a_line_ends(tmp_path):
    store = JsonlStore(tmp_path)
    filled(store, "s", b"one\n", b"\n")
    with pytest.raises(InputError, match="where no line ends"):
        store.branch("s", "fork", at=3)
    store.branch("s", "fork", at=5).close()
    store.branch("s", "empty", at=0).close()


def test_a_branch_whose_transcript_was_replaced_is_refused(tmp_path):
    store = JsonlStore(tmp_path)
    filled(store, "s", b"one\n")
    store.branch("s", "fork").close()
    (tmp_path / "s.jsonl").write_bytes(b"two\n")
    with pytest.raises(TranscriptError, match="not what its branch began with"):
        store.branch("s", "fork")


def test_a_session_in_a_file_of_any_name(tmp_path):
    store = FileStore(tmp_path / "talk.log", Project(tmp_path / "project"))
    filled(store, "s", b"one\n")
    assert (tmp_path / "talk.log").read_bytes() == b"one\n"
    assert store.results("s").keep("call", b"x").startswith(str(tmp_path / "tool-results" / "talk"))
    assert store.notes("s").path == str(tmp_path / "project" / "session-memory" / "s.md")
    store.branch("s", "fork").close()
    assert JsonlLog(tmp_path / "branches" / "talk" / "fork.jsonl").head(1)


# -- by name ---------------------------------------------------------------------------------------


def test_a_folder_is_a_store(tmp_path):
    store = registry.open_store(str(tmp_path / "there"))
    filled(store, "s", b"one\n")
    assert (tmp_path / "there" / "s.jsonl").read_bytes() == b"one\n"


def test_memory_is_shared_by_its_name():
    filled(registry.open_store("memory://shared-here"), "s", b"one\n")
    assert said(registry.open_store("memory://shared-here").read("s")) == [b"one\n"]
    assert not registry.open_store("memory://another").sessions()


def test_a_scheme_of_ones_own(monkeypatch):
    monkeypatch.setattr(registry, "_SCHEMES", dict(registry._SCHEMES))
    made: dict[str, Store] = {}
    registry.register("Mine", lambda url: made.setdefault(url, MemoryStore()))
    assert registry.open_store("mine://host/x") is made["mine://host/x"]


@pytest.mark.parametrize("url", ["postgresql://localhost/x", "postgres://u:p@h/x"])
def test_postgresql_is_said_to_be_missing(url):
    with pytest.raises(InputError, match="no store is known for postgres"):
        sevenfold.Session.open("s", model="claude-sonnet-5-5", store=url)


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no store is known for redis://.*memory.*register"):
        registry.open_store("redis://x")
    with pytest.raises(InputError, match="store is a int"):
        registry.open_store(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="one of the two"):
        sevenfold.Session.open(
            "s", model="claude-sonnet-5-5", store=str(tmp_path), file=tmp_path / "x.jsonl"
        )


def test_a_session_is_kept_in_the_store_it_is_given(tmp_path):
    store = MemoryStore()
    for words in ("hello", "again"):
        with sevenfold.Session.open(
            "s", model="claude-sonnet-5-5", store=store, folder=tmp_path
        ) as session:
            session.user(words)
            assert len(session.conversation.transcript.view.items) == (1 if words == "hello" else 2)
    assert store.read("s").identity().session == "s"
