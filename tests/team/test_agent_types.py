"""The types of agents the model knows: listed in the prompt, and announced as they come."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.team.definitions import AgentDefinition
from sevenfold.stores.trust import Trust, user_folder
from tests.agent.working import World, use, world
from tests.team.play import parts, start

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

DEFINITION = "---\nname: {0}\ndescription: Knows {0} well.\n---\nYou know {0}.\n"


@pytest.fixture(autouse=True)
def trusted(folder: Path, home: Path) -> None:
    Trust(user_folder(os.environ)).add(folder)


def define(folder: Path, name: str) -> None:
    (folder / ".sevenfold" / "agents").mkdir(parents=True, exist_ok=True)
    (folder / ".sevenfold" / "agents" / f"{name}.md").write_text(DEFINITION.format(name))
    Trust(user_folder(os.environ)).add(folder)  # as it is now


def front(there: World) -> str:
    """What preceded the messages of the last request: the system prompt and the tools."""
    body = there.bodies[-1]
    return json.dumps([body["system"], body["tools"]])


def said(there: World) -> str:
    return json.dumps(there.bodies[-1]["messages"])


TALK = parts({"MAIN": ["Hello."]})


@pytest.mark.spec("S4.10")
def test_a_type_that_came_after_the_session_began_is_known_after_a_compaction_and_listed_once(
    folder: Path,
) -> None:
    define(folder, "tides")
    with world(TALK) as there, there.agent(folder, name="s", agents=True, system=None) as made:
        made.run("MAIN one")
        assert front(there).count("Knows tides well.") == 1
        define(folder, "winds")
        assert made.compact(engine="extractive") is not None
        made.run("MAIN two")
        everything = front(there) + said(there)
        assert everything.count("Knows winds well.") == everything.count("Knows tides well.") == 1


@pytest.mark.spec("S4.10")
def test_where_the_prompt_stays_a_compaction_announces_only_the_types_that_are_new(folder: Path) -> None:
    define(folder, "tides")
    with world(TALK) as there, there.agent(folder, name="s", agents=True, system=None) as made:
        made.run("MAIN one")
        made.run("MAIN two")
        made.run("MAIN three")
        define(folder, "winds")
        place = made.session.conversation.transcript.view.items[2].record.uuid
        assert made.compact(engine="extractive", span="from", record=place) is not None
        made.run("MAIN four")
        assert "Knows winds well." not in front(there)
        assert said(there).count("Knows winds well.") == 1
        assert "Knows tides well." not in said(there)


@pytest.mark.spec("S4.10")
def test_a_resumed_session_is_told_of_the_types_that_have_come_and_keeps_its_prompt(folder: Path) -> None:
    define(folder, "tides")
    with world(TALK) as there:
        with there.agent(folder, name="s", agents=True, system=None) as made:
            made.run("MAIN one")
            before = front(there)
        define(folder, "winds")
        with there.agent(folder, name="s", agents=True, system=None) as again:
            again.run("MAIN two")
            assert front(there) == before
            assert said(there).count("Knows winds well.") == 1


@pytest.mark.spec("S7.3")
def test_an_agent_with_a_system_prompt_of_its_own_has_the_types_in_the_description_of_the_tool(
    folder: Path,
) -> None:
    types = {"tides": AgentDefinition(name="tides", description="Knows tides well.", fork=False)}
    call: list[Any] = [start("c1", "WORK", subagent_type="fork")]
    script = parts({"MAIN": [call, "Done."], "WORK": [[use("Read", "r1", path="nothing")], "No."]})
    with world(script) as there, there.agent(folder, name="s", agents=types, system="Be brief.") as made:
        made.run("MAIN one")
        fronts = {json.dumps([body["system"], body["tools"]]) for body in there.bodies}
        assert len(fronts) == 1
        assert "Knows tides well." in fronts.pop()
