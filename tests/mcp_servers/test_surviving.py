"""What servers bring survives compactions: announced once, wherever the model can see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from tests.agent.working import agent, blocks, messages, model_of, texts, use
from tests.mcp_servers.serving import STARTUP, hostile, running

pytestmark = [pytest.mark.spec("S4.10"), pytest.mark.usefixtures("compactions_of_any_size")]

LONG = "Something that was said and need not be said again. " * 20
TOOL = "mcp__late__go"
WORDS = "Be gentle."


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))


def own() -> str:
    """The agent's own tool."""
    return "own"


def late(tmp_path: Path, servers: Any, **more: Any) -> sevenfold.Agent:
    """An agent whose server is heard of when the conversation has begun."""
    servers.wait_seconds = 0.0
    made = agent(["Hm. " + LONG] * 60, tmp_path, tools=[own], mcp=servers, **more)
    made.run(f"Begin. {LONG}")
    assert servers.wait(STARTUP)
    made.run(f"Go on. {LONG}")
    assert len(blocks(model_of(made).requests[-1], "tool_addition")) == 1
    return made


def system(request: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in request["system"])


def front(request: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in request["tools"]]


def discovered(made: sevenfold.Agent) -> list[Any]:
    """What each boundary says of tools that were announced in the conversation."""
    log = made.assembly.conversation.transcript.log
    lines = (line for _, line in log.read())
    return [
        record["compactMetadata"].get("preCompactDiscoveredTools")
        for record in map(_json, lines)
        if record.get("subtype") == "compact_boundary"
    ]


def _json(line: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line)
    return found


def test_with_our_prompt_tools_and_instructions_move_to_the_front_and_stay_there(tmp_path: Path) -> None:
    with (
        running(tmp_path, late=hostile(tmp_path, "")) as servers,
        late(tmp_path, servers, system=None) as made,
    ):
        for number in range(10):
            assert made.session.compact(engine="extractive") is not None
            made.run(f"Part {number}. {LONG}")
            last = model_of(made).requests[-1]
            assert front(last) == [TOOL, "own"]
            assert not blocks(last, "tool_addition")
            assert system(last).count(WORDS) == 1
            assert WORDS not in texts(last)
        assert discovered(made) == [[TOOL], *[None] * 9]


def test_with_a_prompt_of_ones_own_instructions_come_back_behind_every_summary(tmp_path: Path) -> None:
    with running(tmp_path, late=hostile(tmp_path, "")) as servers, late(tmp_path, servers) as made:
        for number in range(10):
            done = made.session.compact(engine="extractive")
            assert done is not None
            made.run(f"Part {number}. {LONG}")
            last = model_of(made).requests[-1]
            assert front(last) == [TOOL, "own"]
            assert texts(last).count(WORDS) == 1
            assert system(last) == "Be brief."


def test_where_the_prompt_stays_what_was_summarised_away_is_announced_again_and_only_that(
    tmp_path: Path,
) -> None:
    with (
        running(tmp_path, late=hostile(tmp_path, "")) as servers,
        late(tmp_path, servers, system=None) as made,
    ):
        before = model_of(made).requests[-1]
        for number in range(10):
            items = made.assembly.conversation.transcript.view.items
            second = [item for item in items if item.record.role == "user"][1].record.uuid
            done = made.session.compact(span="from", record=second, engine="extractive")
            assert done is not None
            made.run(f"Part {number}. {LONG}")
            last = model_of(made).requests[-1]
            assert last["tools"] == before["tools"]
            assert system(last) == system(before)
            assert messages(last)[0]["content"] == messages(before)[0]["content"]
            (added,) = blocks(last, "tool_addition")
            assert added["tool"]["definition"]["name"] == TOOL
            assert texts(last).count(WORDS) == 1
        assert discovered(made) == [[TOOL]] * 10


def test_announcements_have_the_shape_other_programs_know(tmp_path: Path) -> None:
    with running(tmp_path, late=hostile(tmp_path, "")) as servers, late(tmp_path, servers) as made:
        made.session.compact(engine="extractive")
        lines = [_json(line) for _, line in made.assembly.conversation.transcript.log.read()]
        (told,) = (
            line["attachment"]
            for line in lines
            if line.get("type") == "attachment" and line["attachment"]["type"] == "mcp_instructions_delta"
        )
        assert told["addedNames"] == ["late"]
        assert WORDS in told["addedBlocks"][0]
        assert told["removedNames"] == []


@pytest.mark.spec("S4.14")
def test_a_call_of_a_tool_that_came_late_works_after_compactions(tmp_path: Path) -> None:
    with running(tmp_path, late=hostile(tmp_path, "")) as servers:
        servers.wait_seconds = 0.0
        steps = ["Hm.", "Hm.", "Hm.", [use(TOOL, "c1")], "Done."]
        rules = {"allow": [TOOL]}
        with agent(steps, tmp_path, tools=[own], mcp=servers, rules=rules) as made:
            made.run(f"Begin. {LONG}")
            assert servers.wait(STARTUP)
            made.run(f"Go on. {LONG}")
            made.session.compact(engine="extractive")
            made.run(f"And on. {LONG}")
            made.session.compact(engine="extractive")
            made.run("Use it.")
            assert "fine" in str(messages(model_of(made).requests[-1])[-1])
