"""Progress lines that a model writes about agents in the background."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from sevenfold.lab.simulator.brains import ModelPrompt
from tests.agent.working import use, world
from tests.team.play import parts, start, team_of
from tests.team.test_sub_agents import bill

ASKED = "3 to 5 words"


@pytest.fixture(autouse=True)
def tides(folder: Path) -> None:
    (folder / "tides.txt").write_text("High water at 06:12.\n")


@pytest.mark.spec("S7.5")
@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Comparing tides.txt with yesterday's", "Comparing tides.txt with yesterday's"),
        ("I have read it.", "Reading the file tides.txt"),
    ],
)
@pytest.mark.parametrize("summary_model", [None, "claude-haiku-4-5"])
def test_a_model_writes_the_line_every_30_seconds_and_is_paid_for(
    written: str, shown: str, summary_model: str | None, folder: Path
) -> None:
    asked: list[str] = []
    seen: list[str] = []

    def working(prompt: ModelPrompt) -> Any:
        # Time passes until a line is asked for, and then hardly any.
        there.clock.advance(0.001 if asked else 31.0)
        if asked:
            (task,) = [one for one in made.session.tasks if one.kind == "agent"]
            seen.append(task.progress)
        enough = seen[-1:] == [written] if written == shown else len(seen) > 20
        if enough or len(prompt.messages) > 800:
            return "The report."
        Event().wait(0.05)
        return [use("Read", path="tides.txt")]

    script = parts({"MAIN": [[start("c1", "WORK", run_in_background=True)], "I wait."], "WORK": [working]})

    def brain(prompt: ModelPrompt) -> Any:
        if ASKED in prompt.last_text:
            asked.append(prompt.model)
            return written
        return script(prompt)

    settings = {"progress_lines": True, "summary_model": summary_model}
    with world(brain) as there, there.agent(folder, name="s", agents=True, settings=settings) as made:
        made.run("MAIN task")
        assert 1 <= len(asked) <= 3
        assert seen[-1] == shown
        assert made.session.gauge.usd == pytest.approx(bill(there))
        (entry,) = team_of(made).roster
        assert entry.status == "completed"


@pytest.mark.spec("S7.5")
def test_no_model_is_asked_for_a_line_unless_that_is_switched_on(folder: Path) -> None:
    def working(prompt: ModelPrompt) -> Any:
        there.clock.advance(31.0)
        Event().wait(0.05)
        return [use("Read", path="tides.txt")] if len(prompt.messages) < 60 else "The report."

    script = parts({"MAIN": [[start("c1", "WORK", run_in_background=True)], "I wait."], "WORK": [working]})
    with world(script) as there, there.agent(folder, name="s", agents=True) as made:
        made.run("MAIN task")
        assert not [body for body in there.bodies if ASKED in json.dumps(body["messages"])]
