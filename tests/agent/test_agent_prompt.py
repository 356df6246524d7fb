"""The standard prompt of an agent: what it holds, whom it believes, and when it is computed anew."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.hooks.registry import Hooks, run_command
from sevenfold.stores.trust import Trust, user_folder
from tests.agent.working import agent, model_of

pytestmark = [pytest.mark.spec("S6.1"), pytest.mark.usefixtures("compactions_of_any_size")]


def system(request: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in request["system"])


def trust(folder: Path) -> None:
    Trust(user_folder(os.environ)).add(folder)


def skill(folder: Path, name: str, description: str, body: str = "Do it well.") -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n")


def test_the_prompt_tells_where_the_agent_is_and_what_is_cleared(folder: Path) -> None:
    with agent(["Hm."], folder, system=None) as made:
        made.run("Hello.")
        static, mine = (block["text"] for block in model_of(made).requests[0]["system"])
        assert str(folder) not in static
        assert str(folder) in mine
        assert "claude-sonnet-5-5" in mine
        assert "The newest 3 are kept as long as there is room for them" in mine
        assert str(made.assembly.home.scratch) in mine


def test_a_project_is_listened_to_only_when_its_folder_is_trusted(folder: Path) -> None:
    (folder / "AGENTS.md").write_text("Use tabs, says the project.")
    skill(folder / ".claude" / "skills", "deploy", "How to deploy.")
    user = user_folder(os.environ)
    user.mkdir(parents=True)
    (user / "AGENTS.md").write_text("Be kind, says the user.")
    skill(user / "skills", "greet", "How to greet.")
    for trusted in (False, True):
        if trusted:
            trust(folder)
        with agent(["Hm."], folder, system=None) as made:
            made.run("Hello.")
            told = system(model_of(made).requests[0])
            assert "Be kind" in told
            assert "How to greet" in told
            assert ("Use tabs" in told) == trusted
            assert ("How to deploy" in told) == trusted
            assert ("deploy" in made.skills.known) == trusted


def test_ones_own_prompt_takes_the_place_of_all_of_it(folder: Path) -> None:
    trust(folder)
    (folder / "AGENTS.md").write_text("Use tabs.")
    with agent(["Hm.", "Hm."], folder, system="Only this.") as made:
        made.run("Hello.")
        made.session.compact(engine="extractive")
        made.run("Again.")
        assert [system(request) for request in model_of(made).requests] == ["Only this."] * 2


@pytest.mark.spec("S4.14")
def test_instruction_files_are_read_again_at_a_compaction_and_not_before(folder: Path) -> None:
    trust(folder)
    (folder / "AGENTS.md").write_text("Use tabs.")
    heard: list[Any] = []
    hooks = Hooks(run=run_command, environ={}, project_dir=".")
    hooks.add("InstructionsLoaded", lambda event: heard.append(event.load_reason))
    with agent(["One.", "Two.", "Three."], folder, system=None, hooks=hooks) as made:
        made.run("Hello.")
        (folder / "AGENTS.md").write_text("Use spaces.")
        made.run("Again.")
        made.session.compact(engine="extractive")
        made.run("And again.")
        first, second, third = model_of(made).requests
        assert first["system"] == second["system"]
        assert "Use spaces." in system(third)
        assert "Use tabs." not in json.dumps(third)
        assert heard == ["session_start", "compact"]


def test_nothing_in_the_prompt_changes_from_request_to_request(folder: Path) -> None:
    with agent(["One.", "Two.", "Three."], folder, system=None) as made:
        for number in range(3):
            made.run(f"Number {number}.")
            (folder / f"new{number}.txt").write_text("x")
        sent = [request["system"] for request in model_of(made).requests]
        assert all(_plain(one) == _plain(sent[0]) for one in sent)


def _plain(blocks: list[dict[str, Any]]) -> list[str]:
    return [block["text"] for block in blocks]
