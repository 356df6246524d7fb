"""Agents in the terminal: there unless they are switched off, and named when they ask."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

import pytest

import sevenfold
from sevenfold.agent.executor import Asked
from sevenfold.agent.permissions.engine import PermissionDecision
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.cli.chat.command import arguments
from sevenfold.cli.chat.consent import permission_menu
from sevenfold.cli.chat.start import agent_options, choose
from sevenfold.conversation.request import ToolCall


@pytest.mark.spec("S7.3")
@pytest.mark.parametrize(
    ("flags", "depth", "agents"),
    [([], 3, True), (["--agents"], 3, True), (["--no-agents"], 3, False), ([], 0, False)],
)
def test_a_chats_agent_may_start_others_unless_that_is_switched_off(
    flags: list[str], depth: int, agents: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEVENFOLD_AGENT_DEPTH", str(depth))
    parser = argparse.ArgumentParser()
    arguments(parser)
    given = parser.parse_args(["--model", "offline", *flags])
    made = agent_options(choose(given, folder, None))
    with closing(made["client"]), sevenfold.Agent("offline", **made) as agent:
        assert (agent.team is not None) is agents
        assert ("Agent" in {tool.name for tool in agent.assembly.box}) is agents


@pytest.mark.spec("S7.3")
def test_the_question_says_which_agent_asks() -> None:
    call = ToolCall("c1", "Shell", {"command": "ls"})
    asked = Asked(
        call, PermissionRequest("Shell", "run", "ls"), PermissionDecision("ask", "Why."), "reader"
    )
    assert permission_menu(asked).title.startswith("Agent reader: Run this command?")
