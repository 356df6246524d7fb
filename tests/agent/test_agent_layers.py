"""Layers of one's own work in an agent as they do in a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sevenfold.conversation.layer import Instead
from sevenfold.layers.ladder import STANDARD
from sevenfold.record import blocks
from sevenfold.record.decisions import ShownResult
from tests.agent.working import agent, async_agent, model_of, results, use


class Brief:
    """Shows the first word of every result."""

    name = "brief"

    def on(self, settings: Any) -> bool:
        return True

    def on_tool_results(self, c: Any, results: Any) -> list[Any]:
        return [
            Instead(blocks.with_words(block, blocks.words_of(block).split()[0]), "one word says it all")
            for block in results
        ]


def count() -> str:
    """Count to three."""
    return "one two three"


LAYERS = [Brief(), *STANDARD]
STEPS = [[use("count", "toolu_1")], "Three.", "Sure."]


@pytest.mark.spec("S26.2")
def test_an_agents_own_layer_shortens_what_its_tools_return_and_can_be_undone():
    with agent(STEPS, tools=[count], layers=LAYERS) as counting:
        assert counting.run("Count.").text == "Three."
        assert results(model_of(counting).requests[-1]) == {"toolu_1": "one"}
        assert counting.session.fetch("toolu_1") == b"one two three"
        (shown,) = counting.session.why().shown
        assert shown.layer == "brief"
        counting.session.undo(shown.id)
        counting.run("Sure?")
        assert results(model_of(counting).requests[-1]) == {"toolu_1": "one two three"}


@pytest.mark.spec("S26.2")
def test_an_async_agent_takes_layers_too():
    async def work() -> None:
        async with async_agent(STEPS, tools=[count], layers=LAYERS) as counting:
            await counting.run("Count.")
            log = counting.assembly.conversation.transcript.log
            assert [made.layer for _, made in log.decisions(ShownResult)] == ["brief"]

    asyncio.run(work())


@pytest.mark.spec("S26.2")
def test_without_layers_an_agent_has_the_standard_ones():
    with agent([]) as plain:
        assert plain.assembly.conversation.ladder.layers == STANDARD
