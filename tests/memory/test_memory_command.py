"""`sevenfold memory`, as a user types it (S5.1, S5.5)."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from sevenfold.cli.main import main


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def said(capsys: Any, *arguments: str, code: int = 0) -> str:
    assert main(["memory", *arguments]) == code
    shown = capsys.readouterr()
    return str(shown.out + shown.err)


def test_an_entry_is_added_listed_shown_forgotten_and_brought_back(capsys):
    assert "nothing is remembered" in said(capsys)
    assert "remembered: we-deploy-on-tuesdays" in said(capsys, "add", "We deploy on Tuesdays.")
    assert "already remembered: we-deploy-on-tuesdays" in said(capsys, "add", "we deploy  on Tuesdays.")
    assert said(capsys, "list") == "we-deploy-on-tuesdays  We deploy on Tuesdays.\n"
    assert said(capsys, "check") == "1 entry, nothing to look at\n"
    assert "origin     user" in said(capsys, "show", "we-deploy-on-tuesdays")
    assert "undo 2" in said(capsys, "forget", "we-deploy-on-tuesdays")
    assert "nothing is remembered" in said(capsys)
    said(capsys, "undo")
    assert "We deploy on Tuesdays." in said(capsys)
    assert [line.split()[0] for line in said(capsys, "log").splitlines()] == ["3", "2", "1"]
    assert "+We deploy on Tuesdays." in said(capsys, "diff", "1")


def test_scopes_do_not_leak(capsys, tmp_path):
    said(capsys, "add", "This holds here.")
    (tmp_path / "other").mkdir()
    assert "nothing" in said(capsys, "--folder", str(tmp_path / "other"))
    assert "nothing" in said(capsys, "--user")
    said(capsys, "--user", "add", "This holds everywhere.")
    assert "everywhere" not in said(capsys)


def test_edit_opens_the_editor_and_counts_as_the_user(capsys, tmp_path, monkeypatch):
    script = tmp_path / "editor.py"
    script.write_text(
        "import sys, pathlib\np = pathlib.Path(sys.argv[1])\np.write_text(p.read_text() + 'Use tabs.\\n')\n"
    )
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
    assert "saved" in said(capsys, "edit", "tabs")
    (entry,) = json.loads(said(capsys, "--json"))
    assert (entry["origin"], entry["body"]) == ("user", "Use tabs.")


def test_an_editor_that_fails_changes_nothing(capsys, monkeypatch):
    monkeypatch.setenv("EDITOR", "false")
    assert "exit code 1; nothing was changed" in said(capsys, "edit", "tabs", code=2)
    monkeypatch.setenv("EDITOR", "no-such-editor")
    assert "cannot start the editor" in said(capsys, "edit", "tabs", code=2)
    assert "nothing is remembered" in said(capsys)


def test_import_check_confirm_and_export(capsys, tmp_path):
    source = tmp_path / "theirs"
    source.mkdir()
    (source / "MEMORY.md").write_text("# Index\n")
    (source / "style.md").write_text("---\nname: style\n---\nShort \x1b[31msentences.\n")
    assert "2 imported as unconfirmed" in said(capsys, "import", "claude", str(source))
    shown = said(capsys, "check", code=1)
    assert "style: unconfirmed (import claude:style.md)" in shown
    said(capsys, "confirm", "style")
    assert "\x1b" not in said(capsys, "show", "style")
    said(capsys, "export", "claude", str(tmp_path / "out"))
    assert {one.name: one.read_bytes() for one in (tmp_path / "out").iterdir()} == {
        one.name: one.read_bytes() for one in source.iterdir()
    }
    assert "is there already" in said(capsys, "export", "claude", str(tmp_path / "out"), code=2)


def test_pinning_moves_an_entry_and_back(capsys, tmp_path):
    said(capsys, "add", "Never touch main.")
    said(capsys, "pin", "never-touch-main")
    assert "[pinned]" in said(capsys)
    said(capsys, "unpin", "never-touch-main")
    assert "[pinned]" not in said(capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "nothing"],
        ["add", " "],
        ["export", "stores", "no/such/folder.json"],
        ["undo"],
        ["undo", "9"],
        ["diff", "3"],
        ["import", "claude", "/nowhere"],
        ["forget", "../x"],
    ],
)
def test_mistakes_get_one_line_and_exit_code_2(capsys, arguments):
    shown = said(capsys, *arguments, code=2)
    assert shown.startswith("sevenfold: ")
    assert len(shown.splitlines()) == 1
