"""Tools of MCP servers, named ``mcp__<server>__<tool>``.

What a server lists is a stranger's: names are made fit, words are cut, schemas are cleaned, and a tool that cannot be
used is left out with a reason, while the others go on. Every call asks for permission, whatever the server says about
itself, and no result is ever cleared, because nobody knows whether it could be had again.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any, Literal

from msgspec import Struct

from sevenfold.agent.mcp.results import output_of
from sevenfold.agent.mcp.schemas import input_schema
from sevenfold.agent.permissions.request import Wish
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.tool import Input
from sevenfold.errors import Aborted, InputError
from sevenfold.prompts.text import KB, cut

PREFIX = "mcp__"
LONGEST_NAME = 64
"""The shortest limit among providers…"""
LONGEST_SERVER = 32
"""…and what a server's name may have of it."""
MOST_DESCRIPTION = 2 * KB
MOST_TOOLS = 200
"""Of one server…"""
MOST_BYTES = 256 * KB
"""…and how much all of them may say."""
_TICK = 0.05
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]+")

Caller = Callable[[str, Mapping[str, Any], Callable[[str], None]], Future[Mapping[str, Any]]]
"""Begins a call: the tool's name at its server, its input, and whom to tell of progress."""


class McpTool:
    """One tool of a server."""

    kind: Literal[""] = ""

    def __init__(
        self,
        name: str,
        own_name: str,
        description: str,
        schema: Mapping[str, Any],
        *,
        concurrent: bool,
        call: Caller,
    ) -> None:
        self.name = name
        self.description = description
        self.schema = schema
        self.concurrent = concurrent
        self._own_name = own_name
        self._call = call

    def wish(self, given: Input, context: Context) -> Wish:
        """Something only the server knows; so it is asked about."""
        return Wish(self.name, "call")

    def run(self, given: Input, context: Context) -> ToolOutput:
        """Have the server do it, and stop waiting when told to."""
        coming = self._call(self._own_name, given, context.progress)
        while not coming.done():
            wait([coming], _TICK)
            if context.abort.is_set() and not coming.done():
                coming.cancel()
                raise Aborted()
        return output_of(coming.result())

    async def run_async(self, given: Input, context: Context) -> ToolOutput:
        """The same, awaited; cancelling it tells the server to stop."""
        coming = asyncio.wrap_future(self._call(self._own_name, given, context.progress))
        try:
            return output_of(await coming)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Not this task was stopped, but the connection.
            return failed("The MCP servers were closed while this was running.")


class Offered(Struct, frozen=True):
    """What a server's listing comes to."""

    tools: tuple[McpTool, ...] = ()
    problems: tuple[str, ...] = ()
    """What was left out, and why."""


def offered(server: str, listing: Iterable[Any], call: Caller) -> Offered:
    """The usable tools of a listing, in the order of names."""
    tools: dict[str, McpTool] = {}
    problems: list[str] = []
    room = MOST_BYTES
    for one in listing:
        own = str(one.get("name", "")) if isinstance(one, Mapping) else ""
        try:
            tool = _tool(server, own, one, call)
            room -= len(tool.description) + len(str(tool.schema))
            if tool.name in tools:
                raise InputError("another tool has the same name")
            if len(tools) == MOST_TOOLS or room < 0:
                raise InputError("the server lists too much")
        except InputError as error:
            problems.append(f"{own[:80]!r} is left out: {error}")
        else:
            tools[tool.name] = tool
    return Offered(tuple(tools[name] for name in sorted(tools)), tuple(problems))


def server_key(name: str) -> str:
    """A server's name as it stands in names of tools: without ``__``, so that it ends where it seems to end."""
    return _short(re.sub(r"_+", "_", _fit(name)).strip("_") or "server", LONGEST_SERVER)


def tool_name(server: str, own: str) -> str:
    """What the model calls a server's tool by."""
    return _short(f"{PREFIX}{server_key(server)}__{_fit(own)}", LONGEST_NAME)


def _short(name: str, most: int) -> str:
    """A name that is too long is cut, and told apart by its fingerprint."""
    if len(name) <= most:
        return name
    return f"{name[: most - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _tool(server: str, own: str, listed: Any, call: Caller) -> McpTool:
    if not own.strip():
        raise InputError("it has no name")
    notes = listed.get("annotations")
    only_reads = isinstance(notes, Mapping) and notes.get("readOnlyHint") is True
    return McpTool(
        tool_name(server, own),
        own,
        _description(server, listed.get("description")),
        input_schema(listed.get("inputSchema")),
        concurrent=only_reads,
        call=call,
    )


def _description(server: str, words: Any) -> str:
    if not isinstance(words, str) or not words.strip():
        return f"A tool of the server {server}, which says nothing about it."
    shown = _shown(words.strip())
    kept = cut(shown, MOST_DESCRIPTION)
    return kept if kept == shown else f"{kept}\n[cut: the server says more than {MOST_DESCRIPTION:,} bytes]"


def _shown(words: str) -> str:
    """Without characters nobody sees: a model could be told things by them that no user would find."""
    return "".join(
        one for one in words if one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cf", "Cs", "Co")
    )


def _fit(name: str) -> str:
    return _UNFIT.sub("_", name)
