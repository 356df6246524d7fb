"""What an agent is told and given, by the size of its window.

Our whole prompt and all tools take some thousand tokens, which is nothing in a large window and everything in a small
one. Which of the three it is follows from the window alone, so it stays the same for a whole session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from sevenfold.agent.tools.context import ROOM
from sevenfold.agent.tools.tool import BriefTool, Tool
from sevenfold.prompts import system
from sevenfold.prompts.system import Static
from sevenfold.record.window import Window

SMALL = 40_000
"""Below this many tokens everything is said in few words…"""
TINY = 12_000
"""…and below this only the tools remain that work on files and run commands."""
INSTRUCTIONS = 4_000
"""Tokens of instruction files, in a window of full size; in a small one they are cut to their share."""
BYTES_PER_TOKEN = 3

Size = Literal["full", "small", "tiny"]

WORDS: Mapping[str, str] = MappingProxyType(
    {
        "Read": "Shows lines of a file with their numbers, from offset on.",
        "Edit": "Replaces old, which must stand in the file once and exactly, by new. Read the file first.",
        "Write": "Writes a whole file. Read it first if it is there.",
        "Shell": "Runs a bash command without input; timeout in seconds.",
        "Grep": "Finds a regular expression in files; show: files, lines or counts.",
        "Recall": "Finds what has left the view by words, or shows a record by its id.",
    }
)
LEFT_OUT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Edit": ("replace_all",),
        "Shell": ("background", "description"),
        "Grep": ("multiline", "limit", "context", "ignore_case"),
        "Recall": ("kind", "limit", "offset"),
    }
)
"""Inputs the smallest windows are not told of."""


class Fit(Struct, frozen=True):
    """What fits a window."""

    size: Size
    room: int
    """Characters a result may have."""
    answer: int | None = None
    """Tokens of one answer, where the usual number would not fit; None: as usual."""
    instructions: int | None = None
    """Bytes of instruction files; None: as many as there are."""

    @classmethod
    def of(cls, window: Window) -> Fit:
        """What fits this window."""
        room = window.budget(ROOM)
        if window.context >= SMALL:
            return cls("full", room)
        size: Size = "tiny" if window.context < TINY else "small"
        return cls(size, room, window.reserve, window.budget(INSTRUCTIONS) * BYTES_PER_TOKEN)

    def tools(self, tools: Iterable[Tool]) -> list[Tool]:
        """The standard tools as they fit."""
        if self.size == "full":
            return list(tools)
        if self.size == "small":
            return [BriefTool(tool, WORDS.get(tool.name, "")) for tool in tools]
        few = (tool for tool in tools if tool.name in WORDS)
        return [BriefTool(tool, WORDS[tool.name], without=LEFT_OUT.get(tool.name, ())) for tool in few]

    @property
    def texts(self) -> tuple[type[Static], ...]:
        """The texts at the beginning of the prompt."""
        return system.STATIC if self.size == "full" else (system.Brief,)
