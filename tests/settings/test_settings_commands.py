"""`sevenfold config` and `sevenfold trust` as a user meets them, and the page that describes the settings."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sevenfold.cli import config as config_command
from sevenfold.cli import trust as trust_command
from sevenfold.cli.config import format_value
from sevenfold.errors import SettingError, UserError
from sevenfold.settings import all_settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
COMMANDS = {"config": config_command, "trust": trust_command}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user's folder of its own, and a project as the present folder."""
    for one in all_settings():
        monkeypatch.delenv(f"SEVENFOLD_{one.name.upper()}", raising=False)
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "60")
    (tmp_path / "home").mkdir()
    project = tmp_path / "project"
    (project / ".sevenfold").mkdir(parents=True)
    monkeypatch.chdir(project)
    return tmp_path / "home"


@pytest.fixture
def sevenfold(home, capsys):
    """Runs a command; returns what it printed."""

    def run(*arguments):
        parser = argparse.ArgumentParser()
        commands = parser.add_subparsers(dest="command")
        for name, command in COMMANDS.items():
            command.arguments(commands.add_parser(name))
        options = parser.parse_args(arguments)
        assert COMMANDS[options.command].run(options) == 0
        return capsys.readouterr().out

    return run


def project_file() -> Path:
    return Path.cwd() / ".sevenfold" / "settings.toml"


# sevenfold config


@pytest.mark.spec("S8.2")
def test_all_settings_are_shown_with_value_unit_and_sentence_in_sixty_columns(sevenfold):
    shown = sevenfold("config")
    for setting in all_settings():
        value = format_value(setting.default, setting.unit)
        assert re.search(rf"^ {setting.name} +{re.escape(value)}$", shown, re.M), setting.name
    flowing = " ".join(shown.split())
    assert all(setting.says in flowing for setting in all_settings())
    assert max(map(len, shown.splitlines())) <= 60
    assert "\x1b" not in shown


def test_a_value_that_somebody_set_is_shown_with_its_place(sevenfold, home, monkeypatch):
    (home / "settings.toml").write_text("gap_keep = 7\n")
    monkeypatch.setenv("SEVENFOLD_OFFLOAD", "off")
    monkeypatch.setenv("COLUMNS", "200")
    shown = sevenfold("config")
    assert re.search(rf"gap_keep +7 results\n.*\n +from: user file {home / 'settings.toml'}\n", shown)
    assert re.search(r"offload +off\n.*\n +from: environment variable SEVENFOLD_OFFLOAD\n", shown)
    assert shown.count("from: ") == 2


def test_what_a_setting_does_not_do_now_is_said(sevenfold, monkeypatch):
    monkeypatch.setenv("SEVENFOLD_LAYERS", "0")
    monkeypatch.setenv("COLUMNS", "200")
    shown = sevenfold("config")
    assert re.search(r"dream +on\n.*\n +no effect while layers is off\n", shown)
    assert re.search(r"offload +on\n.*\n +no effect while layers is off\n", shown)
    assert re.search(r"break_watch +on\n.*\n model_listing", shown)


def test_one_setting_is_shown_in_full(sevenfold):
    shown = sevenfold("config", "size_keep")
    for part in (
        "3 results",
        "from: default",
        "takes: a whole number (results), 1 or more",
        "default: 3 results",
        "takes effect: when a session is opened",
        "variable: SEVENFOLD_SIZE_KEEP",
    ):
        assert part in shown
    assert "takes effect: at once" in sevenfold("config", "offload")


