"""`sevenfold decisions`: what waits for the user in gateways that ask, from any terminal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sevenfold.agent.team.orders import OrderTaker
from sevenfold.agent.team.presence import TaskFile, TaskList
from sevenfold.agent.team.proposals import Done, PendingProposal
from sevenfold.cli.main import main
from sevenfold.stores.folder import FileFolder
from sevenfold.stores.home import Project, SessionFiles
from sevenfold.stores.jsonl.mailbox import SqliteMailbox
from sevenfold.stores.jsonl.store import JsonlStore
from sevenfold.stores.lineage import AGENT_VARIABLE

pytestmark = pytest.mark.spec("S40.14")

PROPOSAL = PendingProposal(
    id="4f21c3", layer="compact", what="summarise 212 records", why="auto", at=0.0, tokens=148_000
)
DONE = Done(id="d-1", layer="clear", what="clear 12 old tool results", tokens=30_000)


@pytest.fixture
def ordered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A gateway that has a session open and shows a proposal; gives what it was ordered."""
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path))
    monkeypatch.delenv(AGENT_VARIABLE, raising=False)
    folder = tmp_path / "projects" / "pier"
    log = JsonlStore(folder).open("work")
    orders: list[str] = []
    stop = threading.Event()
    files = SessionFiles(folder, "work")

    def noted(verb: str) -> str:
        orders.append(verb)
        return f"{verb}: as you say"

    def work() -> None:
        with closing(SqliteMailbox(Project(folder).mailbox)) as mailbox:
            file = TaskFile(FileFolder(files.agent), files.name, mailbox)
            acts = {
                verb: lambda target, verb=verb: noted(f"{verb} {target}")
                for verb in ("agree", "decline", "undo")
            }
            taker = OrderTaker(file.box, acts, orders.append)  # type: ignore[arg-type]
            while not stop.wait(0.02):
                taker.take("agree", "decline", "undo")
                file.publish(TaskList(1, (), taker.run, tuple(taker.outcomes), (PROPOSAL,), (DONE,)))

    thread = threading.Thread(target=work)
    thread.start()
    path = files.agent / TaskFile.NAME
    while not path.exists():
        stop.wait(0.01)
    yield orders
    stop.set()
    thread.join()
    log.close()


def test_it_lists_what_waits_and_what_was_done_of_gateways_that_run(
    ordered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decisions"]) == 0
    shown = capsys.readouterr().out
    assert "work\n" in shown
    assert "proposal  4f21c3  summarise 212 records (auto): about 148,000 tokens would leave" in shown
    assert "done      clear 12 old tool results, 30,000 tokens; undo: sevenfold decisions undo d-1" in shown
    assert ordered == []


@pytest.mark.parametrize(("verb", "name"), [("agree", "4f21c3"), ("decline", "4f21c3"), ("undo", "d-1")])
def test_a_decision_is_carried_out_where_the_session_is_open(
    verb: str, name: str, ordered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decisions", verb, name]) == 0
    assert ordered == [f"{verb} {name}"]
    assert capsys.readouterr().out == f"{verb} {name}: as you say\n"


def test_what_does_not_wait_and_what_an_agent_decides_is_refused(
    ordered: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["decisions", "agree", "d-1"]) == 2
    assert "has 'd-1' to agree" in capsys.readouterr().err
    assert main(["decisions", "agree"]) == 2
    assert "say which one" in capsys.readouterr().err
    monkeypatch.setenv(AGENT_VARIABLE, "gateway")
    assert main(["decisions", "agree", "4f21c3"]) == 2
    assert "is the user's to do" in capsys.readouterr().err
    assert ordered == []


def test_without_a_gateway_nothing_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path))
    assert main(["decisions"]) == 0
    assert capsys.readouterr().out == "Nothing waits for a decision.\n"
