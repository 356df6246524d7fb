"""Branches of a session are purged, collected and removed with it."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from sevenfold.cli import gc as gc_command
from sevenfold.cli import purge as purge_command
from sevenfold.clock import ManualClock, RandomIds
from sevenfold.conversation.resume import fold, resume
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import TranscriptError, TranscriptLocked
from sevenfold.record import blocks
from sevenfold.record.decisions import CompactMetadata, Offloaded, Purged, Segment
from sevenfold.record.log import Place
from sevenfold.record.redact import mask
from sevenfold.record.view import View
from sevenfold.stores.files import Staged
from sevenfold.stores.home import Home
from sevenfold.stores.jsonl.store import JsonlStore
from tests.redaction.making import ALONE, Maker
from tests.storage.making import Worker, call, run, thought
from tests.support import answer, shown

SECRET = ALONE["github-token"](Maker())
LABEL = mask(SECRET).text


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


def store(worker: Worker) -> JsonlStore:
    return JsonlStore(worker.files.folder)


def branched(worker: Worker, name: str = "fork") -> Transcript:
    log = store(worker).branch("s-1", name)
    return Transcript(log, Place("s-1"), clock=ManualClock(), ids=RandomIds())


def reopened(worker: Worker, name: str = "fork") -> View:
    log = store(worker).branch("s-1", name)
    view = resume(log)
    assert view.encoded() == fold(log).encoded()
    log.close()
    return view


def purge(secret: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO(secret + "\n"))
        return run(purge_command, "--secret-stdin", "--yes")


@pytest.fixture
def leaked(home) -> Worker:
    """A secret in the parent before the branch; the branch compacts and keeps messages it shares with its parent."""
    worker = Worker(home, "s-1")
    worker.turn(f"my token is {SECRET}", f"I keep {SECRET}", id="a")
    kept = worker.turn("kept by the branch", "yes", id="b")
    worker.turn("thanks", "welcome", id="c")
    fork = branched(worker)
    fork.user([blocks.text("in the branch")])
    fork.model(answer(thought(), "there", id="msg_fork"))
    tail = fork.view.items[-1].record.uuid
    fork.compact(
        CompactMetadata(preserved_segment=Segment(kept, "anchor", tail)),
        [blocks.text("in short")],
        anchor="anchor",
    )
    fork.user([blocks.text("after it")])
    fork.close()
    worker.turn("the parent goes on", "so it does", id="d")
    worker.close()
    return worker


def words(view: View) -> str:
    return str(shown(view))


@pytest.mark.spec("S10.1")
def test_a_purge_of_the_parent_moves_what_its_branches_point_to(leaked):
    before = reopened(leaked)
    assert "kept by the branch" in words(before)
    assert purge(SECRET) == 0
    view = reopened(leaked)
    assert words(view) == words(before).replace("thinking ", "")
    assert view.epoch is not None
    assert (view.epoch.reason, view.epoch.drops_thinking) == ("purged", True)
    log = store(leaked).branch("s-1", "fork")
    assert [message for message in shown(fold(log.upto(2**40))) if SECRET in str(message)] == []
    assert next(log.boundaries())[1].about.preserved_segment is not None
    log.close()


def test_a_secret_in_a_branch_alone_is_found_and_masked(home, leaked):
    fork = branched(leaked, "other")
    fork.user([blocks.text("the password is hunter-two-three")])
    fork.close()
    before = leaked.files.transcript.read_bytes()
    assert purge("hunter-two-three") == 0
    assert leaked.files.transcript.read_bytes().startswith(before)
    view = reopened(leaked, "other")
    assert "hunter" not in words(view)
    (record,) = [made for made in view.decisions() if isinstance(made, Purged)]
    assert record.count == 1
    assert "hunter" not in leaked.files.branch("other").read_text()


def test_a_purge_that_was_cut_off_between_branch_and_parent_is_finished_by_doing_it_again(
    leaked, monkeypatch
):
    before = words(reopened(leaked))
    commit = Staged.commit

    def killed(staged: Staged) -> None:
        if staged.target == leaked.files.transcript:
            raise KeyboardInterrupt
        commit(staged)

    monkeypatch.setattr(Staged, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        purge(SECRET)
    monkeypatch.undo()
    monkeypatch.setenv("SEVENFOLD_HOME", str(leaked.files.folder.parent.parent))
    with pytest.raises(TranscriptError, match="run it again"):
        reopened(leaked)
    rewritten = leaked.files.branch("fork").read_bytes()
    assert purge(SECRET) == 0
    assert leaked.files.branch("fork").read_bytes() == rewritten
    assert words(reopened(leaked)) == before.replace("thinking ", "")


@pytest.fixture
def nested(leaked: Worker) -> Worker:
    """A branch of the branch, and one of a branch that begins with nothing; secrets in each of them."""
    log = store(leaked).branch("s-1", "agent", at=0)
    agent = Transcript(log, Place("s-1"), clock=ManualClock(), ids=RandomIds())
    agent.user([blocks.text(f"use {SECRET}")])
    agent.model(answer("I do", id="msg_agent"))
    agent.close()
    for of in ("fork", "agent"):
        log = store(leaked).branch("s-1", f"{of}-fork", of=of)
        fork = Transcript(log, Place("s-1"), clock=ManualClock(), ids=RandomIds())
        fork.user([blocks.text(f"deeper with {SECRET}")])
        fork.close()
    return leaked


ALL = ("fork", "agent", "fork-fork", "agent-fork")


@pytest.mark.spec("S10.1", "S7.14")
@pytest.mark.parametrize("commits", range(6))
def test_a_purge_that_is_cut_off_among_branches_of_branches_is_finished_by_doing_it_again(
    commits, nested, monkeypatch
):
    before = {name: words(reopened(nested, name)) for name in ALL}
    assert SECRET in before["agent-fork"]
    commit, done = Staged.commit, list[Path]()

    def killed(staged: Staged) -> None:
        if len(done) == commits:
            raise KeyboardInterrupt
        commit(staged)
        done.append(staged.target)

    monkeypatch.setattr(Staged, "commit", killed)
    if commits < 5:
        with pytest.raises(KeyboardInterrupt):
            purge(SECRET)
        monkeypatch.undo()
        monkeypatch.setenv("SEVENFOLD_HOME", str(nested.files.folder.parent.parent))
    assert purge(SECRET) == 0
    for name in ALL:
        view = reopened(nested, name)
        assert words(view) == before[name].replace("thinking ", "").replace(SECRET, LABEL)
        assert SECRET not in nested.files.branch(name).read_text()
    assert run(gc_command) == 0


def test_a_branch_in_use_keeps_a_purge_waiting(leaked):
    log = store(leaked).branch("s-1", "fork")
    before = leaked.files.transcript.read_bytes()
    with pytest.raises(TranscriptLocked):
        purge(SECRET)
    assert leaked.files.transcript.read_bytes() == before
    log.close()


def test_removing_a_session_removes_its_branches(home, leaked):
    assert run(purge_command, "--session", "s-1", "--yes") == 0
    assert not leaked.files.branches.exists()
    assert [path for path in leaked.files.folder.rglob("*") if path.is_file()] == []


def test_results_that_only_a_branch_refers_to_are_needed(home):
    worker = Worker(home, "s-1")
    worker.turn(id="a")
    fork = branched(worker)
    fork.model(answer(call("t1"), id="msg_t1"))
    fork.user([blocks.result("t1", "long")])
    path = worker.results.keep("t1", b"long")
    fork.decide(Offloaded(tool_use_id="t1", preview="see there", path=path, size=4, sha256="0" * 64))
    gone = worker.results.keep("t2", b"nobody refers to it")
    fork.close()
    worker.close()
    assert run(gc_command, "--days", "0") == 0
    assert Path(path).exists()
    assert not Path(gone).exists()
