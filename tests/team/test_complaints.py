"""What users of sub-agents suffer from elsewhere; each is a test of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

import sevenfold
from sevenfold.agent.executor import Consented
from sevenfold.agent.team.definitions import AgentDefinition
from sevenfold.errors import RequestRefused
from sevenfold.events import CacheBroke, Compacted
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.ports import Call, Reply, Watcher
from tests.agent.working import MODEL, Model, blocks, options, results, texts, use, world
from tests.team.play import parts, start, team_of
from tests.team.test_sub_agents import READING, bill, waits_for_a_report

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

LONG = "A line of the tide table, with its hour and its height.\n" * 400


@pytest.fixture(autouse=True)
def tides(folder: Path) -> None:
    (folder / "tides.txt").write_text("High water at 06:12.\n")
    for number in range(12):
        (folder / f"table{number}.txt").write_text(f"Table {number}\n{LONG}")


class SilentToAgents(Model):
    """Answers the main conversation, and leaves agents waiting until it is let go."""

    def __init__(self, steps: list[Any]) -> None:
        super().__init__(steps)
        self.reached, self.over = threading.Event(), threading.Event()

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        if call.source.startswith("agent:"):
            self.reached.set()
            self.over.wait(60)
            raise RequestRefused("too late")
        return super().ask(call, watch)


IN_BACKGROUND = [start("c1", "Read the tides.", run_in_background=True, name="reader")]


@pytest.mark.spec("S4.10", "S7.11")
def test_agents_in_flight_are_not_forgotten_at_a_compaction_nor_started_twice(folder: Path) -> None:
    model = SilentToAgents(["Yes.", IN_BACKGROUND, "Now."])
    keep_nothing = {"keep_recent_tokens": 0}
    given = options(folder, {"name": "s", "agents": True, "max_turns": 1, "settings": keep_nothing})
    with sevenfold.Agent(MODEL, client=model, **given) as made:
        made.run("Can you read tides?")
        assert made.run("Then do.").end == "max_turns"
        assert made.compact(engine="extractive") is not None
        made.session.user("What now?")
        words = made.session.prepare().body.decode()
        (entry,) = team_of(made).roster
        assert (entry.status, "do not start them again" in words, entry.id in words) == (
            "working",
            True,
            True,
        )
        model.over.set()


@pytest.mark.spec("S7.11")
def test_every_agent_can_be_ended_even_while_its_model_is_silent(folder: Path) -> None:
    def stop_it(request: Any) -> Any:
        assert model.reached.wait(60)
        return [use("TaskStop", "c2", task_id="reader")]

    model = SilentToAgents([IN_BACKGROUND, stop_it, "It ends.", "It has ended."])
    with sevenfold.Agent(MODEL, client=model, **options(folder, {"name": "s", "agents": True})) as made:
        made.run("Read the tides.")
        assert not model.over.is_set()
        (entry,) = team_of(made).roster
        assert (entry.status, entry.pending) == ("cancelled", False)
        assert "is stopped" in results(model.requests[-1])["c2"]
        model.over.set()


@pytest.mark.spec("S7.3", "S0.1")
def test_a_child_compacts_at_its_own_window_and_not_at_its_parents(folder: Path) -> None:
    compacted: list[Compacted] = []
    script = parts({"MAIN": [[start("c1", "READ all", subagent_type="reader")], "Done."], **READING})
    tables = iter(range(12))

    def brain(prompt: ModelPrompt) -> Any:
        if "READ all" not in json.dumps(list(prompt.messages[:2])) or "MAIN" in prompt.last_text:
            return script(prompt)
        number = next(tables, None)
        return "Read." if number is None else [use("Read", f"r{number}", path=f"table{number}.txt")]

    small = AgentDefinition(name="reader", description="Reads.", fork=False, window=30_000)
    with (
        world(brain) as there,
        there.agent(
            folder,
            name="s",
            agents={"reader": small},
            settings={"size_clearing": False, "gap_clearing": False, "provider_edits": False},
            listen=[lambda event: compacted.append(event) if isinstance(event, Compacted) else None],
        ) as made,
    ):
        assert made.run("MAIN task").text == "Done."
        (entry,) = team_of(made).roster
        assert entry.status == "completed", entry.ended
        assert compacted
        assert {event.query_source for event in compacted} == {"agent:reader"}
        refused = [one for one in there.simulator.requests if one.status == 400]
        assert not refused
        assert made.session.gauge.usd == pytest.approx(bill(there))


@pytest.mark.spec("S7.3", "S7.15")
@pytest.mark.parametrize(
    ("kind", "definition", "settings", "most"),
    [
        ("fresh", {"fork": False}, {}, 200_000),
        ("its definition says more", {"fork": False, "window": 400_000}, {}, 400_000),
        ("its definition says too much", {"fork": False, "window": 10_000_000}, {}, 1_000_000),
        ("the user says less", {"fork": False}, {"agent_window": 60_000}, 60_000),
        ("a fork has its parent's", {"fork": True}, {}, 1_000_000),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_sub_agent_does_not_grow_to_940_000_tokens_because_its_model_would_take_them(
    kind: str, definition: dict[str, Any], settings: dict[str, Any], most: int, folder: Path
) -> None:
    reader = AgentDefinition(name="reader", description="Reads.", **definition)
    windows: list[int] = []

    def look(prompt: ModelPrompt) -> str:
        ((_, live),) = team_of(made)._at_work()
        windows.append(live.conversation.window.context)
        return "Read."

    script = parts({"MAIN": [[start("c1", "READ", subagent_type="reader")], "Done."], "READ": [look]})
    with (
        world(script) as there,
        there.agent(
            folder, name="s", model="claude-sonnet-4-6", agents={"reader": reader}, settings=settings
        ) as made,
    ):
        made.run("MAIN task")
        assert windows == [most]


@pytest.mark.spec("S7.11")
def test_a_final_report_is_never_lost(folder: Path) -> None:
    call = start("c1", "READ the tides", run_in_background=True)
    script = parts({"MAIN": [[call], waits_for_a_report], **READING})
    with world(script) as there:
        with there.agent(folder, name="s", agents=True, max_turns=1) as made:
            assert made.run("MAIN task").end == "max_turns"
        with there.agent(folder, name="s", agents=True) as again:
            assert again.run().text == "Got it."
            assert texts(there.bodies[-1]).count("<agent-report>") == 1


@pytest.mark.spec("S7.4", "S7.11")
@pytest.mark.parametrize(
    "call",
    [
        use("SendMessage", "c2", to="raeder", message="hello", summary="hello"),
        use("TaskStop", "c2", task_id="raeder"),
    ],
    ids=["SendMessage", "TaskStop"],
)
def test_sending_to_a_name_nobody_has_does_not_succeed_and_says_who_was_probably_meant(
    call: dict[str, Any], folder: Path
) -> None:
    calls = [start("c1", "READ the tides", name="reader")]
    script = parts({"MAIN": [calls, [call], "Done."], **READING})
    with world(script) as there, there.agent(folder, name="s", agents=True) as made:
        made.run("MAIN task")
        (block,) = [one for one in blocks(there.bodies[-1], "tool_result") if one["tool_use_id"] == "c2"]
        assert block["is_error"]
        assert "did you mean 'reader'" in str(block["content"])


class HeldUp:
    """Something an agent waits for, for as long as the test lets it."""

    def __init__(self) -> None:
        self.reached, self.over = threading.Event(), threading.Event()

    def __call__(self, *_: object) -> Consented:
        self.reached.set()
        self.over.wait(60)
        return Consented(True)


@pytest.mark.spec("S7.11", "S7.13")
@pytest.mark.parametrize("busy", ["a command", "the user's consent", "an agent of its own"])
@pytest.mark.parametrize("by", ["TaskStop", "the list of tasks"])
def test_an_agent_can_be_ended_whatever_it_waits_for(busy: str, by: str, folder: Path) -> None:
    held = HeldUp()
    (folder / "started").unlink(missing_ok=True)
    work: dict[str, list[Any]] = {
        "a command": [[use("Shell", "s1", command="touch started; exec sleep 300")], "Never."],
        "the user's consent": [[use("Write", "w1", path="new.txt", content="x")], "Never."],
        "an agent of its own": [[start("c9", "DEEP")], "Never."],
    }

    def stop(prompt: ModelPrompt) -> Any:
        assert _until(lambda: held.reached.is_set() or (folder / "started").exists())
        if by == "TaskStop":
            return [use("TaskStop", "c2", task_id="reader")]
        task = next(one for one in made.session.tasks if one.kind == "agent")
        made.session.tasks.kill(task.id)
        return "I stopped it."

    def deep(prompt: ModelPrompt) -> str:
        held()
        return "Never."

    mode = "ask" if "consent" in busy else "autonomous"
    script = parts({"MAIN": [IN_BACKGROUND, stop, "It has ended."], "Read": work[busy], "DEEP": [deep]})
    with (
        world(script) as there,
        there.agent(folder, name="s", agents=True, mode=mode, consent=held) as made,
    ):
        made.run("MAIN task")
        assert not held.over.is_set()
        (entry,) = team_of(made).roster
        assert (entry.status, entry.pending) == ("cancelled", False)
        held.over.set()
    assert not (folder / "new.txt").exists()


def _until(true: Callable[[], bool]) -> bool:
    return any(true() or threading.Event().wait(0.02) for _ in range(2_000))


@pytest.mark.spec("S7.1", "S7.2")
def test_a_fork_reads_its_parents_cache_and_writes_only_what_is_its_own(folder: Path) -> None:
    broke: list[CacheBroke] = []
    calls = [start("c1", "LEFT", subagent_type="fork"), start("c2", "RIGHT", subagent_type="fork")]
    turns = [[use("Read", f"r{number}", path=f"table{number}.txt")] for number in range(2)]
    script = parts({"MAIN": [*turns, calls, "Both."], "LEFT": ["left done"], "RIGHT": ["right done"]})
    with (
        world(script) as there,
        there.agent(
            folder,
            name="s",
            agents=True,
            listen=[lambda event: broke.append(event) if isinstance(event, CacheBroke) else None],
        ) as made,
    ):
        made.run("MAIN task")
        usages = [one.usage or {} for one in there.simulator.requests.answered()]
        parent, forks = usages[2], usages[3:5]
        prefix = parent["cache_read_input_tokens"] + parent["cache_creation_input_tokens"]
        assert all(one["cache_read_input_tokens"] >= prefix for one in forks)
        assert all(one["cache_creation_input_tokens"] < 1_000 for one in forks)
        assert not broke


@pytest.mark.spec("S7.1")
def test_a_fork_knows_the_files_its_parent_has_read(folder: Path) -> None:
    script = parts(
        {
            "MAIN": [
                [use("Read", "r1", path="tides.txt")],
                [start("c1", "LEFT", subagent_type="fork")],
                "Done.",
            ],
            "LEFT": [[use("Edit", "e1", path="tides.txt", old="06:12", new="06:15")], "left done"],
        }
    )
    with world(script) as there, there.agent(folder, name="s", agents=True, mode="accept_edits") as made:
        made.run("MAIN task")
        assert (folder / "tides.txt").read_text() == "High water at 06:15.\n"


@pytest.mark.spec("S7.1", "S7.4")
@pytest.mark.parametrize("pause", [60.0, 240.0])
def test_waking_an_idle_fork_reads_its_cache_and_does_not_write_it_again(
    pause: float, folder: Path
) -> None:
    turns = [[use("Read", f"r{number}", path=f"table{number}.txt")] for number in range(2)]
    call = start("c1", "LEFT", subagent_type="fork", name="left")
    wake = [use("SendMessage", "m1", to="left", message="one more thing", summary="more")]
    script = parts(
        {
            "MAIN": [*turns, [call], "Done."],
            "LEFT": ["left done"],
            "WAKE": [wake, "I wait."],
            "has come": ["more done"],
        }
    )
    with world(script) as there, there.agent(folder, name="s", agents=True) as made:
        made.run("MAIN task")
        there.clock.advance(pause)
        made.run("WAKE it")
        woken = [
            dict(one.usage or {})
            for one in there.simulator.requests.answered()
            if "> one more thing" in texts(one.body)
        ]
        assert woken
        assert woken[0]["cache_read_input_tokens"] > 10_000
        assert woken[0]["cache_creation_input_tokens"] < 1_000


@pytest.mark.spec("S7.4")
def test_mail_is_not_late_it_is_there_after_the_tool_round_in_which_it_was_sent(folder: Path) -> None:
    tell = [use("SendMessage", "m1", to="leader", message="HALF of it", summary="half")]
    asked: list[str] = []
    sent: list[int] = []

    def after_sending(prompt: ModelPrompt) -> Any:
        sent.append(len(asked))
        return "All done."

    def looking(prompt: ModelPrompt) -> Any:
        asked.append(json.dumps(list(prompt.messages)))
        return "Read." if "> HALF of it" in asked[-1] else [use("Read", path="tides.txt")]

    script = parts(
        {"MAIN": [[start("c1", "WORK", run_in_background=True)], looking], "WORK": [tell, after_sending]}
    )
    with world(script) as there, there.agent(folder, name="s", agents=True) as made:
        made.run("MAIN task")
        first = next(place for place, words in enumerate(asked) if "> HALF of it" in words)
        # One request may have been on its way when it was sent; the next one has it.
        assert first <= sent[0] + 1


@pytest.mark.spec("S7.1", "S7.2", "S6.11")
def test_a_fork_at_the_responses_api_has_its_parents_cache_key_and_reads_its_parents_cache(
    folder: Path,
) -> None:
    calls = [start("c1", "LEFT", subagent_type="fork"), start("c2", "RIGHT", subagent_type="fork")]
    turns = [[use("Read", f"r{number}", path=f"table{number}.txt")] for number in range(2)]
    script = parts({"MAIN": [*turns, calls, "Both."], "LEFT": ["left done"], "RIGHT": ["right done"]})
    simulator = Simulator(ScriptedBrain(script))
    with (
        serve(simulator) as url,
        openai.OpenAI(api_key="simulated-key", base_url=f"{url}/v1", max_retries=0) as sdk,
        sevenfold.Agent("gpt-5.6", client=sdk, **options(folder, {"name": "s", "agents": True})) as made,
    ):
        made.run("MAIN task")
        bodies = [one.body for one in simulator.requests.answered("/v1/responses")]
        assert len({body["prompt_cache_key"] for body in bodies}) == 1
        usages = [one.usage or {} for one in simulator.requests.answered("/v1/responses")]
        forks = [
            usage for body, usage in zip(bodies, usages, strict=True) if "<agent-task>" in json.dumps(body)
        ]
        assert len(forks) == 2
        assert all(
            usage["input_tokens_details"]["cached_tokens"] > 0.9 * usage["input_tokens"] for usage in forks
        )


@pytest.mark.spec("S7.11", "S7.13")
def test_what_runs_for_an_agent_is_in_the_list_too_and_can_be_ended(folder: Path) -> None:
    seen: list[str] = []

    def look(prompt: ModelPrompt) -> Any:
        tasks = made.session.tasks
        below = [one for one in tasks if "/" in one.id]
        seen.extend(f"{one.kind}: {one.state}" for one in below)
        for one in below:
            if one.kind == "command":
                tasks.kill(one.id)
                seen.append(tasks.get(one.id).state)
        return "deep done"

    script = parts(
        {
            "MAIN": [[start("c1", "WORK")], "Done."],
            "WORK": [
                [use("Shell", "s1", command="sleep 300", background=True)],
                [start("c2", "DEEP")],
                "ok",
            ],
            "DEEP": [look],
        }
    )
    with world(script) as there, there.agent(folder, name="s", agents=True, mode="autonomous") as made:
        made.run("MAIN task")
    assert seen == ["command: working", "agent: working", "cancelled"]
