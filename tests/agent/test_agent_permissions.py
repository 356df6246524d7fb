"""What an agent may do: consent, rules it leaves behind, modes, planning, questions to the user."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.tools.context import Abort, Question
from tests.agent.working import agent, model_of, results, use


class User:
    """Says yes, no or always, and remembers what was asked."""

    def __init__(self, *answers: Consented) -> None:
        self.answers = list(answers)
        self.asked: list[Asked] = []

    def __call__(self, asked: Asked) -> Consented:
        self.asked.append(asked)
        return self.answers.pop(0)


YES, NO, ALWAYS = Consented(True), Consented(False), Consented(True, always=True)


def write(path: str, call: str = "") -> dict[str, Any]:
    return use("Write", call or path, path=path, content="x")


def test_what_nobody_can_be_asked_about_is_refused(folder: Path) -> None:
    with agent([[write("a.txt", "c1"), use("Shell", "c2", command="make")], "I see."], folder) as made:
        made.run("Go.")
        answers = results(model_of(made).requests[1])
        assert all("No user is available" in answer for answer in answers.values())
        assert list(folder.iterdir()) == []


def test_the_user_says_yes_or_no_to_one_call(folder: Path) -> None:
    user = User(YES, Consented(False, remark="Use b.txt."))
    with agent([[write("a.txt", "c1")], [write("c.txt", "c2")], "I see."], folder, consent=user) as made:
        made.run("Go.")
        assert [path.name for path in folder.iterdir()] == ["a.txt"]
        assert "Use b.txt." in results(model_of(made).requests[-1])["c2"]
        assert [one.request.action for one in user.asked] == ["write", "write"]
        with pytest.warns(DeprecationWarning, match="asked.request"):
            old = user.asked[0].wish
        with pytest.warns(DeprecationWarning, match="request.action"):
            assert old.deed == "write"
        assert user.asked[0].decision.would_allow


def test_always_leaves_rules_behind_by_which_nobody_is_asked_again(folder: Path) -> None:
    user = User(ALWAYS)
    shell = [[use("Shell", f"c{n}", command="mkdir -p made")] for n in range(3)]
    with agent([*shell, "Done."], folder, consent=user) as made:
        made.run("Go.")
        assert len(user.asked) == 1
        assert [path.name for path in folder.iterdir()] == ["made"]
        assert made.grants.granted == user.asked[0].decision.would_allow
        made.grants.revoke(*made.grants.granted)
        assert made.grants.now.decide(user.asked[0].request).verdict == "ask"


@pytest.mark.parametrize("variable", ["SEVENFOLD_HOME", "XDG_CONFIG_HOME"])
def test_an_agent_does_not_trust_folders_for_itself(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("SEVENFOLD_HOME", raising=False)
    monkeypatch.setenv(variable, str(folder / "own"))
    own = "own/trusted.json" if variable == "SEVENFOLD_HOME" else "own/sevenfold/trusted.json"
    steps = [[write(own, "c1"), use("Shell", "c2", command=f"echo x > {own}"), write("free.txt")], "I see."]
    with agent(steps, folder, mode="autonomous", rules={"allow": ["Edit"]}) as made:
        made.run("Go.")
        answers = results(model_of(made).requests[1])
        assert all("No user is available" in answers[call] for call in ("c1", "c2"))
        assert [path.name for path in folder.iterdir() if path.is_file()] == ["free.txt"]
        assert not (folder / own).exists()


def test_of_calls_beside_each_other_one_is_asked_about_at_a_time(folder: Path) -> None:
    asking = threading.Lock()
    asked: list[str] = []

    def consent(about: Asked) -> Consented:
        assert asking.acquire(blocking=False), "asked twice at once"
        asked.append(about.call.id)
        asking.release()
        return ALWAYS

    outside = folder.parent / "outside"
    outside.mkdir()
    for name in "abc":
        (outside / name).write_text(name)
    calls = [use("Read", name, path=str(outside / name)) for name in "abc"]
    with agent([calls, "Read."], folder, consent=consent) as made:
        made.run("Read them.")
        answers = results(model_of(made).requests[1])
        assert all(name in answers[name] for name in "abc")
        assert len(asked) in (1, 2, 3)
        assert made.grants.pending == ()


def test_when_asking_fails_nothing_is_granted(folder: Path) -> None:
    with agent([[write("a.txt", "c1")], "I see."], folder, consent=User()) as made:
        assert made.run("Go.").text == "I see."
        assert "Asking failed" in results(model_of(made).requests[1])["c1"]
        assert list(folder.iterdir()) == []


def test_modes_change_while_the_agent_works(folder: Path) -> None:
    made: sevenfold.Agent

    def switch(request: Any) -> list[dict[str, Any]]:
        made.grants.mode = "accept_edits"
        return [write("b.txt", "c2")]

    with agent([[write("a.txt", "c1")], switch, "Done."], folder) as made:
        made.run("Go.")
        assert [path.name for path in folder.iterdir()] == ["b.txt"]


def test_planning_changes_nothing_until_the_plan_is_approved(folder: Path) -> None:
    user = User(Consented(False, remark="Smaller steps."), YES)
    steps = [
        [use("PlanStart", "c0")],
        [write("a.txt", "c1"), use("Shell", "c2", command="touch b.txt")],
        [use("PlanReady", "c3", plan="Do it all.")],
        [use("PlanReady", "c4", plan="Do a little.")],
        [write("a.txt", "c5")],
        "Done.",
    ]
    with agent(steps, folder, mode="accept_edits", consent=user) as made:
        assert made.run("Plan it.").end == "done"
        answers = results(model_of(made).requests[-1])
        assert "While planning" in answers["c1"]
        assert "While planning" in answers["c2"]
        assert "Smaller steps." in answers["c3"]
        assert "approved" in answers["c4"]
        assert [path.name for path in folder.iterdir()] == ["a.txt"]
        assert [one.call.input["plan"] for one in user.asked] == ["Do it all.", "Do a little."]
        assert made.plans.text() == "Do a little."
        assert made.grants.mode == "accept_edits"


def test_while_planning_the_plans_own_file_may_be_written(folder: Path) -> None:
    def plan(request: Any) -> list[dict[str, Any]]:
        return [use("Write", "c1", path=str(made.plans.path), content="Step one.")]

    with agent([plan, "Noted."], folder, mode="plan") as made:
        assert made.plans.planning
        made.run("Plan.")
        assert made.plans.text() == "Step one."
        made.plans.leave()
        assert made.grants.mode == "ask"


def test_an_agent_on_its_own_approves_its_plan_only_if_everything_is_free(folder: Path) -> None:
    steps = [[use("PlanStart")], [use("PlanReady", "c1", plan="Do it.")], "Done."]
    with agent(steps, folder, mode="autonomous") as made:
        made.run("Go.")
        assert not made.plans.planning
    with agent(steps, folder, mode="ask") as made:
        made.run("Go.")
        assert made.plans.planning


def test_questions_of_the_model_reach_the_user(folder: Path) -> None:
    def answer(questions: Sequence[Question], abort: Abort) -> Sequence[str]:
        return [f"{one.question[:-1]}, {one.options[0].label}" for one in questions]

    asks = use("AskUser", "c1", questions=[{"question": "Which?", "options": [{"label": "red"}]}])
    with agent([[asks], "Red."], folder, ask=answer) as made:
        made.run("Choose.")
        assert results(model_of(made).requests[1])["c1"] == "Which?\n> Which, red"


@pytest.mark.parametrize("verdict", ["deny", "ask"])
def test_a_file_that_a_rule_withholds_is_not_found_by_searching(verdict: str, folder: Path) -> None:
    (folder / "open.txt").write_text("needle")
    (folder / "secret.txt").write_text("needle")
    with agent(
        [[use("Grep", "c1", pattern="needle")], "Found."], folder, rules={verdict: ["Read(secret.txt)"]}
    ) as made:
        made.run("Search.")
        found = results(model_of(made).requests[1])["c1"]
        assert "open.txt" in found
        assert "secret.txt" not in found


@pytest.mark.spec("S11.1")
@pytest.mark.parametrize(
    "setting", ["hooksPath = tools/hooks", '\thookspath="tools/hooks"', "HooksPath = ./tools/hooks/"]
)
def test_the_folder_in_which_git_looks_for_hooks_is_guarded(folder: Path, setting: str) -> None:
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text(f"[core]\n{setting}\n")
    steps = [[write("tools/hooks/pre-commit", "c1"), write("tools/x.txt", "c2")], "I see."]
    with agent(steps, folder, mode="accept_edits") as made:
        made.run("Go.")
        assert "No user is available" in results(model_of(made).requests[-1])["c1"]
        assert [path.name for path in (folder / "tools").iterdir()] == ["x.txt"]
