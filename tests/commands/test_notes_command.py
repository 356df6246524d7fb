"""`sevenfold notes` as a user meets it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.commands.recorded import answering, files, foreign, opened, own, ran

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return foreign(tmp_path / "talk.jsonl")


def notes_of(folder: Path) -> list[Path]:
    return list((folder / "home").rglob("session-memory/*.md"))


def test_a_session_without_notes_says_so_and_where_they_would_be(session: Path, capsys: Capsys) -> None:
    looked = ran(capsys, "notes", session)
    assert looked.code == 1
    assert "This session has no notes yet; --update writes them." in looked.words
    assert "session-memory/5e551011.md" in looked.out
    assert not notes_of(session.parent)


@pytest.mark.spec("S3.1")
def test_an_update_writes_them_offline_and_says_so_and_where(session: Path, capsys: Capsys) -> None:
    before = files(session.parent)
    done = ran(capsys, "notes", session, "--update")
    assert done.code == 0
    [written] = notes_of(session.parent)
    assert str(written) in done.out.replace("\n", "")
    assert "Updated offline" in done.words
    assert "never touch build/out_3.bin" in done.words
    assert written.read_text().startswith("# Session Title\n_")
    assert files(session.parent) == before
    assert ran(capsys, "notes", session).code == 0


def test_scripts_get_the_sections(session: Path, capsys: Capsys) -> None:
    shown = ran(capsys, "notes", session, "--update", "--json").json
    assert shown["exists"] is True
    assert shown["session"] == "5e551011"
    assert "panel_5.py" in shown["sections"]["Task Specification"]
    assert Path(shown["notes"]) == notes_of(session.parent)[0]


@pytest.mark.spec("S3.3")
def test_our_own_session_is_told_what_the_notes_cover_and_nobody_is_asked_twice(
    tmp_path: Path, capsys: Capsys
) -> None:
    path = own(tmp_path / "own.jsonl")
    before = path.read_bytes()
    ran(capsys, "notes", path, "--update")
    added = [json.loads(line) for line in path.read_bytes()[len(before) :].splitlines()]
    assert path.read_bytes().startswith(before)
    assert added[-1]["kind"] == "notes"
    assert "no model was asked" in ran(capsys, "notes", path, "--update").words
    with opened(path) as session:
        text = session.notes()
        assert text is not None
        assert "panel_3.py" in text


def test_notes_of_a_session_somebody_holds_are_not_updated(tmp_path: Path, capsys: Capsys) -> None:
    path = own(tmp_path / "own.jsonl")
    with opened(path):
        refused = ran(capsys, "notes", path, "--update")
        assert ran(capsys, "notes", path).code == 1
    assert refused.code == 2
    assert f"being written by process {os.getpid()}" in refused.err


def test_a_model_updates_them_where_there_is_one(
    session: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(monkeypatch):
        done = ran(capsys, "notes", session, "--update")
    assert "Updated by claude-sonnet-4-6." in done.words


def test_an_answer_that_is_no_update_changes_nothing(
    session: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(monkeypatch, lambda prompt: "What a nice session."):
        refused = ran(capsys, "notes", session, "--update")
    assert refused.code == 2
    assert "the notes could not be updated and are unchanged" in refused.err
    assert not notes_of(session.parent)


def test_what_is_no_conversation_is_refused_in_a_line(tmp_path: Path, capsys: Capsys) -> None:
    assert "there is no such file" in ran(capsys, "notes", tmp_path / "none.jsonl").err
