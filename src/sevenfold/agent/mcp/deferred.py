"""Tools of servers that the model looks up instead of being shown all of them.

The schemas of many servers' tools would fill a good part of the window, in every request. Beyond a share of it the
model is shown two tools in their place: McpSearch finds tools by what they do and shows their schemas, McpCall calls
one. The list of tools that is sent never changes by a search, so the cache stays. For rules, hooks and the user a call
by way of McpCall is a call of the tool itself.

A provider that has a search of its own is sent all tools, and keeps those to itself that its search has not found. Then
the model calls what was found by its own name. Tools of a server that connects once the conversation has begun are
found by our search until the next compaction, because what was sent must not change.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any

from msgspec import Meta, Struct

from sevenfold.agent.mcp.tools import PREFIX
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.tool import StandardTool, Tool, Toolbox, together
from sevenfold.conversation.request import ToolCall

BYTES_PER_TOKEN = 3
"""Schemas have many short words and signs, so a token of them has fewer bytes than one of prose."""
FOUND = 5
MOST_FOUND = 20
MOST_NAMED = 40
"""Tools that fit less well are listed by their names alone, up to this many in all."""
LISTED_SERVERS = 50
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_IN_THE_NAME = 3.0
"""How much more a word counts in a tool's name than in its description."""


class SearchInput(Struct, forbid_unknown_fields=True):
    """What to look for.

    Args:
        query: What the tool should do, in a few words, or its exact name.
        limit: How many tools to show.
    """

    query: Annotated[str, Meta(min_length=1, max_length=1_000)]
    limit: Annotated[int, Meta(ge=1, le=MOST_FOUND)] = FOUND


class CallInput(Struct, forbid_unknown_fields=True):
    """Which tool to call.

    Args:
        tool: Its full name, as McpSearch shows it.
        arguments: Its input, which fits the schema that McpSearch shows.
    """

    tool: Annotated[str, Meta(min_length=1, max_length=200)]
    arguments: dict[str, Any] = {}


class ToolCatalog:
    """Finds tools by words: rare words count more than frequent ones, and words of a name more than others."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self._words = {tool.name: _weights(tool) for tool in tools}
        self._spread = Counter(chain.from_iterable(self._words.values()))

    def find(self, query: str, limit: int) -> list[Tool]:
        """The tools that fit best, best first; one that is named exactly comes alone."""
        if query.strip() in self.tools:
            return [self.tools[query.strip()]]
        wanted = set(_words_of(query))
        scores = {name: self._score(weights, wanted) for name, weights in self._words.items()}
        best = sorted((name for name in scores if scores[name] > 0), key=lambda name: (-scores[name], name))
        return [self.tools[name] for name in best[:limit]]

    def servers(self) -> Counter[str]:
        """How many tools each server has."""
        return Counter(name.removeprefix(PREFIX).partition("__")[0] for name in self.tools)

    def _score(self, weights: Mapping[str, float], wanted: set[str]) -> float:
        count = len(self.tools)
        return sum(
            weights[word] * math.log(1 + count / self._spread[word]) for word in wanted if word in weights
        )


class McpSearchTool(StandardTool[SearchInput]):
    """Finds tools of servers."""

    def __init__(self, catalog: ToolCatalog) -> None:
        super().__init__()
        self.catalog = catalog
        servers = catalog.servers().most_common(LISTED_SERVERS)
        listed = ", ".join(f"{server} ({count})" for server, count in sorted(servers))
        self.description = f"{self.description}\n\nServers and the number of their tools: {listed}"

    def act(self, arguments: SearchInput, context: Context) -> ToolOutput:
        """Show the tools that fit best, with their schemas."""
        tools = self.catalog.find(arguments.query, MOST_NAMED)
        if not tools:
            servers = ", ".join(sorted(self.catalog.servers()))
            return failed(
                f"No tool fits {arguments.query!r}. Try other words; there are tools of: {servers}."
            )
        shown_tools = [_shown(tool) for tool in tools[: arguments.limit]]
        if further := [tool.name for tool in tools[arguments.limit :]]:
            shown_tools.append(
                f"These fit too; search for an exact name to see its schema: {', '.join(further)}"
            )
        return ToolOutput("\n\n".join(shown_tools))


class McpCallTool(StandardTool[CallInput]):
    """Calls a tool that is not in the list; the executor calls that tool instead of this one."""

    def __init__(self, catalog: ToolCatalog) -> None:
        super().__init__()
        self.catalog = catalog

    def target(self, call: ToolCall) -> ToolCall:
        """The call that is meant; the same call if it names no tool of a server."""
        call_input = call.input
        if not isinstance(call_input, Mapping) or call_input.get("tool") not in self.catalog.tools:
            return call
        arguments = call_input.get("arguments", {})
        return ToolCall(call.id, call_input["tool"], arguments)

    def act(self, arguments: CallInput, context: Context) -> ToolOutput:
        """Say that there is no such tool, because every other call has been redirected."""
        near = ", ".join(tool.name for tool in self.catalog.find(arguments.tool, FOUND))
        hint = f" Did you mean one of {near}?" if near else " McpSearch finds tools."
        return failed(f"No server has a tool called {arguments.tool!r}.{hint}")


class Deferral(Struct, frozen=True):
    """When and how tools of servers are found by a search."""

    tokens: float = math.inf
    """How many tokens they may take in requests; beyond that they are found."""
    search: str = ""
    """The type of the provider's own search; empty: they are found by ours."""


