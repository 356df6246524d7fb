"""Servers that come late, or change, are announced to the model; what was sent before stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.mcp.servers import McpServers, McpUpdater
from sevenfold.conversation import provider_edits
from tests.agent.working import agent, blocks, model_of, results, texts, use, world
from tests.mcp_servers.serving import STARTUP, hostile, running


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))


def own() -> str:
    """The agent's own tool."""
    return "own"


def yes(asked: Asked) -> Consented:
    return Consented(True)


def following(made: sevenfold.Agent, servers: McpServers) -> McpUpdater:
    assembly = made.assembly
    return McpUpdater(servers, list(assembly.box), assembly.conversation, assembly.executor)


def test_a_server_that_connects_late_is_announced_and_its_tools_can_be_used(tmp_path: Path) -> None:
    steps = [[use("own", "c1")], "Ready.", [use("mcp__late__go", "c2")], "Done."]
    with (
        running(tmp_path, late=hostile(tmp_path, "")) as servers,
        agent(steps, tools=[own], consent=yes) as made,
    ):
        follow = following(made, servers)
        made.run("Begin.")
        assert servers.wait(STARTUP)
        follow()
        made.run("Go on.")
        first, later = model_of(made).requests[0], model_of(made).requests[-1]
        assert later["tools"] == first["tools"]
        assert later["system"] == first["system"]
        (added,) = blocks(later, "tool_addition")
        assert added["tool"]["definition"]["name"] == "mcp__late__go"
        assert "Be gentle." in texts(later)
        assert results(later)["c2"] == "fine"


def test_a_server_that_is_ready_before_the_first_words_is_in_the_first_request(tmp_path: Path) -> None:
    with running(tmp_path, s=hostile(tmp_path, "")) as servers, agent(["Hi."], tools=[own]) as made:
        follow = following(made, servers)
        assert servers.wait(STARTUP)
        follow()
        made.run("Begin.")
        (request,) = model_of(made).requests
        assert [tool["name"] for tool in request["tools"]] == ["mcp__s__go", "own"]
        assert not blocks(request, "tool_addition")


def test_a_huge_answer_is_put_away_like_any_other(tmp_path: Path) -> None:
    code = "def called(name, arguments):\n    return {'content': [{'type': 'text', 'text': 'x' * 500_000}]}"
    with running(tmp_path, s=hostile(tmp_path, code)) as servers:
        steps = [[use("mcp__s__go", "c1")], "Done."]
        with agent(steps, tools=servers.tools(), consent=yes) as made:
            made.run("Begin.")
            shown = str(results(model_of(made).requests[-1])["c1"])
            assert len(shown) < 10_000
            assert "500,000" in shown


def test_nothing_is_announced_while_servers_stay_as_they_are(tmp_path: Path) -> None:
    with running(tmp_path, s=hostile(tmp_path, "")) as servers:
        tools = servers.tools()
        with agent(["One.", "Two."], tools=[own, *tools]) as made:
            follow = McpUpdater(
                servers, [own_tool(made)], made.assembly.conversation, made.assembly.executor
            )
            made.run("Begin.")
            follow()
            made.run("Go on.")
            one, two = model_of(made).requests
            assert two["messages"][: len(one["messages"]) - 1] == one["messages"][:-1]
            assert not blocks(two, "tool_addition")


def own_tool(made: sevenfold.Agent) -> Any:
    return made.assembly.box.get("own")


@pytest.mark.spec("S2.1")
def test_the_provider_is_told_to_spare_results_of_tools_that_came_late(tmp_path: Path) -> None:
    steps = ["One.", [use("mcp__late__go", "c1")], "Two."]
    with running(tmp_path, late=hostile(tmp_path, "")) as servers, world(steps) as outside:
        with outside.agent(tmp_path, consent=yes) as made:
            provider_edits.open_epoch(made.session.conversation)
            follow = following(made, servers)
            made.run("Begin.")
            assert servers.wait(STARTUP)
            follow()
            made.run("Go on.")
        first, *_, last = outside.bodies
        assert last["tools"] == first["tools"]
        assert "mcp__late__go" in json.dumps(last["messages"])
        assert "mcp__late__go" not in json.dumps(first["context_management"])
        (clearing,) = (edit for edit in last["context_management"]["edits"] if "exclude_tools" in edit)
        assert "mcp__late__go" in clearing["exclude_tools"]


def test_an_agent_is_given_its_servers_and_ends_them_with_itself(tmp_path: Path) -> None:
    steps = [[use("mcp__s__go", "c1")], "Done."]
    with agent(steps, tools=[own], consent=yes, system=None, mcp={"s": hostile(tmp_path, "")}) as made:
        made.run("Begin.")
        first, later = model_of(made).requests[0], model_of(made).requests[-1]
        assert [tool["name"] for tool in first["tools"]] == ["mcp__s__go", "own"]
        assert "Be gentle." in json.dumps(first["system"])
        assert results(later)["c1"] == "fine"
        servers = made.assembly.servers
        assert servers is not None
    assert [state.status for state in servers.states()] == ["closed"]
