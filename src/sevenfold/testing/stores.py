"""What every store must do. Subclass `StoreContract` in a test module of your own::

    from sevenfold.testing.stores import StoreContract

    class TestMyStore(StoreContract):
        def open_store(self, folder, tenant=""):
            return MyStore(folder / "sessions.db", tenant)

It needs pytest, which the engine itself does not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from sevenfold.errors import (
    InputError,
    ResultMissing,
    TranscriptError,
    TranscriptLocked,
    TranscriptMissing,
    TranscriptOvertaken,
)
from sevenfold.ports import MOST_MESSAGES_AT_ONCE, MOST_MESSAGES_WAITING, AgentMessage, Folder, Store
from sevenfold.stores import registry
from sevenfold.testing.logs import LogContract, lines_of

FOLDERS: dict[str, Callable[[Store], Folder]] = {
    "agent files": lambda store: store.agent_files("s"),
    "agent files of a branch": lambda store: store.agent_files("s", "fork"),
    "memory": lambda store: store.memory(),
    "user memory": lambda store: store.user_memory(),
}
"""The folders of a store."""


def filled(store: Store, session: str, *lines: bytes) -> None:
    """Append lines to a session, with a lease of their own."""
    log = store.open(session)
    log.append(lines)
    log.close()


class StoreContract(LogContract):
    """The tests of a store; a subclass says how to open one."""

    def expire(self, store: Store) -> None:
        """Let all leases expire, as if nothing had been heard of their holders; for a store whose leases do."""
        raise NotImplementedError("define expire(self, store) in your test class: its leases expire")

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        """The store under test."""
        with closing(self.open_store(tmp_path)) as store:
            yield store

    def test_it_keeps_the_port(self, store: Store) -> None:
        assert registry.open_store(store) is store

    def test_a_session_is_continued_where_it_ended(self, store: Store) -> None:
        filled(store, "s", b"one\n")
        filled(store, "s", b"two\n")
        assert lines_of(store.read("s")) == [b"one\n", b"two\n"]
        assert [info.name for info in store.sessions()] == ["s"]
        assert store.sessions()[0].size == 8

    def test_sessions_do_not_share_anything(self, store: Store) -> None:
        filled(store, "a", b"one\n")
        filled(store, "b", b"two\n")
        store.notes("a").write("notes")
        path = store.results("a").keep("call", b"result")
        assert lines_of(store.read("b")) == [b"two\n"]
        assert store.notes("b").read() is None
        with pytest.raises(ResultMissing):
            store.results("b").fetch(path)

    @pytest.mark.parametrize(
        "session",
        ["plain", "with space", "../up", "é" * 80, "CON", "a\x00b", "a\nb", "%_'\"\\", "x" * 300],
    )
    def test_a_session_of_any_name_is_listed_under_it(self, store: Store, session: str) -> None:
        filled(
            store, session, b'{"type":"user","sessionId":%s,"cwd":"/w"}\n' % msgspec.json.encode(session)
        )
        (info,) = store.sessions()
        assert info.name == session
        assert lines_of(store.read(info.name)) == lines_of(store.read(session))

    def test_names_that_are_nearly_the_same_are_not_the_same_session(self, store: Store) -> None:
        names = ["a", "A", "a ", "a.", "a/", "é", "e\u0301"]
        for name in names:
            filled(store, name, name.encode() + b"\n")
        for name in names:
            assert lines_of(store.read(name)) == [name.encode() + b"\n"]

    def test_what_is_not_there_cannot_be_read(self, store: Store) -> None:
        with pytest.raises(TranscriptMissing):
            lines_of(store.read("nowhere"))
        with pytest.raises(TranscriptMissing):
            store.branch("nowhere", "fork")
        assert list(store.sessions()) == []

    def test_a_second_writer_is_refused_until_the_first_closes(self, store: Store) -> None:
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

    def test_waiting_for_a_writer_gets_the_log_when_it_closes(self, store: Store) -> None:
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

    def test_a_writer_that_was_overtaken_is_refused_and_writes_nothing(self, store: Store) -> None:
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
        assert lines_of(store.read("s")) == [b"one\n", b"two\n", b"four\n"]
        third = store.open("s")
        assert third.fence > second.fence
        third.close()

    def test_taking_a_session_that_is_free_just_opens_it(self, store: Store) -> None:
        log = store.open("s", take=True)
        log.append([b"one\n"])
        log.close()
        assert lines_of(store.read("s")) == [b"one\n"]

    def test_a_lease_is_renewed_by_its_holder_alone(self, store: Store) -> None:
        first = store.open("s")
        first.renew()
        with pytest.raises(TranscriptLocked):
            store.open("s")
        second = store.open("s", take=True)
        with pytest.raises(TranscriptOvertaken):
            first.renew()
        second.renew()
        second.append([b"one\n"])
        second.close()
        second.renew()  # which does not bring back a lease that was given up
        third = store.open("s")
        with pytest.raises(TranscriptOvertaken):
            second.renew()
        third.close()
        branch = store.branch("s", "fork")
        branch.renew()
        taken = store.branch("s", "fork", take=True)
        with pytest.raises(TranscriptOvertaken):
            branch.renew()
        taken.close()
        assert lines_of(store.read("s")) == [b"one\n"]

    def test_a_lease_that_expired_is_free_unless_its_holder_renews_it_first(self, store: Store) -> None:
        first = store.open("s")
        if not first.lease_seconds:
            first.close()
            return  # it lasts as long as its process, which no other test can end
        self.expire(store)
        first.renew()
        with pytest.raises(TranscriptLocked):
            store.open("s")
        self.expire(store)
        second = store.open("s")
        assert second.fence > first.fence
        second.append([b"one\n"])
        for change in (first.renew, lambda: first.append([b"late\n"])):
            with pytest.raises(TranscriptOvertaken):
                change()
        first.close()
        with pytest.raises(TranscriptLocked):
            store.open("s")
        second.close()
        assert lines_of(store.read("s")) == [b"one\n"]

    def test_readers_need_no_lease(self, store: Store) -> None:
        writer = store.open("s")
        writer.append([b"one\n"])
        assert store.read("s").fence == 0
        assert lines_of(store.read("s")) == [b"one\n"]
        writer.close()

    def test_locks_exclude_one_another_by_name(self, store: Store) -> None:
        with store.lock("index"):
            with pytest.raises(TranscriptLocked), store.lock("index"):
                pass
            with store.lock("other"):
                pass
        with store.lock("index", wait=1):
            pass

    def test_a_branch_begins_with_its_parent_and_goes_its_own_way(self, store: Store) -> None:
        parent = store.open("s")
        positions = parent.append([b"one\n", b"two\n"])
        branch = store.branch("s", "fork")
        parent.append([b"parent\n"])
        at = branch.append([b"branch\n"])
        assert lines_of(branch) == [b"one\n", b"two\n", b"branch\n"]
        assert lines_of(parent) == [b"one\n", b"two\n", b"parent\n"]
        assert list(at) == [8]
        assert next(branch.read(positions[1]))[1] == b"two\n"
        assert next(branch.read(at[0]))[1] == b"branch\n"
        branch.close()
        parent.close()
        assert [info.name for info in store.sessions()] == ["s"]
        assert list(store.branches("s")) == ["fork"]

    def test_a_branch_is_continued_where_it_ended(self, store: Store) -> None:
        filled(store, "s", b"one\n", b"two\n")
        for line in (b"three\n", b"four\n"):
            branch = store.branch("s", "fork", at=4)
            branch.append([line])
            branch.close()
        branch = store.branch("s", "fork")
        assert lines_of(branch) == [b"one\n", b"three\n", b"four\n"]
        assert [line for _, line in branch.upto(10).read()] == [b"one\n", b"three\n"]
        branch.close()

    def test_a_branch_has_a_lease_of_its_own(self, store: Store) -> None:
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
    def test_a_branch_begins_with_another_branch_and_all_three_go_their_own_way(
        self, store: Store, empty: bool
    ) -> None:
        filled(store, "s", b"one\n", b"two\n")
        branch = store.branch("s", "agent", at=0 if empty else None)
        branch.append([b"three\n"])
        fork = store.branch("s", "fork", of="agent")
        branch.append([b"four\n"])
        filled(store, "s", b"five\n")
        (at,) = fork.append([b"six\n"])
        before = [] if empty else [b"one\n", b"two\n"]
        assert lines_of(fork) == [*before, b"three\n", b"six\n"]
        assert lines_of(branch) == [*before, b"three\n", b"four\n"]
        assert next(fork.read(at)) == (at, b"six\n")
        assert lines_of(fork.upto(at)) == [*before, b"three\n"]
        fork.close()
        branch.close()
        again = store.branch("s", "fork", of="agent")
        again.append([b"seven\n"])
        assert lines_of(again) == [*before, b"three\n", b"six\n", b"seven\n"]
        again.close()
        assert sorted(store.branches("s")) == ["agent", "fork"]

    def test_a_branch_cannot_begin_with_a_branch_that_is_not_there(self, store: Store) -> None:
        filled(store, "s", b"one\n")
        with pytest.raises(TranscriptMissing):
            store.branch("s", "fork", of="nowhere")
        assert list(store.branches("s")) == []

    def test_a_branch_may_begin_where_the_branch_it_comes_from_does(self, store: Store) -> None:
        filled(store, "s", b"one\n")
        store.branch("s", "first").close()
        filled(store, "s", b"two\n")
        second = store.branch("s", "second", of="first")
        second.append([b"three\n"])
        assert lines_of(second) == [b"one\n", b"three\n"]
        second.close()

    def test_results_come_back_byte_for_byte(self, store: Store) -> None:
        results = store.results("s")
        first = results.keep("toolu/1", b"a\x00b")
        second = results.keep("toolu/1", b"other")
        assert first != second
        assert results.keep("toolu/1", b"a\x00b") == first
        assert store.results("s").fetch(first) == b"a\x00b"
        for missing in ("elsewhere/x.txt", "result:x.txt", "result:../x.txt", "result:"):
            with pytest.raises(ResultMissing):
                results.fetch(missing)

    @pytest.mark.parametrize("name", ["toolu_1", "toolu/1", "a b.json", "../é"])
    def test_a_result_is_in_a_file_or_named_so_that_tools_know_it(self, store: Store, name: str) -> None:
        results = store.results("s")
        path = results.keep(name, b"content")
        if results.directory is not None:
            assert Path(path).read_bytes() == b"content"
            assert Path(path).is_relative_to(results.directory)
        else:
            assert re.fullmatch(r"result:[^/\s]+", path)

    @pytest.mark.parametrize("how", ["taken over", "closed"])
    def test_a_writer_that_was_overtaken_changes_nothing_that_belongs_to_a_session(
        self, store: Store, how: str
    ) -> None:
        store.open("s").close()
        for branch in ("", "fork"):
            first = store.branch("s", branch) if branch else store.open("s")
            early = store.fenced(first)
            for change in self._changes(early, branch, "early").values():
                change()
            if how == "closed":
                first.close()
            second = store.branch("s", branch, take=True) if branch else store.open("s", take=True)
            for change in self._changes(early, branch, "late").values():
                with pytest.raises(TranscriptOvertaken):
                    change()
            assert self._kept(store, branch) == dict.fromkeys(self._kept(store, branch), "early")
            for change in self._changes(store.fenced(second), branch, "now").values():
                change()
            kept = self._kept(store, branch)
            assert kept == dict.fromkeys(kept, "now")
            second.close()
            first.close()

    @staticmethod
    def _changes(store: Store, branch: str, text: str) -> dict[str, Callable[[], object]]:
        """A change of each part that belongs to a session, or to a branch."""
        files = store.agent_files("s", branch)
        changes: dict[str, Callable[[], object]] = {
            "notes": lambda: store.notes("s", branch).write(text),
            "agent files": lambda: files.write("a.md", text.encode()),
            "a line of an agent's file": lambda: files.append("log.jsonl", text.encode()),
            "memory": lambda: store.memory().write("a.md", text.encode()),
            "user memory": lambda: store.user_memory().write("a.md", text.encode()),
            "mail": lambda: store.mailbox().send(AgentMessage(f"{branch} {text}", "a", "b", text)),
        }
        if not branch:
            changes["state"] = lambda: store.agent_state("s").write(text)
            changes["results"] = lambda: store.results("s").keep(text, text.encode())
        if text == "late":
            changes["removal"] = lambda: files.remove("a.md")
            changes["receipt"] = lambda: store.mailbox().acknowledge(store.mailbox().waiting("b"))
        return changes

    @staticmethod
    def _kept(store: Store, branch: str) -> dict[str, str]:
        """The newest content of each part."""
        files = store.agent_files("s", branch)
        contents = {
            "notes": store.notes("s", branch).read() or "",
            "agent files": (files.read("a.md") or b"").decode(),
            "a line of an agent's file": (files.read("log.jsonl") or b"").decode().split()[-1],
            "memory": (store.memory().read("a.md") or b"").decode(),
            "user memory": (store.user_memory().read("a.md") or b"").decode(),
            "mail": store.mailbox().waiting("b")[-1].text,
        }
        return contents if branch else {**contents, "state": store.agent_state("s").read() or ""}

    def test_a_branch_has_notes_and_an_index_of_its_own(self, store: Store) -> None:
        filled(store, "s", b"one\n")
        store.branch("s", "fork").close()
        for branch in ("", "fork", "other"):
            assert store.notes("s", branch).read() is None
            assert store.recall_index("s", branch).read() is None
            store.notes("s", branch).write(f"notes of {branch}")
            store.recall_index("s", branch).write(b"\x00index of " + branch.encode())
        for branch in ("", "fork", "other"):
            assert store.notes("s", branch).read() == f"notes of {branch}"
            assert store.recall_index("s", branch).read() == b"\x00index of " + branch.encode()
        file = store.recall_index("s").file
        assert file is None or file.read_bytes() == b"\x00index of "
        assert list(store.branches("s")) == ["fork"]

    def test_sessions_are_listed_from_a_time_on_and_up_to_a_number(self, store: Store) -> None:
        for session in ("a", "b", "c"):
            filled(store, session, b"one\n")
        everything = list(store.sessions())
        assert sorted(info.name for info in everything) == ["a", "b", "c"]
        assert everything == sorted(everything, key=lambda info: -info.modified)
        newest = everything[0].modified
        assert list(store.sessions(limit=2)) == everything[:2]
        assert list(store.sessions(limit=0)) == []
        assert [info for info in everything if info.modified >= newest] == list(
            store.sessions(since=newest)
        )
        assert list(store.sessions(since=newest + 1_000)) == []

    def test_a_session_is_imported_as_a_whole_or_not_at_all(self, store: Store) -> None:
        def cut_off() -> Iterator[bytes]:
            yield b"one\n"
            raise EOFError("the other end was cut off")

        with pytest.raises(EOFError):
            store.import_("s", cut_off())
        assert list(store.sessions()) == []
        store.import_("s", [b"one\n", b"two\n"])
        with pytest.raises(InputError):
            store.import_("s", [b"three\n"])
        assert list(store.export("s")) == [b"one\n", b"two\n"]

    def test_nothing_is_left_of_a_session_that_was_erased(self, store: Store) -> None:
        for session in ("s", "s2"):
            filled(store, session, b"one\n")
            branch = store.branch(session, "fork")
            branch.append([b"two\n"])
            branch.close()
            for name in ("", "fork"):
                store.notes(session, name).write("notes")
                store.recall_index(session, name).write(b"index")
                store.agent_files(session, name).write("a.md", b"plan")
            store.agent_state(session).write("{}")
        kept = {session: store.results(session).keep("call", b"result") for session in ("s", "s2")}
        store.memory().write("a.md", b"outlives it")
        store.erase("s")
        assert [info.name for info in store.sessions()] == ["s2"]
        with pytest.raises(TranscriptMissing):
            lines_of(store.read("s"))
        with pytest.raises(TranscriptMissing):
            store.erase("s")
        filled(store, "s", b"new\n")
        assert lines_of(store.read("s")) == [b"new\n"]
        assert list(store.branches("s")) == []
        for name in ("", "fork"):
            assert store.notes("s", name).read() is None
            assert store.recall_index("s", name).read() is None
            assert list(store.agent_files("s", name).names()) == []
            assert store.notes("s2", name).read() == "notes"
        assert store.agent_state("s").read() is None
        with pytest.raises(ResultMissing):
            store.results("s").fetch(kept["s"])
        assert store.results("s2").fetch(kept["s2"]) == b"result"
        assert lines_of(store.read("s2")) == [b"one\n"]
        assert list(store.branches("s2")) == ["fork"]
        assert store.memory().read("a.md") == b"outlives it"

    def test_a_session_is_not_erased_while_it_or_its_branch_is_written(self, store: Store) -> None:
        log = store.open("s")
        log.append([b"one\n"])
        with pytest.raises(TranscriptLocked):
            store.erase("s")
        branch = store.branch("s", "fork")
        log.close()
        with pytest.raises(TranscriptLocked):
            store.erase("s")
        store.notes("s").write("notes")
        assert lines_of(branch) == [b"one\n"]
        branch.close()
        store.erase("s")
        with pytest.raises(TranscriptError):
            log.append([b"late\n"])

    @pytest.mark.parametrize("other", ["b", "../a", "a/s", "A" * 300, "", "a' OR '1'='1"])
    def test_tenants_see_nothing_of_one_another(self, tmp_path: Path, other: str) -> None:
        stores = [self.open_store(tmp_path, tenant) for tenant in ("a", other)]
        first, second = stores
        assert [store.tenant for store in stores] == ["a", other]
        log = first.open("s")
        log.append([b"one\n"])
        path = first.results("s").keep("call", b"result")
        first.notes("s").write("notes")
        first.recall_index("s").write(b"index")
        first.agent_state("s").write("{}")
        for make in FOLDERS.values():
            make(first).write("a.md", b"theirs")
        first.mailbox().send(AgentMessage("m1", "x", "y", "hello"))
        assert list(second.sessions()) == []
        with pytest.raises(TranscriptMissing):
            lines_of(second.read("s"))
        with pytest.raises(TranscriptMissing):
            second.erase("s")
        with pytest.raises(ResultMissing):
            second.results("s").fetch(path)
        assert second.notes("s").read() is None
        assert second.recall_index("s").read() is None
        assert second.agent_state("s").read() is None
        for make in FOLDERS.values():
            assert list(make(second).names()) == []
            assert make(second).read("a.md") is None
        assert list(second.mailbox().waiting("y")) == []
        with first.lock("index"), second.lock("index"), first.memory().lock(), second.memory().lock():
            pass
        second.open("s").close()
        log.append([b"two\n"])
        log.close()

    def test_what_is_kept_is_there_when_a_store_is_closed_and_opened_again(self, tmp_path: Path) -> None:
        first = self.open_store(tmp_path)
        filled(first, "s", b"one\n")
        first.memory().write("a.md", b"kept")
        first.close()
        second = self.open_store(tmp_path)
        assert lines_of(second.read("s")) == [b"one\n"]
        assert second.memory().read("a.md") == b"kept"
        second.close()

    @pytest.mark.parametrize("kind", ["notes", "agent_state"])
    def test_documents_are_replaced_as_a_whole(self, store: Store, kind: str) -> None:
        document = getattr(store, kind)("s")
        assert document.read() is None
        document.write("long text")
        document.write("é\x00\u2028")
        assert getattr(store, kind)("s").read() == "é\x00\u2028"
        assert document.path

    @pytest.mark.parametrize("name", FOLDERS)
    def test_a_folder_holds_files_by_name(self, store: Store, name: str) -> None:
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
            with pytest.raises(InputError):
                folder.read(outside)

    def test_no_folder_shows_the_files_of_another(self, store: Store) -> None:
        folders = [make(store) for make in FOLDERS.values()]
        folders += [store.agent_files("t"), store.agent_files("s", "other")]
        for number, folder in enumerate(folders):
            folder.write("a.md", b"%d" % number)
        assert [folder.read("a.md") for folder in folders] == [
            b"%d" % number for number in range(len(folders))
        ]

    def test_a_folders_lock_excludes_other_users_of_the_folder(self, store: Store) -> None:
        with store.memory().lock(), pytest.raises(TranscriptLocked), store.memory().lock():
            pass
        with store.memory().lock():
            pass

    def test_memory_is_consolidated_by_one_at_a_time_and_the_time_of_the_last_is_kept(
        self, store: Store
    ) -> None:
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

    def test_mail_waits_in_the_store_for_its_recipient(self, store: Store) -> None:
        with closing(store.mailbox()) as mailbox:
            sent = AgentMessage("m1", "a\x00", "b", "hello \x00", summary="é")
            assert mailbox.send(sent) == "queued"
            (message,) = mailbox.waiting("b")
            assert message == sent
            mailbox.acknowledge([message])
            assert list(mailbox.waiting("b")) == []

    def test_only_so_many_messages_wait_for_one_recipient(self, store: Store) -> None:
        with closing(store.mailbox()) as mailbox:
            for number in range(MOST_MESSAGES_WAITING):
                assert mailbox.send(AgentMessage(f"m{number}", "a", "b", "hello")) == "queued"
            one_more = AgentMessage("one more", "a", "b", "hello")
            assert mailbox.send(one_more) == "refused"
            assert mailbox.send(AgentMessage("one more", "a", "c", "hello")) == "queued"
            waiting = mailbox.waiting("b")
            assert [message.id for message in waiting] == [f"m{n}" for n in range(MOST_MESSAGES_AT_ONCE)]
            mailbox.acknowledge(waiting[:1])
            again = AgentMessage("and again", "a", "b", "hello")
            assert mailbox.send(again) == "queued"
