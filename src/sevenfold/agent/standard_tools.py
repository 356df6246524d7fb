"""The tools of an agent: as many standard tools as fit its window, functions as tools, and skills.

The full prompt and all tools take several thousand tokens: negligible in a large window, too much in a small one. Which
of the three sizes an agent gets depends only on the window, so it stays the same for a whole session.
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
"""Folders with a project's skills; the user's are in ``skills`` next to the user's settings."""
SMALL = 40_000
"""In windows with fewer tokens than this, tool descriptions are short."""
TINY = 12_000
"""In windows with fewer tokens than this, there are only the tools for files and commands."""
INSTRUCTIONS = 4_000
"""The token budget for instruction files, scaled down for small windows; full-size windows have no limit."""
BYTES_PER_TOKEN = 3


def file_tools() -> list[StandardTool[Any]]:
    """The tools for reading, searching and changing files."""
    searcher = find_searcher()
    return [ReadTool(), EditTool(), WriteTool(), GrepTool(searcher), GlobTool(searcher)]


def standard_tools(
    processes: LocalProcesses, *, skills: SkillCatalog | None = None
) -> list[StandardTool[Any]]:
    """All standard tools; the Skill tool only if there are skills. The caller closes ``processes``."""
    tools = [*file_tools(), ShellTool(processes), ShellOutputTool(processes), ShellStopTool(processes)]
    tools += [WebFetchTool(), *(tool() for tool in SESSION_TOOLS)]
    return [*tools, SkillTool(skills)] if skills and skills.known else tools


def as_tools(functions_and_tools: Iterable[Any]) -> list[Tool]:
    """The given tools unchanged, and the given functions made into tools."""
    return [item if isinstance(item, Tool) else function_tool(item) for item in functions_and_tools]


def find_skills(project: Path, user: Path, *, trusted: bool) -> SkillCatalog:
    """The user's skills and those of a trusted project; the project's take precedence."""
    folders = [project / name for name in SKILL_FOLDERS] if trusted else []
    return SkillCatalog([*folders, user / "skills"])


class Fit(Struct, frozen=True):
    """How much of prompt, tools and results fits a window."""

    size: Literal["full", "small", "tiny"]
    room: int
    """The most characters of a tool result."""
    answer: int | None = None
    """The most tokens of one answer; None: the default."""
    instructions: int | None = None
    """The most bytes of instruction files; None: no limit."""

    @classmethod
    def of(cls, window: Window) -> Fit:
        """The fit for this window."""
        room = window.budget(ROOM)
        if window.context >= SMALL:
            return cls("full", room)
        size: Literal["small", "tiny"] = "tiny" if window.context < TINY else "small"
        return cls(size, room, window.reserve, window.budget(INSTRUCTIONS) * BYTES_PER_TOKEN)

    def tools(self, tools: Iterable[StandardTool[Any]]) -> list[Tool]:
        """The tools that fit the window, with descriptions of a suitable length."""
        if self.size == "full":
            return list(tools)
        path = Path(__file__).with_name("tools") / "texts" / "brief.toml"
        brief = tomllib.loads(path.read_text(encoding="utf-8"))
        if self.size == "small":
            return [_shortened(tool, brief.get(tool.name, {}).get("description", "")) for tool in tools]
        return [_shortened(tool, **brief[tool.name]) for tool in tools if tool.name in brief]


def _shortened(tool: StandardTool[Any], description: str = "", without: Collection[str] = ()) -> Tool:
    """Shorten a tool's description and schema in place, for windows in which every token counts.

    The model sees ``description``, or the first sentence of the tool's own, and a schema reduced to names and types,
    minus the properties in ``without``. The tool accepts the same input as before.
    """
    first = tool.description.split("\n", 1)[0]
    tool.description = description or first.partition(". ")[0].removesuffix(".") + "."
    schema = _shortened_schema(tool.schema)
    properties = {
        name: inner for name, inner in schema.get("properties", {}).items() if name not in without
    }
    tool.schema = {**schema, "properties": properties}
    return tool


def _shortened_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a schema that a model needs to fill it in; the tool itself checks the rest."""
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
    """Searches a session's log for content that has left the context, for the Recall tool."""

    def __init__(self, store: SessionParts, result: Callable[[str], bytes]) -> None:
        """``result`` fetches a stored tool result by its id."""
        self._store = store
        self._result = result

    def search(self, query: str, *, kind: str | None = None, k: int = 10) -> Sequence[Hit]:
        """The matching records, best first; if nothing matches well, the nearest, marked as weak."""
        return self._store.search(query, kind=kind, k=k, weak=True)

    def fetch(self, reference: str) -> bytes:
        """The full content of a record or stored result; raises `sevenfold.errors.UserError` if there is none."""
        match self._store.log.record(reference):
            case (_, Said() as message):
                return "\n\n".join(
                    filter(None, (self._text(block, message) for block in message.blocks))
                ).encode()
            case _:
                return self._result(reference)

    def _text(self, block: Block, message: Said) -> str:
        if block.id in message.stored:
            return self._result(block.id).decode(errors="replace")
        if block.kind == "tool_use":
            return block.raw.decode(errors="replace")
        return blocks.words_of(block)
