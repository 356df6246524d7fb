"""Which folders a user trusts."""

from __future__ import annotations

import json
import os
import stat
import threading

import pytest

from sevenfold.agent.team.definitions import _TABLE
from sevenfold.cli import main as cli
from sevenfold.cli.chat.custom_commands import PROJECT as COMMANDS
from sevenfold.cli.chat.start import PROJECT_HOOKS
from sevenfold.errors import Refused, SettingError, UserError
from sevenfold.stores.lineage import AGENT_VARIABLE
from sevenfold.stores.trust import SEEN, Trust


@pytest.fixture
def trust(tmp_path):
    return Trust(tmp_path / "home")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "project"
    (made / "part").mkdir(parents=True)
    return made


def test_nobody_is_trusted_at_first(trust, folder):
    assert trust.folders() == ()
    assert not trust.covers(folder)


def test_trust_is_remembered_and_can_be_taken_back(trust, folder):
    assert trust.add(folder) == folder.resolve()
    trust.add(folder)
    assert trust.folders() == (str(folder.resolve()),)
    assert Trust(trust.path.parent).covers(folder)
    assert trust.remove(folder) is True
    assert trust.remove(folder) is False
    assert not trust.covers(folder)


@pytest.mark.spec("S19.5")
def test_what_an_agent_started_can_neither_add_to_the_list_nor_take_from_it(trust, folder, monkeypatch):
    trust.add(folder)
    monkeypatch.setenv(AGENT_VARIABLE, "work")
    with pytest.raises(Refused, match="trusting a folder is the user's to do"):
        trust.add(folder / "part")
    with pytest.raises(Refused, match="trusting a folder is the user's to do"):
        trust.remove(folder)
    assert trust.folders() == (str(folder.resolve()),)


def test_it_holds_for_that_folder_alone(trust, folder):
    trust.add(folder)
    assert not trust.covers(folder / "part")
    assert not trust.covers(folder.parent)


