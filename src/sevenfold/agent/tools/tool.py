"""What a tool is, and the toolbox that checks and runs calls.

A `Tool` has a name, a description and a schema for the model, a kind for the engine (a result whose tool has a kind can
be had again, so it may be cleared when old), and two methods: `permission_request` says what a call is about to do, and
`run` does it. An `AsyncTool` can also be awaited. `StandardTool` adds typed inputs: a subclass names the class of its
input, and the schema follows from it. A `Toolbox` holds the tools of a session.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, get_args, runtime_checkable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.interrupt import in_own_thread
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.tools import files
from sevenfold.agent.tools.context import Abort, Context
from sevenfold.agent.tools.output import ToolOutput, failed, sendable
from sevenfold.agent.tools.schemas import problems, schema_of, with_arguments, without_nulls
from sevenfold.conversation.flow import Flow
from sevenfold.errors import InputError, SevenfoldError

Kind = Literal["", "read", "shell", "search", "web", "edit", "write"]
Input = Mapping[str, Any]
MOST_PROBLEMS = 10
"""Faults of one input that are reported."""


@runtime_checkable
class Tool(Protocol):
    """Something the model can have done."""

    @property
    def name(self) -> str:
        """What the model calls it by."""

    @property
    def description(self) -> str:
        """What the model reads about it."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of its input."""

    @property
    def kind(self) -> Kind:
        """What the engine takes it for."""

    @property
    def concurrent(self) -> bool:
        """Whether calls may run at the same time as others."""

    def permission_request(self, given: Input, context: Context) -> PermissionRequest:
        """What this call is about to do."""

    def run(self, given: Input, context: Context) -> ToolOutput:
        """Do it; an exception of any class becomes an error result."""


@runtime_checkable
class AsyncTool(Tool, Protocol):
    """A tool that can be awaited."""

    async def run_async(self, given: Input, context: Context) -> ToolOutput:
        """Do it."""


@runtime_checkable
class CheckedTool(Tool, Protocol):
    """A tool that knows of some calls that they cannot succeed, so that the user need not be asked about them."""

    def check(self, given: Input, context: Context) -> None:
        """Raise the error that `run` would raise; changes nothing."""


@runtime_checkable
class FlowTool(Tool, Protocol):
    """A tool whose work is a flow: it may ask models and run tools, and is driven with the agent."""

    def flow(self, given: Input, context: Context) -> Flow[ToolOutput]:
        """Do it."""


Given = TypeVar("Given", bound=Struct)
Service = TypeVar("Service")


class NoInput(Struct, forbid_unknown_fields=True):
    """Nothing is needed."""


class StandardTool(ABC, Generic[Given]):
    """A tool whose input has a type, described by ``texts/<name>.md``; ``GrepTool(StandardTool[GrepInput])``
    is ``Grep``."""

    name: ClassVar[str]
    kind: ClassVar[Kind] = ""
    concurrent: ClassVar[bool] = False
    input: ClassVar[type[Struct]]
    """The class of its input; its fields are the properties the model fills."""
    action: ClassVar[Literal["", "read", "write"]] = ""
    """What it does to the file that the field ``path`` of its input names, if it has one."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__orig_bases__" in vars(cls):
            cls.input = get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined]  # of a generic class
            cls.name = vars(cls).get("name") or cls.__name__.removesuffix("Tool")

    def __init__(self) -> None:
        text = Path(__file__).with_name("texts") / f"{self.name}.md"
        self.description = text.read_text(encoding="utf-8").rstrip("\n")
        self.schema: Mapping[str, Any] = with_arguments(schema_of(self.input))

    def permission_request(self, given: Input, context: Context) -> PermissionRequest:
        """What this call is about to do."""
        return self.requires(self._typed(given), context)

    def run(self, given: Input, context: Context) -> ToolOutput:
        """Do it."""
        return self.act(self._typed(given), context)

    def requires(self, given: Given, context: Context) -> PermissionRequest:
        """What this call is about to do: its action, or nothing that needs permission."""
        if not self.action:
            return PermissionRequest(self.name)
        return files.request(self.name, self.action, getattr(given, "path", ""), context)

    @abstractmethod
    def act(self, given: Given, context: Context) -> ToolOutput:
        """Do it."""

    def _typed(self, given: Input) -> Given:
        typed: Given = msgspec.convert(given, self.input)  # type: ignore[assignment]  # a ClassVar cannot be generic
        return typed


class ServiceTool(StandardTool[Given], Generic[Given, Service]):
    """A tool that works with a part of the session: commands, the team, skills."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self.service = service


