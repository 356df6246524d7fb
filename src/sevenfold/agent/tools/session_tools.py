"""Tools that use a service of the session: AskUser, Todo, PlanStart, PlanReady, Recall and memory.

The services are in `Context`; a tool whose service is missing returns an error. While the agent is planning, it may
only read, and write the plan file. The plan survives compactions because it is in that file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from sevenfold.agent.tools import files
from sevenfold.agent.tools.context import Context, Question, Todo
from sevenfold.agent.tools.output import PlanChanged, TodosChanged, ToolOutput, UserAnswered, failed
from sevenfold.agent.tools.tool import NoInput, StandardTool
from sevenfold.conversation.gate import Gate
from sevenfold.errors import InputError, Refused
from sevenfold.memory.commands import MemoryCommand

if TYPE_CHECKING:
    from sevenfold.agent.executor import Consented
    from sevenfold.agent.permissions.engine import Grants
    from sevenfold.agent.standard_tools import StoreRecall
    from sevenfold.recall.search import Hit

LONGEST_PLAN = 50_000
_SIGNS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
_EXCERPT = 1_500
_NEAR = 200
_MATCHED: dict[tuple[str, ...], str] = {
    ("exact",): "the exact text",
    ("meaning",): "similar in meaning only, perhaps about something else",
}


# -- questions -------------------------------------------------------------------------------------


class AskInput(Struct, forbid_unknown_fields=True):
    """What to ask."""

    questions: Annotated[list[Question], Meta(min_length=1, max_length=4)]


class AskUserTool(StandardTool[AskInput]):
    """Asks the user."""

    def act(self, arguments: AskInput, context: Context) -> ToolOutput:
        """Ask the questions, and wait for the answers."""
        if context.ask is None:
            raise Refused(
                "No user is available in this session; decide yourself, and say what you assumed."
            )
        answers = context.ask(arguments.questions, context.abort)
        if answers is None:
            return failed(
                "The user did not answer. Continue without an answer, or stop and say what you need to know."
            )
        pairs = zip(arguments.questions, answers, strict=True)
        text = "\n\n".join(f"{question.question}\n> {answer}" for question, answer in pairs)
        return ToolOutput(text, facts=(UserAnswered(len(answers)),))


# -- to-dos ----------------------------------------------------------------------------------------


class TodoInput(Struct, forbid_unknown_fields=True):
    """The list from now on.

    Args:
        todos: All entries, in working order.
    """

    todos: Annotated[list[Todo], Meta(max_length=200)]


class TodoTool(StandardTool[TodoInput]):
    """Updates the to-do list."""

    def act(self, arguments: TodoInput, context: Context) -> ToolOutput:
        """Replace the list, and show it."""
        if context.todos is None:
            raise Refused("There is no to-do list in this session.")
        context.todos.set(arguments.todos)
        done = sum(todo.status == "completed" for todo in arguments.todos)
        fact = TodosChanged(len(arguments.todos) - done, done)
        return ToolOutput(todo_text(arguments.todos), facts=(fact,))


class TodoList:
    """A to-do list; ``changed`` is called after each change."""

    def __init__(self, todos: Sequence[Todo] = (), changed: Callable[[], None] = lambda: None) -> None:
        self._todos = tuple(todos)
        self._changed = changed

    def get(self) -> Sequence[Todo]:
        """The current list."""
        return self._todos

    def set(self, todos: Sequence[Todo]) -> None:
        """Replace the list; if all entries are completed, clear it."""
        self._todos = tuple(todos) if any(todo.status != "completed" for todo in todos) else ()
        self._changed()


def todo_text(todos: Sequence[Todo]) -> str:
    """The list as the model sees it, in tool results and after a compaction."""
    return "\n".join(f"{_SIGNS[todo.status]} {todo.content}" for todo in todos) or "The list is empty."


# -- plans -----------------------------------------------------------------------------------------


class ReadyInput(Struct, forbid_unknown_fields=True):
    """The plan.

    Args:
        plan: The whole plan, as Markdown, for the user.
    """

    plan: Annotated[str, Meta(min_length=1, max_length=LONGEST_PLAN)]


class PlanStartTool(StandardTool[NoInput]):
    """Starts planning."""

    def act(self, arguments: NoInput, context: Context) -> ToolOutput:
        """Start planning: from now on, nothing but the plan file may be changed."""
        plans = _plans(context)
        plans.enter()
        text = (
            "You are planning now: explore, but change nothing. Notes for the plan may be written to "
            f"{plans.path}. When the plan is complete, hand it over with PlanReady."
        )
        return ToolOutput(text, facts=(PlanChanged(True, str(plans.path)),))


class PlanReadyTool(StandardTool[ReadyInput]):
    """Submits the plan to the user."""

    def act(self, arguments: ReadyInput, context: Context) -> ToolOutput:
        """Save the plan, and ask the user to approve it."""
        plans = _plans(context)
        if not plans.planning:
            raise Refused("You are not planning; begin with PlanStart, or simply do the work.")
        answer = plans.submit(arguments.plan)
        fact = PlanChanged(plans.planning, str(plans.path))
        remark = f" The user says: {answer.remark}" if answer.remark else ""
        if not answer.granted:
            text = f"The plan was not approved.{remark} Revise it, and submit it again."
            return ToolOutput(text, is_error=True, facts=(fact,))
        return ToolOutput(
            f"The plan is approved; it is in {plans.path}. Carry it out.{remark}", facts=(fact,)
        )


class PlanFile:
    """The plan, stored in a file, and planning as a permission mode; ``approve`` asks the user to approve a plan."""

    def __init__(
        self, path: Path, grants: Grants, approve: Callable[[str], Consented], gate: Gate | None = None
    ) -> None:
        self._gate = gate
        self.path = path
        """The file with the plan."""
        self._grants = grants
        self.approve = approve
        """Asks the user, or the team's leader, to approve a plan."""

    @property
    def planning(self) -> bool:
        """Whether the agent is planning and may not change anything but the plan yet."""
        return self._grants.mode == "plan"

    def text(self) -> str:
        """The current plan; empty if there is none."""
        real = str(self.path.resolve())
        return files.content(real).decode(errors="replace") if files.exists(real) else ""

    def enter(self) -> None:
        """Start planning."""
        self._grants.mode = "plan"

    def leave(self) -> None:
        """Stop planning, and return to the mode from before."""
        if self.planning:
            self._grants.mode = self._grants.after_planning

    def submit(self, plan: str) -> Consented:
        """Save the plan and ask for approval; planning ends if it is granted."""
        plan = self._gate.text(plan) if self._gate else plan
        real = str(self.path.resolve())
        version = files.version(files.content(real)) if files.exists(real) else None
        files.write(real, plan.encode(errors="replace"), version)
        answer = self.approve(plan)
        if answer.granted:
            self.leave()
        return answer


