"""What a piece of a conversation is called in a report: its category, its tool, and what it is about."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from sevenfold.lab.profile.context import Piece
from sevenfold.record import blocks, entries
from sevenfold.record.blocks import THINKING, Block, ToolUse
from sevenfold.record.entries import Said
from sevenfold.record.weight import Weight

USER_TEXT = "user_text"
ASSISTANT_TEXT = "assistant_text"
THOUGHTS = "thinking"
TOOL_INPUTS = "tool_inputs"
RESULT = "tool_result:"
"""Prefix of the categories of results, one for each tool."""
ATTACHMENTS = "attachments"
SUMMARIES = "summaries"
IMAGES = "images"
OTHER = "other"

LONGEST = 160
"""Characters that are kept of what a piece is about."""

_PATHS = ("file_path", "notebook_path", "path", "filename", "absolute_path")
_ABOUT = (*_PATHS, "command", "cmd", "pattern", "query", "url", "skill", "description", "prompt", "input")
_READERS = frozenset(
    {
        "read",
        "read_file",
        "readfile",
        "read_text_file",
        "notebookread",
        "view",
        "view_file",
        "open_file",
        "cat",
    }
)


class Asked(Struct, frozen=True):
    """A tool call, as far as its result is to be named."""

    tool: str
    what: str = ""
    path: str = ""
    """The file it reads whole or in part; empty for all other calls."""


def asked(tool: str, given: Any) -> Asked:
    """What a call asks for, from its decoded input."""
    if not isinstance(given, dict):
        return Asked(tool, one_line(given) if isinstance(given, str) else "")
    found = next((given[name] for name in _ABOUT if given.get(name)), "")
    words = " ".join(map(str, found)) if isinstance(found, list) else str(found)
    path = next((given[name] for name in _PATHS if isinstance(given.get(name), str)), "")
    return Asked(tool, one_line(words), path if _reads(tool) else "")


def asked_by(block: Block) -> Asked:
    """What the tool call in a block asks for."""
    body = block.body()
    if not isinstance(body, ToolUse):
        return Asked(block.kind)
    return asked(body.name, decoded(body.input))


def decoded(raw: Raw | bytes | str) -> Any:
    """The value in some JSON, None if it is none."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return None


def one_line(words: str) -> str:
    """The beginning of a text on one line."""
    return " ".join(words[: 4 * LONGEST].split())[:LONGEST]


def piece_of(said: Said, block: Block, weight: Weight, call: Asked | None) -> Piece:
    """A block of a record, named; ``call`` is the call it makes or answers."""
    if block.kind == "tool_result" or block.kind.endswith("_tool_result"):
        tool = call.tool if call else "unknown"
        return Piece(RESULT + tool, weight, tool, call.what if call else "")
    if block.kind == "tool_use" or block.kind.endswith("_tool_use"):
        return Piece(TOOL_INPUTS, weight, call.tool if call else "", call.what if call else "")
    if block.kind in THINKING:
        return Piece(THOUGHTS, weight)
    if said.summary or block.kind == "compaction":
        return Piece(SUMMARIES, weight, what=one_line(blocks.words_of(block)))
    if block.kind in ("image", "document"):
        return Piece(IMAGES, weight, what=block.kind)
    return _words(said, block, weight)


def _words(said: Said, block: Block, weight: Weight) -> Piece:
    words = one_line(blocks.words_of(block))
    if said.role == "assistant":
        return Piece(ASSISTANT_TEXT if block.kind == "text" else OTHER, weight, what=words or block.kind)
    attached = said.attachment not in ("", entries.USERS_WORDS)
    if attached or said.meta or said.role == "system":
        return Piece(ATTACHMENTS, weight, said.attachment, words)
    return Piece(USER_TEXT, weight, what=words)


def _reads(tool: str) -> bool:
    return tool.rsplit("__", 1)[-1].lower().replace("-", "_") in _READERS
