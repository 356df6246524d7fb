"""Caches of tools in the sandbox: a private copy, whole or not at all, and nothing else of the user's caches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sevenfold.agent.sandbox import caches
from sevenfold.agent.sandbox.caches import copy_caches
from sevenfold.agent.sandbox.policy import path_lists
from tests.agent.confining import machine_with
from tests.agent.test_sandbox import run

pytestmark = pytest.mark.spec("S38.7")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "user"
    for name in ("pip/http/a", "pre-commit/hooks/b", "browser/cookies"):
        file = home / ".cache" / name
        file.parent.mkdir(parents=True)
        file.write_text(f"cached {name}")
    monkeypatch.setenv("HOME", str(home))
    return home


def test_known_caches_are_copied_as_they_are_and_others_are_not(home: Path, tmp_path: Path) -> None:
    (home / ".cache/pip/link").symlink_to("/etc/passwd")
    os.mkfifo(home / ".cache/pip/pipe")
    private = tmp_path / "private"
    copied = copy_caches(path_lists()["caches"], home, private)
    assert copied == [".cache/pre-commit", ".cache/pip"]
    assert (private / ".cache/pip/http/a").read_text() == "cached pip/http/a"
    assert (private / ".cache/pip/link").is_symlink()
    assert not (private / ".cache/pip/pipe").exists()
    assert not (private / ".cache/browser").exists()


@pytest.mark.parametrize(("limit", "most"), [("MOST_BYTES", 20), ("MOST_FILES", 2)])
def test_a_cache_that_is_too_large_is_left_out_as_a_whole(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    (home / ".cache/pre-commit/hooks/large").write_text("x" * 100)
    monkeypatch.setattr(caches, limit, most)
    private = tmp_path / "private"
    assert copy_caches([".cache/pre-commit", ".cache/pip"], home, private) == [".cache/pip"]
    assert not (private / ".cache/pre-commit").exists()


def test_a_cache_that_is_a_link_is_left_out(home: Path, tmp_path: Path) -> None:
    secrets = home / "secrets"
    secrets.mkdir()
    (home / ".cache/uv").symlink_to(secrets)
    assert copy_caches([".cache/uv"], home, tmp_path / "private") == []


def test_a_command_may_change_its_copy_and_nobody_else_sees_it(home: Path, tmp_path: Path) -> None:
    machine_with("bubblewrap")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "probe.py").write_text(
        "import pathlib\n"
        "caches = pathlib.Path.home() / '.cache'\n"
        "file = caches / 'pip/http/a'\n"
        "print(file.read_text(), sorted(path.name for path in caches.iterdir()))\n"
        "file.write_text('changed')\n"
    )
    seen, after = run(folder, {"command": "python3 probe.py"}, {"command": "python3 probe.py"})
    assert seen.startswith("cached pip/http/a ['pip', 'pre-commit']")
    assert after.startswith("changed ")
    assert (home / ".cache/pip/http/a").read_text() == "cached pip/http/a"
