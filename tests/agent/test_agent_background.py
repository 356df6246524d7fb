"""Commands in the background: known through compactions, told to hooks, and never forgotten silently."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.hooks.registry import Hooks, run_command
from sevenfold.agent.processes import BackgroundTask, LocalProcesses
from tests.agent.test_agent_slots import compact, opened
from tests.agent.working import agent, model_of, results, texts, use

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

START = [use("Shell", command="echo ready; sleep 300 # the server", background=True)]


def told_at_stop(*steps: Any, folder: Path) -> list[Any]:
    """What Stop hooks are told of the background."""
    heard: list[Any] = []
    hooks = Hooks(run=run_command, environ={}, project_dir=".")
    hooks.add("Stop", lambda event: heard.append(event.background_tasks))
    with agent([*steps, "Done."], folder, hooks=hooks, mode="autonomous") as made:
        made.run("Begin.")
    return heard


@pytest.mark.spec("S8.1")
def test_stop_hooks_are_told_what_still_runs(folder: Path) -> None:
    (tasks,) = told_at_stop(START, [use("Shell", command="true", background=True)], folder=folder)
    first = tasks[0]
    assert (first["id"], first["type"], first["status"]) == ("task-1", "shell", "running")
    assert first["command"] == "echo ready; sleep 300 # the server"
    assert Path(first["output_file"]).name == "task-1.log"


@pytest.mark.spec("S8.1")
def test_stop_hooks_are_not_told_of_what_has_ended(folder: Path) -> None:
    ended = [use("ShellStop", task="task-1")]
    assert told_at_stop(START, ended, folder=folder) == [[]]


@pytest.mark.spec("S4.10")
def test_after_ten_compactions_a_command_runs_and_its_output_can_still_be_looked_at(folder: Path) -> None:
    look = [use("ShellOutput", "late", task="task-1")]
    with opened(folder, START, "Started.", name=None, mode="autonomous") as made:
        made.run("Start it.")
        processes = made.assembly.state.processes
        while not processes.tasks()[0].unread:
            processes.wait("task-1", 0.05, lambda: False)
        said = compact(made)
        assert said.count("task-1 (running, 6 bytes of output not looked at)") == 1
        assert "sleep 300 # the server" in said
        assert len(processes.tasks()) == 1
    with opened(folder, START, look, "Looked.", name=None, mode="autonomous") as made:
        made.run("Start it, and look.")
        assert "task-1: running" in results(model_of(made).requests[-1])["late"]


@pytest.mark.spec("S4.10")
def test_one_that_ended_is_listed_until_its_output_was_looked_at(folder: Path) -> None:
    done = [use("Shell", command="echo finished", background=True)]
    look = [use("ShellOutput", task="task-1", wait=30.0)]
    for steps, listed in (([done], True), ([done, look], False)):
        with opened(folder, *steps, "Hm.", name=None, mode="autonomous") as made:
            made.run("Begin.")
            made.assembly.state.processes.wait("task-1", 30.0, lambda: False)
            said = compact(made, 1)
            assert ("task-1 (completed, 9 bytes of output not looked at): echo finished" in said) == listed


@pytest.mark.spec("S4.10")
def test_the_next_process_tells_the_model_once_that_it_is_gone(folder: Path) -> None:
    with opened(folder, START, "Started.", mode="autonomous") as made:
        made.run("Start it.")
    look, stop = [use("ShellOutput", "c1", task="task-1")], [use("ShellStop", "c2", task="task-1")]
    with opened(folder, look, stop, "I see.") as made:
        made.run("How is the server?")
        first = texts(model_of(made).requests[0])
        assert first.count("<tasks-gone>") == 1
        assert "task-1 (ended with the process that started it" in first
        answers = results(model_of(made).requests[-1])
        assert answers["c1"].startswith("task-1: gone (it ended with the process that started it)")
        assert "gone" in answers["c2"]
    with opened(folder) as made:
        made.run("And now?")
        assert texts(model_of(made).requests[0]).count("<tasks-gone>") == 1
        said = compact(made, 1)
        assert "task-1 (ended with the process that started it" in said


@pytest.mark.spec("S4.10")
def test_it_gets_no_name_that_an_earlier_one_had_even_if_that_has_left_no_file(folder: Path) -> None:
    with opened(folder, START, "Started.", mode="autonomous") as made:
        made.run("Start it.")
        made.assembly.state.processes.stop("task-1")
        (made.assembly.home.folder / "tasks" / "task-1.log").unlink()
    with opened(folder, START, "Started.", mode="autonomous") as made:
        made.run("Start another.")
        assert [task.id for task in made.assembly.state.processes.tasks()] == ["task-1", "task-2"]


KILLED = """
import json, os, sys
from pathlib import Path
from tests.agent.working import agent, use

command = "trap '' HUP; echo $$ > pid; exec sleep 300"
folder = Path(sys.argv[1])
made = agent([[use("Shell", command=command, background=True)], "Hm."], folder, name="s", mode="autonomous")
made.run("Start it.")
while not ((folder / "pid").exists() and (folder / "pid").read_text().strip()):
    pass
print("up", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="strays are found by what they carry in /proc")
@pytest.mark.spec("S4.10")
def test_what_outlived_a_killed_process_is_ended_by_the_next_one_and_told(folder: Path, home: Path) -> None:
    root = Path(__file__).parents[2]
    environ = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"}
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(folder)],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout:
        assert child.stdout.readline() == "up\n"
        child.send_signal(signal.SIGKILL)
        child.wait()
    pid = int((folder / "pid").read_text())
    assert Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
    with opened(folder) as made:
        assert not _alive(pid)
        made.run("Go on.")
        assert "<tasks-gone>" in texts(model_of(made).requests[0])


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="strays are found by what they carry in /proc")
def test_a_mark_that_is_none_ends_nobody(folder: Path, tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "300"], env={"INNOCENT": "1", "PATH": os.environ["PATH"]})
    try:
        earlier = BackgroundTask("task-1", "make", "running", str(tmp_path / "task-1.log"), mark="INNOCENT")
        LocalProcesses(tmp_path, [earlier])
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_state_kept_by_an_earlier_version_is_understood(folder: Path) -> None:
    with opened(folder) as made:
        path = made.assembly.home.folder / "state.json"
    state = json.loads(path.read_text())
    state["tasks"] = [{"task": "task-7", "command": "make", "state": "running", "path": "/nowhere"}]
    path.write_text(json.dumps(state))
    with opened(folder) as made:
        made.run("Go on.")
        assert "task-7 (ended with the process that started it): make" in texts(model_of(made).requests[0])
