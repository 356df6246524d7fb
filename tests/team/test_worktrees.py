"""Agents that work in a copy of the repository, and what remains when they have ended."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.team.definitions import AgentDefinition
from sevenfold.stores.trust import Trust, user_folder
from tests.agent.working import results, texts, use, world
from tests.team.play import parts, start, team_of


@pytest.fixture(autouse=True)
def repository(folder: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.com")
        subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)

    git("init", "-q")
    (folder / "tides.txt").write_text("High water at 06:12.\n")
    git("add", ".")
    git("commit", "-qm", "Tides")


def isolated(steps: list[Any]) -> Any:
    return parts({"MAIN": [[start("c1", "WORK", isolation="worktree")], "Done."], "WORK": steps})


@pytest.mark.spec("S7.3")
@pytest.mark.parametrize("changes", [False, True])
def test_a_working_copy_is_removed_if_nothing_was_changed_in_it_and_kept_and_named_otherwise(
    changes: bool, folder: Path
) -> None:
    Trust(user_folder(os.environ)).add(folder)
    step = (
        use("Write", "w1", path="new.txt", content="x") if changes else use("Read", "r1", path="tides.txt")
    )
    with (
        world(isolated([[step], "Done there."])) as there,
        there.agent(folder, name="s", agents=True, mode="accept_edits") as made,
    ):
        made.run("MAIN task")
        (entry,) = team_of(made).roster
        copy = Path(entry.started.worktree)
        assert entry.status == "completed", entry.ended
        assert not (folder / "new.txt").exists()
        assert copy.exists() is changes
        assert (str(copy) in results(there.bodies[-1])["c1"]) is changes
        if changes:
            assert (copy / "new.txt").read_text() == "x"


@pytest.mark.spec("S7.3")
def test_a_working_copy_is_made_only_in_a_folder_the_user_trusts(folder: Path) -> None:
    with world(isolated(["Done."])) as there, there.agent(folder, name="s", agents=True) as made:
        made.run("MAIN task")
        assert "folder the user trusts" in results(there.bodies[-1])["c1"]


@pytest.mark.spec("S7.3")
def test_what_git_ignores_is_not_thrown_away_with_the_working_copy(folder: Path) -> None:
    Trust(user_folder(os.environ)).add(folder)
    (folder / ".git" / "info" / "exclude").write_text("out/\n")
    step = use("Write", "w1", path="out/result.txt", content="x")
    with (
        world(isolated([[step], "Done there."])) as there,
        there.agent(folder, name="s", agents=True, mode="accept_edits") as made,
    ):
        made.run("MAIN task")
        (entry,) = team_of(made).roster
        assert (Path(entry.started.worktree) / "out" / "result.txt").read_text() == "x"


@pytest.mark.spec("S7.3", "S7.11")
def test_a_report_is_not_lost_where_the_working_copy_cannot_be_removed(folder: Path) -> None:
    Trust(user_folder(os.environ)).add(folder)
    script = isolated([[use("Shell", "s1", command="git worktree lock .")], "Done there."])
    with (
        world(script) as there,
        there.agent(folder, name="s", agents=True, mode="autonomous") as made,
    ):
        made.run("MAIN task")
        result = results(there.bodies[-1])["c1"]
        assert "Done there." in result
        assert "is still there: git worktree failed" in result


@pytest.mark.spec("S7.3")
@pytest.mark.parametrize("kind", ["no repository", "no commit", "a folder that is in no commit"])
def test_where_no_working_copy_can_be_made_the_call_says_why_and_nothing_is_left(
    kind: str, folder: Path, tmp_path: Path
) -> None:
    place = folder / "new" if "folder" in kind else tmp_path / "other"
    place.mkdir()
    if kind == "no commit":
        subprocess.run(["git", "init", "-q", str(place)], check=True)
    Trust(user_folder(os.environ)).add(place)
    with world(isolated(["Done."])) as there, there.agent(place, name="s", agents=True) as made:
        made.run("MAIN task")
        assert results(there.bodies[-1])["c1"].startswith("git rev-parse failed")
        assert not list(team_of(made).roster)
    listed = subprocess.run(["git", "worktree", "list"], cwd=folder, capture_output=True, text=True)
    assert len(listed.stdout.splitlines()) == 1


@pytest.mark.spec("S7.1")
def test_a_definition_that_does_not_say_is_a_fork_only_if_that_is_cheaper(folder: Path) -> None:
    open_one = AgentDefinition(name="helper", description="Helps.")
    calls = [start("c1", "WORK", subagent_type="helper")]
    long = "A long report of the tides, with every hour and height.\n" * 2_000
    for words, fork in (("MAIN task", True), (f"MAIN task {long}", False)):
        with (
            world(parts({"MAIN": [calls, "Done."], "WORK": ["ok"]})) as there,
            there.agent(
                folder, name=f"s{fork}", agents={"helper": open_one}, system="Be exact. " * 400
            ) as made,
        ):
            made.run(words)
            (entry,) = team_of(made).roster
            assert entry.started.fork is fork
            assert "as a fork" in entry.started.because


@pytest.mark.spec("S7.11")
def test_agents_that_have_ended_leave_no_open_files(folder: Path) -> None:
    def handles() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    calls = [[start(f"c{number}", "WORK")] for number in range(8)]
    script = parts({"MAIN": [*calls, "Done."], "WORK": [[use("Read", path="tides.txt")], "ok"]})
    seen: list[int] = []
    with world(script) as there, there.agent(folder, name="s", agents=True) as made:
        made.assembly.conversation.events.listen(lambda event: seen.append(handles()))
        made.run("MAIN task")
        assert len(list(team_of(made).roster)) == 8
        assert "WORK" not in texts(there.bodies[-1])
        assert max(seen[len(seen) // 2 :]) <= max(seen[: len(seen) // 2]) + 2
