"""What runs in the background: one list, from inside the session and from another terminal."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.team.orders import OrderTaker
from sevenfold.agent.team.presence import TaskFile
from sevenfold.cli import tasks as command
from sevenfold.cli.main import main
from sevenfold.clock import ManualClock
from sevenfold.conversation import tasks as registry
from sevenfold.conversation.flow import Ask, drive
from sevenfold.conversation.tasks import Task, TaskRegistry
from sevenfold.errors import Aborted, InputError, ModelError
from sevenfold.events import Event, SteppedAside
from sevenfold.ports import Call, Reply
from sevenfold.providers.offline import OfflineClient, Script
from sevenfold.stores.folder import FileFolder
from sevenfold.stores.memory import MemoryStore
from tests.agent.working import MODEL, agent, use

pytestmark = pytest.mark.spec("S7.13")


class Later:
    """A runner whose work is done when the test says so."""

    def __init__(self, client: OfflineClient | None = None) -> None:
        self.client = client
        self.work: list[Any] = []

    def __call__(self, work: Any, done: Any) -> None:
        self.work.append((work, done))

    def every(self, seconds: float, call: Any) -> Any:
        raise NotImplementedError

    def run(self) -> None:
        work, done = self.work.pop(0)
        try:
            came = drive(work, self.client)
        except Exception as error:  # noqa: BLE001 (as runners do)
            came = error
        done(came)


def asking(times: int = 1) -> Any:
    for _ in range(times):
        yield from Ask(Call(b'{"model":"claude-sonnet-5-5","messages":[]}'))
    return "done"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_work_of_the_engine_is_listed_from_its_start_to_its_end(clock):
    tasks, runner, came = TaskRegistry(clock), Later(OfflineClient(Script(["one"]))), list[Any]()
    tasks.run(asking(), came.append, "notes", runner)
    (task,) = tasks.running
    assert (task.id, task.kind, task.state, task.started) == ("notes-1", "notes", "working", clock.now())
    runner.run()
    assert came == ["done"]
    assert tasks.running == []
    assert tasks.get("notes-1").state == "completed"


def test_a_failure_is_in_the_list_and_is_never_raised(clock):
    def failing() -> Any:
        yield from asking()
        raise ModelError("the server\nis down")

    tasks, runner, came = TaskRegistry(clock), Later(OfflineClient(Script(["one"]))), list[Any]()
    tasks.run(failing(), came.append, "dream", runner)
    runner.run()
    assert tasks.get("dream-1").state == "failed"
    assert tasks.get("dream-1").progress == "the server is down"
    assert isinstance(came[0], ModelError)


def test_a_killed_task_goes_no_further_and_what_was_answered_is_billed(clock):
    seen: list[Any] = []

    def flow() -> Any:
        try:
            yield from asking()
        except ModelError as error:
            seen.append(error)
            raise
        seen.append("went on")

    tasks, runner = TaskRegistry(clock), Later(OfflineClient(Script(["one"])))
    tasks.run(flow(), seen.append, "memory", runner)
    assert tasks.kill("memory-1").state == "cancelled"
    runner.run()
    assert isinstance(seen[0], Aborted)
    assert seen[0].partial is not None, "its usage can be billed"
    assert tasks.get("memory-1").state == tasks.kill("memory-1").state == "cancelled"


def test_work_that_takes_too_long_is_given_up(clock):
    tasks, runner = TaskRegistry(clock), Later(OfflineClient(Script(["one"])))
    tasks.run(asking(), lambda came: None, "memory", runner)
    clock.advance(registry.LONGEST + 1)
    runner.run()
    assert (tasks.get("memory-1").state, tasks.get("memory-1").progress) == ("failed", "it took too long")


def test_a_task_that_does_not_exist_is_an_error_that_names_those_that_do(clock):
    tasks = TaskRegistry(clock)
    with pytest.raises(InputError, match="there is no task 'notes-1'; none has been started"):
        tasks.kill("notes-1")
    tasks.run(asking(), lambda came: None, "notes", Later())
    with pytest.raises(InputError, match="there are: notes-1"):
        tasks.get("notes-2")


def test_old_tasks_leave_the_list_and_running_ones_never(clock, monkeypatch):
    monkeypatch.setattr(registry, "KEPT", 2)
    tasks, runner = TaskRegistry(clock), Later(OfflineClient(Script(["one"] * 9)))
    stuck = Later()
    tasks.run(asking(), lambda came: None, "dream", stuck)
    for _ in range(5):
        tasks.run(asking(), lambda came: None, "notes", runner)
        runner.run()
    assert [one.id for one in tasks] == ["dream-1", "notes-4", "notes-5", "notes-6"]


def test_what_it_cost_is_shown(clock):
    tasks = TaskRegistry(clock)
    usage = b'{"input_tokens":1000000,"output_tokens":0}'
    offline = OfflineClient(Script(["one"])).ask(Call(b'{"model":"claude-sonnet-5-5","messages":[]}'))
    from msgspec import Raw
    from msgspec.structs import replace

    reply = Reply(replace(offline.answer, model=MODEL, usage=Raw(usage)))

    class Client(OfflineClient):
        def ask(self, call: Call, watch: Any = None) -> Reply:
            return reply

    runner = Later(Client(Script([])))
    tasks.run(asking(2), lambda came: None, "notes", runner)
    runner.run()
    price = sevenfold.profiles.find(MODEL).price(0)
    assert price is not None
    assert tasks.get("notes-1").usd == pytest.approx(2 * price.input)


def test_notes_of_a_real_session_are_a_task(tmp_path):
    """A session whose notes are taken in the background."""
    started = threading.Event()

    class Client(OfflineClient):
        def ask(self, call: Call, watch: Any = None) -> Reply:
            if call.source == "session_memory":
                started.set()
            return super().ask(call, watch)

    from sevenfold.session.factory import OFFLINE_JOBS

    client = Client(Script(["answer"] * 9, jobs=OFFLINE_JOBS))
    with sevenfold.Session.in_memory(
        model=MODEL, client=client, settings={"context_window": 30_000}
    ) as session:
        for _ in range(9):
            session.user("word " * 2_000)
            session.complete()
            if started.is_set():
                break
        assert started.wait(10)
        (first, *_) = session.tasks
        assert first.kind == "notes"
        assert session.tasks.wait(first.id, 10).state == "completed"


# -- commands ----------------------------------------------------------------------------------------


@pytest.fixture
def working(tmp_path: Path) -> Iterator[sevenfold.Agent]:
    steps = [[use("Shell", command="sleep 60", background=True)], "It runs."]
    with agent(steps, tmp_path, name="work", mode="autonomous") as made:
        made.run("Start it.")
        yield made


def test_a_command_in_the_background_is_a_task_that_can_be_killed(working):
    (task,) = working.session.tasks.running
    assert (task.id, task.kind, task.name) == ("task-1", "command", "sleep 60")
    assert working.session.tasks.kill("task-1").state == "cancelled"
    assert working.session.tasks.running == []


def test_how_a_command_ended_is_in_the_list(tmp_path):
    steps = [[use("Shell", command="exit 3", background=True)], "It ran."]
    with agent(steps, tmp_path, mode="autonomous") as made:
        made.run("Start it.")
        task = made.session.tasks.wait("task-1", 10)
        assert (task.state, task.progress) == ("failed", "exit code 3")


@pytest.mark.spec("S7.11")
def test_commands_stay_on_the_list_when_a_session_is_continued(tmp_path):
    steps = [
        [
            use("Shell", command="echo done", background=True),
            use("Shell", command="sleep 60", background=True),
        ],
        "They run.",
    ]
    with agent(steps, tmp_path, name="again", mode="autonomous") as made:
        made.run("Start them.")
        made.session.tasks.wait("task-1", 10)
    with agent([], tmp_path, name="again") as again:
        first, second = again.session.tasks
        assert (first.state, first.progress) == ("completed", "exit code 0")
        assert Path(first.output).read_text() == "done\n"
        assert second.state in ("failed", "cancelled")
        assert second.progress


# -- another terminal --------------------------------------------------------------------------------


def wait_until(condition: Any) -> None:
    until = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_another_terminal_lists_and_kills_what_a_session_runs(working, tmp_path, capsys):
    file = working.assembly.home.folder / "tasks.json"
    wait_until(file.exists)
    shown = subprocess.run(
        [sys.executable, "-m", "sevenfold", "tasks", "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "work:task-1  working  command: sleep 60" in shown
    assert main(["tasks", "kill", "task-1", "--folder", str(tmp_path)]) == 0
    assert "task-1 is stopped" in capsys.readouterr().out
    assert working.session.tasks.get("task-1").state == "cancelled"


def test_killing_where_nothing_runs_says_so(tmp_path, capsys):
    assert main(["tasks", "kill", "task-7", "--folder", str(tmp_path)]) == 2
    assert "nothing runs in the background" in capsys.readouterr().err


def test_killing_what_is_not_there_says_what_is(working, tmp_path, capsys):
    wait_until((working.assembly.home.folder / "tasks.json").exists)
    assert main(["tasks", "kill", "task-7", "--folder", str(tmp_path)]) == 2
    assert "work:task-1" in capsys.readouterr().err


def test_a_session_that_does_not_answer_is_reported_and_the_order_taken_back(
    working, tmp_path, capsys, monkeypatch
):
    wait_until((working.assembly.home.folder / "tasks.json").exists)
    monkeypatch.setattr(command, "PATIENCE", 0.2)
    working.assembly.presence.close()
    (working.assembly.home.folder / "tasks.json").write_text(
        '{"process": 1, "tasks": [{"id": "task-1", "kind": "command", "name": "x", "state": "working"}],'
        ' "run": "another"}'
    )
    assert main(["tasks", "kill", "work:task-1", "--folder", str(tmp_path)]) == 1
    assert "did not answer" in capsys.readouterr().err
    assert working.session.tasks.get("task-1").state == "working"
    assert list(working.assembly.store.mailbox.waiting("orders:work")) == []


def test_a_session_that_is_closed_has_no_tasks(tmp_path, capsys):
    steps = [[use("Shell", command="sleep 60", background=True)], "It runs."]
    with agent(steps, tmp_path, name="work", mode="autonomous") as made:
        made.run("Start it.")
        wait_until((made.assembly.home.folder / "tasks.json").exists)
    assert main(["tasks", "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "Nothing runs in the background.\n"
    assert not (made.assembly.home.folder / "tasks.json").exists()


def test_a_list_that_cannot_be_written_is_reported_and_never_raised(tmp_path, clock):
    (tmp_path / "file").write_text("")
    file = TaskFile(FileFolder(tmp_path / "file" / "x"), "x", MemoryStore().mailbox())
    tasks, told = TaskRegistry(clock), list[Event]()
    tasks.run(asking(), lambda came: None, "notes", Later())
    file.update(tasks, told.append, OrderTaker(file.box, {}, print))
    assert isinstance(told[0], SteppedAside)
    assert told[0].layer == "tasks"


def test_a_damaged_list_is_no_list(tmp_path):
    file = TaskFile(FileFolder(tmp_path), "s", MemoryStore().mailbox())
    assert file.read() is None
    (tmp_path / "tasks.json").write_text("no json")
    assert file.read() is None


def test_states_are_those_of_mcp_tasks():
    assert {Task("1", "x", "x", state).over for state in ("completed", "failed", "cancelled")} == {True}
    assert {Task("1", "x", "x", state).over for state in ("working", "input_required")} == {False}
    assert set(registry.STATES.values()) == {"working", "completed", "failed", "cancelled"}