class Toolbox:
    """All tools of a session by name; the one place where calls are checked and run.

    Nothing is ever raised into the loop: an unknown tool, an input that does not fit, an exception of any class, one
    that would end a program included, each becomes an error result that says what to do. Names and schemas come in
    the order of names, so that the same tools always give the same bytes.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in sorted(tools, key=lambda one: one.name):
            if tool.name in self._tools:
                raise InputError(f"two tools are called {tool.name!r}; give one of them another name")
            self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)

    def schemas(self) -> list[dict[str, Any]]:
        """The tools as the Messages API takes them."""
        return [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": deepcopy(dict(tool.schema)),
            }
            for tool in self
        ]

    def kinds(self) -> dict[str, str]:
        """The kind of each tool."""
        return {tool.name: tool.kind for tool in self}

    def concurrent(self, name: str) -> bool:
        """Whether calls of this tool may run at the same time as others."""
        tool = self.get(name)
        return tool is not None and tool.concurrent

    def permission_request(self, name: str, given: Any, context: Context) -> PermissionRequest | ToolOutput:
        """What a call is about to do; an error result if it cannot be done at all."""
        try:
            tool, clean = self._checked(name, given)
            request: Any = tool.permission_request(clean, context)
        except BaseException as error:  # noqa: BLE001 (a tool may raise anything; the loop goes on)
            return _failure(name, error)
        if isinstance(request, PermissionRequest):
            return request
        return failed(f"{name} does not say what it will do, so it cannot be permitted.")

    def check(self, name: str, given: Any, context: Context) -> ToolOutput | None:
        """The error result of a call that cannot succeed, as far as its tool can say before it runs."""
        tool = self.get(name)
        if isinstance(tool, CheckedTool):
            try:
                tool.check(given, context)
            except BaseException as error:  # noqa: BLE001 (a tool may raise anything; the loop goes on)
                return _failure(name, error)
        return None

    def flow(self, name: str, given: Any, context: Context) -> Flow[ToolOutput] | None:
        """Carry out a call as a flow; None if the tool is no `FlowTool`, or the input does not fit."""
        tool = self.get(name)
        if not isinstance(tool, FlowTool):
            return None
        try:
            return tool.flow(self._checked(name, given)[1], context)
        except _BadCall:
            return None

    def run(self, name: str, given: Any, context: Context) -> ToolOutput:
        """Carry out a call, in the thread it is made in; ``context.permitted`` is what was permitted."""
        try:
            tool, clean = self._checked(name, given)
            return sendable(tool.run(clean, context), name)
        except BaseException as error:  # noqa: BLE001 (a tool may raise anything; the loop goes on)
            return _failure(name, error)

    async def run_async(self, name: str, given: Any, context: Context) -> ToolOutput:
        """The same, awaited: in a thread of its own unless the tool can be awaited. Cancelling it stops the tool."""
        context = replace(context, abort=Abort(context.abort))
        tool = self.get(name)
        try:
            if isinstance(tool, AsyncTool):
                return sendable(await tool.run_async(self._checked(name, given)[1], context), name)
            return await asyncio.wrap_future(in_own_thread(partial(self.run, name, given, context)))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                # Not this call was cancelled, but something the tool waited for.
                return _failure(name, error)
            context.abort.set()
            raise
        except BaseException as error:  # noqa: BLE001 (a tool may raise anything; the loop goes on)
            return _failure(name, error)

    def _checked(self, name: str, given: Any) -> tuple[Tool, Input]:
        """The tool, and its input as it takes it; raises `_BadCall`."""
        tool = self._tools.get(name)
        if tool is None:
            near = get_close_matches(str(name), self._tools, 1, 0.5)
            hint = (
                f" Did you mean {near[0]}?" if near else f" There are: {', '.join(self._tools) or 'none'}."
            )
            raise _BadCall(f"There is no tool called {name!r}.{hint}")
        if isinstance(given, Mapping):
            given = without_nulls(given, tool.schema)
        wrong = list(islice(problems(given, tool.schema), MOST_PROBLEMS))
        if wrong:
            raise _BadCall(f"Invalid input for {name}: {'; '.join(wrong)}. Correct it and call again.")
        return tool, given


def together(own: Sequence[Tool], others: Iterable[Tool]) -> Toolbox:
    """An agent's own tools and those of its servers; of two with one name, its own counts."""
    names = {tool.name for tool in own}
    return Toolbox([*own, *(tool for tool in others if tool.name not in names)])


class _BadCall(Exception):
    """A call of a tool that does not exist, or with an input that does not fit."""


def _failure(tool: str, error: BaseException) -> ToolOutput:
    try:
        says = str(error)
    except Exception:  # noqa: BLE001 (an error of any class may fail even at saying what it is)
        says = ""
    words = f"{tool} failed: {type(error).__name__}{f': {says}' if says else ''}"
    if isinstance(error, SevenfoldError | _BadCall):
        words = says
    elif isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        words = f"{tool}: the system says: {error.strerror}{where}."
    elif isinstance(error, msgspec.ValidationError):
        words = f"Invalid input for {tool}: {error}. Correct it and call again."
    return sendable(failed(words), tool)
