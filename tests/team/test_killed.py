"""A session with agents that is killed and continued: each agent runs once, each result arrives once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sevenfold.lab.simulator.brains import ModelPrompt
from tests.agent.working import World, use, world
from tests.team.killed import RememberingStore
from tests.team.play import parts, start, team_of


def reads(number: int) -> list[Any]:
    return [[use("Read", f"r{number}", path="tides.txt")], f"Report {number}."]


def both_reports(prompt: ModelPrompt) -> str:
    words = json.dumps(list(prompt.messages))
    return "All here." if "Report 3." in words else "I wait."


CALLS = [
    start("c1", "ONE", name="one"),
    start("c2", "TWO", subagent_type="fork"),
    start("c3", "THREE", run_in_background=True),
]
SCRIPT = parts({"MAIN": [CALLS, both_reports], "ONE": reads(1), "TWO": reads(2), "THREE": reads(3)})
FORKING = parts(
    {
        "MAIN": [[start("c1", "ONE", name="one")], "All here."],
        "ONE": [
            [use("Read", "r1", path="tides.txt")],
            [start("c2", "TWO", subagent_type="fork"), start("c3", "THREE", subagent_type="fork")],
            "Report 1.",
        ],
        "TWO": reads(2),
        "THREE": reads(3),
    }
)
"""An agent that forks its own conversation."""


def work(there: World, folder: Path, store: RememberingStore, prompt: str = "") -> Any:
    """Run it to its end, or on."""
    with there.agent(folder, name="s", store=store, agents=True) as made:
        log = made.session.conversation.transcript.log
        said = prompt if not log.mentions("MAIN task") else ""
        view = made.session.conversation.transcript.view
        newest = view.newest
        if said or newest is None or newest.record.role == "user" or view.pending_calls or _left(made):
            made.run(said)
        return made, [(one.status, one.runs, one.delivered) for one in team_of(made).roster]


def _left(made: Any) -> bool:
    return any(one.ended is None or one.pending for one in team_of(made).roster)


@pytest.fixture(autouse=True)
def tides(folder: Path) -> None:
    (folder / "tides.txt").write_text("High water at 06:12.\n")


@pytest.mark.spec("S7.11", "S7.3")
def test_killed_at_any_boundary_of_its_logs_every_agent_runs_once_and_every_result_arrives_once(
    folder: Path,
) -> None:
    whole = RememberingStore()
    with world(SCRIPT) as there:
        work(there, folder, whole, "MAIN task")
    assert len(whole.writes) > 30
    for count in range(1, len(whole.writes)):
        with world(SCRIPT) as there:
            store = whole.killed_after(count, "s")
            made, entries = work(there, folder, store, "MAIN task")
            log = made.session.conversation.transcript.log
            started = sum(b'"agent_started"' in line for _, line in store.read("s").read())
            ended = sum(b'"agent_ended"' in line for _, line in store.read("s").read())
            # Of an agent in the background, the report is a message; in the foreground it is the result of the call.
            framed = [line for _, line in store.read("s").read() if b"<agent-report>" in line]
            reports = sum(b'"tool_result"' not in line for line in framed)
            tags = f"killed after {count} of {len(whole.writes)} lines"
            if entries:
                assert entries == [("completed", 1, True)] * len(entries), tags
            assert started == ended == len(entries), tags
            # Which agents had begun by then depends on time, so the one in the background is known by its call.
            assert reports == sum(one.started.call == "c3" for one in team_of(made).roster), tags
            assert log.result("c1") is not None, tags


@pytest.mark.spec("S7.14", "S7.11")
def test_killed_at_any_boundary_the_forks_of_an_agents_own_conversation_run_once(folder: Path) -> None:
    whole, began = RememberingStore(), set[int]()
    # One provider for all of it: another one would name its answers alike.
    with world(FORKING) as there:
        work(there, folder, whole, "MAIN task")
        assert len(whole.writes) > 30
        for count in range(1, len(whole.writes)):
            store = whole.killed_after(count, "s")
            made, entries = work(there, folder, store, "MAIN task")
            tags = f"killed after {count} of {len(whole.writes)} lines"
            if not entries:  # the model's answer was recorded, and nothing had been started yet
                continue
            assert entries == [("completed", 1, True)], tags
            (one,) = team_of(made).roster
            lines = [line for branch, line in store.writes if branch == one.id]
            forks = {branch for branch, (of, _) in store.starts.items() if of == one.id}
            began.add(len(forks))
            assert sum(b'"agent_started"' in line for line in lines) == len(forks), tags
            assert sum(b'"agent_ended"' in line for line in lines) == len(forks), tags
            assert sum(b'"text":"Report 1."' in line for line in lines) == 1, tags
            for fork in forks:
                reports = [line for branch, line in store.writes if branch == fork and b'"Report ' in line]
                assert len(reports) == 1, tags
    assert max(began) == 2


@pytest.mark.spec("S7.2", "S7.11")
def test_killed_at_any_boundary_tasks_that_are_mapped_go_on_and_each_is_done_once(folder: Path) -> None:
    tasks = ["ONE", "TWO", "THREE"]
    script = parts({"MAIN": ["Ready."], "ONE": reads(1), "TWO": reads(2), "THREE": reads(3)})
    whole = RememberingStore()
    with world(script) as there:

        def mapped(store: RememberingStore) -> list[tuple[str, str]]:
            with there.agent(folder, name="s", store=store, agents=True) as made:
                return [(one.state, one.text) for one in made.map(tasks)]

        with there.agent(folder, name="s", store=whole, agents=True) as made:
            made.run("MAIN task")
        ready = len(whole.writes)
        reports = [("completed", f"Report {number}.") for number in (1, 2, 3)]
        assert mapped(whole) == reports
        for count in range(ready, len(whole.writes)):
            store, tags = (
                whole.killed_after(count, "s"),
                f"killed after {count} of {len(whole.writes)} lines",
            )
            assert mapped(store) == reports, tags
            for kind in (b'"agent_started"', b'"agent_ended"'):
                assert sum(kind in line for _, line in store.read("s").read()) == 3, tags
            assert sum(b'"text":"Report ' in line for branch, line in store.writes if branch) == 3, tags
