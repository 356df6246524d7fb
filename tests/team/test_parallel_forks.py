"""Several tasks at once, in forks: they read what they share from the cache, and each is done once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.team.definitions import AgentDefinition
from sevenfold.errors import InputError, Refused
from sevenfold.lab.simulator.brains import ModelPrompt
from tests.agent.working import MODEL, World, options, texts, use, world
from tests.team.play import parts, team_of
from tests.team.test_sub_agents import bill

TASKS = [f"TASK {number}: what of it?" for number in range(8)]
LONG = "The harbour has many berths, and each of them is described here. " * 1_500


def script(prompt: ModelPrompt) -> Any:
    return parts({"MAIN": ["I have read it."], "TASK": ["It is fine."]})(prompt)


@pytest.mark.spec("S7.2")
def test_the_first_of_several_forks_goes_ahead_and_the_others_read_what_they_share(folder: Path) -> None:
    with world(script) as there, there.agent(folder, name="s", agents=True) as made:
        made.run(f"MAIN {LONG}")
        there.clock.advance(600.0)  # what the parent left in the cache has expired
        ended = made.map(TASKS)
        assert [one.text for one in ended] == ["It is fine."] * len(TASKS)
        asked = [one for one in there.simulator.requests.answered() if "<agent-task>" in texts(one.body)]
        first, *others = [dict(one.usage or {}) for one in asked]
        shared = first["cache_creation_input_tokens"] + first["cache_read_input_tokens"]
        assert shared > 10_000
        assert len(others) == len(TASKS) - 1
        assert all(one["cache_read_input_tokens"] >= 0.99 * shared for one in others)
        assert made.session.gauge.usd == pytest.approx(bill(there))
        assert len({texts({**one.body, "messages": one.body["messages"][:-1]}) for one in asked}) == 1
        assert made.run("MAIN again").text == "I have read it."
        assert "It is fine." not in texts(there.bodies[-1])


@pytest.mark.spec("S7.2", "S7.11")
def test_the_same_tasks_are_done_once(folder: Path) -> None:
    with world(script) as there:
        with there.agent(folder, name="s", agents=True, memory=False) as made:
            made.run("MAIN")
            made.map(TASKS[:3])
            assert len(there.bodies) == 4
        with there.agent(folder, name="s", agents=True, memory=False) as again:
            assert [one.text for one in again.map(TASKS[:4])] == ["It is fine."] * 4
            assert len(there.bodies) == 5
            assert len(list(team_of(again).roster)) == 4


@pytest.mark.spec("S7.2")
def test_tasks_can_be_awaited(folder: Path) -> None:
    async def work(there: World) -> list[str]:
        made = sevenfold.AsyncAgent(
            MODEL,
            client=there.async_sdk,
            clock=there.clock,
            **options(folder, {"name": "s", "agents": True}),
        )
        async with made:
            await made.run("MAIN")
            ended = await made.map(TASKS[:4])
        await there.async_sdk.close()
        return [one.text for one in ended]

    with world(script) as there:
        assert asyncio.run(work(there)) == ["It is fine."] * 4


@pytest.mark.spec("S7.2")
def test_a_task_that_fails_fails_alone(folder: Path) -> None:
    def some(prompt: ModelPrompt) -> Any:
        return [use("Read", "r1", path="nowhere")] if "TASK 1" in prompt.last_text else "Done."

    hasty = AgentDefinition(name="hasty", description="hasty", fork=True, max_turns=1)
    with world(some) as there, there.agent(folder, name="s", agents={"hasty": hasty}) as made:
        ended = made.map(TASKS[:3], agent="hasty")
        assert [one.state for one in ended] == ["completed", "failed", "completed"]


def test_what_cannot_be_done_is_refused_with_what_to_do(folder: Path) -> None:
    with world(script) as there, there.agent(folder, agents=True) as made:
        with pytest.raises(InputError, match="list of prompts"):
            made.map("one task")
        with pytest.raises(InputError, match="general"):
            made.map(TASKS[:1], agent="genral")
        assert made.map([]) == []
    with world(script) as there, there.agent(folder) as alone, pytest.raises(Refused, match="agents=True"):
        alone.map(TASKS[:1])
