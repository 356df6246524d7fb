"""What commands see of the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sevenfold.agent.tools.shell import WITHHELD, command_environ
from sevenfold.providers import registry
from sevenfold.providers.sdk import SdkProvider
from tests.agent.working import agent, model_of, results, use

ORDINARY = {
    "PATH": "/usr/bin",
    "HOME": "/home/me",
    "PWD": "/work",
    "OLDPWD": "/",
    "SSH_AUTH_SOCK": "/tmp/agent.1",
    "XAUTHORITY": "/home/me/.Xauthority",
    "MAX_OUTPUT_TOKENS": "4000",
    "TOKENIZERS_PARALLELISM": "false",
    "KEYBOARD": "us",
    "DATABASE_URL": "postgres://db.example/app",
    "GITHUB_ACTIONS": "true",
    "EMPTY_API_KEY": "",
}
SECRET = {
    "ANTHROPIC_AUTH_TOKEN": "x",
    "GITHUB_TOKEN": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_ACCESS_KEY_ID": "x",
    "PGPASSWORD": "x",
    "MYSQL_PWD": "x",
    "SECRET_KEY_BASE": "x",
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json",
    "npm_config_authtoken": "x",
    "INNOCENT": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
}


def test_variables_whose_names_or_values_are_secret_are_kept_back_and_named() -> None:
    seen = command_environ({**ORDINARY, **SECRET})
    assert {name: value for name, value in seen.items() if name != WITHHELD} == ORDINARY
    assert seen[WITHHELD].split(",") == sorted(SECRET)


def test_the_key_of_every_provider_is_kept_back() -> None:
    keys = {one.vendor.key_variable for one in registry.providers() if isinstance(one, SdkProvider)}
    assert len(keys) >= 2
    for key in keys:
        assert key not in command_environ({key: "x"})


def test_those_that_are_named_are_passed_all_the_same_and_all_passes_everything() -> None:
    seen = command_environ(SECRET, "GITHUB_TOKEN, PGPASSWORD")
    assert {"GITHUB_TOKEN", "PGPASSWORD"} <= seen.keys()
    assert "MYSQL_PWD" not in seen
    assert command_environ({**ORDINARY, **SECRET}, "all") == {**ORDINARY, **SECRET}
    assert command_environ(ORDINARY) == ORDINARY


@pytest.mark.parametrize(("setting", "shown"), [(None, False), ("all", True), ("OPENAI_API_KEY", True)])
def test_an_agent_s_commands_see_keys_only_if_the_user_wants_it(
    setting: str | None, shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "the-key-itself")
    work = tmp_path / "work"
    work.mkdir()
    steps = [
        [use("Shell", "c1", command="env")],
        [use("Shell", "c2", command="env", background=True)],
        [use("ShellOutput", "c3", task="task-1", wait=10.0)],
        "Done.",
    ]
    settings = {} if setting is None else {"shell_secrets": setting}
    with agent(steps, work, mode="autonomous", settings=settings) as made:
        made.run("Look around.")
        said = results(model_of(made).requests[-1])
        for call in ("c1", "c3"):
            assert ("the-key-itself" in said[call]) == shown
            assert "PATH=" in said[call]
    assert os.environ["OPENAI_API_KEY"] == "the-key-itself"
