"""Sessions in a store that has a URL: listed, and named by the URL, # and their name there."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

import sevenfold
from sevenfold.agent.team.presence import TaskFile, TaskList
from sevenfold.archive import stores
from sevenfold.archive.summaries import SummaryShelf
from sevenfold.cli import transcripts
from sevenfold.cli.main import COMMANDS, main
from sevenfold.conversation.tasks import Task
from sevenfold.doors.inspector.shelf import InspectorShelf
from sevenfold.doors.mcp_server.sessions import shelf_of
from sevenfold.errors import InputError
from sevenfold.stores.registry import open_store
from tests.commands.recorded import Ran, ran

Capsys = pytest.CaptureFixture[str]
pytestmark = pytest.mark.spec("S34.8")


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A store with three sessions."""
    url = f"memory://{uuid4()}?tenant=acme"
    for name in ("support-42", "support-43", "bill ing/7"):
        with sevenfold.Session.open(
            name, model="claude-sonnet-5-5", store=url, folder=tmp_path / "parcels"
        ) as session:
            session.user(f"Where is my parcel, {name}?")
            session.complete()
    open_store(url).notes("support-42").write("# Current State\n\nThe parcel is lost.\n")
    yield url
    stores.remove_copies()


def test_a_store_lists_its_sessions_with_their_titles(url: str, capsys: Capsys) -> None:
    listed = json.loads(ran(capsys, "sessions", "--store", url, "--json").out)
    assert [row["name"] for row in listed] == ["bill ing/7", "support-43", "support-42"]
    assert listed[1]["title"] == "Where is my parcel, support-43?"
    assert listed[1]["project"].endswith("parcels")
    assert "support-43" in ran(capsys, "sessions", "--store", url).out
    nothing = ran(capsys, "sessions", "--store", f"memory://{uuid4()}")
    assert nothing.out == "No sessions in this store yet.\n"


@pytest.mark.parametrize("name", ["support-42", "bill", "bill%20ing/7", "last"])
def test_commands_read_a_session_of_a_store_by_its_url(url: str, capsys: Capsys, name: str) -> None:
    found = ran(capsys, "recall", f"{url}#{name}", "parcel", "--all", "--json")
    assert found.code == 0
    profiled = json.loads(ran(capsys, "profile", f"{url}#{name}", "--json").out)
    assert profiled
    assert [line["type"] for line in _lines(url, name)].count("assistant") == 1


def test_every_command_that_reads_sessions_takes_the_store_by_an_option(
    url: str, capsys: Capsys, tmp_path: Path
) -> None:
    def of_store(*arguments: str) -> Ran:
        command, *others = arguments
        return ran(capsys, command, "--store", url, *others)

    assert of_store("recall", "bill ing/7", "parcel", "--all", "--json").code == 0
    assert of_store("audit", "last", "--json").code == 0
    assert json.loads(of_store("notes", "support-42", "--json").out)["exists"]
    assert of_store("diff-request", "support-42", "support-42").code == 0
    assert of_store("scan").code == 0
    assert len(json.loads(of_store("profile", "support-42", "--json").out)["sessions"]) == 1
    assert len(json.loads(of_store("profile", "--json").out)["sessions"]) == 3
    replayed = of_store("replay", "support-42", "--policy", "ours", "--json", "--jobs", "1")
    assert [each["policy"] for each in json.loads(replayed.out)] == ["ours"]
    assert of_store("compact", "support-42").code == 2
    assert of_store("compact", "support-42", "--in-place").code == 2
    assert of_store("compact", "support-42", "--dry-run").code == 0
    assert of_store("sessions", "import", "support-42", "--folder", str(tmp_path)).code == 0


def test_the_inspector_lists_the_sessions_of_a_store(url: str, tmp_path: Path) -> None:
    shelf = InspectorShelf(SummaryShelf(tmp_path / "summaries"), transcripts.copies(url))
    names = {session.stored.path.stem for session in shelf.listed()}
    assert {"support-42", "support-43"} <= names
    key = shelf.named(stores.name_in(url, "support-42"))
    session = shelf.open(key)
    assert session is not None
    session.catch_up()
    session.close()


