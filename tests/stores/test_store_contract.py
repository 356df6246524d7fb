"""What every store must do, wherever it keeps its sessions."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
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
from bench.servers.postgres import OWNER
from sevenfold.errors import (
    InputError,
    TranscriptError,
    TranscriptFull,
    TranscriptLocked,
    TranscriptOvertaken,
)
from sevenfold.ports import Folder, Log, Results, Store
from sevenfold.stores import registry
from sevenfold.stores.home import Project
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.jsonl.store import FileStore, JsonlStore
from sevenfold.stores.marks import Mark, marks_of
from sevenfold.stores.memory import MemoryLog, MemoryStore
from sevenfold.testing.logs import Answers, lines_of, sample
from sevenfold.testing.stores import StoreContract, filled
from tests.stores.records import records
from tests.stores.servers import in_postgres, postgres

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


def sqlite(folder: Path, tenant: str = "") -> Store:
    folder.mkdir(exist_ok=True)
    named = f"?tenant={quote(tenant, safe='')}" if tenant else ""
    made: Store = documented()["SqliteStore"](f"sqlite://{folder / 'sessions.db'}{named}")
    return made


def in_memory(folder: Path, tenant: str = "") -> Store:
    named = f"?tenant={quote(tenant, safe='')}" if tenant else ""
    return registry.open_store(f"memory://{folder}{named}")


MAKERS: dict[str, Callable[..., Store]] = {
    "memory": in_memory,
    "jsonl": lambda folder, tenant="": JsonlStore(folder / "sessions", tenant=tenant),
    "documented": sqlite,
    "postgres": in_postgres,
}


@pytest.fixture(params=MAKERS)
def store(request, tmp_path) -> Store:
    return MAKERS[request.param](tmp_path)


@pytest.mark.spec(
    "S25.1", "S25.2", "S25.3", "S25.4", "S25.21", "S25.22", "S25.23", "S25.24", "S25.25", "S25.26", "S25.32"
)
class TestMemoryStore(StoreContract):
    def open_store(self, folder: Path, tenant: str = "") -> Store:
        return MAKERS["memory"](folder, tenant)


@pytest.mark.spec(
    "S25.1", "S25.2", "S25.3", "S25.4", "S25.21", "S25.22", "S25.23", "S25.24", "S25.25", "S25.26", "S25.32"
)
class TestJsonlStore(StoreContract):
    def open_store(self, folder: Path, tenant: str = "") -> Store:
        return MAKERS["jsonl"](folder, tenant)


@pytest.mark.spec(
    "S25.1", "S25.2", "S25.3", "S25.4", "S25.21", "S25.22", "S25.23", "S25.24", "S25.25", "S25.26", "S25.32"
)
class TestDocumentedStore(StoreContract):
    def open_store(self, folder: Path, tenant: str = "") -> Store:
        return MAKERS["documented"](folder, tenant)

    def expire(self, store: Any) -> None:
        store.db.rows("UPDATE log SET expires = 1")


@pytest.mark.spec(
    "S25.1", "S25.2", "S25.3", "S25.4", "S25.21", "S25.22", "S25.23", "S25.24", "S25.25", "S25.26", "S25.32"
)
@pytest.mark.spec("S34.1")
class TestPostgresStore(StoreContract):
    def open_store(self, folder: Path, tenant: str = "") -> Store:
        return MAKERS["postgres"](folder, tenant)

    def expire(self, store: Any) -> None:
        with psycopg.connect(postgres().url(OWNER), autocommit=True) as connection:
            connection.execute("UPDATE sevenfold.worker SET expires = '-infinity'")


# -- branches --------------------------------------------------------------------------------------


class ForgetfulStore(MemoryStore):
    """A store that gives every session the same results, and the user the memory of the project."""

    def results(self, session: str) -> Results:
        return super().results("")

    def user_memory(self) -> Folder:
        return self.memory()


@pytest.mark.spec("S25.4")
@pytest.mark.parametrize(
    "broken", ["test_sessions_do_not_share_anything", "test_no_folder_shows_the_files_of_another"]
)
def test_a_store_that_breaks_the_contract_is_found(broken):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(StoreContract(), broken)(ForgetfulStore())
    getattr(StoreContract(), broken)(MemoryStore())


class HalfIndexedLog(MemoryLog):
    """A log whose index knows only the first name of each kind in a line."""

    def marked(self, mark: Mark, name: str = "", before: int | None = None) -> Iterator[tuple[int, bytes]]:
        for position, line in reversed(list(self.read())):
            first_names = dict(reversed(list(marks_of(line))))
            if first_names.get(mark) == name and (before is None or position < before):
                yield position, line


@pytest.mark.spec("S25.29")
def test_an_index_that_leaves_anything_out_is_found() -> None:
    def check(log: MemoryLog) -> None:
        lines = sample()
        Answers(zip(log.append(lines), lines, strict=True)).check(log, cuts=2)

    check(MemoryLog())
    with pytest.raises(AssertionError):
        check(HalfIndexedLog())


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
        Answers(there).check(branch)
        branch.close()

    holds()


# -- agent files and memory ------------------------------------------------------------------------

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
                assert lines_of(self.store.read(session)) == lines
        for key, log in self.holder.items():
            assert lines_of(log) == self.lines[key]

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
    assert lines_of(taken[0]) == [b"one\n", b"two\n"]
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
    assert [line for line in lines_of(second) if line.strip()] == [b"one\n"]
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
    assert lines_of(log) == [b"one\n", b"by hand\n", b"two\n", b"three\n"]
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
    assert lines_of(branch) in ([b"one\n", b"tor", b"branch\n"], [b"one\n", b"tor\n", b"branch\n"])
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
    assert lines_of(registry.open_store("memory://shared-here").read("s")) == [b"one\n"]
    assert not registry.open_store("memory://another").sessions()


def test_a_scheme_of_ones_own(monkeypatch):
    monkeypatch.setattr(registry, "_SCHEMES", dict(registry._SCHEMES))
    made: dict[str, Store] = {}
    registry.register("Mine", lambda url: made.setdefault(url, MemoryStore()))
    assert registry.open_store("mine://host/x") is made["mine://host/x"]


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no store is known for redis://.*memory.*register"):
        registry.open_store("redis://x")
    with pytest.raises(InputError, match="store is a int"):
        registry.open_store(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pass file= or store=, not both"):
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