def test_as_json_there_is_everything_a_script_needs(sevenfold, monkeypatch):
    monkeypatch.setenv("SEVENFOLD_OFFLOAD_BY_TOOL", "Read=never")
    monkeypatch.setenv("SEVENFOLD_COLLAPSE", "1")
    project_file().write_text("offload = false\n")
    shown = json.loads(sevenfold("config", "--json"))
    by_name = {one["name"]: one for one in shown["settings"]}
    assert list(by_name) == [one.name for one in all_settings()]
    assert by_name["offload_by_tool"]["value"] == {"Read": "never"}
    assert by_name["auto_compact"]["overruled_by"] == "collapse"
    assert by_name["offload"]["value"] is True
    assert by_name["pinned_keep"] == {
        "name": "pinned_keep",
        "value": 5,
        "origin": "default",
        "overruled_by": None,
        "default": 5,
        "unit": "results",
        "allowed": "a whole number (results), 1 or more",
        "stage": "preview",
        "latched": True,
        "says": "How many of the newest results then stay; must be below the trigger.",
    }
    assert "sevenfold trust" in shown["notes"][0]


def test_a_wrong_value_or_name_is_an_error_for_the_user(sevenfold, home):
    with pytest.raises(SettingError, match="did you mean offload"):
        sevenfold("config", "ofload")


def test_a_wrong_value_in_a_file_is_shown_and_ignored(sevenfold, home):
    (home / "settings.toml").write_text("gap_keep = 0\n")
    shown = sevenfold("config", "--json")
    assert "settings.toml: gap_keep = 0 cannot be used" in str(shown)


def test_another_project_can_be_looked_at(sevenfold, tmp_path, monkeypatch):
    project_file().write_text("offload = false\n")
    sevenfold("trust")
    project = Path.cwd()
    monkeypatch.chdir(tmp_path)
    assert "off" not in sevenfold("config", "offload").split()
    assert "off" in sevenfold("config", "offload", "--project", str(project)).split()


# sevenfold trust


def test_trust_makes_a_projects_settings_count_and_revoking_it_ends_that(sevenfold, home):
    project_file().write_text("gap_keep = 9\n")
    shown = sevenfold("config", "gap_keep")
    assert "5 results" in shown
    assert "is ignored, because its folder is not trusted" in shown
    shown = sevenfold("trust")
    assert shown.startswith(
        f"{Path.cwd()} is trusted; this takes effect, and you are asked again if it changes:"
    )
    assert shown.endswith("\n  settings .sevenfold/settings.toml\n")
    assert "9 results" in sevenfold("config", "gap_keep")
    assert sevenfold("trust", "--revoke") == f"{Path.cwd()} is no longer trusted\n"
    assert sevenfold("trust", "--revoke") == f"{Path.cwd()} was not trusted\n"
    assert "5 results" in sevenfold("config", "gap_keep")


def test_trusted_folders_are_listed(sevenfold, tmp_path):
    assert sevenfold("trust", "--list") == ""
    gone = tmp_path / "gone"
    gone.mkdir()
    assert sevenfold("trust", str(gone)) == f"{gone} is trusted; it brings nothing yet\n"
    sevenfold("trust")
    gone.rmdir()
    assert sevenfold("trust", "--list") == f"{gone}  (no longer exists)\n{Path.cwd()}\n"


def test_a_folder_that_is_not_there_cannot_be_trusted(sevenfold):
    with pytest.raises(UserError, match="no such folder"):
        sevenfold("trust", "nowhere")


# Around them


def test_describing_the_commands_imports_nothing_heavy():
    script = (
        "import sys\nfrom sevenfold.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('rich', 'msgspec', 'tomllib', 'openfeature') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "profile" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "[]"


def test_the_page_has_every_setting_as_it_is():
    rows = [
        f"| `{one.name}` | {format_value(one.default, one.unit)} | {'' if one.stage == 'stable' else one.stage} "
        f"| {'yes' if one.latched else ''} | {one.says} |"
        for one in all_settings()
    ]
    table = "| setting | default | stage | latched | what it does |\n|---|---|---|---|---|\n" + "\n".join(
        rows
    )
    assert table in PAGE.read_text(encoding="utf-8"), f"docs/settings.md should hold:\n\n{table}"
