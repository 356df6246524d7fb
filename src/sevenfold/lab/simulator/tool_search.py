"""The provider's own search for tools: definitions with `defer_loading` are no part of the prompt until it finds them.

The model calls the search like a tool, the server answers in the same message, and the definitions it refers to are
read by the model from there on. A caller's own search can refer to them, too, in the content of a tool result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sevenfold.lab.rules.base import Json, blocks_of
from sevenfold.lab.simulator.errors import extra, invalid
from sevenfold.profiles import Profile

PREFIX = "tool_search_tool_"
RESULT = "tool_search_tool_result"
MOST_FOUND = 5
LONGEST_PATTERN = 200
_FIELDS = frozenset({"type", "name", "cache_control", "allowed_callers", "defer_loading", "strict"})
_TYPES = re.compile(r"(tool_search_tool_(?:bm25|regex))(?:_20251119)?")
_WORD = re.compile(r"[a-z]+|[0-9]+")


def check_search(body: Json, profile: Profile) -> None:
    """Raise for the first tool, or reference to one, that the server would refuse."""
    tools: Sequence[Json] = body.get("tools") or ()
    deferred = {str(tool["name"]) for tool in tools if tool.get("defer_loading")}
    for index, tool in enumerate(tools):
        kind = str(tool.get("type") or "custom")
        if tool.get("defer_loading") and tool.get("cache_control") is not None:
            raise invalid(
                f"tools.{index}: Tool '{tool['name']}' cannot have both defer_loading=true and cache_control set. "
                "Tools with defer_loading cannot use prompt caching."
            )
        if kind.startswith(PREFIX):
            _check_entry(index, tool, kind, profile)
    if deferred and len(deferred) == len(tools):
        raise invalid("tools: At least one tool must have defer_loading=false.")
    names = {str(tool.get("name")) for tool in tools}
    for number, message in enumerate(body["messages"]):
        for index, block in enumerate(blocks_of(message)):
            for name in references(block):
                if name not in names:
                    path = f"messages.{number}.content.{index}"
                    raise invalid(f"{path}: Tool reference '{name}' not found in available tools")


def _check_entry(index: int, tool: Json, kind: str, profile: Profile) -> None:
    known = _TYPES.fullmatch(kind)
    if known is None:
        raise invalid(
            f"tools.{index}: Input tag '{kind}' found using 'type' does not match any of the tags"
        )
    if tool.get("name") != known[1]:
        raise invalid(f"tools.{index}.{kind}.name: Input should be '{known[1]}'")
    for field in tool:
        if field not in _FIELDS:
            raise extra(f"tools.{index}.{kind}.{field}")
    if not profile.tool_search:
        raise invalid(f"'{profile.model}' does not support tool types: {kind}.")


def references(block: Json) -> Iterator[str]:
    """The names of the tools that a block has the server load."""
    content = block.get("content")
    match block.get("type"):
        case "tool_search_tool_result":
            listed = content.get("tool_references") if isinstance(content, Mapping) else ()
        case "tool_result":
            listed = content if isinstance(content, list) else ()
        case _:
            listed = ()
    for part in listed or ():
        if isinstance(part, Mapping) and part.get("type") == "tool_reference":
            yield str(part.get("tool_name"))


def loaded_tools(tools: Sequence[Json], messages: Sequence[Json]) -> list[Json]:
    """The tools that the model sees: those of the prompt, and those that something in the messages refers to."""
    named = {name for message in messages for block in blocks_of(message) for name in references(block)}
    return [tool for tool in tools if not tool.get("defer_loading") or tool.get("name") in named]


def is_search(block: Json) -> bool:
    """Whether a block of an answer is a call of the search."""
    return block.get("type") == "server_tool_use" and str(block.get("name")).startswith(PREFIX)


def is_search_tool(tool: Json) -> bool:
    """Whether a tool of a request is the search."""
    return str(tool.get("type")).startswith(PREFIX)


def result_of(call: Json, tools: Sequence[Json]) -> Json:
    """The server's answer to a call of its search."""
    arguments = call.get("input") or {}
    deferred = [tool for tool in tools if tool.get("defer_loading")]
    try:
        if str(call["name"]).endswith("regex"):
            names = _matching(str(arguments["pattern"]), deferred)
        else:
            names = _ranked(str(arguments["query"]), deferred)
    except (KeyError, re.error):
        content: Any = {"type": "tool_search_tool_result_error", "error_code": "invalid_tool_input"}
    else:
        found_tools = [{"type": "tool_reference", "tool_name": name} for name in names[:MOST_FOUND]]
        content = {"type": "tool_search_tool_search_result", "tool_references": found_tools}
    return {"type": RESULT, "tool_use_id": call["id"], "content": content}


def _matching(pattern: str, tools: Sequence[Json]) -> list[str]:
    if len(pattern) > LONGEST_PATTERN:
        raise re.error("too long")
    wanted = re.compile(pattern)
    return [str(tool["name"]) for tool in tools if any(map(wanted.search, _texts(tool)))]


def _ranked(query: str, tools: Sequence[Json]) -> list[str]:
    """The tools that share words with the query, those with its rarest words first."""
    words_of = {str(tool["name"]): set(_WORD.findall(" ".join(_texts(tool)).lower())) for tool in tools}
    query_words = set(_WORD.findall(query.lower()))
    scores: dict[str, float] = {}
    for name, tool_words in words_of.items():
        words_in_name = set(_WORD.findall(name.lower()))
        for word in query_words & tool_words:
            holding = sum(word in words for words in words_of.values())
            rarity = math.log(1 + len(words_of) / holding)
            scores[name] = scores.get(name, 0.0) + rarity * (2 if word in words_in_name else 1)
    return sorted(scores, key=lambda name: (-scores[name], name))


def _texts(tool: Json) -> list[str]:
    """What is searched: the name, the description, and the names and descriptions of the inputs."""
    texts = [str(tool["name"]), str(tool.get("description") or "")]
    properties = (tool.get("input_schema") or {}).get("properties") or {}
    for name, schema in properties.items():
        texts.append(name)
        if isinstance(schema, Mapping):
            texts.append(str(schema.get("description") or ""))
    return texts
