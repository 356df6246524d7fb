"""Names for the pieces of a conversation in a report: category, tool, and a short description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from sevenfold.record import authorship, blocks
from sevenfold.record.blocks import THINKING, Block, ToolUse
from sevenfold.record.entries import Said
from sevenfold.record.view import View
from sevenfold.record.weight import Weight, measure

SYSTEM = "system_and_tools"
UNLOGGED = "unlogged"
USER_TEXT = "user_text"
ASSISTANT_TEXT = "assistant_text"
THOUGHTS = "thinking"
TOOL_INPUTS = "tool_inputs"
RESULT = "tool_result:"
"""Prefix of the categories of tool results, one for each tool."""
ATTACHMENTS = "attachments"
SUMMARIES = "summaries"
IMAGES = "images"
OTHER = "other"

LONGEST = 160
"""The maximum length of a description, in characters."""
_PATHS = ("file_path", "notebook_path", "path", "filename", "absolute_path")
_ABOUT = (*_PATHS, "command", "cmd", "pattern", "query", "url", "skill", "description", "prompt", "input")
_READERS = frozenset(
    {
        *("read", "read_file", "readfile", "read_text_file", "notebookread"),
        *("view", "view_file", "open_file", "cat"),
    }
)


class ContextPiece(Struct, frozen=True, gc=False):
    """A piece of content that enters the context, named."""

    category: str
    weight: Weight
    tool: str = ""
    what: str = ""


class CallLabel(Struct, frozen=True, gc=False):
    """The name and description of a tool call in a report."""

    tool: str
    what: str = ""
    path: str = ""
    """The file it reads, whole or in part; empty for other calls."""


def label_of(tool: str, arguments: Any) -> CallLabel:
    """The label of a call, from its decoded input."""
    if not isinstance(arguments, dict):
        return CallLabel(tool, one_line(arguments) if isinstance(arguments, str) else "")
    about = next((arguments[name] for name in _ABOUT if arguments.get(name)), "")
    text = " ".join(map(str, about)) if isinstance(about, list) else str(about)
    reads = tool.rsplit("__", 1)[-1].lower().replace("-", "_") in _READERS
    path = next((arguments[name] for name in _PATHS if isinstance(arguments.get(name), str)), "")
    return CallLabel(tool, one_line(text), path if reads else "")


def label_of_block(block: Block) -> CallLabel:
    """The label of the tool call in a block."""
    body = block.body()
    return label_of(body.name, decoded(body.input)) if isinstance(body, ToolUse) else CallLabel(block.kind)


def decoded(raw: Raw | bytes | str) -> Any:
    """Decode JSON; None if it is invalid."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):  # brackets too deep
        return None


def one_line(text: str) -> str:
    """The beginning of a text on one line."""
    return " ".join(text[: 4 * LONGEST].split())[:LONGEST]


def piece_of(message: Said, block: Block, weight: Weight, call: CallLabel | None) -> ContextPiece:
    """Name a block of a record; ``call`` is the call it makes or answers."""
    kind = block.kind
    subject = call.what if call else ""
    if kind == "tool_result" or kind.endswith("_tool_result"):
        tool = call.tool if call else "unknown"
        return ContextPiece(RESULT + tool, weight, tool, subject)
    if kind == "tool_use" or kind.endswith("_tool_use"):
        return ContextPiece(TOOL_INPUTS, weight, call.tool if call else "", subject)
    if kind in THINKING:
        return ContextPiece(THOUGHTS, weight)
    text = one_line(blocks.words_of(block))
    if message.summary or kind == "compaction":
        return ContextPiece(SUMMARIES, weight, what=text)
    if kind in ("image", "document"):
        return ContextPiece(IMAGES, weight, what=kind)
    if message.role == "assistant":
        return ContextPiece(ASSISTANT_TEXT if kind == "text" else OTHER, weight, what=text or kind)
    if message.role == "system" and not message.attachment:
        return ContextPiece(SYSTEM, weight, what=text)
    if authorship.from_user(message) and (kind != "text" or authorship.typed(message, block)):
        return ContextPiece(USER_TEXT, weight, what=text)
    return ContextPiece(ATTACHMENTS, weight, message.attachment, text)


def pieces_in(view: View) -> Iterator[ContextPiece]:
    """Yield every block the model sees, named."""
    calls: dict[str, CallLabel] = {}
    for item in view.items:
        for block in item.shown:
            if block.kind.endswith("tool_use"):
                calls[block.id] = label_of_block(block)
            yield piece_of(item.record, block, measure(block), calls.get(block.id))