def test_a_session_of_a_store_is_deleted_by_its_whole_name(url: str, capsys: Capsys) -> None:
    def delete(name: str, *switches: str) -> Ran:
        return ran(capsys, "sessions", "delete", name, "--store", url, *switches)

    assert delete("support-4", "--yes").code == 2
    assert delete("support-42", "--dry-run").code == 0
    assert delete("support-42", "--yes").words.endswith("Deleted.")
    assert [info.name for info in open_store(url).sessions()] == ["bill ing/7", "support-43"]
    assert delete("support-42", "--yes").code == 2


def test_the_option_takes_a_store_alone(url: str, capsys: Capsys) -> None:
    for store in (f"{url}#support-42", "here"):
        refused = ran(capsys, "recall", "--store", store, "support-42", "parcel")
        assert (refused.code, "takes the URL of a store" in refused.err) == (2, True)
    assert ran(capsys, "profile", "--store", f"memory://{uuid4()}").code == 2


def _lines(url: str, name: str) -> list[dict[str, object]]:
    named = stores.by_url(f"{url}#{name}")
    assert named is not None
    return [json.loads(line) for line in stores.copy_of(named).read_bytes().splitlines()]


def test_a_copy_is_the_session_as_it_is_and_is_removed_with_the_process(url: str) -> None:
    named = stores.by_url(f"{url}#support-42")
    assert named is not None
    copy = stores.copy_of(named)
    assert copy.read_bytes() == b"".join(open_store(url).export("support-42"))
    assert copy.parent.stat().st_mode & 0o077 == 0
    stores.remove_copies()
    assert not copy.parent.exists()


def test_notes_of_a_session_in_a_store_are_shown_and_not_updated(url: str, capsys: Capsys) -> None:
    shown = ran(capsys, "notes", f"{url}#support-42", "--json")
    assert json.loads(shown.out)["sections"] == {"Current State": "The parcel is lost."}
    refused = ran(capsys, "notes", f"{url}#support-42", "--update")
    assert refused.code == 2
    assert "updated by the program that keeps it there" in refused.err


def test_a_session_of_a_store_can_be_continued_here(url: str, capsys: Capsys, tmp_path: Path) -> None:
    taken = ran(capsys, "sessions", "import", f"{url}#support-42", "--folder", tmp_path)
    assert taken.code == 0, taken.err
    assert "sevenfold chat --resume" in taken.words
    (transcript,) = (tmp_path / "home").rglob("*.jsonl")
    assert "Where is my parcel, support-42?" in transcript.read_text()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("#supp", "2 sessions of the store begin with it: support-43, support-42"),
        ("#nobody", "there is no such session"),
        ("", "this names a store; add # and the name of a session"),
        ("#", "this names a store; add # and the name of a session"),
    ],
)
def test_what_is_not_there_is_said(url: str, capsys: Capsys, name: str, problem: str) -> None:
    failed = ran(capsys, "recall", f"{url}{name}", "parcel")
    assert failed.code == 2
    assert problem in failed.err


