"""What a command in the sandbox creates under names that must stay free."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sevenfold.agent.sandbox.newcomers import MOST_TIMES, GuardedName, missing, set_aside
from tests.agent.confining import UNTESTED, World, machine_with

pytestmark = pytest.mark.spec("S38.8")


@pytest.fixture(params=["bubblewrap", "landlock"])
def world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[World]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    world = World(tmp_path, machine_with(request.param))
    yield world
    world.close()


def test_a_command_that_creates_such_a_file_again_and_again_is_ended(world: World) -> None:
    output = world.run("while :; do echo evil > AGENTS.md; done")
    # It may create the file once more before the kernel has ended it.
    assert MOST_TIMES < output.count("it was moved to") <= MOST_TIMES + 3
    assert not (world.workspace / "AGENTS.md").exists()


def test_a_file_that_appears_is_gone_for_the_command_too_and_the_rest_goes_on(world: World) -> None:
    output = world.run(
        "echo evil > AGENTS.md; while [ -e AGENTS.md ]; do :; done; echo kept > notes; echo 'went on'"
    )
    assert "went on" in output
    assert "it was moved to" in output
    assert (world.workspace / "notes").read_text() == "kept\n"


def test_a_file_in_a_folder_that_the_command_creates_is_seen(world: World) -> None:
    output = world.run(
        "mkdir .github; f=.github/copilot-instructions.md; echo obey > $f; while [ -e $f ]; do :; done"
    )
    assert "copilot-instructions.md decides" in output


def test_a_link_in_place_of_a_folder_has_no_file_outside_moved(world: World) -> None:
    victim = world.beside / "attributes"
    victim.write_text("the user's own\n")
    output = world.run(f"rm -rf .git/info; ln -s {world.beside} .git/info")
    assert "info decides" in output
    assert not (world.workspace / ".git/info").is_symlink()
    assert victim.read_text() == "the user's own\n"


def test_the_repository_of_a_linked_worktree_is_watched_too(world: World) -> None:
    repository = world.workspace
    tree = world.home / "tree"
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=b"]
    for line in (["commit", "-q", "--allow-empty", "-m", "one"], ["worktree", "add", "-q", str(tree)]):
        subprocess.run([*git, *line], check=True, capture_output=True)
    world.workspace = tree
    for name in ("config.worktree", "info/attributes"):
        world.run(f"mkdir -p {repository}/.git/info; echo '* filter=evil' > {repository}/.git/{name}")
        assert not (repository / ".git" / name).exists()


def test_a_folder_that_cannot_be_moved_to_another_file_system_is_renamed(tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip(f"{UNTESTED}: there is no second file system")
    workspace = elsewhere / Path(tempfile.mkdtemp(dir=elsewhere)).name
    try:
        names = missing([GuardedName(workspace, ".vscode"), GuardedName(workspace, "AGENTS.md")])
        (workspace / ".vscode").mkdir()
        (workspace / ".vscode/tasks.json").write_text("{}")
        moved = set_aside(names, tmp_path)
        assert moved == {workspace / ".vscode": workspace / ".vscode.set-aside-1"}
        assert not (workspace / ".vscode").exists()
        assert (workspace / ".vscode.set-aside-1/tasks.json").exists()
    finally:
        shutil.rmtree(workspace)