def test_a_link_stands_for_the_folder_it_leads_to_when_it_is_asked(trust, folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    link = tmp_path / "link"
    link.symlink_to(folder)
    trust.add(link)
    assert trust.covers(folder)
    link.unlink()
    link.symlink_to(other)
    assert not trust.covers(link)


def test_a_trusted_folder_replaced_by_a_link_is_not_trusted_for_what_the_link_leads_to(
    trust, folder, tmp_path
):
    trust.add(folder)
    folder.rename(tmp_path / "away")
    other = tmp_path / "other"
    other.mkdir()
    folder.symlink_to(other)
    assert not trust.covers(folder)


def test_only_a_folder_that_is_there_can_be_trusted_but_any_can_be_distrusted(trust, folder, tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        trust.add(tmp_path / "nowhere")
    trust.add(folder / "part")
    (folder / "part").rmdir()
    assert trust.remove(folder / "part") is True


def test_only_the_owner_may_read_or_write_the_list(trust, folder):
    trust.add(folder)
    assert stat.S_IMODE(trust.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(trust.path.parent.stat().st_mode) == 0o700
    assert {path.name for path in trust.path.parent.iterdir()} == {
        "trusted.json",
        "trusted.json.lock",
        "trusted.key",
    }


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_list_that_others_can_write_counts_for_nothing(trust, folder, mode):
    trust.add(folder)
    trust.path.chmod(mode)
    with pytest.raises(SettingError, match=r"others can write it.*chmod 600"):
        trust.covers(folder)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"folders": 3}', b'{"folders": ["\xff"]}'])
def test_a_damaged_list_is_told_and_trusts_nobody(trust, folder, content):
    trust.add(folder)
    trust.path.write_bytes(content)
    with pytest.raises(SettingError, match="is damaged"):
        trust.covers(folder)
    with pytest.raises(SettingError, match="is damaged"):
        trust.add(folder)
    assert trust.path.read_bytes() == content


def test_a_list_that_cannot_be_written_is_told(tmp_path, folder):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        Trust(tmp_path / "file").add(folder)


def test_two_who_add_at_once_both_succeed(trust, tmp_path):
    folders = [tmp_path / str(number) for number in range(8)]
    for one in folders:
        one.mkdir()
    threads = [threading.Thread(target=trust.add, args=(one,)) for one in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(trust.folders()) == 8


def test_a_write_that_fails_leaves_the_old_list(trust, folder, monkeypatch):
    trust.add(folder)

    def no_room(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(UserError, match="No space left"):
        trust.add(folder / "part")
    assert trust.folders() == (str(folder.resolve()),)
    assert {path.name for path in trust.path.parent.iterdir()} == {
        "trusted.json",
        "trusted.json.lock",
        "trusted.key",
    }


CHECK = "sh $CLAUDE_PROJECT_DIR/tools/check.sh"
BROUGHT = {
    ".sevenfold/settings.toml": "notes = false\n",
    ".sevenfold/hooks.json": json.dumps(
        {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": CHECK}]}]}}
    ),
    ".mcp.json": '{"mcpServers": {"db": {"command": "python", "args": ["tools/server.py"]}}}',
    ".sevenfold/agents/a.md": "---\nname: a\n---\nWork.\n",
    ".claude/agents/deep/b.md": "---\nname: b\n---\nWork.\n",
    ".codex/agents/c.toml": "name = 'c'\n",
    ".claude/commands/review.md": "Review it.\n",
    ".codex/prompts/fix.md": "Fix it.\n",
    "tools/check.sh": "echo ok\n",
    "tools/server.py": "print()\n",
}


@pytest.fixture
def brought(folder):
    for name, text in BROUGHT.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.spec("S19.5")
@pytest.mark.parametrize("name", BROUGHT)
@pytest.mark.parametrize("change", ["edit", "remove", "replace"])
def test_a_folder_is_trusted_as_it_was_seen(trust, brought, name, change):
    trust.add(brought)
    assert trust.covers(brought)
    path = brought / name
    if change == "edit":
        path.write_text(f"{path.read_text()} ")
    elif change == "remove":
        path.unlink()
    else:
        other = brought / "other"
        other.write_text("else")
        other.rename(path)
    assert trust.state(brought) == "changed"
    assert any(name in line for line in trust.changes(brought))
    trust.add(brought)
    assert trust.covers(brought)


@pytest.mark.spec("S19.5")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("make check", "Makefile"),
        ("npm run lint --silent", "package.json"),
        ("cd . && just check", "justfile"),
        ("python -m tools.check --fast", "tools/check.py"),
        ("python -m tools", "tools/__main__.py"),
        ("python3 -m tools.deep", "tools/deep/__init__.py"),
    ],
)
def test_what_a_hook_runs_by_a_recipe_or_as_a_module_is_seen_as_well(trust, folder, command, name):
    hooks = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}
    for path, text in ((".sevenfold/hooks.json", json.dumps(hooks)), (name, "harmless")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    trust.add(folder)
    (folder / name).write_text("something else")
    assert trust.changes(folder) == [f"changed: programs {name}"]


@pytest.mark.spec("S19.5")
def test_a_change_is_seen_however_many_files_there_are(trust, folder, monkeypatch):
    monkeypatch.setattr("sevenfold.stores.trust.MOST_SEEN", 3)
    agents = folder / ".claude" / "agents"
    agents.mkdir(parents=True)
    for number in range(5):
        (agents / f"a{number}.md").write_text("Work.")
    trust.add(folder)
    assert trust.covers(folder)
    (agents / "a4.md").write_text("Do something else.")
    assert trust.changes(folder) == ["changed: agents .claude/agents/**/*.md, 2 further files"]


@pytest.mark.spec("S19.5")
def test_a_new_file_that_would_take_effect_is_asked_about_and_any_other_is_not(trust, folder):
    trust.add(folder)
    (folder / "README.md").write_text("hello")
    assert trust.covers(folder)
    (folder / ".mcp.json").write_text("{}")
    assert trust.changes(folder) == ["new: servers .mcp.json"]


@pytest.mark.spec("S19.5")
def test_every_place_from_which_a_folder_decides_what_runs_is_seen():
    assert set(SEEN["agents"]) == {
        pattern for patterns in _TABLE["project"].values() for pattern in patterns
    }
    assert set(SEEN["commands"]) == set(COMMANDS)
    assert SEEN["hooks"] == (PROJECT_HOOKS.as_posix(),)


@pytest.mark.spec("S19.5")
def test_trust_lists_what_it_trusts_and_what_changed(tmp_path, brought, monkeypatch, capsys):
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    assert cli.main(["trust", str(brought)]) == 0
    shown = capsys.readouterr().out
    for name in BROUGHT:
        assert f" {name}\n" in shown
    (brought / ".mcp.json").write_text("{}")
    assert cli.main(["trust", "--list"]) == 0
    shown = capsys.readouterr().out
    assert "changed since you trusted it" in shown
    assert "changed: servers .mcp.json" in shown
    assert "gone: programs tools/server.py" in shown


@pytest.mark.spec("S19.5")
@pytest.mark.parametrize(
    "forge",
    [
        lambda text, folder: text.replace("project", "elsewhere"),
        lambda text, folder: f'{{"folders": ["{folder}"]}}',
        lambda text, folder: f'{{"folders": {{"{folder}": {{"seen": {{}}}}}}, "seal": ""}}',
        lambda text, folder: f'{{"folders": {{"{folder}": {{"seen": {{}}}}}}, "seal": "ü"}}',
    ],
)
def test_a_list_that_something_else_wrote_counts_for_nothing_and_is_told(
    trust, folder, tmp_path, monkeypatch, capsys, forge
):
    trust.add(folder / "part")
    trust.path.write_text(forge(trust.path.read_text(), folder))
    assert trust.foreign
    assert trust.folders() == ()
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    assert cli.main(["trust", "--list"]) == 0
    assert "was changed outside Sevenfold, so nothing in it counts" in capsys.readouterr().out
    trust.add(tmp_path)
    assert trust.folders() == (str(tmp_path.resolve()),)
