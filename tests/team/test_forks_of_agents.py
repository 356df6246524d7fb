"""An agent with a conversation of its own forks that conversation, as the main one is forked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.team.definitions import AgentDefinition
from sevenfold.events import CacheBroke, Compacted
from sevenfold.lab.simulator.brains import ModelPrompt
from sevenfold.lab.simulator.invariant import extends
from tests.agent.working import results, texts, use, world
from tests.team.killed import RememberingStore
from tests.team.play import parts, start, team_of
from tests.team.test_sub_agents import bill

LONG = "A line of the tide table, with its hour and its height.\n" * 400


@pytest.fixture(autouse=True)
def tides(folder: Path) -> None:
    for number in range(12):
        (folder / f"table{number}.txt").write_text(f"Table {number}\n{LONG}")


FORKS = [start("c2", "LEFT", subagent_type="fork"), start("c3", "RIGHT", subagent_type="fork")]
SURVEY: dict[str, Any] = {
    "MAIN": [[start("c1", "SURVEY it", subagent_type="reader")], "Done."],
    "SURVEY": [[use("Read", "r1", path="table0.txt")], FORKS, "Both are in."],
    "LEFT": [[use("Read", "r2", path="table1.txt")], "left done"],
    "RIGHT": ["right done"],
}


def reader(**more: Any) -> dict[str, AgentDefinition]:
    return {"reader": AgentDefinition(name="reader", description="Reads.", fork=False, **more)}


@pytest.mark.spec("S7.1", "S7.2", "S7.11", "S7.14")
def test_an_agents_forks_read_its_cache_and_its_next_request_is_as_if_they_had_never_been(
    folder: Path,
) -> None:
    broke: list[CacheBroke] = []
    listen = [lambda event: broke.append(event) if isinstance(event, CacheBroke) else None]
    definition = reader(tools=("Read", "Agent"), prompt="You read tables.")
    with (
        world(parts(SURVEY)) as there,
        there.agent(folder, name="s", agents=definition, system=None, listen=listen) as made,
    ):
        assert made.run("MAIN task").text == "Done."
        main, _, before, *rest = [one.raw for one in there.simulator.requests.answered()]
        forks = [raw for raw in rest if b"<agent-task>" in raw]
        (after,) = [raw for raw in rest if "c3" in results(json.loads(raw)) and raw not in forks]
        assert [extends(before, raw) for raw in (*forks, after)] == [None] * (len(forks) + 1)
        for raw in (*forks, after):
            for part in ("system", "tools", "model"):
                assert json.loads(raw)[part] == json.loads(before)[part]
        assert json.loads(before)["tools"] != json.loads(main)["tools"]
        assert "left done" in results(json.loads(after))["c2"]
        assert "right done" in results(json.loads(after))["c3"]
        assert b"table1.txt" not in after
        # Whichever comes first: the left one may ask a second time before the right one asks at all.
        newest = [json.loads(raw)["messages"][-1]["content"] for raw in forks]
        first, second = [said for said in newest if "<agent-task>" in json.dumps(said)]
        assert [block["type"] for block in first] == ["tool_result", "tool_result", "text"]
        assert first[:-1] == second[:-1]
        usages = {one.raw: dict(one.usage or {}) for one in there.simulator.requests.answered()}
        held = usages[before]["cache_read_input_tokens"] + usages[before]["cache_creation_input_tokens"]
        assert held > 5_000
        assert all(usages[raw]["cache_read_input_tokens"] >= held for raw in (*forks, after))
        assert not broke
        (one,) = team_of(made).roster
        assert made.session.gauge.usd == pytest.approx(bill(there))
        assert one.usd == pytest.approx(bill(there) - costs_of_main(there))
    with there.agent(folder, name="s", agents=definition, system=None) as again:
        assert again.session.gauge.usd == pytest.approx(bill(there))


def costs_of_main(there: Any) -> float:
    """What the provider charges for the main conversation alone."""
    whole = there.simulator.requests.answered
    there.simulator.requests.answered = lambda: [one for one in whole() if "MAIN" in texts(one.body)]
    try:
        return bill(there)
    finally:
        there.simulator.requests.answered = whole


@pytest.mark.spec("S7.2", "S7.14")
def test_the_fork_of_an_agent_is_not_forked_again(folder: Path) -> None:
    deeper = {**SURVEY, "LEFT": [[start("c4", "DEEPER", subagent_type="fork")], "I could not."]}
    with world(parts(deeper)) as there, there.agent(folder, name="s", agents=reader()) as made:
        made.run("MAIN task")
        (refused,) = {results(body)["c4"] for body in there.bodies if "c4" in results(body)}
        assert "a fork cannot be forked" in refused


@pytest.mark.spec("S7.14", "S4.1")
def test_the_fork_of_an_agent_compacts_itself_and_goes_on_after_a_restart(folder: Path) -> None:
    compacted: list[Compacted] = []
    numbers = iter(range(1, 12))

    def reads_on(prompt: ModelPrompt) -> Any:
        number = next(numbers, None)
        return "left done" if number is None else [use("Read", f"t{number}", path=f"table{number}.txt")]

    script = parts({**SURVEY, "LEFT": [reads_on] * 20})

    def brain(prompt: ModelPrompt) -> Any:
        if "task is LEFT" in json.dumps(list(prompt.messages)) or "compacted" in prompt.last_text:
            return reads_on(prompt)
        return script(prompt)

    quiet = {"size_clearing": False, "gap_clearing": False, "provider_edits": False}
    listen = [lambda event: compacted.append(event) if isinstance(event, Compacted) else None]
    given: dict[str, Any] = {"name": "s", "agents": reader(window=40_000), "settings": quiet}
    whole = RememberingStore()
    with world(brain) as there:
        with there.agent(folder, store=whole, listen=listen, **given) as made:
            assert made.run("MAIN task").text == "Done."
            assert {event.query_source for event in compacted} == {"agent:fork"}
            assert not [one for one in there.simulator.requests if one.status == 400]
            assert made.session.gauge.usd == pytest.approx(bill(there))
        lines = [line for _, line in whole.writes]
        (boundary, *_) = [place for place, line in enumerate(lines) if b'"compact_boundary"' in line]
        store, asked = whole.killed_after(boundary + 8, "s"), len(there.bodies)
        with there.agent(folder, store=store, **given) as again:
            assert again.run().text == "Done."
            resumed = there.bodies[asked:]
            assert any("<continued-session>" in texts(one) for one in resumed), (
                "it goes on with its summary"
            )
            (one,) = team_of(again).roster
            assert (one.status, one.runs, one.delivered) == ("completed", 1, True)
            left = whole.writes[boundary][0]
            kept = [line for branch, line in store.writes if branch == left]
            assert sum(b'"kind":"fork"' in line for line in kept) == 1


@pytest.mark.spec("S7.3", "S7.15")
@pytest.mark.parametrize("limits", [{"tools": ("Read", "Agent")}, {"disallowed_tools": ("Write", "Shell")}])
@pytest.mark.parametrize("kind", ["general", "fork", "writer"])
def test_an_agent_gets_nothing_that_the_agent_above_it_may_not_use(
    kind: str, limits: dict[str, Any], folder: Path
) -> None:
    writer = AgentDefinition(name="writer", description="Writes.", fork=False, tools=("Write", "Shell"))
    script = parts(
        {
            "MAIN": [[start("c1", "SURVEY it", subagent_type="reader")], "Done."],
            "SURVEY": [[start("c2", "WRITE it", subagent_type=kind)], "Ok."],
            "WRITE": [
                [use("Write", "w1", path="new.txt", content="x"), use("Shell", "s1", command="touch y")],
                "Ok.",
            ],
        }
    )
    with (
        world(script) as there,
        there.agent(
            folder, name="s", agents={**reader(**limits), "writer": writer}, mode="autonomous"
        ) as made,
    ):
        assert made.run("MAIN task").text == "Done."
        assert not (folder / "new.txt").exists()
        assert not (folder / "y").exists()
        assert any("w1" in results(body) for body in there.bodies)


@pytest.mark.spec("S7.3", "S7.15")
def test_an_agent_may_start_only_what_every_agent_above_it_may_start(folder: Path) -> None:
    script = parts(
        {
            "MAIN": [[start("c1", "SURVEY it", subagent_type="chief")], "Done."],
            "SURVEY": [[start("c2", "LOOK", subagent_type="reader")], "Ok."],
            "LOOK": [[start("c3", "DEEPER", subagent_type="general")], "I could not."],
        }
    )
    chief = AgentDefinition(name="chief", description="Leads.", fork=False, agents=("reader",))
    with world(script) as there, there.agent(folder, name="s", agents={**reader(), "chief": chief}) as made:
        made.run("MAIN task")
        (refused,) = {results(body)["c3"] for body in there.bodies if "c3" in results(body)}
        assert "no type of agent 'general'" in refused


@pytest.mark.spec("S7.2")
def test_an_agent_in_a_branch_of_a_session_forks_that_branch(folder: Path) -> None:
    script = parts(
        {
            "MAIN": ["Hello."],
            "ASIDE": ["Noted.", "Noted."],
            "SPLIT": [[start("c1", "LEFT", subagent_type="fork")], "Done."],
            "LEFT": ["left done"],
        }
    )
    with world(script) as there:
        with there.agent(folder, name="s", agents=True) as made:
            made.run("MAIN task")
        with there.agent(folder, name="s", branch="b", agents=True) as made:
            made.run("ASIDE words")
            made.run("SPLIT it")
        (fork,) = [body for body in there.bodies if "<agent-task>" in texts(body)]
        assert "ASIDE words" in texts(fork)
