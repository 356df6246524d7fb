"""Clients other people wrote, unmodified: all they get is a base URL and a key.

Each runs as a program of its own: how they treat their sockets is not ours to judge.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve

PYDANTIC_AI = """
    import sys
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    def depth(place: str) -> str:
        "How deep a place is."
        return f"{place}: 12 m"

    provider = AnthropicProvider(base_url=sys.argv[1], api_key="simulated-key")
    agent = Agent(AnthropicModel("claude-sonnet-5-5", provider=provider), tools=[depth])
    print(agent.run_sync("How deep is the well?").output)
"""
LANGCHAIN = """
    import sys
    from langchain_anthropic import ChatAnthropic
    from langchain_core.messages import HumanMessage, ToolMessage

    def depth(place: str) -> str:
        "How deep a place is."
        return f"{place}: 12 m"

    model = ChatAnthropic(
        model="claude-sonnet-5-5", base_url=sys.argv[1], api_key="simulated-key", max_tokens=500
    ).bind_tools([depth])
    asked = HumanMessage("How deep is the well?")
    first = model.invoke([asked])
    [call] = first.tool_calls
    answer = ToolMessage(depth(**call["args"]), tool_call_id=call["id"])
    print("".join(piece.text for piece in model.stream([asked, first, answer])))
"""


@pytest.mark.parametrize("program", [PYDANTIC_AI, LANGCHAIN], ids=["pydantic-ai", "langchain"])
def test_a_third_partys_client_calls_a_tool_and_gets_its_answer(program):
    call = {"type": "tool_use", "id": "toolu_1", "name": "depth", "input": {"place": "the well"}}
    brain = ScriptedBrain([[call], "The well is 12 m deep."])
    with serve(Simulator(brain)) as url:
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), url],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "The well is 12 m deep."
    assert brain.played == 2
