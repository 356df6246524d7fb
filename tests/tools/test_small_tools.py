"""To-dos, plans, questions, recall and skills: with their services, and without."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sevenfold.agent.executor import Consented
from sevenfold.agent.permissions.engine import Grants, Permissions
from sevenfold.agent.processes import LocalProcesses
from sevenfold.agent.standard_tools import standard_tools
from sevenfold.agent.texts import Skills as SkillsText
from sevenfold.agent.tools.context import ROOM, Todo
from sevenfold.agent.tools.output import PlanChanged, SkillUsed, TodosChanged
from sevenfold.agent.tools.session_tools import (
    AskUserTool,
    PlanFile,
    PlanReadyTool,
    PlanStartTool,
    RecallTool,
    TodoList,
    TodoTool,
)
from sevenfold.agent.tools.skills import LONGEST_BODY, SkillCatalog, SkillTool
from sevenfold.agent.tools.tool import Toolbox
from sevenfold.errors import InputError, ResultMissing
from sevenfold.recall.passages import KINDS
from sevenfold.recall.search import Hit, Near
from tests.tools.handling import Hands, context_in

# To-dos


def test_the_list_is_kept_whole_and_shown(tmp_path):
    todos = TodoList()
    hands = Hands(context_in(tmp_path, todos=todos), TodoTool())
    entries = [{"content": "look", "status": "completed"}, {"content": "leap", "status": "in_progress"}]
    output = hands("Todo", todos=entries)
    assert output.content == "[x] look\n[>] leap"
    assert output.facts == (TodosChanged(open=1, done=1),)
    assert todos.get() == (Todo("look", "completed"), Todo("leap", "in_progress"))


def test_the_list_can_be_kept_as_data(tmp_path):
    kept = msgspec.json.encode(TodoList([Todo("x", "pending")]).get())
    assert TodoList(msgspec.json.decode(kept, type=list[Todo])).get() == (Todo("x", "pending"),)


def test_a_list_whose_entries_are_all_done_is_finished(tmp_path):
    todos = TodoList([Todo("x", "pending")])
    Hands(context_in(tmp_path, todos=todos), TodoTool()).good(
        "Todo", todos=[{"content": "x", "status": "completed"}]
    )
    assert todos.get() == ()


@pytest.mark.parametrize("entries", [[{"content": "x"}], [{"content": "", "status": "pending"}], "x", [1]])
def test_a_list_that_is_none_is_refused_and_the_old_one_stays(tmp_path, entries):
    todos = TodoList([Todo("x", "pending")])
    Hands(context_in(tmp_path, todos=todos), TodoTool()).bad("Todo", todos=entries)
    assert todos.get() == (Todo("x", "pending"),)


# Plans


def test_a_plan_is_made_approved_and_kept(tmp_path):
    verdicts = [Consented(False, remark="too long"), Consented(True)]
    plans = PlanFile(
        tmp_path / "plans" / "p.md",
        Grants(Permissions(workspace="/ws")),
        lambda plan: verdicts.pop(0),
    )
    hands = Hands(context_in(tmp_path, plans=plans), PlanStartTool(), PlanReadyTool())
    assert "PlanStart" in hands.bad("PlanReady", plan="x")
    assert hands("PlanStart").facts == (PlanChanged(True, str(plans.path)),)
    assert "too long" in hands.bad("PlanReady", plan="first")
    assert (plans.planning, plans.text()) == (True, "first")
    assert "approved" in hands.good("PlanReady", plan="second")
    assert (plans.planning, plans.text()) == (False, "second")


def test_the_plan_can_be_left_without_approval(tmp_path):
    plans = PlanFile(
        tmp_path / "p.md",
        Grants(Permissions(workspace="/ws", mode="plan")),
        lambda plan: Consented(True),
    )
    plans.leave()
    assert (plans.planning, plans.text()) == (False, "")


# Questions


def test_questions_reach_the_user_and_answers_the_model(tmp_path):
    asked = []

    def ask(questions, abort):
        asked.extend(questions)
        return ["blue", "no"]

    hands = Hands(context_in(tmp_path, ask=ask), AskUserTool())
    given = [
        {"question": "Which colour?", "options": [{"label": "blue"}]},
        {"question": "Sure?", "several": True},
    ]
    assert hands.good("AskUser", questions=given) == "Which colour?\n> blue\n\nSure?\n> no"
    assert (asked[0].options[0].label, asked[1].several) == ("blue", True)


def test_a_user_who_does_not_answer_is_an_error_result(tmp_path):
    hands = Hands(context_in(tmp_path, ask=lambda questions, abort: None), AskUserTool())
    assert "did not answer" in hands.bad("AskUser", questions=[{"question": "Well?"}])


# Recall


class Memory:
    """A conversation of two records."""

    def search(self, query, *, kind=None, k=10):
        near = (Near("u0", "user", "before\nit"),)
        by = ("meaning",) if query == "paraphrase" else ()
        hit = Hit(
            "u1", "result", "Shell", "2026-11-01", 0, 1, 1.0, True, f"{query} was here", (), near, (), by
        )
        return [hit] * k if query != "nothing" else []

    def fetch(self, reference):
        if reference != "u1":
            raise ResultMissing(f"there is no {reference}")
        return b"x" * 100_000


@pytest.mark.spec("S10.2")
def test_what_left_the_context_is_found_with_what_stood_beside_it(tmp_path):
    hands = Hands(context_in(tmp_path, recall=Memory()), RecallTool())
    shown = hands.good("Recall", query="port 5433", limit=1)
    assert "record u1 · 2026-11-01 · result (Shell)" in shown
    assert "before, user: before it" in shown
    assert "port 5433 was here" in shown
    assert "No matches" in hands.good("Recall", query="nothing")


@pytest.mark.spec("S10.2")
def test_what_is_merely_alike_in_meaning_is_said_to_be(tmp_path):
    hands = Hands(context_in(tmp_path, recall=Memory()), RecallTool())
    assert "similar in meaning only" in hands.good("Recall", query="paraphrase", limit=1)
    assert "alike" not in hands.good("Recall", query="port 5433", limit=1)


@pytest.mark.spec("S10.2")
def test_a_record_is_fetched_whole_in_pieces(tmp_path):
    hands = Hands(context_in(tmp_path, recall=Memory()), RecallTool())
    shown, offset = 0, 0
    while offset < 100_000:
        piece = hands.good("Recall", record="u1", offset=offset)
        assert len(piece) < ROOM + 100
        shown += piece.partition("\n")[0].count("x")
        offset += ROOM
    assert shown == 100_000
    assert "there is no u9" in hands.bad("Recall", record="u9")
    assert hands.bad("Recall")


def test_the_kinds_that_can_be_asked_for_are_those_there_are():
    assert set(RecallTool().schema["properties"]["kind"]["enum"]) <= set(KINDS)


# Skills

SKILL = """---
name: release
description: >-
  Makes a release,
  and announces it.
