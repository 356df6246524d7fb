"""Todo: the list of what there is to do, handed over whole each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from sevenfold.agent.tools.context import Context, Todo
from sevenfold.agent.tools.output import TodosChanged, ToolOutput
from sevenfold.agent.tools.tool import StandardTool
from sevenfold.errors import Refused

_SIGNS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class TodoEntry(Struct, forbid_unknown_fields=True):
    """One thing to do."""

    content: Annotated[
        str, Meta(min_length=1, max_length=1_000, description="What is to be done, as an order.")
    ]
    status: Literal["pending", "in_progress", "completed"]


class TodoInput(Struct, forbid_unknown_fields=True):
    """The list from now on."""

    todos: Annotated[
        list[TodoEntry], Meta(max_length=200, description="All entries, in the order of work.")
    ]


class TodoTool(StandardTool[TodoInput]):
    """Keeps the list."""

    name = "Todo"
    input = TodoInput

    def act(self, given: TodoInput, context: Context) -> ToolOutput:
        """Keep it, and show it."""
        if context.todos is None:
            raise Refused("There is no list of things to do in this session.")
        todos = [Todo(entry.content, entry.status) for entry in given.todos]
        context.todos.set(todos)
        done = sum(todo.status == "completed" for todo in todos)
        return ToolOutput(as_text(todos), facts=(TodosChanged(len(todos) - done, done),))


class TodoList:
    """A list in memory; what `get` gives can be kept, and begun with again."""

    def __init__(self, todos: Sequence[Todo] = ()) -> None:
        self._todos = tuple(todos)

    def get(self) -> Sequence[Todo]:
        """The list as it stands."""
        return self._todos

    def set(self, todos: Sequence[Todo]) -> None:
        """The list from now on; one whose entries are all done is finished and empty."""
        self._todos = tuple(todos) if any(todo.status != "completed" for todo in todos) else ()


def as_text(todos: Sequence[Todo]) -> str:
    """The list as it is shown, to the model and behind a summary."""
    return "\n".join(f"{_SIGNS[todo.status]} {todo.content}" for todo in todos) or "The list is empty."
