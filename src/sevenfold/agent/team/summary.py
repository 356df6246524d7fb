"""What an agent is doing, in a line of three to five words: by code, from the tool call it made last.

The line names a file, a command, a pattern or an address, because the call does; it costs nothing, and is as new as the
call itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sevenfold.record.blocks import ToolUse, read_fields

if TYPE_CHECKING:
    from sevenfold.record.layout import Item
    from sevenfold.record.view import View

LONGEST_NAME = 40
LOOKED_AT = 40
"""Records among which the newest call is looked for."""
_DOING: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "Read": ("Reading the file", "path"),
        "Edit": ("Editing the file", "path"),
        "Write": ("Writing the file", "path"),
        "Grep": ("Searching files for", "pattern"),
        "Glob": ("Listing files like", "pattern"),
        "Shell": ("Running the command", "command"),
        "ShellOutput": ("Watching the command", "task"),
        "WebFetch": ("Fetching the page", "url"),
        "Recall": ("Searching earlier records for", "query"),
        "Agent": ("Directing an agent:", "description"),
        "SendMessage": ("Writing a message to", "to"),
        "Todo": ("Updating the to-do list", ""),
    }
)
"""How each tool is put into words, and the input that names what it is used on."""


def progress_line(view: View) -> str:
    """What an agent does now; empty before its first tool call."""
    # A copy of the end: the agent goes on meanwhile.
    return next((_in_words(call) for call in _calls(tuple(view.items[-LOOKED_AT:]))), "")


def _calls(items: Sequence[Item]) -> Iterator[ToolUse]:
    """The tool calls, the newest first."""
    for item in reversed(items):
        for block in reversed(item.said.blocks) if item.said.role == "assistant" else ():
            body = block.body() if block.kind == "tool_use" else None
            if isinstance(body, ToolUse):
                yield body


def _in_words(call: ToolUse) -> str:
    doing, field = _DOING.get(call.name, (f"Using the tool {call.name}", ""))
    given = str(read_fields(call.input).get(field, "")) if field else ""
    return f"{doing} {_named(field, given)}".strip()


def _named(field: str, given: str) -> str:
    """One word for what a tool is used on: a file's name, the first word of a command, the host of an address."""
    words = given.split()
    if not words:
        return ""
    if field == "path":
        return PurePath(given).name[:LONGEST_NAME]
    if field == "url":
        return (urlsplit(given).hostname or given)[:LONGEST_NAME]
    return words[0][:LONGEST_NAME]