---
# How

Read checklist.md first.
"""


@pytest.fixture
def folders(tmp_path):
    for folder, name, text in [
        ("one", "release", SKILL),
        ("two", "release", SKILL.replace("Makes", "Shadowed")),
        ("two", "quoted", '---\ndescription: "With: a colon"\n---\nbody'),
        ("two", "headless", "no head"),
        ("two", "badname", "---\nname: ../../etc\ndescription: x\n---\n"),
        ("two", "long", "---\ndescription: long\n---\n" + "x" * (LONGEST_BODY + 10)),
    ]:
        path = tmp_path / folder / name
        path.mkdir(parents=True)
        (path / "SKILL.md").write_text(text)
    return [tmp_path / "one", tmp_path / "two", tmp_path / "none"]


def test_skills_are_listed_by_name_and_description_and_the_first_counts(folders):
    skills = SkillCatalog(folders)
    assert skills.listing() == {
        "long": "long",
        "quoted": "With: a colon",
        "release": "Makes a release, and announces it.",
    }
    text = SkillsText.of(skills.listing())
    assert text is not None
    assert "announces" in text.render()
    assert len(skills.problems) == 2
    assert any("headless" in one and "description" in one for one in skills.problems)


def test_the_body_of_a_skill_is_loaded_when_it_is_used(folders, tmp_path):
    hands = Hands(context_in(tmp_path), SkillTool(SkillCatalog(folders)))
    output = hands("Skill", skill="release", arguments="1.2")
    assert "Read checklist.md first." in output.content
    assert "description" not in output.content
    assert "Arguments: 1.2" in output.content
    assert str(tmp_path / "one" / "release") in output.content
    assert output.facts == (SkillUsed("release", str((tmp_path / "one/release/SKILL.md").resolve())),)
    assert "There is more" in hands.good("Skill", skill="long")
    assert "release" in hands.bad("Skill", skill="other")


# All together


def test_a_tool_whose_service_is_missing_says_so(tmp_path):
    hands = Hands(context_in(tmp_path), TodoTool(), PlanStartTool(), AskUserTool(), RecallTool())
    calls: dict[str, dict[str, Any]] = {
        "Todo": {"todos": []},
        "PlanStart": {},
        "AskUser": {"questions": [{"question": "x"}]},
        "Recall": {"query": "x"},
    }
    for name, given in calls.items():
        assert "this session" in hands.bad(name, **given)


@pytest.fixture
def standard(tmp_path, folders):
    return Toolbox(standard_tools(LocalProcesses(tmp_path / "tasks"), skills=SkillCatalog(folders)))


def test_the_standard_tools_are_described_and_need_no_more_than_they_say(standard):
    schemas = standard.schemas()
    assert [one["name"] for one in schemas] == sorted(one["name"] for one in schemas)
    for one in schemas:
        assert one["description"], one["name"]
        assert one["input_schema"]["type"] == "object"
        assert "$ref" not in str(one)
        for name, about in one["input_schema"]["properties"].items():
            assert about.get("description") or name in ("todos", "questions"), f"{one['name']}.{name}"
    assert msgspec.json.encode(schemas)


def test_only_results_that_can_be_had_again_have_a_kind(standard):
    assert {name: kind for name, kind in standard.kinds().items() if kind} == {
        "Read": "read",
        "Edit": "edit",
        "Write": "write",
        "Shell": "shell",
        "Grep": "search",
        "Glob": "search",
        "WebFetch": "web",
    }


def test_tools_that_change_things_never_run_beside_others(standard):
    assert {tool.name for tool in standard if tool.concurrent} == {
        "Glob",
        "Grep",
        "Read",
        "Recall",
        "ShellOutput",
        "Skill",
        "WebFetch",
    }


def test_of_the_standard_tools_only_those_that_touch_the_world_are_asked_about(standard, tmp_path):
    held = Permissions(workspace=str(tmp_path.resolve()))
    context = context_in(tmp_path)
    asked = {
        "Edit": {"path": "a", "old": "x", "new": "y"},
        "Write": {"path": "a", "content": ""},
        "Shell": {"command": "make"},
        "WebFetch": {"url": "https://example.com"},
        "Read": {"path": "/etc/hostname"},
        "Grep": {"pattern": "x", "path": "/"},
        "Glob": {"pattern": "x", "path": "/"},
    }
    free = {
        "Todo": {"todos": []},
        "PlanStart": {},
        "Recall": {"query": "x"},
        "Skill": {"skill": "x"},
        "Read": {"path": "a"},
    }
    assert {
        held.decide(standard.permission_request(name, given, context)).verdict
        for name, given in asked.items()
    } == {"ask"}
    assert {
        held.decide(standard.permission_request(name, given, context)).verdict
        for name, given in free.items()
    } == {"allow"}


def test_a_rule_that_is_none_is_refused_when_it_is_granted(tmp_path):
    with pytest.raises(InputError):
        Permissions(workspace="/ws").allowing("Shell(")
