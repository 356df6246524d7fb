"""The tools of an agent: the standard ones, as many as fit its window, functions as tools, and skills.

The whole prompt and all tools take some thousand tokens: nothing in a large window, everything in a small one. Which
of the three sizes an agent gets follows from the window alone, so it stays the same for a whole session.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from sevenfold.agent.processes import LocalProcesses
from sevenfold.agent.tools.context import ROOM
from sevenfold.agent.tools.edit import EditTool, WriteTool
from sevenfold.agent.tools.functions import function_tool
from sevenfold.agent.tools.read import ReadTool
from sevenfold.agent.tools.search import GlobTool, GrepTool
from sevenfold.agent.tools.searchers import find_searcher
from sevenfold.agent.tools.session_tools import SESSION_TOOLS
from sevenfold.agent.tools.shell import ShellOutputTool, ShellStopTool, ShellTool
from sevenfold.agent.tools.skills import SkillCatalog, SkillTool
from sevenfold.agent.tools.tool import StandardTool, Tool
from sevenfold.agent.tools.web import WebFetchTool
from sevenfold.recall.search import Hit
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.entries import Said
from sevenfold.record.window import Window
from sevenfold.session.factory import SessionParts

SKILL_FOLDERS = (".sevenfold/skills", ".claude/skills", ".agents/skills")
"""Where a project keeps its skills; the user's are in ``skills`` next to the user's settings."""
SMALL = 40_000
"""Windows with fewer tokens get short descriptions."""
TINY = 12_000
"""Windows with fewer tokens get only the tools that work on files and run commands."""
INSTRUCTIONS = 4_000
"""Tokens of instruction files in a window of full size; smaller ones get their share."""
BYTES_PER_TOKEN = 3


def file_tools() -> list[StandardTool[Any]]:
    """Reading, searching and changing files."""
    searcher = find_searcher()
    return [ReadTool(), EditTool(), WriteTool(), GrepTool(searcher), GlobTool(searcher)]


def standard_tools(
    processes: LocalProcesses, *, skills: SkillCatalog | None = None
) -> list[StandardTool[Any]]:
    """All tools an agent at a terminal has; the caller closes ``processes``."""
    tools = [*file_tools(), ShellTool(processes), ShellOutputTool(processes), ShellStopTool(processes)]
    tools += [WebFetchTool(), *(tool() for tool in SESSION_TOOLS)]
    return [*tools, SkillTool(skills)] if skills and skills.known else tools


def as_tools(given: Iterable[Any]) -> list[Tool]:
    """Tools as they are, and functions made into tools."""
    return [one if isinstance(one, Tool) else function_tool(one) for one in given]


def find_skills(project: Path, user: Path, *, trusted: bool) -> SkillCatalog:
    """The user's skills and those of a trusted project; the project's take precedence."""
    folders = [project / name for name in SKILL_FOLDERS] if trusted else []
    return SkillCatalog([*folders, user / "skills"])


class Fit(Struct, frozen=True):
    """What fits a window."""

    size: Literal["full", "small", "tiny"]
    room: int
    """Characters a tool result may have."""
    answer: int | None = None
    """Tokens of one answer; None: the usual number."""
    instructions: int | None = None
    """Bytes of instruction files; None: no limit."""

    @classmethod
    def of(cls, window: Window) -> Fit:
        """What fits this window."""
        room = window.budget(ROOM)
        if window.context >= SMALL:
            return cls("full", room)
        size: Literal["small", "tiny"] = "tiny" if window.context < TINY else "small"
        return cls(size, room, window.reserve, window.budget(INSTRUCTIONS) * BYTES_PER_TOKEN)

    def tools(self, tools: Iterable[StandardTool[Any]]) -> list[Tool]:
        """The standard tools that fit, with descriptions that fit."""
        if self.size == "full":
            return list(tools)
        path = Path(__file__).with_name("tools") / "texts" / "brief.toml"
        brief = tomllib.loads(path.read_text(encoding="utf-8"))
        if self.size == "small":
            return [_shortened(tool, brief.get(tool.name, {}).get("words", "")) for tool in tools]
        return [_shortened(tool, **brief[tool.name]) for tool in tools if tool.name in brief]


def _shortened(tool: StandardTool[Any], words: str = "", without: Collection[str] = ()) -> Tool:
    """A tool described in few words, for windows in which every token counts.

    The model sees the first sentence of the description, or ``words``, and of the input only what a call needs, with
    types. The tool takes the same input as before.
    """
    first = tool.description.split("\n", 1)[0]
    tool.description = words or first.partition(". ")[0].removesuffix(".") + "."
    schema = _shortened_schema(tool.schema)
    kept = {name: inner for name, inner in schema.get("properties", {}).items() if name not in without}
    tool.schema = {**schema, "properties": kept}
    return tool


def _shortened_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a model needs of a schema to fill it in; the tool checks the rest."""
    short: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            short[key] = {name: _shortened_schema(inner) for name, inner in value.items()}
        elif key == "items":
            short[key] = _shortened_schema(value)
        elif key in ("type", "enum", "required"):
            short[key] = value
    return short


class StoreRecall:
    """Finds what has left the context, for the tool Recall, in the store of a session."""

    def __init__(self, store: SessionParts, result: Callable[[str], bytes]) -> None:
        """``result`` fetches a stored tool result."""
        self._store = store
        self._result = result

    def search(self, query: str, *, kind: str | None = None, k: int = 10) -> Sequence[Hit]:
        """The records that match, the best first."""
        return self._store.search(query, kind=kind, k=k)

    def fetch(self, reference: str) -> bytes:
        """A whole record, or stored result; raises `sevenfold.errors.UserError` if there is none."""
        match self._store.log.record(reference):
            case (_, Said() as said):
                return "\n\n".join(
                    filter(None, (self._text(block, said) for block in said.blocks))
                ).encode()
            case _:
                return self._result(reference)

    def _text(self, block: Block, said: Said) -> str:
        if block.id in said.stored:
            return self._result(block.id).decode(errors="replace")
        if block.kind == "tool_use":
            return block.raw.decode(errors="replace")
        return blocks.words_of(block)
