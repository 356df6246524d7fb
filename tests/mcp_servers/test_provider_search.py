"""Where the provider can find tools itself, those of many servers wait there until its search has found them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.executor import Consented
from sevenfold.agent.mcp.deferred import Deferral, toolbox
from sevenfold.lab.simulator.brains import server_tool_use, text, tool_use
from sevenfold.lab.simulator.tool_search import result_of
from sevenfold.profiles import find
from tests.agent.working import World, world
from tests.mcp_servers.serving import STARTUP, hostile, running
from tests.mcp_servers.test_deferred import NOUNS, TOOLS, VERBS, WINDOW, listing, without_marks

pytestmark = pytest.mark.spec("S37.17")

SEARCH = "tool_search_tool_bm25"
TYPE = "tool_search_tool_bm25_20251119"
REFUND = "mcp__work__create_refund"

STEPS: list[Any] = [
    [server_tool_use(SEARCH, {"query": "create a refund"})],
    [text("Found."), tool_use(REFUND, {"identifier": "r-1"})],
    "Done.",
    "You are welcome.",
]
OWN_STEPS: list[Any] = [
    [tool_use("McpSearch", {"query": "create a refund"})],
    [text("Found."), tool_use("McpCall", {"tool": REFUND, "arguments": {"identifier": "r-1"}})],
    "Done.",
    "You are welcome.",
]


@contextmanager
def working(
    tmp_path: Path, steps: list[Any], search: str, **options: Any
) -> Iterator[tuple[World, sevenfold.Agent]]:
    """An agent with 200 tools of a server, and the simulated provider that it asks."""
    with ExitStack() as parts:
        servers = parts.enter_context(running(tmp_path, work=hostile(tmp_path, TOOLS)))
        assert servers.wait(STARTUP)
        provider = parts.enter_context(world(steps))
        settings = {"context_window": WINDOW, "mcp_search": search, "sandbox": "off"}
        options = {"consent": lambda asked: Consented(True), "mcp": servers, **options}
        agent = parts.enter_context(provider.agent(tmp_path, settings=settings, **options))
        yield provider, agent


def prompts_read_again(provider: World) -> list[bool]:
    """For each request after the first, whether all of the prompt before it was read from the cache."""
    usages = [request.answer["usage"] for request in provider.simulator.requests.answered()]
    sizes = [
        usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
        for usage in usages
    ]
    return [
        usage["cache_read_input_tokens"] == before for before, usage in zip(sizes, usages[1:], strict=False)
    ]


def test_the_tool_is_found_and_called_by_its_own_name(tmp_path: Path) -> None:
    with working(tmp_path, STEPS, "provider") as (provider, agent):
        assert agent.run("Refund r-1.").text == "Done."
        assert agent.run("Thank you.").text == "You are welcome."
    first, *later = provider.bodies
    assert first["tools"][0] == {"type": TYPE, "name": SEARCH}
    waiting = [tool["name"] for tool in first["tools"] if tool.get("defer_loading")]
    assert len(waiting) == 200
    assert not [tool["name"] for tool in first["tools"] if tool["name"].startswith("Mcp")]
    assert "create_refund did r-1" in json.dumps(later[0]["messages"])
    for body in later:
        assert (body["tools"], body["system"]) == (first["tools"], first["system"])
        assert without_marks(body["messages"])[: len(first["messages"])] == without_marks(first["messages"])


def test_what_was_found_is_on_record(tmp_path: Path) -> None:
    with working(tmp_path, STEPS, "provider") as (_, agent):
        agent.run("Refund r-1.")
        items = agent.assembly.conversation.transcript.view.items
        kinds = [block.kind for item in items for block in item.shown]
        recorded = b"".join(block.raw for item in items for block in item.shown)
    assert kinds[1:5] == ["server_tool_use", "tool_search_tool_result", "text", "tool_use"]
    assert REFUND.encode() in recorded


@pytest.mark.parametrize(
    ("search", "steps"), [("provider", STEPS), ("own", OWN_STEPS)], ids=["provider", "own"]
)
def test_200_tools_take_less_than_a_tenth_of_the_window_and_every_prompt_is_read_from_the_cache(
    tmp_path: Path, search: str, steps: list[Any]
) -> None:
    with working(tmp_path, steps, search) as (provider, agent):
        agent.run("Refund r-1.")
        agent.run("Thank you.")
        first = provider.simulator.requests.answered()[0].answer["usage"]
        assert first["input_tokens"] + first["cache_creation_input_tokens"] < 0.1 * WINDOW
        assert prompts_read_again(provider) == [True] * (len(steps) - 2 if search == "provider" else 3)


def test_the_estimate_leaves_out_what_waits_to_be_found(tmp_path: Path) -> None:
    with working(tmp_path, STEPS, "provider") as (_, agent):
        assert agent.assembly.conversation.part_sizes().tools < 0.1 * WINDOW


@pytest.mark.parametrize(
    ("model", "search"),
    [
        pytest.param("claude-haiku-4-5", "provider", id="a model without a search"),
        pytest.param("claude-sonnet-5-5", "auto", id="an address that is not the provider's"),
        pytest.param("claude-sonnet-5-5", "own", id="the user's wish"),
    ],
)
def test_elsewhere_our_own_search_finds_them(tmp_path: Path, model: str, search: str) -> None:
    with working(tmp_path, OWN_STEPS, search, model=model) as (provider, agent):
        assert agent.run("Refund r-1.").text == "Done."
    names = {tool["name"] for tool in provider.bodies[0]["tools"]}
    assert {"McpSearch", "McpCall"} <= names
    assert SEARCH not in names
    assert not any(tool.get("defer_loading") for tool in provider.bodies[0]["tools"])


def test_a_continued_session_sends_what_was_found_again(tmp_path: Path) -> None:
    with working(tmp_path, STEPS, "provider", name="kept", memory=False) as (provider, agent):
        agent.run("Refund r-1.")
        client = agent.assembly.client
        servers = agent.assembly.servers
        agent.close()
        with provider.agent(
            tmp_path,
            client=client,
            mcp=servers,
            name="kept",
            memory=False,
            settings={"context_window": WINDOW, "mcp_search": "provider", "sandbox": "off"},
        ) as again:
            assert again.run("Thank you.").text == "You are welcome."
    before, after = provider.bodies[-2:]
    assert after["tools"] == before["tools"]
    assert without_marks(after["messages"])[: len(before["messages"])] == without_marks(before["messages"])


def test_tools_that_come_after_the_first_message_are_found_by_our_search(tmp_path: Path) -> None:
    tools = listing()
    known = {tool.name for tool in tools[:150]}
    box = toolbox([], tools, Deferral(10, TYPE), known)
    schemas = box.schemas()
    assert [schema["name"] for schema in schemas if not schema.get("defer_loading")] == [
        SEARCH,
        "McpCall",
        "McpSearch",
    ]
    assert {schema["name"] for schema in schemas if schema.get("defer_loading")} == known
    assert len(box) == 202


@pytest.mark.parametrize("noun", NOUNS)
def test_the_simulated_search_finds_each_tool_among_the_first_five(noun: str) -> None:
    schemas = toolbox([], listing(), Deferral(10, TYPE)).schemas()
    for verb in VERBS:
        call = {"id": "s", "name": SEARCH, "input": {"query": f"{verb} a {noun.replace('_', ' ')}"}}
        listed = result_of(call, schemas)["content"]["tool_references"]
        assert f"mcp__work__{verb}_{noun}" in [reference["tool_name"] for reference in listed]


def test_only_models_that_are_known_to_search_are_asked_to() -> None:
    assert find("claude-opus-5-5").tool_search == TYPE
    assert find("claude-haiku-5-5").tool_search == ""
    assert find("claude-of-tomorrow").tool_search == ""
    assert find("gpt-5.6").tool_search == ""
