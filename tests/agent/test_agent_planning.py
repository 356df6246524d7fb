"""Planning from beginning to end: nothing is changed, the user approves or says why not, and the plan stays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.permissions.engine import Mode
from tests.agent.test_agent_slots import LONG, compact, opened
from tests.agent.working import agent, async_agent, model_of, results, use

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

PLAN = "\n".join(f"{number}. Step number {number}." for number in range(1, 40))
BETTER = PLAN + "\n40. Run the tests."


class User:
    """Answers one question after another, and remembers what it was asked."""

    def __init__(self, *answers: Consented) -> None:
        self._answers = list(answers)
        self.asked: list[Asked] = []

    def __call__(self, asked: Asked) -> Consented:
        self.asked.append(asked)
        return self._answers.pop(0)


def test_a_plan_is_refused_with_a_reason_made_better_and_approved(folder: Path) -> None:
    user = User(Consented(False, remark="Where are the tests?"), Consented(True, remark="Go."))
    steps = [
        [use("PlanStart", "c1")],
        [use("Write", "c2", path="a.py", content="too early\n")],
        [use("PlanReady", "c3", plan=PLAN)],
        [use("Shell", "c4", command="touch b.py")],
        [use("PlanReady", "c5", plan=BETTER)],
        [use("Write", "c6", path="a.py", content="in time\n")],
        "Done.",
    ]
    with agent(steps, folder, mode="accept_edits", consent=user) as made:
        made.run("Plan it, then do it.")
        said = results(model_of(made).requests[-1])
        assert "planning" in said["c2"].lower()
        assert "not approved. The user says: Where are the tests?" in said["c3"]
        assert "planning" in said["c4"].lower()
        assert "The plan is approved" in said["c5"]
        assert said["c5"].endswith("The user says: Go.")
        assert [one.call.input["plan"] for one in user.asked] == [PLAN, BETTER]
        assert [one.call.name for one in user.asked] == ["PlanReady"] * 2
        assert made.grants.mode == "accept_edits"
        assert (folder / "a.py").read_text() == "in time\n"
        assert not (folder / "b.py").exists()
        assert made.plans.text() == BETTER


@pytest.mark.parametrize("before", ["ask", "accept_edits", "autonomous"])
def test_with_approval_the_mode_from_before_is_back(before: Mode, folder: Path) -> None:
    steps = [[use("PlanStart")], [use("PlanReady", plan=PLAN)], "Done."]
    modes: list[Mode] = []

    def consent(asked: Asked) -> Consented:
        modes.append(made.grants.mode)
        return Consented(True)

    with agent(steps, folder, mode=before, consent=consent) as made:
        made.run("Plan it.")
        assert modes == ["plan"]
        assert made.grants.mode == before


def test_an_agent_that_begins_with_planning_asks_from_then_on(folder: Path) -> None:
    steps = [[use("PlanReady", plan=PLAN)], [use("Write", "c2", path="a.py", content="x\n")], "Done."]
    user = User(Consented(True), Consented(False, remark="Not this one."))
    with agent(steps, folder, mode="plan", consent=user) as made:
        made.run("Plan it.")
        assert made.grants.mode == "ask"
        assert [one.call.name for one in user.asked] == ["PlanReady", "Write"]
        assert "Not this one." in results(model_of(made).requests[-1])["c2"]


def test_where_nobody_can_be_asked_a_plan_is_approved_only_if_the_agent_is_free_anyway(
    folder: Path,
) -> None:
    for before, approved in (("ask", False), ("autonomous", True)):
        steps = [[use("PlanStart")], [use("PlanReady", "c1", plan=PLAN)], "Done."]
        with agent(steps, folder, mode=before) as made:
            made.run("Plan it.")
            said = results(model_of(made).requests[-1])["c1"]
            assert ("The plan is approved" in said) == approved
            assert (made.grants.mode == "plan") != approved


@pytest.mark.spec("S4.10")
def test_an_approved_plan_survives_ten_compactions_a_resume_and_ten_more(folder: Path) -> None:
    steps = [[use("PlanStart")], [use("PlanReady", plan=BETTER)], "Approved."]
    with opened(folder, *steps, consent=lambda asked: Consented(True)) as made:
        made.run("Plan it.")
        said = compact(made)
        assert said.count(BETTER) == 1
        assert "You are planning" not in said
        path = made.plans.path
    assert path.read_text() == BETTER
    with opened(folder) as made:
        assert made.grants.mode == "ask"
        assert compact(made).count(BETTER) == 1


@pytest.mark.spec("S4.10")
def test_planning_itself_and_its_draft_survive_too_and_end_with_approval(folder: Path) -> None:
    refused: Any = lambda asked: Consented(False, remark="Not yet.")  # noqa: E731
    with opened(folder, [use("PlanStart")], [use("PlanReady", plan=PLAN)], "Hm.", consent=refused) as made:
        made.run("Plan it.")
        said = compact(made)
        assert said.count("You are planning: explore") == 1
        assert said.count(PLAN) == 1
    ready = [use("PlanReady", plan=BETTER)]
    with opened(folder, ready, "Good.", consent=lambda asked: Consented(True)) as made:
        assert made.grants.mode == "plan"
        made.run(f"Go on. {LONG}")
        assert not made.plans.planning
        said = compact(made, 2)
        assert "You are planning" not in said
        assert said.count(BETTER) == 1


def test_the_same_holds_for_an_agent_that_is_awaited(folder: Path) -> None:

    steps = [[use("PlanStart")], [use("PlanReady", plan=PLAN)], "Done."]
    user = User(Consented(True))

    async def work() -> tuple[str, str]:
        made = async_agent(steps, folder, mode="accept_edits", consent=user)
        await made.run("Plan it.")
        found = made.grants.mode, made.plans.text()
        await made.close()
        return found

    assert asyncio.run(work()) == ("accept_edits", PLAN)


def test_a_plan_the_user_edited_in_its_file_is_the_one_that_comes_back(folder: Path) -> None:
    steps = [[use("PlanStart")], [use("PlanReady", plan=PLAN)], "Approved."]
    with opened(folder, *steps, consent=lambda asked: Consented(True)) as made:
        made.run("Plan it.")
        made.plans.path.write_text("1. Only this.\n")
        said = compact(made, 1)
        assert "1. Only this." in said
        assert "Step number 7" not in said