def toolbox(
    own_tools: Sequence[Tool],
    servers: Sequence[Tool],
    deferral: Deferral,
    sent: Collection[str] | None = None,
) -> Toolbox:
    """The tools of an agent: those of servers behind a search if they would take too many tokens.

    ``sent`` are the tools that the provider already has to find, once the conversation has begun; None before.
    """
    if sum(map(_tokens, servers)) <= deferral.tokens:
        return together(own_tools, servers)
    own_names = {tool.name for tool in own_tools}
    listed_tools = [tool for tool in servers if tool.name not in own_names]
    by_provider = [tool for tool in listed_tools if deferral.search and (sent is None or tool.name in sent)]
    search = deferral.search if by_provider else ""
    provider_names = {tool.name for tool in by_provider}
    ours = [tool for tool in listed_tools if tool.name not in provider_names]
    if not ours:
        return Toolbox(own_tools, deferred=by_provider, search=search)
    catalog = ToolCatalog(ours)
    listed = [*own_tools, McpSearchTool(catalog), McpCallTool(catalog)]
    return Toolbox(listed, unlisted=ours, deferred=by_provider, search=search)


def _tokens(tool: Tool) -> float:
    """About how many tokens a tool takes in a request."""
    shown = json.dumps(dict(tool.schema), ensure_ascii=False)
    return len(f"{tool.name}{tool.description}{shown}".encode()) / BYTES_PER_TOKEN


def _shown(tool: Tool) -> str:
    schema = json.dumps(dict(tool.schema), ensure_ascii=False, separators=(",", ":"))
    return f"{tool.name}\n{tool.description}\ninput: {schema}"


def _weights(tool: Tool) -> Mapping[str, float]:
    properties = tool.schema.get("properties", {})
    text = f"{tool.description} {' '.join(properties)}"
    weights = dict.fromkeys(_words_of(text), 1.0)
    weights.update(dict.fromkeys(_words_of(tool.name.removeprefix(PREFIX)), _IN_THE_NAME))
    return weights


def _words_of(text: str) -> list[str]:
    """The words of a text or a name, without the endings by which their forms differ."""
    return [_stem(word.lower()) for word in _WORD.findall(text)]


def _stem(word: str) -> str:
    for ending in ("ing", "es", "ed", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word