def _plans(context: Context) -> PlanFile:
    if context.plans is None:
        raise Refused("Plans are not kept in this session; tell the user what you intend to do instead.")
    return context.plans


# -- recall ----------------------------------------------------------------------------------------


class RecallInput(Struct, forbid_unknown_fields=True):
    """What to find, or which record to fetch.

    Args:
        query: Words, a path, an error text: what you remember of it.
        kind: Only what the user said, what you said, calls (edit: file changes), results or errors.
        record: The id of a record found earlier, to show it in full.
        limit: How many records to show.
        offset: Where to continue in a long record, in characters.
    """

    query: str = ""
    kind: Literal["user", "assistant", "tool_use", "edit", "tool_result", "error", "summary"] | None = None
    record: str = ""
    limit: Annotated[int, Meta(ge=1, le=30)] = 8
    offset: Annotated[int, Meta(ge=0)] = 0


class RecallTool(StandardTool[RecallInput]):
    """Searches content that has left the context."""

    concurrent = True

    def act(self, arguments: RecallInput, context: Context) -> ToolOutput:
        """Search for a query, or fetch a record."""
        if context.recall is None:
            raise Refused("What has left the view cannot be searched in this session.")
        if arguments.record:
            return ToolOutput(_record(context.recall, arguments, context.room))
        if not arguments.query.strip():
            raise InputError("Say what to look for in query, or name a record.")
        hits = context.recall.search(arguments.query, kind=arguments.kind, k=arguments.limit)
        return ToolOutput(_hits(hits, context.room))


def _record(recall: StoreRecall, arguments: RecallInput, room: int) -> str:
    content = recall.fetch(arguments.record).decode(errors="replace")
    shown = content[arguments.offset : arguments.offset + room]
    remaining = len(content) - arguments.offset - len(shown)
    if remaining <= 0:
        return shown
    return f"{shown}\n({remaining:,} more characters; offset={arguments.offset + len(shown)})"


_WEAK = (
    "Nothing matches well: what you are looking for was probably never said. The nearest records, which may be about"
    " something else:"
)


def _hits(hits: Sequence[Hit], room: int) -> str:
    if not hits:
        return "No matches. Try fewer or different words: names, paths, numbers or error texts work best."
    shown: list[str] = []
    whole_room = room
    if hits[0].weak:
        shown.append(_WEAK)
        room -= len(_WEAK) + 2
    for hit in hits:
        source = f"{hit.kind} ({hit.tool})" if hit.tool else hit.kind
        matched_by = _MATCHED.get(hit.matched, " and ".join(hit.matched))
        heading = (f"record {hit.uuid}", hit.timestamp or "no time", source, matched_by)
        lines = [" · ".join(filter(None, heading))]
        lines += [f"  before, {neighbour.kind}: {_line(neighbour.text)}" for neighbour in hit.before]
        lines += [hit.excerpt[:_EXCERPT]]
        lines += [f"  after, {neighbour.kind}: {_line(neighbour.text)}" for neighbour in hit.after]
        text = "\n".join(lines)
        room -= len(text) + 2
        if room < 0:
            break
        shown.append(text)
    return "\n\n".join(shown or [text[:whole_room]])


def _line(text: str) -> str:
    return " ".join(text.split())[:_NEAR]


# -- memory ----------------------------------------------------------------------------------------


class MemoryTool(StandardTool[MemoryCommand]):
    """Views and changes the memory that outlives the session.

    Its name, commands and fields are those of the Messages API's ``memory_20250818``, so models know how to use it.
    Because it is sent as a plain function, it works with every provider.
    """

    name = "memory"

    def act(self, arguments: MemoryCommand, context: Context) -> ToolOutput:
        """Carry out a memory command."""
        if context.memory is None:
            raise Refused("This session has no lasting memory.")
        return ToolOutput(context.memory.carry_out(arguments))


SESSION_TOOLS = (TodoTool, PlanStartTool, PlanReadyTool, AskUserTool, RecallTool)
"""The session tools among the standard tools."""
