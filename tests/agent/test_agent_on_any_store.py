"""An agent works on any store: its files, results and memory are there when it is resumed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import sevenfold
from sevenfold.agent.team.presence import TaskFile
from sevenfold.errors import InputError, TranscriptError, TranscriptFull
from sevenfold.ports import Store
from sevenfold.session.factory import OpenOptions, on_disk
from sevenfold.stores.files import safe_name
from sevenfold.stores.folder import MemoryFolder
from sevenfold.stores.memory import MemoryStore
from sevenfold.stores.mirror import Mirror
from tests.agent.team.test_tasks import wait_until
from tests.agent.working import agent, model_of, results, use
from tests.stores.test_store_contract import MAKERS


@pytest.fixture(params=MAKERS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Open the store, each time anew where it outlives the process."""
    make = MAKERS[request.param]
    kept = make(tmp_path / "kept")
    return (lambda: kept) if request.param == "memory" else (lambda: make(tmp_path / "kept"))


@pytest.mark.spec("S25.1")
def test_a_resumed_agent_finds_its_plan_scratch_output_and_checkpoints(
    opened: Callable[[], Store], folder: Path
) -> None:
    (folder / "a.txt").write_text("before")
    (folder / "b.txt").write_text("old")
    command = "printf after > a.txt; rm b.txt; printf new > c.txt"
    first = agent(
        [
            [use("Shell", "c1", command=command)],
            [use("Shell", "c2", command="echo printed", background=True)],
            "Done.",
        ],
        folder,
        name="s",
        store=opened(),
        mode="autonomous",
        checkpoints=True,
    )
    with first:
        first.run("Work.")
        scratch = first.assembly.home.scratch
        script = scratch / "deep" / "a script é.sh"
        script.parent.mkdir()
        script.write_text("echo from scratch")
        script.chmod(0o700)
        (scratch / ".hidden").mkdir()
        (scratch / ".hidden" / "_x").write_text("dotted")
        first.assembly.state.plans.submit("The plan.")
        first.assembly.state.processes.wait("task-1", 30, lambda: False)
        place = first.assembly.home.folder
        asked = next(item.record.uuid for item in first.session.conversation.transcript.view.items)

    second = agent(["Welcome back."], folder, name="s", store=opened(), mode="autonomous", checkpoints=True)
    with second:
        home = second.assembly.home
        assert home.folder == place
        assert (home.scratch / "deep" / "a script é.sh").read_text() == "echo from scratch"
        assert (home.scratch / "deep" / "a script é.sh").stat().st_mode & 0o777 == 0o700
        assert (home.scratch / ".hidden" / "_x").read_text() == "dotted"
        assert second.assembly.state.plans.text() == "The plan."
        assert second.assembly.state.processes.read("task-1", 100) == b"printed\n"
        plan = second.restore_plan(asked)
        assert {file.path for file in plan.files} == {"a.txt", "b.txt", "c.txt"}
        assert second.restore(plan) == {}
        assert (folder / "a.txt").read_text() == "before"
        assert (folder / "b.txt").read_text() == "old"
        assert not (folder / "c.txt").exists()


LISTING = "".join(f"line {number}: nothing of interest\n" for number in range(1, 5_001))


@pytest.mark.spec("S25.3")
def test_a_resumed_agent_reads_a_stored_result_with_read_and_recall(
    opened: Callable[[], Store], folder: Path
) -> None:
    (folder / "list.sh").write_text(f"cat <<'END'\n{LISTING}END\n")
    with agent(
        [[use("Shell", "c1", command="bash list.sh")], "Done."],
        folder,
        name="s",
        store=opened(),
        mode="autonomous",
    ) as first:
        first.run("List.")
        (stored,) = (
            stored
            for item in first.session.conversation.transcript.view.items
            for stored in item.record.stored.values()
        )
        told = results(model_of(first).requests[-1])["c1"]
    name = f"result:{Path(stored.path.removeprefix('result:')).name}"
    assert stored.path in told
    assert (stored.path == name) or Path(stored.path).is_file()
    steps = [
        [use("Read", "c2", path=name, offset=4_000, limit=2)],
        [use("Recall", "c3", record=name, offset=len(LISTING) - 30)],
        [use("Read", "c4", path="result:another.txt")],
        "Done.",
    ]
    with agent(steps, folder, name="s", store=opened()) as second:
        second.run("Look again.")
        shown = results(model_of(second).requests[-1])
    assert "line 4000: nothing" in shown["c2"]
    assert "line 4002: nothing" not in shown["c2"]
    assert shown["c3"] == LISTING[-30:].rstrip()
    assert "there is no result for" in shown["c4"]


@pytest.mark.spec("S25.3")
def test_the_model_is_told_the_name_of_a_result_that_is_in_no_file(folder: Path) -> None:
    (folder / "list.sh").write_text(f"cat <<'END'\n{LISTING}END\n")
    with agent(
        [[use("Shell", "c1", command="bash list.sh")], "Done."],
        folder,
        name="s",
        store=MemoryStore(),
        mode="autonomous",
    ) as made:
        made.run("List.")
        told = results(model_of(made).requests[-1])["c1"]
    (name,) = re.findall(r"kept as (result:\S+)\. If you have Read", told)
    assert made.session.fetch(name).decode() == LISTING.rstrip()


