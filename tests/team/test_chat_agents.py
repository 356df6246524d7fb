"""Agents in the terminal: switched on by a flag, and named when they ask."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import sevenfold
from sevenfold.agent.executor import Asked
from sevenfold.agent.permissions.engine import PermissionDecision
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.cli.chat.consent import permission_menu
from sevenfold.cli.chat.start import ChatOptions, agent_options
from sevenfold.conversation.request import ToolCall


@pytest.mark.spec("S7.3")
@pytest.mark.parametrize("agents", [False, True])
def test_a_chat_lets_its_agent_start_others_only_if_it_is_told_to(agents: bool, folder: Path) -> None:
    made = agent_options(ChatOptions(folder=folder, name="s", model="offline", agents=agents))
    with closing(made["client"]), sevenfold.Agent("offline", **made) as agent:
        assert (agent.team is not None) is agents


@pytest.mark.spec("S7.3")
def test_the_question_says_which_agent_asks() -> None:
    call = ToolCall("c1", "Shell", {"command": "ls"})
    asked = Asked(
        call, PermissionRequest("Shell", "run", "ls"), PermissionDecision("ask", "Why."), "reader"
    )
    assert permission_menu(asked).title.startswith("Agent reader: Run this command?")
