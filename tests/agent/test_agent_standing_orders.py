"""What holds for a whole session comes back after every compaction: instructions, hooks' words, skills, open questions.

And all of it together leaves room for the work.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.hooks.registry import Hooks, run_command
from sevenfold.agent.tools.context import Todo
from sevenfold.layers.compact.writer import AFTER_SHARE
from sevenfold.stores.trust import Trust, user_folder
from tests.agent.test_agent_slots import LONG, compact, opened, restored
from tests.agent.working import agent, model_of, texts, use

pytestmark = [pytest.mark.spec("S4.10", "S4.14"), pytest.mark.usefixtures("compactions_of_any_size")]


def trust(folder: Path) -> None:
    Trust(user_folder(os.environ)).add(folder)


def skill(folder: Path, name: str, body: str = "Do it well.") -> None:
    place = folder / ".claude" / "skills" / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "SKILL.md").write_text(f"---\nname: {name}\ndescription: How to {name}.\n---\n{body}\n")


def system(request: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in request["system"])


def last(made: sevenfold.Agent) -> dict[str, Any]:
    return model_of(made).requests[-1]


def records(made: sevenfold.Agent, kind: str) -> list[dict[str, Any]]:
    """The attachments of a kind, as they are written down."""
    found = (json.loads(line) for _, line in made.assembly.conversation.transcript.log.read())
    attached = (one["attachment"] for one in found if one.get("type") == "attachment")
    return [one for one in attached if one["type"] == kind]


def test_instruction_files_hold_as_they_are_now_after_each_of_ten_compactions(folder: Path) -> None:
    trust(folder)
    heard: list[Any] = []
    hooks = Hooks(run=run_command, environ={}, project_dir=".")
    hooks.add("InstructionsLoaded", lambda event: heard.append((event.load_reason, event.file_path)))
    (folder / "AGENTS.md").write_text("Rule 0 holds.")
    with agent(["Hm. " + LONG] * 12, folder, system=None, hooks=hooks) as made:
        made.run(f"Begin. {LONG}")
        for number in range(1, 11):
            (folder / "AGENTS.md").write_text(f"Rule {number} holds.")
            made.session.compact(engine="extractive")
            made.run(f"Go on. {LONG}")
            assert system(last(made)).count("Rule ") == 1
            assert f"Rule {number} holds." in system(last(made))
        assert heard[1:] == [("compact", str(folder / "AGENTS.md"))] * 10


def test_in_a_subfolder_the_instructions_of_the_whole_repository_hold_and_nothing_from_above_it(
    folder: Path,
) -> None:
    root, here = folder / "repository", folder / "repository" / "packages" / "one"
    (root / ".git").mkdir(parents=True)
    here.mkdir(parents=True)
    trust(here)
    (folder / "AGENTS.md").write_text("From above the repository.")
    (root / "AGENTS.md").write_text("From its root.")
    (here / "AGENTS.md").write_text("From the package.")
    with agent(["Yes."], here, system=None) as made:
        made.run("Begin.")
        prompt = system(last(made))
    assert prompt.index("From its root.") < prompt.index("From the package.")
    assert "From above the repository." not in prompt


def test_where_the_prompt_stays_a_changed_instruction_file_is_told_behind_the_summary(folder: Path) -> None:
    trust(folder)
    (folder / "AGENTS.md").write_text("Use tabs.")
    with agent(["Hm. " + LONG] * 6, folder, system=None) as made:
        made.run(f"Begin. {LONG}")
        second = made.session.user(f"Go on. {LONG}")
        made.run()
        before = last(made)
        for rule in ("Use tabs.", "Use spaces."):
            (folder / "AGENTS.md").write_text(rule)
            made.session.compact(span="from", record=second, engine="extractive")
            second = made.session.user(f"And on. {LONG}")
            made.run()
            assert system(last(made)) == system(before)
        said = texts(last(made))
        assert said.count("Use spaces.") == 1
        assert "Use tabs." not in said
        assert [one["names"] for one in records(made, "changed_sections")] == [["instructions"]]


def test_what_hooks_say_at_a_compaction_is_there_once_after_ten(folder: Path) -> None:
    hooks = Hooks(run=run_command, environ={}, project_dir=".")
    said = iter(range(100))

    def start(event: Any) -> dict[str, Any]:
        words = f"The build is number {next(said)}." if event.source == "compact" else ""
        return {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": words}}

    hooks.add("SessionStart", start)
    with agent(["Hm. " + LONG] * 12, folder, hooks=hooks) as made:
        made.run(f"Begin. {LONG}")
        for number in range(10):
            made.session.compact(engine="extractive")
            made.run(f"Go on. {LONG}")
            assert texts(last(made)).count("The build is number") == 1
            assert f"The build is number {number}." in texts(last(made))
        (one, *_) = records(made, "hook_additional_context")
        assert one["content"] == ["The build is number 0."]
        assert (one["hookEvent"], one["hookName"]) == ("SessionStart", "SessionStart:compact")


def test_a_question_nobody_answered_is_still_open_after_ten_compactions(folder: Path) -> None:
    with opened(folder) as made:
        made.run("Begin.")
        state = made.assembly.home.folder / "state.json"
    kept = json.loads(state.read_text())
    state.write_text(json.dumps({**kept, "pending": ["Shell: make release"], "granted": ["Shell(ls:*)"]}))
    with opened(folder) as made:
        said = compact(made)
        assert said.count("The user was asked about this and has not answered: Shell: make release") == 1
        assert said.count("Allowed by the user in this session: Shell(ls:*)") == 1


# -- skills ----------------------------------------------------------------------------------


def test_skills_are_listed_once_and_only_in_the_prompt_however_often_it_is_compacted(folder: Path) -> None:
    trust(folder)
    skill(folder, "deploy")
    with agent(["Hm. " + LONG] * 12, folder, system=None) as made:
        made.run(f"Begin. {LONG}")
        for number in range(10):
            made.session.compact(engine="extractive")
            made.run(f"Part {number}. {LONG}")
            assert system(last(made)).count("How to deploy.") == 1
            assert "How to deploy." not in texts(last(made))
        assert records(made, "skill_listing") == []


def test_a_new_skill_is_listed_from_the_next_compaction_on_and_can_be_used(folder: Path) -> None:
    trust(folder)
    skill(folder, "deploy")
    steps = ["Hm. " + LONG, "Hm. " + LONG, [use("Skill", skill="sing")], "Sung."]
    with agent(steps, folder, system=None) as made:
        made.run(f"Begin. {LONG}")
        skill(folder, "sing", "Sing loudly.")
        made.run(f"Go on. {LONG}")
        assert "How to sing." not in system(last(made))
        made.session.compact(engine="extractive")
        made.run("Sing.")
        assert system(last(made)).count("How to sing.") == 1
        assert "Sing loudly." in json.dumps(last(made)["messages"])


def test_where_the_prompt_stays_only_the_new_skill_is_announced_and_only_once(folder: Path) -> None:
    trust(folder)
    skill(folder, "deploy")
    with agent(["Hm. " + LONG] * 14, folder, system=None) as made:
        made.run(f"Begin. {LONG}")
        skill(folder, "sing")
        second = made.session.user(f"Go on. {LONG}")
        made.run()
        for _ in range(10):
            made.session.compact(span="from", record=second, engine="extractive")
            second = made.session.user(f"And on. {LONG}")
            made.run()
            said = texts(last(made))
            assert said.count("How to sing.") == 1
            assert "How to deploy." not in said
            assert system(last(made)).count("How to deploy.") == 1
        announced = records(made, "skill_listing")
        assert [one["names"] for one in announced] == [["sing"]]
        assert announced[0]["skillCount"] == 1


# -- room ------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [40_000, 60_000])
def test_all_of_it_stays_below_its_share_of_the_threshold_and_the_cheapest_goes_first(
    window: int, folder: Path
) -> None:
    trust(folder)
    for number in range(6):
        skill(folder, f"s{number}", "A rule to follow, in so many words.\n" * 600)
        (folder / f"f{number}.py").write_text(f"value = {number}  # a line of code\n" * 900)
    uses = [[use("Skill", skill=f"s{number}"), use("Read", path=f"f{number}.py")] for number in range(6)]
    settings = {"compact_window": window, "keep_recent_tokens": 0}
    with opened(
        folder, *uses, "Loaded.", name=None, settings=settings, rules={"deny": ["Shell(rm:*)"]}
    ) as made:
        made.goal = "Keep the house dry."
        made.todos.set([Todo("mend the pipe", "pending")])
        made.run("Load all of it.")
        for _ in range(10):
            done = made.session.compact(engine="extractive")
            assert done is not None
            threshold = made.assembly.conversation.window.threshold
            assert done.tokens_after <= AFTER_SHARE * threshold
            assert [one for one in done.cut if one.startswith("files")]
            made.run(f"Go on. {LONG}")
        said = restored(last(made))
        for needed in ("Keep the house dry.", "[ ] mend the pipe", "Denied, do not try: Shell(rm:*)"):
            assert said.count(needed) == 1


def test_attachments_have_the_shapes_other_programs_know(folder: Path) -> None:
    (folder / "a.py").write_text("a = 1\n")
    steps = [[use("PlanStart")], [use("Read", path="a.py")], "Read. " + LONG]
    with opened(folder, *steps, settings={"keep_recent_tokens": 0}) as made:
        made.goal = "Ship it."
        made.todos.set([Todo("one", "pending")])
        made.run("Begin.")
        made.session.compact(engine="extractive")
        (todo,) = records(made, "todo_reminder")
        assert todo["content"] == [{"content": "one", "status": "pending"}]
        assert todo["itemCount"] == 1
        (file,) = records(made, "file")
        assert {"filename", "displayPath", "content"} <= file.keys()
        assert "a = 1" in file["content"]
        (mode,) = records(made, "plan_mode")
        assert mode.keys() == {"type", "reminderType", "isSubAgent", "planFilePath", "planExists"}
        (goal,) = records(made, "goal_status")
        assert (goal["met"], goal["condition"]) == (False, "Ship it.")


@pytest.mark.spec("S4.2")
def test_what_comes_back_by_itself_is_not_summarised(folder: Path) -> None:
    with opened(folder, "Hm. " + LONG) as made:
        made.goal = "Keep the house dry."
        made.run(f"Begin. {LONG}")
        made.session.compact(engine="extractive")
        made.run(f"Go on. {LONG}")
        made.session.compact(engine="plain")
        (asked,) = (json.loads(call.body) for call in model_of(made).asked if call.source == "compact")
        assert "Goal of this session, in the user's words" not in json.dumps(asked)
        made.run("And?")
        assert restored(last(made)).count("Keep the house dry.") == 1
