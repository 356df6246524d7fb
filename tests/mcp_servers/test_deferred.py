"""Many tools of servers are found by a search, and the list that is sent stays small."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.hooks.registry import Hooks
from sevenfold.agent.mcp.deferred import Deferral, ToolCatalog, toolbox
from sevenfold.agent.mcp.tools import usable_tools
from tests.agent.working import MODEL, QUIET, Model, use, words
from tests.mcp_servers.serving import STARTUP, hostile, running

pytestmark = pytest.mark.spec("S37.7")

NOUNS = (
    *(
        "issue",
        "pull_request",
        "branch",
        "release",
        "workflow",
        "label",
        "milestone",
        "comment",
        "review",
        "team",
    ),
    *(
        "invoice",
        "customer",
        "refund",
        "subscription",
        "coupon",
        "page",
        "database",
        "channel",
        "message",
        "file",
    ),
)
VERBS = ("list", "get", "create", "update", "delete", "search", "archive", "export", "watch", "share")
WINDOW = 200_000

TOOLS = f"""
NOUNS, VERBS = {NOUNS!r}, {VERBS!r}

def about(verb, noun):
    noun = noun.replace("_", " ")
    return f"{{verb.capitalize()}}s one {{noun}} of the workspace, or several. " + (
        f"Needs the identifier of the {{noun}}, and the permission to {{verb}} it. " * 3)

def listed():
    fields = {{name: {{"type": "string", "description": f"The {{name}} of the object, as the service shows it."}}
              for name in ("identifier", "workspace", "title", "body", "cursor", "order")}}
    schema = {{"type": "object", "properties": fields, "required": ["identifier"]}}
    return [tool(f"{{verb}}_{{noun}}", schema, description=about(verb, noun)) for noun in NOUNS for verb in VERBS]

def called(name, arguments):
    return {{"content": [{{"type": "text", "text": f"{{name}} did {{arguments['identifier']}}"}}]}}
"""


def listing() -> list[Any]:
    """The same 200 tools, without a server behind them."""
    schema = {"type": "object", "properties": {"identifier": {"type": "string"}}}
    shown = [
        {
            "name": f"{verb}_{noun}",
            "inputSchema": schema,
            "description": f"{verb}s one {noun.replace('_', ' ')}.",
        }
        for noun in NOUNS
        for verb in VERBS
    ]
    return list(usable_tools("work", shown, lambda name, given, progress: Future()).tools)


def sent(request: dict[str, Any]) -> float:
    """About how many tokens the tools of a request take."""
    return len(json.dumps(request["tools"])) / 3


def without_marks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages without the marks of where the cache ends, which move on."""
    return [
        {**message, "content": [{**block, "cache_control": None} for block in message["content"]]}
        for message in messages
    ]


def run(tmp_path: Path, steps: list[Any], share: float, **options: Any) -> tuple[list[dict[str, Any]], str]:
    """The requests of a session with 200 tools of a server, and its last answer."""
    model = Model(steps)
    settings = {**QUIET, "context_window": WINDOW, "mcp_tools_share": share}
    with running(tmp_path, work=hostile(tmp_path, TOOLS)) as servers:
        assert servers.wait(STARTUP)
        options = {"consent": lambda asked: Consented(True), "tools": [], **options}
        with sevenfold.Agent(
            MODEL, client=model, folder=tmp_path, mcp=servers, settings=settings, **options
        ) as agent:
            text = agent.run("Go.").text
    return model.requests, text


def test_200_tools_take_little_of_the_window_and_the_right_one_is_found_and_called(tmp_path: Path) -> None:
    steps = [
        [use("McpSearch", "c0", query="refund a customer's invoice")],
        [use("McpSearch", "c1", query="mcp__work__create_refund")],
        [use("McpCall", "c2", tool="mcp__work__create_refund", arguments={"identifier": "r-1"})],
        [words("Done.")],
    ]
    requests, text = run(tmp_path, steps, 0.05)
    assert text == "Done."
    assert [tool["name"] for tool in requests[0]["tools"]] == ["McpCall", "McpSearch"]
    assert sent(requests[0]) < 0.1 * WINDOW
    named, found, answer = (
        block["content"]
        for message in requests[-1]["messages"]
        for block in message["content"]
        if block["type"] == "tool_result"
    )
    assert "mcp__work__create_refund" in str(named)
    assert str(found).startswith("mcp__work__create_refund\n")
    assert '"identifier"' in str(found)
    assert "create_refund did r-1" in str(answer)


def test_what_is_sent_before_a_search_is_sent_again_byte_for_byte(tmp_path: Path) -> None:
    """The cached share is what the two requests have in common: all of the first."""
    steps = [[use("McpSearch", "c1", query="branch")], [words("Done.")]]
    first, second = run(tmp_path, steps, 0.05)[0]
    assert (second["system"], second["tools"]) == (first["system"], first["tools"])
    assert without_marks(second["messages"])[: len(first["messages"])] == without_marks(first["messages"])


def test_without_a_limit_all_are_listed_and_that_takes_more_than_a_tenth(tmp_path: Path) -> None:
    """The control: what the search saves is there to be saved."""
    (request,), _ = run(tmp_path, [[words("Done.")]], 1.0)
    assert len(request["tools"]) == 200
    assert sent(request) > 0.1 * WINDOW


def test_rules_hooks_and_questions_are_about_the_tool_that_is_meant(tmp_path: Path) -> None:
    asked: list[str] = []
    hooked: list[str] = []

    def consent(question: Asked) -> Consented:
        asked.append(question.call.name)
        return Consented(True)

    hooks = Hooks()
    hooks.add("PreToolUse", lambda event: hooked.append(event.tool_name))
    calls = [
        use("McpCall", "c1", tool="mcp__work__get_page", arguments={"identifier": "1"}),
        use("McpCall", "c2", tool="mcp__work__delete_page", arguments={"identifier": "2"}),
        use("McpCall", "c3", tool="Shell", arguments={"command": "true"}),
        use("McpCall", "c4", tool="mcp__work__get_page", arguments={}),
    ]
    rules = {"deny": ["mcp__work__delete_page"]}
    requests, _ = run(tmp_path, [calls, [words("Done.")]], 0.05, consent=consent, hooks=hooks, rules=rules)
    assert asked == ["mcp__work__get_page"]
    assert hooked == ["mcp__work__get_page", "mcp__work__delete_page", "McpCall"]
    results = {
        block["tool_use_id"]: str(block["content"])
        for block in requests[-1]["messages"][-1]["content"]
        if block["type"] == "tool_result"
    }
    assert "get_page did 1" in results["c1"]
    assert "Rule mcp__work__delete_page forbids this" in results["c2"]
    assert "No server has a tool called 'Shell'" in results["c3"]
    assert "identifier" in results["c4"]


@pytest.mark.parametrize("noun", NOUNS)
def test_each_tool_is_among_the_first_five_for_words_that_say_what_it_does(noun: str) -> None:
    catalog = ToolCatalog(listing())
    for verb in VERBS:
        query = f"{verb.rstrip('e')}ing {noun.replace('_', ' ')}s"
        assert f"mcp__work__{verb}_{noun}" in [tool.name for tool in catalog.find(query, 5)], query


def test_few_tools_are_listed_as_before() -> None:
    tools = listing()[:3]
    assert [schema["name"] for schema in toolbox([], tools, Deferral(10_000)).schemas()] == [
        tool.name for tool in tools
    ]
    assert [schema["name"] for schema in toolbox([], tools, Deferral(10)).schemas()] == [
        "McpCall",
        "McpSearch",
    ]
