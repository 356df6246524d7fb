"""Tools in an agent: functions made into tools, skills found, and the services tools lean on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from sevenfold.agent.permissions.engine import Grants
from sevenfold.agent.tools.context import Abort, Todo, Verdict
from sevenfold.agent.tools.functions import function_tool
from sevenfold.agent.tools.session_tools import PlanFile, TodoList
from sevenfold.agent.tools.skills import Skills
from sevenfold.agent.tools.tool import Tool
from sevenfold.recall.recall import Hit
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.entries import Said
from sevenfold.session.factory import Store

SKILL_FOLDERS = (".sevenfold/skills", ".claude/skills", ".agents/skills")
"""Where a project keeps its skills; the user's are in ``skills`` beside the user's settings."""


def as_tools(given: Iterable[Any]) -> list[Tool]:
    """Tools as they are, and functions made into tools."""
    return [one if isinstance(one, Tool) else function_tool(one) for one in given]


def find_skills(project: Path, user: Path, *, trusted: bool) -> Skills:
    """The user's skills, and those of a project the user trusts; the project's count first."""
    folders = [project / name for name in SKILL_FOLDERS] if trusted else []
    return Skills([*folders, user / "skills"])


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


class Recalling:
    """Recall as the tool asks for it."""

    def __init__(self, store: Store, result: Callable[[str], bytes]) -> None:
        self._store = store
        self._result = result

    def search(self, query: str, *, kind: str | None = None, k: int = 10) -> Sequence[Hit]:
        """The records that fit, the best first."""
        return self._store.search(query, kind=kind, k=k)

    def fetch(self, reference: str) -> bytes:
        """The whole of a record, or of a stored result."""
        said = self._said(reference)
        if said is None:
            return self._result(reference)
        return "\n\n".join(filter(None, (self._words(block, said) for block in said.blocks))).encode()

    def _said(self, record: str) -> Said | None:
        match self._store.log.record(record):
            case (_, Said() as said):
                return said
            case _:
                return None

    def _words(self, block: Block, said: Said) -> str:
        if block.id in said.stored:
            return self._store.results.fetch(said.stored[block.id].path).decode(errors="replace")
        if block.kind == "tool_use":
            return block.raw.decode(errors="replace")
        return blocks.words_of(block)
