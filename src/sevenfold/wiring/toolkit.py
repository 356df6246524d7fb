"""The standard tools, put together, and the services they lean on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from sevenfold.adapters.processes import LocalProcesses
from sevenfold.memory.recall import Hit
from sevenfold.tools import ripgrep
from sevenfold.tools.ask import AskUserTool
from sevenfold.tools.context import Abort, Todo, Verdict
from sevenfold.tools.edit import Edit, Write
from sevenfold.tools.functions import function_tool
from sevenfold.tools.plan import PlanFile, PlanReady, PlanStart
from sevenfold.tools.read import Read
from sevenfold.tools.recall import RecallTool
from sevenfold.tools.search import FindFiles, Grep, Searcher
from sevenfold.tools.shell import Shell, ShellOutput, ShellStop
from sevenfold.tools.skills import Skills, SkillTool, discover
from sevenfold.tools.todo import TodoList, TodoTool
from sevenfold.tools.tool import Tool
from sevenfold.tools.walking import PlainSearch
from sevenfold.tools.web import WebFetch
from sevenfold.wiring.grants import Grants

SKILL_FOLDERS = (".sevenfold/skills", ".claude/skills", ".agents/skills")
"""Where skills are looked for, in a project and in the user's home."""


def standard_tools(processes: LocalProcesses, skills: Skills) -> list[Tool]:
    """All tools an agent has unless it is given others; that of skills only where there are any."""
    searcher: Searcher = ripgrep.find() or PlainSearch()
    tools: list[Tool] = [
        Read(),
        Write(),
        Edit(),
        Shell(processes),
        ShellOutput(processes),
        ShellStop(processes),
        Grep(searcher),
        FindFiles(searcher),
        WebFetch(),
        TodoTool(),
        PlanStart(),
        PlanReady(),
        AskUserTool(),
        RecallTool(),
    ]
    return [*tools, SkillTool(skills)] if skills.known else tools


def as_tools(given: Iterable[Any]) -> list[Tool]:
    """Tools as they are, and functions made into tools."""
    return [one if isinstance(one, Tool) else function_tool(one) for one in given]


def find_skills(project: Path, home: Path, *, trusted: bool) -> Skills:
    """The user's skills, and those of a project the user trusts; the project's count first."""
    roots = [project, home] if trusted else [home]
    return discover([root / name for root in roots for name in SKILL_FOLDERS])


class KeptTodos(TodoList):
    """The to-do list; whoever keeps it is told of each change."""

    def __init__(self, todos: Sequence[Todo], changed: Callable[[], None]) -> None:
        super().__init__(todos)
        self._changed = changed

    def set(self, todos: Sequence[Todo]) -> None:
        """The list from now on."""
        super().set(todos)
        self._changed()


class Plans(PlanFile):
    """Planning, as a mode of the session's permissions."""

    def __init__(self, path: Path, grants: Grants, approve: Callable[[str, Abort], Verdict]) -> None:
        super().__init__(path, approve)
        self._grants = grants

    @property
    def planning(self) -> bool:
        """Is nothing to be changed yet?"""
        return self._grants.mode == "plan"

    def enter(self) -> None:
        """Begin to plan."""
        self._grants.mode = "plan"

    def leave(self) -> None:
        """Stop planning, as when the user says so."""
        self._grants.end_planning()

    def submit(self, plan: str, abort: Abort) -> Verdict:
        """Keep the plan and ask for approval; planning ends with it."""
        verdict = super().submit(plan, abort)
        if verdict.approved:
            self.leave()
        return verdict


class Recalling(Struct, frozen=True):
    """Recall as the tool asks for it."""

    found: Callable[..., Sequence[Hit]]
    whole: Callable[[str], bytes]

    def search(self, query: str, *, kind: str | None = None, k: int = 10) -> Sequence[Hit]:
        """The records that fit, the best first."""
        return self.found(query, kind=kind, most=k)

    def fetch(self, reference: str) -> bytes:
        """The whole of a record, or of a stored result."""
        return self.whole(reference)


def surroundings() -> dict[str, str]:
    """The environment commands run in."""
    return dict(os.environ)
