"""Any Python function as a tool: the schema comes from its type hints, the words from its docstring.

Dataclasses, TypedDicts, Structs, Literals, Optionals and defaults are all understood. A parameter is described by
``Annotated[int, "how many"]`` or in the docstring's list of arguments. A parameter whose type is `Context` is not
shown to the model: it gets the context of the call. What JSON has no shape for is refused when the tool is made,
with the parameter's name.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import re
import textwrap
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from sevenfold.errors import InputError
from sevenfold.tools.context import Context
from sevenfold.tools.output import ToolOutput
from sevenfold.tools.schemas import schema_of
from sevenfold.tools.tool import Input, Kind, Tool
from sevenfold.tools.wish import Wish

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ARGUMENTS = re.compile(r"^(?:Args|Arguments|Parameters):\s*$")
_SECTION = re.compile(r"^[A-Z]\w*:\s*$")
_LISTED = re.compile(r"^\s+\**(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
_FIELD = re.compile(r"^\s*:param\s+(?:[^:]*\s)?(\w+):\s*(.*)$")


def function_tool(
    function: Callable[..., Any],
    *,
    kind: Kind = "",
    name: str = "",
    description: str = "",
    concurrent: bool = False,
    asks: bool = False,
) -> Tool:
    """A function, sync or async, as a tool.

    ``kind`` says that its results can be had again and may be cleared when old; ``asks`` that it needs permission.
    """
    name = name or getattr(function, "__name__", "")
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot be the name of a tool: letters, digits, _ and -; pass name=…")
    words, listed = _documented(function)
    if not (description or words):
        raise InputError(
            f"{name}: the model needs to know what it does; give the function a docstring or pass description=…"
        )
    made = _AwaitedFunction if _is_async(function) else _Function
    return made(
        function, name, description or words, _Parameters.of(function, name, listed), kind, concurrent, asks
    )


class _Parameters(Struct, frozen=True):
    """What a function takes, as a class of inputs."""

    input: type[Struct]
    schema: Mapping[str, Any]
    positional: tuple[str, ...]
    context: tuple[str, ...]

    @classmethod
    def of(cls, function: Callable[..., Any], tool: str, listed: Mapping[str, str]) -> _Parameters:
        signature = inspect.signature(function)
        hints = _hints(function, tool)
        fields: list[tuple[str, Any, Any]] = []
        context = tuple(name for name in signature.parameters if hints.get(name) is Context)
        for name, parameter in signature.parameters.items():
            if name not in context:
                hint = _described(_hint_of(parameter, hints, tool), listed.get(name, ""))
                _check(tool, name, hint)
                fields.append((name, hint, _default(parameter)))
        given = msgspec.defstruct(f"{tool}_input", fields, kw_only=True, forbid_unknown_fields=True)
        positional = tuple(
            name
            for name, one in signature.parameters.items()
            if one.kind is inspect.Parameter.POSITIONAL_ONLY
        )
        return cls(given, schema_of(given), positional, context)

    def bind(self, given: Input, context: Context) -> tuple[list[Any], dict[str, Any]]:
        typed = msgspec.convert(given, self.input)
        named = {name: getattr(typed, name) for name in self.input.__struct_fields__}
        named.update(dict.fromkeys(self.context, context))
        return [named.pop(name) for name in self.positional], named


class _Function:
    """A function that is called."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        description: str,
        parameters: _Parameters,
        kind: Kind,
        concurrent: bool,
        asks: bool,
    ) -> None:
        self.name = name
        self.description = description
        self.kind = kind
        self.concurrent = concurrent
        self.schema = parameters.schema
        self._asks = asks
        self._function = function
        self._parameters = parameters

    def wish(self, given: Input, context: Context) -> Wish:
        """The function's own deed, which only its author knows."""
        return Wish(self.name, "call" if self._asks else "none")

    def run(self, given: Input, context: Context) -> ToolOutput:
        """Call it."""
        positional, named = self._parameters.bind(given, context)
        return _output(self._function(*positional, **named))


