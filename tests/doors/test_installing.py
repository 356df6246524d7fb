"""`sevenfold install` and `uninstall`: what they write, and that it is undone to the byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sevenfold.cli.main import main

pytestmark = pytest.mark.spec("S23.6")
Capsys = pytest.CaptureFixture[str]
SETTINGS = [
    b"{}",
    b"{}\n",
    b'{\n  // mine\n  "model": "opus", /* "statusLine" in a comment */\n  "env": {"A": "{"}\n}\n',
    b'{\r\n\t"hooks": {}\r\n}\r\n',
    b'/* { */ {"a": "\\"statusLine\\": {", "b": [1,  2]}',
]


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    (tmp_path / "claude").mkdir()
    return tmp_path / "claude"


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file and folder with its bytes and permissions."""
    return {
        str(path.relative_to(folder)): (path.read_bytes() if path.is_file() else b"", path.stat().st_mode)
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("settings", SETTINGS)
def test_uninstalling_leaves_every_byte_as_it_was(claude: Path, settings: bytes) -> None:
    (claude / "settings.json").write_bytes(settings)
    (claude / "settings.json").chmod(0o640)
    before = state(claude)
    assert main(["install", "claude-code", "--status-line"]) == 0
    assert b'"statusLine": {"type": "command"' in (claude / "settings.json").read_bytes()
    assert main(["uninstall", "claude-code"]) == 0
    assert state(claude) == before


def test_settings_and_folders_that_were_not_there_are_gone_again(claude: Path) -> None:
    assert main(["install", "claude-code", "--status-line"]) == 0
    assert json.loads((claude / "settings.json").read_bytes())["statusLine"]["type"] == "command"
    assert (
        json.loads((claude / "skills/sevenfold/.claude-plugin/plugin.json").read_bytes())["name"]
        == "sevenfold"
    )
    assert main(["uninstall", "claude-code"]) == 0
    assert state(claude) == {}


def test_what_the_user_changed_meanwhile_stays(claude: Path, capsys: Capsys) -> None:
    settings = claude / "settings.json"
    settings.write_text('{\n  "model": "opus"\n}\n')
    main(["install", "claude-code", "--status-line"])
    settings.write_text(settings.read_text().replace("opus", "sonnet"))
    hooks = claude / "skills/sevenfold/hooks/hooks.json"
    hooks.write_text("{}")
    assert main(["uninstall", "claude-code"]) == 0
    assert settings.read_text() == '{\n  "model": "sonnet"\n}\n'
    assert hooks.read_text() == "{}"
    assert "hooks.json was changed since and stays" in capsys.readouterr().out


def test_a_dry_run_shows_everything_and_writes_nothing(claude: Path, capsys: Capsys) -> None:
    (claude / "settings.json").write_text("{}")
    before = state(claude.parent)
    assert main(["install", "claude-code", "--status-line", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "hooks/hooks.json" in shown
    assert "statusLine" in shown
    assert state(claude.parent) == before
    main(["install", "claude-code"])
    installed = state(claude)
    assert main(["uninstall", "claude-code", "--dry-run"]) == 0
    assert state(claude) == installed


@pytest.mark.parametrize(
    "settings", [b'{"statusLine": {"type": "command"}}', b"[]", b"", b"// {\n", b"\xff{"]
)
def test_settings_that_cannot_take_the_entry_are_refused_before_anything_is_written(
    claude: Path, settings: bytes, capsys: Capsys
) -> None:
    (claude / "settings.json").write_bytes(settings)
    before = state(claude.parent)
    assert main(["install", "claude-code", "--status-line"]) == 2
    assert "settings.json" in capsys.readouterr().err
    assert state(claude.parent) == before


def test_files_of_others_are_not_replaced(claude: Path, capsys: Capsys) -> None:
    hooks = claude / "skills/sevenfold/hooks/hooks.json"
    hooks.parent.mkdir(parents=True)
    hooks.write_text('{"of": "another"}')
    assert main(["install", "claude-code"]) == 2
    assert "is not from this installation" in capsys.readouterr().err
    assert hooks.read_text() == '{"of": "another"}'


def test_installing_again_replaces_the_installation(claude: Path) -> None:
    main(["install", "claude-code", "--status-line"])
    once = state(claude)
    assert main(["install", "claude-code", "--status-line"]) == 0
    assert state(claude) == once
    main(["uninstall", "claude-code"])
    assert state(claude) == {}


def test_without_an_installation_there_is_nothing_to_remove(claude: Path, capsys: Capsys) -> None:
    assert main(["uninstall", "claude-code"]) == 2
    assert "is not installed" in capsys.readouterr().err
