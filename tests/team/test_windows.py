"""A parent whose model has a window of a million tokens, and a child that has 200,000."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.team.definitions import AgentDefinition
from sevenfold.events import Compacted
from sevenfold.lab.simulator import brains
from sevenfold.lab.simulator.brains import ModelPrompt
from sevenfold.layers.compact.offline import summarise
from sevenfold.profiles import find
from tests.agent.working import use, world
from tests.team.play import start, team_of

PARENT, SMALL = "claude-sonnet-4-6", "claude-haiku-4-5"
LINES = 1_600
"""Of a file: about 40,000 tokens."""
FILES = 6


@pytest.mark.spec("S7.3", "S0.1")
@pytest.mark.parametrize("child", [SMALL, PARENT], ids=["a smaller window", "the same window"])
def test_a_child_compacts_itself_at_200_000_tokens_and_no_request_is_refused(
    child: str, folder: Path
) -> None:
    for number in range(FILES):
        lines = (
            f"{number}.{line} High water at {line % 24:02d}:12, low water after six hours, no swell.\n"
            for line in range(LINES)
        )
        (folder / f"table{number}.txt").write_text("".join(lines))

    read = set[int]()

    def brain(prompt: ModelPrompt) -> Any:
        words = str(list(prompt.messages))
        if "<analysis>" in prompt.last_text:
            return brains.text(summarise({"messages": prompt.messages}))
        if "MAIN task" in words:
            call = start("c1", "READ all tables", subagent_type="reader")
            return "Both." if "'tool_result'" in words else [call]
        number = len(read)
        read.add(number)
        if number >= 2 * FILES:
            return "All read."
        part = {"offset": 1 + LINES // 2 * (number % 2), "limit": LINES // 2}
        return [use("Read", f"r{number}", path=f"table{number // 2}.txt", **part)]

    compacted: list[Compacted] = []
    reader = AgentDefinition(name="reader", description="Reads.", fork=False, model=child)
    assert (find(PARENT).window, find(SMALL).window) == (1_000_000, 200_000)
    with (
        world(brain) as there,
        there.agent(
            folder,
            name="s",
            model=PARENT,
            agents={"reader": reader},
            settings={
                "size_clearing": False,
                "gap_clearing": False,
                "provider_edits": False,
                "offload": False,
            },
            listen=[lambda event: compacted.append(event) if isinstance(event, Compacted) else None],
        ) as made,
    ):
        assert made.run("MAIN task").text == "Both."
        (entry,) = team_of(made).roster
        assert (entry.status, entry.started.model) == ("completed", child), entry.ended
        assert {event.query_source for event in compacted} == {"agent:reader"}
        assert not [one for one in there.simulator.requests if one.status >= 400]
        models = [one.body["model"] for one in there.simulator.requests.answered()]
        assert {re.sub(r"-\d{8}$", "", one) for one in models} == {PARENT, child}
        usages = [dict(one.usage or {}) for one in there.simulator.requests.answered()]
        kinds = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        assert max(sum(usage[kind] for kind in kinds) for usage in usages) < 200_000
