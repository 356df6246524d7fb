"""The `Tool` interface, and the `Toolbox` that checks and runs calls.

A `Tool` has a name, a description and a schema for the model; a kind for the engine (results of tools with a kind can
be obtained again, so old ones may be cleared); and two methods: `permission_request` says what a call is about to do,
and `run` does it. An `AsyncTool` can also be awaited. `StandardTool` adds typed inputs: a subclass names its input
class, from which the schema is generated. A `Toolbox` holds the tools of a session.
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
"""How many faults of one input are reported."""


@runtime_checkable
class Tool(Protocol):
    """A tool that the model can call."""

    @property
    def name(self) -> str:
        """The name by which the model calls it."""

    @property
    def description(self) -> str:
        """The description that the model sees."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of its input."""

    @property
    def kind(self) -> Kind:
        """The kind of its results; with one, they can be obtained again, so old ones may be cleared."""

    @property
    def concurrent(self) -> bool:
        """Whether its calls may run at the same time as others."""

    def permission_request(self, arguments: Input, context: Context) -> PermissionRequest:
        """The permission this call needs: what it is about to do."""

    def run(self, arguments: Input, context: Context) -> ToolOutput:
        """Carry out the call; any exception becomes an error result."""


@runtime_checkable
class AsyncTool(Tool, Protocol):
    """A tool that can be awaited."""

    async def run_async(self, arguments: Input, context: Context) -> ToolOutput:
        """Carry out the call."""


@runtime_checkable
class CheckedTool(Tool, Protocol):
    """A tool that can tell in advance that a call cannot succeed, so that the user need not be asked about it."""

    def check(self, arguments: Input, context: Context) -> None:
        """Raise the error that `run` would raise, without changing anything."""


@runtime_checkable
class FlowTool(Tool, Protocol):
    """A tool whose work is a flow: it can ask models and run tools, and is driven as part of the agent's flow."""

    def flow(self, arguments: Input, context: Context) -> Flow[ToolOutput]:
        """Carry out the call."""


ToolInput = TypeVar("ToolInput", bound=Struct)
Service = TypeVar("Service")


class NoInput(Struct, forbid_unknown_fields=True):
    """Nothing is needed."""


class StandardTool(ABC, Generic[ToolInput]):
    """A tool with typed input, described in ``texts/<name>.md``; ``GrepTool(StandardTool[GrepInput])`` is ``Grep``."""

    name: ClassVar[str]
    kind: ClassVar[Kind] = ""
    concurrent: ClassVar[bool] = False
    input: ClassVar[type[Struct]]
    """The class of its input; its fields are the properties the model fills in."""
    action: ClassVar[Literal["", "read", "write"]] = ""
    """What it does to the file named by the field ``path`` of its input; empty if it has no such file."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__orig_bases__" in vars(cls):
            cls.input = get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined]  # of a generic class
            cls.name = vars(cls).get("name") or cls.__name__.removesuffix("Tool")

    def __init__(self) -> None:
        text = Path(__file__).with_name("texts") / f"{self.name}.md"
        self.description = text.read_text(encoding="utf-8").rstrip("\n")
        self.schema: Mapping[str, Any] = with_arguments(schema_of(self.input))

    def permission_request(self, arguments: Input, context: Context) -> PermissionRequest:
        """The permission this call needs."""
        return self.requires(self._typed(arguments), context)

    def run(self, arguments: Input, context: Context) -> ToolOutput:
        """Carry out the call."""
        return self.act(self._typed(arguments), context)

    def requires(self, arguments: ToolInput, context: Context) -> PermissionRequest:
        """The permission this call needs, given its typed input: for its ``action`` on a file, if it has one."""
        if not self.action:
            return PermissionRequest(self.name)
        return files.request(self.name, self.action, getattr(arguments, "path", ""), context)

    @abstractmethod
    def act(self, arguments: ToolInput, context: Context) -> ToolOutput:
        """Carry out the call, given its typed input."""

    def _typed(self, arguments: Input) -> ToolInput:
        typed: ToolInput = msgspec.convert(arguments, self.input)  # type: ignore[assignment]  # a ClassVar cannot be generic
        return typed


class ServiceTool(StandardTool[ToolInput], Generic[ToolInput, Service]):
    """A tool that uses one service, passed when it is created: processes, the team, skills, a searcher."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self.service = service


