"""What a tool gives back: content for the model, and facts for whoever watches or keeps books.

Facts are a closed union, so that a surface can show each kind in its own way and the engine can act on those it
needs. None of them is sent to the model.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class FileRead(Struct, frozen=True, tag=True):
    """A file was shown to the model."""

    path: str
    version: str
    whole: bool = False
    """The model was shown all of it, so an unchanged file need not be shown again while this is in view."""
    again: str = ""
    """The call that shows it, where only its name was given."""


class FileChanged(Struct, frozen=True, tag=True):
    """A file was written."""

    path: str
    version: str
    diff: str
    """As a unified diff, in whole or in part."""
    added: int = 0
    removed: int = 0
    created: bool = False


class CommandRan(Struct, frozen=True, tag=True):
    """A command came to an end, or was ended."""

    command: str
    code: int | None = None
    """None if it did not come to its own end."""
    problem: str = ""
    cwd: str = ""
    """Where the next one will run."""
    seconds: float = 0.0


class TaskChanged(Struct, frozen=True, tag=True):
    """Something runs in the background, or did."""

    task: str
    command: str
    state: Literal["running", "completed", "failed", "killed", "gone"]
    path: str
    """Where its output goes."""


class TodosChanged(Struct, frozen=True, tag=True):
    """The list of what there is to do is another one."""

    open: int
    done: int


class PlanChanged(Struct, frozen=True, tag=True):
    """Planning began, or ended."""

    planning: bool
    path: str


class SkillUsed(Struct, frozen=True, tag=True):
    """A skill was loaded."""

    name: str
    path: str


Fact = FileRead | FileChanged | CommandRan | TaskChanged | TodosChanged | PlanChanged | SkillUsed


class ToolOutput(Struct, frozen=True):
    """The answer to a tool call."""

    content: str | list[dict[str, Any]]
    """Text, or content blocks as the provider takes them inside a tool result."""
    is_error: bool = False
    facts: tuple[Fact, ...] = ()


def failed(why: str) -> ToolOutput:
    """An answer that says what went wrong and what can be done."""
    return ToolOutput(why, is_error=True)