WITHOUT_STORE = {
    "demo": "holds a session of its own, for show",
    "team": "works on a file of tasks, in the folder where it is started",
    "agents": "reads definitions, not sessions",
    "eval": "measures recall on conversations of its own",
    "config": "reads settings, not sessions",
    "install": "changes other programs' settings",
    "uninstall": "changes other programs' settings",
    "acp": "is started by an editor, for the folder that is open in it",
    "doctor": "looks at the machine",
    "trust": "is about folders",
    "gc": "removes files; in a store, results go with their session",
    "decisions": "answers a gateway, which records on this machine",
    "gateway": "records what passes through it on this machine",
    "simulate": "stands in for a provider, and keeps nothing",
}
"""The commands that do not take a store, and why."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_a_store_or_knows_no_sessions_of_one(command: str, capsys: Capsys) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert ("--store" in capsys.readouterr().out) is (command not in WITHOUT_STORE)


def test_memory_of_a_store_is_shown_changed_and_tidied(url: str, capsys: Capsys) -> None:
    def memory(*arguments: str) -> str:
        remembered = ran(capsys, "memory", "--store", url, *arguments)
        assert remembered.code == 0, remembered.err
        return remembered.out

    memory("add", "We deploy on Tuesdays.")
    assert "We deploy on Tuesdays." in memory()
    assert "Tuesdays" not in ran(capsys, "memory").out
    assert "Tuesdays" not in memory("--user")
    assert ran(capsys, "dream", "--store", url).words.endswith("nothing to tidy")
    refused = ran(capsys, "memory", "--store", "here")
    assert (refused.code, "takes the URL of a store" in refused.err) == (2, True)


def test_purge_removes_a_session_of_a_store_and_masks_secrets_in_files_alone(
    url: str, capsys: Capsys
) -> None:
    assert ran(capsys, "purge", "--store", url, "--session", "support-42", "--dry-run").code == 0
    assert ran(capsys, "purge", "--store", url, "--session", "support-42", "--yes").words.endswith(
        "Removed."
    )
    assert "support-42" not in {info.name for info in open_store(url).sessions()}
    refused = ran(capsys, "purge", "--store", url, "--secret-digest", "3fa91c22", "--yes")
    assert refused.code == 2
    assert "sevenfold scan --store URL names them" in " ".join(refused.err.split())


def test_tasks_of_sessions_in_a_store_are_listed_while_they_are_open(
    url: str, capsys: Capsys, tmp_path: Path
) -> None:
    assert ran(capsys, "tasks", "--store", url).words == "Nothing runs in the background."
    store = open_store(url)
    listed = TaskList(1, (Task("task-1", "command", "make", "working"),))
    for name in ("support-42", "support-43"):
        store.agent_files(name).write(TaskFile.NAME, msgspec.json.encode(listed))
    writer = store.open("support-43")
    assert ran(capsys, "tasks", "--store", url).words == "support-43:task-1 working command: make"
    writer.close()
    assert ran(capsys, "tasks", "--store", url).words == "Nothing runs in the background."


def test_the_tools_of_the_mcp_server_read_the_sessions_and_the_memory_of_a_store(
    url: str, capsys: Capsys, tmp_path: Path
) -> None:
    ran(capsys, "memory", "--store", url, "add", "We deploy on Tuesdays.")
    shelf = shelf_of(tmp_path, lambda: None, url)
    try:
        assert {session.name for session in shelf.here()} == {"support-42", "support-43", "bill ing/7"}
        first = shelf.named("support-42")
        assert shelf.named("support-42") is first
        assert [entry.entry.body for entry in shelf.memory(user=False).entries()] == [
            "We deploy on Tuesdays."
        ]
        with pytest.raises(InputError, match="say which session of the store; the newest are: bill ing/7"):
            shelf.named("")
        with sevenfold.Session.open("support-42", model="claude-sonnet-5-5", store=url) as session:
            session.user("It has come.")
        grown = shelf.named("support-42")
        assert b"It has come." in grown.path.read_bytes()
        assert not first.path.exists()
    finally:
        shelf.close()


def test_a_chat_keeps_its_session_in_a_store_and_continues_it_from_there(
    url: str, capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())

    def chat(*arguments: str) -> Ran:
        options = ("--store", url, "--model", "offline", "--folder", tmp_path)
        return ran(capsys, "chat", *options, *arguments)

    begun = chat("-p", "Is it here?")
    assert "Is it here?" in begun.out, begun.err
    kept = open_store(url).sessions()[0].name
    assert kept.startswith("p-")
    assert not list(tmp_path.rglob("*.jsonl"))
    assert chat("--continue", "-p", "And now?").code == 0
    assert chat("--resume", "support-42", "-p", "Still lost?").code == 0
    lines = b"".join(open_store(url).export("support-42"))
    assert b"Still lost?" in lines
    assert b"And now?" in b"".join(open_store(url).export(kept))
    nobody = chat("--resume", "nobody", "-p", "x")
    assert (nobody.code, "no session nobody in this store" in nobody.err) == (2, True)
    copied = chat("--resume", "support-42", "--fork-session", "-p", "x")
    assert (copied.code, "sessions import" in copied.err) == (2, True)