class _AwaitedFunction(_Function):
    """A function that is awaited; from code that does not await, in an event loop of its own."""

    def run(self, given: Input, context: Context) -> ToolOutput:
        """Await it in a thread of its own: there may be a loop running in this one."""
        came: list[ToolOutput | BaseException] = []

        def work() -> None:
            try:
                came.append(asyncio.run(self.run_async(given, context)))
            except BaseException as error:  # noqa: BLE001 (raised again in the thread that waits)
                came.append(error)

        thread = threading.Thread(target=work, name=f"tool {self.name}")
        thread.start()
        thread.join()
        if isinstance(came[0], BaseException):
            raise came[0]
        return came[0]

    async def run_async(self, given: Input, context: Context) -> ToolOutput:
        """Await it."""
        positional, named = self._parameters.bind(given, context)
        coming: Coroutine[Any, Any, Any] = self._function(*positional, **named)
        return _output(await coming)


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 (an object whose call is a coroutine function)
    )


def _output(came: Any) -> ToolOutput:
    if isinstance(came, ToolOutput):
        return came
    if isinstance(came, str):
        return ToolOutput(came)
    try:
        return ToolOutput(msgspec.json.encode(came).decode())
    except (TypeError, ValueError, OverflowError):
        return ToolOutput(str(came))


def _hints(function: Callable[..., Any], tool: str) -> dict[str, Any]:
    target = function if hasattr(function, "__annotations__") else type(function).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except (NameError, TypeError) as error:
        raise InputError(
            f"{tool}: its type hints cannot be resolved ({error}); import what they name"
        ) from error


def _hint_of(parameter: inspect.Parameter, hints: Mapping[str, Any], tool: str) -> Any:
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise InputError(f"{tool}: a tool cannot take {parameter}; name each parameter")
    if parameter.name not in hints:
        raise InputError(
            f"{tool}: parameter {parameter.name} has no type hint; give it one, for example str"
        )
    return hints[parameter.name]


def _described(hint: Any, listed: str) -> Any:
    """The hint with its description where JSON schemas have theirs."""
    if get_origin(hint) is Annotated:
        inner, *about = get_args(hint)
        words = [one for one in about if isinstance(one, str)]
        metas = [one for one in about if isinstance(one, Meta)]
        for meta in metas:
            inner = Annotated[inner, meta]
        hint, listed = inner, (words or [listed])[0]
        if any(meta.description for meta in metas):
            listed = ""
    return Annotated[hint, Meta(description=listed)] if listed else hint


def _check(tool: str, name: str, hint: Any) -> None:
    try:
        schema_of(hint)
    except InputError as error:
        raise InputError(
            f"{tool}: parameter {name}: {error} Use str, int, float, bool, None, list, dict, Literal, an enum, "
            "a dataclass, a TypedDict or a union of these."
        ) from error


def _default(parameter: inspect.Parameter) -> Any:
    value = parameter.default
    if value is inspect.Parameter.empty:
        return msgspec.NODEFAULT
    if isinstance(value, list | dict | set | bytearray):
        return msgspec.field(default_factory=lambda: copy.deepcopy(value))
    return value


def _documented(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What a docstring says of the function, and of each argument."""
    said: list[str] = []
    arguments: dict[str, str] = {}
    listing, last, indent = False, "", 0
    for line in (inspect.getdoc(function) or "").splitlines():
        if found := _FIELD.match(line):
            last, indent = found[1], len(line) - len(line.lstrip())
            arguments[last] = found[2]
        elif _ARGUMENTS.match(line):
            listing = True
        elif listing and (line.startswith((" ", "\t")) or not line.strip()):
            depth = len(line) - len(line.lstrip())
            if (found := _LISTED.match(line)) and (not last or depth <= indent):
                last, indent = found[1], depth
                arguments[last] = found[2]
            elif last:
                arguments[last] = f"{arguments[last]} {line.strip()}".strip()
        elif _SECTION.match(line) and said:
            break
        else:
            listing = False
            said.append(line)
    return textwrap.dedent("\n".join(said)).strip(), arguments
