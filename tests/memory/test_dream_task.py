"""A dream as a background task: its turns, what it may do in them, and stopping it (S7.6, S7.8, S7.9)."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

import sevenfold
from sevenfold import OfflineClient, Script
from sevenfold.clock import ManualClock
from sevenfold.conversation.flow import Ask
from sevenfold.errors import Overloaded
from sevenfold.events import Dreaming, Sending, SteppedAside
from sevenfold.layers.dream.layer import MOST_TURNS
from sevenfold.memory.memory import Memory

from .test_dream import START, fill

DAY = 86_400.0
SAME = "<same>tabs, again</same>"


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def shell(*lines: str, name: str = "Shell") -> list[dict[str, object]]:
    return [{"type": "tool_use", "name": name, "input": {"command": line}} for line in lines]


class Night:
    """An agent in a project that is due for a dream, and what its dreaming model is asked."""

    def __init__(self, work: Path, answers, **options) -> None:
        self.asked: list[dict[str, object]] = []
        self.events: list[object] = []
        answers = iter(answers)

        def dreams(request):
            self.asked.append(request)
            said = next(answers)
            return said(request) if callable(said) else said

        jobs = {"dream": dreams, "extract_memories": lambda request: "<nothing/>"}
        self.held: Memory = fill(work)
        for number in range(5):
            other = OfflineClient(Script(["Fine."], jobs=jobs))
            with sevenfold.Session.open(
                f"s{number}", model="claude-sonnet-5-5", folder=work, client=other
            ) as one:
                one.user("Hello there, tell me about Makefiles.")
                one.complete()
        self.client = OfflineClient(Script(["Fine."] * 9, jobs=jobs))
        self.agent = sevenfold.Agent(
            model="claude-sonnet-5-5",
            name="main",
            folder=work,
            clock=ManualClock(time.time()),
            client=self.client,
            listen=[self.events.append],
            **options,
        )
        self.session = self.agent.session

    def run(self) -> None:
        self.agent.run("Hello there.")
        self.session.settle()

    def __enter__(self):
        return self

    def __exit__(self, *raised) -> None:
        self.agent.close()

    @property
    def names(self) -> set[str]:
        return {one.entry.name for one in self.held.entries()}

    @property
    def shown(self) -> list[tuple[str, str, str]]:
        return [(one.phase, one.stage, one.state) for one in self.events if isinstance(one, Dreaming)]


ALL = {"tabs", "again", "deploys", "ada"}


@pytest.mark.spec("S7.8", "S7.9")
def test_a_dream_looks_around_names_entries_and_is_shown_from_start_to_end(work):
    look = shell("grep -rn Makefile .", "grep Makefiles transcripts")
    with Night(work, [look, SAME]) as night:
        night.run()
        task = night.session.dream
    assert night.shown == [
        ("orient", "starting", "running"),
        ("gather", "starting", "running"),
        ("gather", "starting", "running"),
        ("consolidate", "starting", "running"),
        ("prune", "updating", "running"),
        ("prune", "updating", "completed"),
    ]
    assert (task.turn_count, task.tool_uses, task.done) == (2, 2, ("merged again, tabs",))
    assert set(task.paths) == {"tabs.md", "again.md"}
    assert task.turns[0].commands == ("grep -rn Makefile .", "grep Makefiles transcripts")
    results = [part["content"] for part in night.asked[1]["messages"][-1]["content"]]
    assert "tabs.md" in results[0]
    assert "user: Hello there, tell me about Makefiles." in results[1]
    assert night.names == ALL - {"again"}


@pytest.mark.spec("S7.8")
def test_no_tool_but_the_shell_is_there_and_none_can_write(work):
    calls = [
        *shell("rm -rf .", "cat tabs.md > /tmp/x"),
        {"type": "tool_use", "name": "Write", "input": {"path": "tabs.md", "content": "gone"}},
        {"type": "tool_use", "name": "mcp__x__y", "input": {}},
    ]
    with Night(work, [calls, "<nothing/>"]) as night:
        night.run()
    results = night.asked[1]["messages"][-1]["content"]
    assert all(part["is_error"] for part in results)
    assert night.names >= {"deploys", "ada"}
    assert not (work / "tabs.md").exists()


@pytest.mark.spec("S7.8")
def test_a_model_that_never_ends_is_stopped_and_rules_alone_decide(work):
    with Night(work, [shell("ls")] * (MOST_TURNS + 5)) as night:
        night.run()
        assert len(night.asked) == MOST_TURNS
        assert "answer now" in json.dumps(night.asked[-1]["messages"][-1])
        assert night.session.dream.state == "completed"
        assert len(night.session.dream.turns) == MOST_TURNS
    assert night.names == ALL - {"again"}


@pytest.mark.spec("S7.8")
def test_a_dream_ends_when_the_engine_may_spend_no_more(work):
    def dear(request):
        night.session.conversation.charge(1.0)
        return shell("ls")

    with Night(work, [dear] * 9, settings={"spending_cap_usd": 1.5}) as night:
        night.run()
        assert night.session.dream.state == "completed"
    assert len(night.asked) == 2


@pytest.mark.spec("S7.9")
def test_a_dream_that_is_stopped_while_the_model_thinks_leaves_nothing(work):
    thinking, go_on = threading.Event(), threading.Event()

    def slow(request):
        thinking.set()
        go_on.wait(30)
        return SAME

    with Night(work, [slow]) as night:
        before = night.held.generation()
        night.agent.run("Hello there.")
        assert thinking.wait(30)
        assert night.session.kill_dream()
        assert night.session.dream.state == "killed"
        assert not night.session.kill_dream()
        go_on.set()
        night.session.settle()
        assert night.session.dream.state == "killed"
        assert night.held.generation() == before
        assert night.held.folder.dream_lock().last() is None
        assert not [one for one in night.events if isinstance(one, SteppedAside) and one.layer == "dream"]


@pytest.mark.spec("S7.9")
def test_a_dream_that_is_stopped_while_it_writes_is_undone(work):
    with Night(work, [SAME]) as night:
        before = {name: night.held.folder.read(name) for name in night.held.generation().entries}

        def stepwise(flow, done):
            """Stop the dream as soon as its change is made."""
            effect = next(flow)
            try:
                while True:
                    changes = len(list(night.held.changes()))
                    got = night.client.ask(effect.call) if isinstance(effect, Ask) else effect.now()
                    if len(list(night.held.changes())) > changes:
                        assert night.session.kill_dream()
                    effect = flow.send(got)
            except StopIteration as end:
                done(end.value)
            except sevenfold.errors.Aborted as error:
                done(error)

        stepwise.every = lambda seconds, call: lambda: None  # type: ignore[attr-defined]
        night.session.conversation.background = stepwise
        night.agent.run("Hello there.")
        assert night.session.dream.state == "killed"
        assert {name: night.held.folder.read(name) for name in night.held.generation().entries} == before
        assert [one.by for one in night.held.changes()][:2] == ["undo", "dream"]
        assert night.held.folder.dream_lock().last() is None


@pytest.mark.spec("S7.7", "S7.9")
def test_a_dream_whose_model_fails_is_shown_as_failed_and_the_time_goes_back(work):
    def fails(request):
        raise Overloaded("busy")

    # A failure that may pass is tried twice more.
    with Night(work, [fails] * 3) as night:
        before = night.held.generation()
        night.run()
        assert night.shown[-1][2] == "failed"
        assert "busy" in night.session.dream.reason
        assert night.held.generation() == before
        assert night.held.folder.dream_lock().last() is None


@pytest.mark.spec("S7.9")
@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_dream_that_cannot_begin_says_why(work):
    with Night(work, [SAME]) as night:
        place = Path(night.held.path)
        place.rename(place.with_name("elsewhere")).parent.joinpath(place.name).symlink_to("elsewhere")
        night.run()
        assert night.session.dream is None
        reasons = [
            one.reason for one in night.events if isinstance(one, SteppedAside) and one.layer == "dream"
        ]
    assert len(reasons) == 1
    assert "is a symlink" in reasons[0]


@pytest.mark.spec("S7.7")
def test_a_dream_that_another_process_took_over_writes_nothing(work):
    def overtaken(request):
        night.held.folder.dream_lock().take(time.time() + 4_000)
        return SAME

    with Night(work, [overtaken]) as night:
        before = night.held.generation()
        night.run()
        assert night.session.dream.state == "failed"
        assert night.held.generation() == before


@pytest.mark.spec("S7.6")
@pytest.mark.parametrize(("last", "dreams"), [(300 * DAY, True), (-DAY / 2, False)])
def test_a_clock_that_was_put_back_does_not_stop_dreams_for_good(work, last, dreams):
    with Night(work, ["<nothing/>"]) as night:
        lock = night.held.folder.dream_lock()
        lock.take(START)
        lock.finish(time.time() + last)
        night.run()
    assert bool(night.shown) == dreams


@pytest.mark.spec("S7.9")
def test_the_last_thirty_turns_are_kept():
    from sevenfold.layers.dream.layer import DreamTask, DreamTurn

    task = DreamTask(START)
    for number in range(40):
        task = task.after(DreamTurn(str(number), ("ls",)))
    assert [turn.text for turn in task.turns] == [str(number) for number in range(10, 40)]
    assert (task.turn_count, task.tool_uses) == (40, 40)


@pytest.mark.spec("S7.6")
def test_a_plain_turn_asks_for_no_dream(work):
    with Night(work, [], settings={"dream": False}) as night:
        night.run()
        assert night.session.dream is None
        assert not night.session.kill_dream()
    assert {one.source for one in night.events if isinstance(one, Sending)} <= {"main", "extract_memories"}
