"""A secret that went through everything a session writes is nowhere in the home after a purge."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

import sevenfold
from sevenfold.archive.upkeep.purge import remove
from sevenfold.archive.upkeep.rewrite import RecordStamper
from sevenfold.cli import purge as purge_command
from sevenfold.cli import scan as scan_command
from sevenfold.cli.chat.keyboard import InputHistory
from sevenfold.clock import ManualClock, RandomIds
from sevenfold.errors import TranscriptLocked
from sevenfold.events import SteppedAside
from sevenfold.stores.files import Staged
from sevenfold.stores.home import Home, side_file
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.telemetry.jsonl import JsonlSink
from tests.agent.working import Model, use
from tests.redaction.making import ALONE, Maker
from tests.storage.making import Worker, run

CANARY = 'canary"sings\\at-dawn-in-Übach-4711'
"""Nothing that a pattern would know, with what JSON writes in other ways: a quote, a backslash, an umlaut."""
TRACES = (b"sings", b"bach-4711")


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


def purge(secret: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO(secret + "\n"))
        return run(purge_command, "--secret-stdin", "--yes")


def holding(home: Home) -> list[str]:
    """The files under the home in which anything of the canary stands."""
    found = (path for path in home.root.rglob("*") if path.is_file())
    return [path.name for path in found if any(trace in path.read_bytes() for trace in TRACES)]


def work(home: Home, folder: Path) -> None:
    """Let an agent say, read, run, plan and note down the canary."""
    steps = [
        [use("Todo", todos=[{"content": CANARY, "status": "in_progress"}])],
        [use("Shell", command=f"cat <<'EOF'\n{CANARY}\nEOF\n", background=True)],
        [use("Shell", command=f"it='{CANARY}'; for i in $(seq 2500); do echo \"$it\"; done")],
        [use("PlanStart")],
        [use("PlanReady", plan=f"# Plan\n\n{CANARY}")],
        f"I keep it: {CANARY}",
    ]
    with sevenfold.Agent(
        "claude-sonnet-5-5", client=Model(steps), name="s-1", folder=folder, mode="autonomous"
    ) as agent:
        agent.run(f"remember {CANARY}")
        agent.session.compact()
        agent.session.recall("sings")
        kept = home.project(folder).session("s-1")
        scratch = kept.agent / "scratch" / "deep" / "note.txt"
        scratch.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(CANARY)
    kept.notes.parent.mkdir(exist_ok=True)
    kept.notes.write_text(f"# Learnings\n{CANARY}\n")


@pytest.mark.spec("S10.1")
def test_a_secret_that_went_through_every_channel_is_nowhere_after_a_purge(home, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    work(home, folder)
    project = home.project(folder)
    (project.folder / "memory" / "topics").mkdir(parents=True)
    (project.folder / "memory" / "topics" / "birds.md").write_text(CANARY)
    Staged(project.session("s-1").transcript, [CANARY.encode()])
    InputHistory(home.typed).store_string(CANARY)
    with JsonlSink(home.telemetry, limit=200) as sink:
        for _ in range(3):
            sink(SteppedAside(layer="hooks", reason=CANARY))
    worker = Worker(home, "gone", folder)
    worker.turn(CANARY, id="x")
    worker.close()
    side_file(worker.files.transcript).write_bytes(b"SQLite " + CANARY.encode())
    worker.files.transcript.unlink()

    before = holding(home)
    channels = {
        "chat-history.jsonl",
        "telemetry.jsonl",
        "telemetry.jsonl.1",
        "s-1.jsonl",
        "s-1.md",
        "birds.md",
    }
    channels |= {"state.json", "plan.md", "note.txt"}
    channels |= {"s-1.recall.sqlite", "gone.recall.sqlite"}
    assert channels <= set(before)
    assert any(name.endswith(".tmp") for name in before)
    assert purge(CANARY) == 0
    assert holding(home) == []


def test_what_is_typed_is_kept_without_the_secrets_in_it(home):
    secret = ALONE["github-token"](Maker())
    key = ALONE["private-key"](Maker())
    InputHistory(home.typed).store_string(f"use {secret} and\n{key}")
    content = home.typed.read_text()
    assert secret not in content
    assert key.splitlines()[2] not in content
    assert home.typed.stat().st_mode & 0o077 == 0


def test_what_was_typed_comes_back_the_newest_first(home):
    history = InputHistory(home.typed)
    for words in ("one", "two\nlines", 'a "third"'):
        history.store_string(words)
    with home.typed.open("ab") as file:
        file.write(b'"torn')
    assert list(InputHistory(home.typed).load_history_strings()) == ['a "third"', "two\nlines", "one"]


def test_a_scan_of_everything_looks_at_what_was_typed(home, capsys):
    home.root.mkdir()
    home.typed.write_text(ALONE["npm-token"](Maker()))
    assert run(scan_command) == 1
    assert str(home.typed) in capsys.readouterr().out


def test_telemetry_goes_on_in_the_file_a_purge_has_written(home):
    with JsonlSink(home.telemetry) as sink:
        sink(SteppedAside(layer="hooks", reason=CANARY))
        purge(CANARY)
        sink(SteppedAside(layer="hooks", reason="later"))
    text = home.telemetry.read_text()
    assert "later" in text
    assert "sings" not in text


def test_settings_of_the_user_are_left_as_they_are(home):
    home.root.mkdir()
    (home.root / "settings.toml").write_text(f"# {CANARY}")
    InputHistory(home.typed).store_string(CANARY)
    purge(CANARY)
    assert "sings" in (home.root / "settings.toml").read_text()


def test_nobody_gets_the_lock_of_a_session_that_was_removed_meanwhile(home):
    worker = Worker(home, "s-1")
    worker.close()
    stamper = RecordStamper(ManualClock(), RandomIds())
    remove(home, worker.files, stamper)
    lock = worker.files.transcript.with_name(f"{worker.files.transcript.name}.lock")
    assert not lock.exists()

    held = FileLock(worker.files.transcript)
    waiting = lock.open("rb")
    held.remove()
    again = FileLock(worker.files.transcript)
    with waiting, pytest.raises(TranscriptLocked):
        FileLock(worker.files.transcript)
    again.release()
