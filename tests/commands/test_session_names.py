"""The names by which every command takes a recorded session."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from sevenfold.stores.home import user_home
from tests.commands.recorded import Ran, ran
from tests.profile.making import Tape, text, usage

Capsys = pytest.CaptureFixture[str]
pytestmark = pytest.mark.spec("S14.2")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sessions of Claude Code in a folder, one of Codex in another, one of Sevenfold in a third."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / ".sevenfold"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    here = tmp_path / "harbour"
    here.mkdir()
    monkeypatch.chdir(here)
    coded = "".join(each if each.isalnum() else "-" for each in str(here))
    claude = tmp_path / ".claude/projects" / coded
    transcript(claude / "aaaa1111-0001.jsonl", "Repair the lantern", here, at=100)
    transcript(claude / "aaaa2222-0002.jsonl", "Paint the quay wall", here, at=200)
    transcript(claude / "agent-77.jsonl", "Paint nothing", here, at=900)
    own = user_home().project(tmp_path / "elsewhere").folder / "pier.jsonl"
    transcript(own, "Dredge the basin", tmp_path / "elsewhere", at=400)
    rollout = tmp_path / ".codex/sessions/2026/11/01/rollout-2026-11-01T10-00-00-cccc3333.jsonl"
    rollout.parent.mkdir(parents=True)
    item = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "Count the gulls"}],
    }
    lines = [("session_meta", {"id": "cccc3333", "cwd": "/gulls"}), ("turn_context", {"model": "gpt-5.4"})]
    rollout.write_text(
        "".join(
            json.dumps({"timestamp": "2026-11-01T10:00:00Z", "type": kind, "payload": payload}) + "\n"
            for kind, payload in [*lines, ("response_item", item)]
        )
    )
    os.utime(rollout, (300, 300))
    return tmp_path


def transcript(path: Path, words: str, folder: Path, at: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = Tape(sessionId=path.stem, cwd=str(folder)).user(words)
    made.answer(f"m-{path.stem}", usage(100, output=5), text("Done.")).save(path)
    os.utime(path, (at, at))


def found(capsys: Capsys, name: str) -> Ran:
    return ran(capsys, "recall", name, "--status", "--json")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("aaaa1111-0001", "aaaa1111-0001.jsonl"),
        ("aaaa1", "aaaa1111-0001.jsonl"),
        ("cccc", "rollout-2026-11-01T10-00-00-cccc3333.jsonl"),
        ("pier", "pier.jsonl"),
        ("Paint the quay wall", "aaaa2222-0002.jsonl"),
        ("LANTERN", "aaaa1111-0001.jsonl"),
        ("count the  gulls", "rollout-2026-11-01T10-00-00-cccc3333.jsonl"),
        ("last", "aaaa2222-0002.jsonl"),
    ],
)
def test_a_session_goes_by_id_beginning_title_or_last(
    name: str, file: str, machine: Path, capsys: Capsys
) -> None:
    assert Path(found(capsys, name).json["file"]).name == file


def test_last_is_the_newest_of_all_where_the_folder_has_none(
    machine: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(machine)
    assert Path(found(capsys, "last").json["file"]).name == "pier.jsonl"


def test_a_name_that_fits_several_sessions_lists_them(machine: Path, capsys: Capsys) -> None:
    refused = found(capsys, "aaaa")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    for said in ("2 sessions match", "aaaa1111-0001", '"Paint the quay wall"', "harbour", "1970-01-01"):
        assert said in refused.err


def test_a_name_that_fits_none_names_the_nearest(machine: Path, capsys: Capsys) -> None:
    refused = found(capsys, "paint the key wall")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert 'did you mean aaaa2222-0002 "Paint the quay wall"' in refused.err


@pytest.mark.parametrize(
    "command",
    [["audit"], ["recall", "--status"], ["notes"], ["compact", "--output", "new.jsonl"], ["profile"]],
)
def test_every_command_takes_the_same_names(command: list[str], machine: Path, capsys: Capsys) -> None:
    name, *options = command
    done = ran(capsys, name, "lantern", *options, "--json")
    assert "no such" not in done.err
    refused = ran(capsys, name, "aaaa", *options)
    assert "2 sessions match" in refused.err


def test_sessions_are_deleted_by_the_same_names(machine: Path, capsys: Capsys) -> None:
    folder = machine / "elsewhere"
    shown = ran(capsys, "sessions", "delete", "dredge", "--folder", folder, "--dry-run")
    assert (shown.code, shown.out.startswith("pier:")) == (0, True)
    assert "did you mean pier" in ran(capsys, "sessions", "delete", "peer", "--folder", folder).err


def test_the_list_of_all_sessions_names_tool_title_and_project(
    machine: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = ran(capsys, "sessions", "--all", "--json").json
    assert [(one["name"], one["tool"], one["title"]) for one in listed] == [
        ("pier", "Sevenfold", "Dredge the basin"),
        ("cccc3333", "Codex", "Count the gulls"),
        ("aaaa2222-0002", "Claude Code", "Paint the quay wall"),
        ("aaaa1111-0001", "Claude Code", "Repair the lantern"),
    ]
    for width in (60, 100):
        monkeypatch.setenv("COLUMNS", str(width))
        report = ran(capsys, "sessions", "--all").out
        assert "aaaa2222-0002" in report
        assert max(map(len, report.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("option", [[], ["--all"]])
def test_lists_of_sessions_cut_titles_and_nothing_else(
    option: list[str], width: int, machine: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "0b6e2f4c-1d2a-4b3c-9d8e-7f6a5b4c3d2e"
    transcript(
        user_home().project(Path.cwd()).folder / f"{name}.jsonl",
        "Weigh anchor, " * 20,
        machine,
        at=int(time.time()),
    )
    monkeypatch.setenv("COLUMNS", str(width))
    report = ran(capsys, "sessions", *option).out
    assert name in report
    assert " ago " in report
    assert "Weigh" in report or width == 60
    assert max(map(len, report.splitlines())) <= width