@pytest.mark.spec("S25.1")
def test_what_was_kept_before_a_kill_is_there_afterwards(folder: Path) -> None:
    kept = MemoryFolder()
    killed = Mirror.open(kept)
    killed.append(killed.directory / "checkpoints" / "journal.jsonl", b"one")
    (killed.directory / "plan.md").write_text("kept")
    killed.save()
    (killed.directory / "plan.md").write_text("never saved")
    mirror = Mirror.open(kept)
    assert mirror.directory == killed.directory
    assert (mirror.directory / "plan.md").read_text() == "kept"
    mirror.append(mirror.directory / "checkpoints" / "journal.jsonl", b"two")
    (mirror.directory / "plan.md").unlink()
    mirror.save()
    assert mirror.problem == ""
    assert kept.read("checkpoints/journal.jsonl") == b"one\ntwo\n"
    assert kept.read("plan.md") is None
    mirror.remove()
    assert not mirror.directory.exists()


class FullFolder(MemoryFolder):
    def write(self, name: str, content: bytes) -> None:
        if name == "big.txt":
            raise TranscriptFull("no room")
        super().write(name, content)


@pytest.mark.spec("S25.1")
def test_a_file_that_cannot_be_saved_is_named_and_tried_again() -> None:
    kept = FullFolder()
    mirror = Mirror.open(kept)
    (mirror.directory / "big.txt").write_text("content")
    (mirror.directory / ("é" * 60)).write_text("content")
    (mirror.directory / "fits.txt").write_text("content")
    mirror.save()
    assert kept.read("fits.txt") == b"content"
    assert "cannot be saved" in mirror.problem
    (mirror.directory / ("é" * 60)).unlink()
    mirror.save()
    assert "big.txt" in mirror.problem
    (mirror.directory / "big.txt").unlink()
    mirror.save()
    assert mirror.problem == ""
    mirror.remove()


def test_a_name_in_the_store_that_leads_out_of_the_folder_is_refused() -> None:
    for name in ("_2e_2e_2fa", "_2fetc_2fa", "a_2f_2e_2e_2f_2e_2e_2fa"):
        kept = MemoryFolder()
        kept.write(name, b"content")
        with pytest.raises(TranscriptError, match="leads out of"):
            Mirror.open(kept)


@pytest.mark.spec("S25.2")
def test_only_the_store_in_the_users_home_has_the_users_memory(
    opened: Callable[[], Store], folder: Path, home: Path
) -> None:
    for store in (None, opened()):
        options = OpenOptions(folder=folder, settings={})
        if store is not None:
            options["store"] = store
        parts = on_disk("s", options)
        assert parts.user_memory is not None
        parts.user_memory.write("a.md", b"in a store" if store is not None else b"at home")
        parts.log.close()
    assert (home / "memory" / "a.md").read_bytes() == b"at home"
    assert opened().user_memory().read("a.md") == b"in a store"


def test_an_object_that_is_no_store_is_refused_with_what_it_lacks() -> None:
    class Half(MemoryStore):
        user_memory = None  # type: ignore[assignment]

    with pytest.raises(InputError, match="Half without user_memory"):
        sevenfold.Session.open("s", model="claude-sonnet-5-5", store=Half())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pass a folder, a URL or a Store"):
        sevenfold.Session.open("s", model="claude-sonnet-5-5", store=3)  # type: ignore[arg-type]


def test_safe_names_of_branches_keep_their_agents_apart(tmp_path: Path) -> None:
    store = MAKERS["jsonl"](tmp_path)
    store.agent_files("s", "a/b").write("x", b"1")
    assert store.agent_files("s").read(f"branches/{safe_name('a/b')}/x") == b"1"


@pytest.mark.spec("S25.27")
def test_the_tasks_of_an_agent_are_seen_and_stopped_through_its_store(
    opened: Callable[[], Store], folder: Path
) -> None:
    steps = [
        [use("Shell", "c1", command="sleep 600", background=True)],
        "It is running.",
    ]
    with agent(steps, folder, name="s", store=opened(), mode="autonomous") as working:
        working.run("Start it.")
        other = opened()
        seen = TaskFile(other.agent_files("s"), "s", other.mailbox())

        def commands() -> list[tuple[str, str, str]]:
            listed = seen.read()
            tasks = listed.tasks if listed is not None else ()
            return [(task.id, task.name, task.state) for task in tasks if task.kind == "command"]

        wait_until(commands)
        ((task, name, state),) = commands()
        assert (name, state) == ("sleep 600", "working")
        outcome = seen.order("stop", task, 15.0)
        assert outcome is not None
        assert outcome.done
        wait_until(lambda: commands() != [(task, name, "working")])
    assert seen.read() is None


@pytest.mark.spec("S25.22")
def test_an_agent_that_was_overtaken_leaves_the_files_of_its_successor_alone(
    opened: Callable[[], Store], folder: Path
) -> None:
    (folder / "a.txt").write_text("before")
    steps = [[use("Shell", "c1", command="printf after > a.txt")], "Done."]
    overtaken = agent(steps, folder, name="s", store=opened(), mode="autonomous", checkpoints=True)
    with overtaken:
        overtaken.run("Work.")
        store = opened()
        successor = store.open("s", take=True)
        before = {name: store.agent_files("s").read(name) for name in store.agent_files("s").names()}
        state = store.agent_state("s").read()
        overtaken.assembly.state.goal = "something else"
        overtaken.assembly.state.save()
        checkpoints = overtaken.assembly.checkpoints
        assert checkpoints is not None
        checkpoints.begin(("a.txt",))
        checkpoints.end(("a.txt",))
        for problem in (overtaken.assembly.state.problem, checkpoints.problem):
            assert re.search("taken over|took over", problem)
        after = {name: store.agent_files("s").read(name) for name in store.agent_files("s").names()}
        assert (after, store.agent_state("s").read()) == (before, state)
        successor.close()