class Toolbox:
    """All tools of a session by name; the only place where calls are checked and run.

    It never raises into the loop: an unknown tool, an invalid input or any exception, including those that would end
    the program, becomes an error result that says what to do. Tools are sorted by name, so that the same tools always
    produce the same bytes.
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        unlisted: Iterable[Tool] = (),
        deferred: Iterable[Tool] = (),
        search: str = "",
    ) -> None:
        """``unlisted`` are tools that can be called but are not sent in requests.

        ``deferred`` are sent, but shown to the model only once the provider's own search has found them; ``search`` is
        its type.
        """
        self._tools: dict[str, Tool] = {}
        self._search = search
        not_sent = list(unlisted)
        to_be_found = list(deferred)
        self._unlisted = frozenset(tool.name for tool in not_sent)
        self._deferred = frozenset(tool.name for tool in to_be_found)
        for tool in sorted([*tools, *not_sent, *to_be_found], key=lambda tool: tool.name):
            if tool.name in self._tools:
                raise InputError(f"two tools are called {tool.name!r}; give one of them another name")
            self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def get(self, name: str) -> Tool | None:
        """The tool of that name; None if there is none."""
        return self._tools.get(name)

    def schemas(self) -> list[dict[str, Any]]:
        """The tool definitions in the format of the Messages API, those that wait to be found last."""
        schemas: list[dict[str, Any]] = []
        if self._search:
            schemas.append({"type": self._search, "name": search_name(self._search)})
        waiting: list[dict[str, Any]] = []
        for tool in self:
            definition = _definition(tool)
            if tool.name in self._deferred:
                waiting.append({**definition, "defer_loading": True})
            elif tool.name not in self._unlisted:
                schemas.append(definition)
        return [*schemas, *waiting]

    def kinds(self) -> dict[str, str]:
        """The kind of each tool, by name; the provider's own search has none."""
        kinds: dict[str, str] = {tool.name: tool.kind for tool in self}
        if self._search:
            kinds[search_name(self._search)] = ""
        return kinds

    def concurrent(self, name: str) -> bool:
        """Whether calls of this tool may run at the same time as others."""
        tool = self.get(name)
        return tool is not None and tool.concurrent

    def permission_request(
        self, name: str, arguments: Any, context: Context
    ) -> PermissionRequest | ToolOutput:
        """The permission a call needs; an error result if the call is invalid."""
        try:
            tool, checked = self._checked(name, arguments)
            request: Any = tool.permission_request(checked, context)
        except BaseException as error:  # noqa: BLE001 (a tool may raise anything; the loop continues)
            return _failure(name, error)
        if isinstance(request, PermissionRequest):
            return request
        return failed(f"{name} does not say what it will do, so it cannot be permitted.")

    def check(self, name: str, arguments: Any, context: Context) -> ToolOutput | None:
        """The error result of a call, if its tool can tell in advance that it cannot succeed; else None."""
        tool = self.get(name)
        if isinstance(tool, CheckedTool):
            try:
                tool.check(arguments, context)
            except BaseException as error:  # noqa: BLE001 (a tool may raise anything; the loop continues)
                return _failure(name, error)
        return None

    def flow(self, name: str, arguments: Any, context: Context) -> Flow[ToolOutput] | None:
        """The flow that carries out a call; None if the tool is not a `FlowTool`, or the input is invalid."""
        tool = self.get(name)
        if not isinstance(tool, FlowTool):
            return None
        try:
            return tool.flow(self._checked(name, arguments)[1], context)
        except _BadCall:
            return None

    def run(self, name: str, arguments: Any, context: Context) -> ToolOutput:
        """Carry out a call in the current thread; ``context.permitted`` is the permitted request."""
        try:
            tool, checked = self._checked(name, arguments)
            return sendable(tool.run(checked, context), name)
        except BaseException as error:  # noqa: BLE001 (a tool may raise anything; the loop continues)
            return _failure(name, error)

    async def run_async(self, name: str, arguments: Any, context: Context) -> ToolOutput:
        """Carry out a call without blocking; a tool that cannot be awaited gets a new thread. Cancelling stops it."""
        context = replace(context, abort=Abort(context.abort))
        tool = self.get(name)
        try:
            if isinstance(tool, AsyncTool):
                return sendable(await tool.run_async(self._checked(name, arguments)[1], context), name)
            return await asyncio.wrap_future(in_own_thread(partial(self.run, name, arguments, context)))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                # It was not this call that was cancelled, but something the tool waited for.
                return _failure(name, error)
            context.abort.set()
            raise
        except BaseException as error:  # noqa: BLE001 (a tool may raise anything; the loop continues)
            return _failure(name, error)

    def _checked(self, name: str, arguments: Any) -> tuple[Tool, Input]:
        """The tool and its input, without meaningless nulls; raises `_BadCall` if the call is invalid."""
        tool = self._tools.get(name)
        if tool is None:
            similar = get_close_matches(str(name), self._tools, 1, 0.5)
            hint = (
                f" Did you mean {similar[0]}?"
                if similar
                else f" There are: {', '.join(self._tools) or 'none'}."
            )
            raise _BadCall(f"There is no tool called {name!r}.{hint}")
        if isinstance(arguments, Mapping):
            arguments = without_nulls(arguments, tool.schema)
        faults = list(islice(problems(arguments, tool.schema), MOST_PROBLEMS))
        if faults:
            raise _BadCall(f"Invalid input for {name}: {'; '.join(faults)}. Correct it and call again.")
        return tool, arguments


def search_name(search: str) -> str:
    """The name of the provider's own search, which is its type without the date."""
    return search.rpartition("_")[0]


def _definition(tool: Tool) -> dict[str, Any]:
    # A copy of the schema, so that no caller changes what the next request sends.
    schema = deepcopy(dict(tool.schema))
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def together(own_tools: Sequence[Tool], server_tools: Iterable[Tool]) -> Toolbox:
    """A toolbox of an agent's own tools and its servers'; if two have the same name, its own takes precedence."""
    names = {tool.name for tool in own_tools}
    return Toolbox([*own_tools, *(tool for tool in server_tools if tool.name not in names)])


class _BadCall(Exception):
    """A call of an unknown tool, or with invalid input."""


def _failure(tool: str, error: BaseException) -> ToolOutput:
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 (an error of any class may fail even at saying what it is)
        message = ""
    text = f"{tool} failed: {type(error).__name__}{f': {message}' if message else ''}"
    if isinstance(error, SevenfoldError | _BadCall):
        text = message
    elif isinstance(error, OSError) and error.strerror:
        location = f" ({error.filename})" if error.filename else ""
        text = f"{tool}: the system says: {error.strerror}{location}."
    elif isinstance(error, msgspec.ValidationError):
        text = f"Invalid input for {tool}: {error}. Correct it and call again."
    return sendable(failed(text), tool)
