"""Agents that start agents, with a model that plays each one's part by the task it was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sevenfold
from sevenfold.agent.team.team import Team
from sevenfold.lab.simulator.brains import ModelPrompt
from tests.agent.working import use

Parts = Mapping[str, Sequence[Any]]


def parts(scripts: Parts) -> Callable[[ModelPrompt], Any]:
    """A brain without memory: the last text with one of these words decides whose part it plays, and how many answers
    came since, which step. So it plays on after any interruption."""

    def answer(prompt: ModelPrompt) -> Any:
        part, step = "", 0
        for message in prompt.messages:
            if message["role"] == "assistant":
                step += 1
                continue
            for block in message["content"]:
                if block.get("type") != "text":
                    continue
                found = [key for key in scripts if key in block["text"]]
                if found and "<agent-report>" not in block["text"]:
                    part, step = found[-1], 0
        steps = scripts[part]
        made = steps[min(step, len(steps) - 1)]
        return made(prompt) if callable(made) else made

    return answer


def team_of(made: sevenfold.Agent | sevenfold.AsyncAgent) -> Team:
    assert made.team is not None
    return made.team


def start(call: str, prompt: str, **more: Any) -> dict[str, Any]:
    """A call that starts an agent."""
    return use("Agent", call, description="a task", prompt=prompt, **more)
