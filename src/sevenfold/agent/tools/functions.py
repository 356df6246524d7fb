"""Any Python function as a tool: the schema comes from its type hints, the description from its docstring.

Functions may be plain, `async` or generators; without hints and docstring, the model sees little more than the name. A
parameter is described by ``Annotated[int, "how many"]`` or in the docstring's list of arguments. A parameter of type
`Context` is not shown to the model: it receives the context of the call. A parameter that no schema can describe is
rejected by name when the tool is created.

Text that a function returns is passed on unchanged, everything else as JSON: dataclasses, models, dates, paths, sets
etc. by their contents. A value that could only be shown as a memory address is an error that names its type, because
a model would make up its meaning.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Set
from functools import partial
from inspect import Parameter
from numbers import Number
from os import PathLike, fspath
from pathlib import Path, PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from sevenfold.agent.interrupt import LeftBehind, await_interruptibly, in_own_thread
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.read import MOST_IMAGE_BYTES, image_block, picture
from sevenfold.agent.tools.schemas import plain, read_docstring, schema_of
from sevenfold.agent.tools.tool import Input, Kind, Tool
from sevenfold.errors import InputError

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""The property names that providers accept."""
_BYTES = (bytes, bytearray, memoryview)
_STOPPED = "[stopped here]"


def function_tool(
    function: Callable[..., Any],
    *,
    kind: Kind = "",
    name: str = "",
    description: str = "",
    concurrent: bool = False,
    asks: bool = False,
) -> Tool:
    """Make a tool from a function, plain or async; raises `InputError` if a model could not call it.

    With a ``kind``, old results may be cleared since they can be obtained again; with ``asks``, calls need permission.
    """
    if not callable(function):
        raise InputError(f"tools must be functions or tools, got {function!r}")
    unwrapped = _unwrapped(function)
    name = name or getattr(unwrapped, "__name__", "") or type(unwrapped).__name__
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot be the name of a tool: letters, digits, _ and -; pass name=…")
    summary, argument_descriptions = read_docstring(inspect.getdoc(unwrapped) or "")
    description = description or summary or f"{name.replace('_', ' ').strip().capitalize()}."
    cls = _AsyncFunctionTool if _is_async(function) else FunctionTool
    parameters = _Parameters.of(function, name, argument_descriptions)
    can_stop = bool(parameters.context) or inspect.isgeneratorfunction(unwrapped) or _is_async(function)
    return cls(name, description, parameters.schema, kind, concurrent, asks, can_stop, function, parameters)


class FunctionTool(Struct, eq=False):
    """A tool that calls a function."""

    name: str
    description: str
    schema: Mapping[str, Any]
    kind: Kind
    """Not empty if its results can be obtained again, so old ones may be cleared."""
    concurrent: bool
    asks: bool
    """Whether every call needs permission."""
    can_stop: bool
    """Whether it can notice that it should stop; a plain function cannot be stopped from outside."""
    function: Callable[..., Any]
    parameters: _Parameters

    def permission_request(self, arguments: Input, context: Context) -> PermissionRequest:
        """Permission for a ``call`` if it ``asks``, else ``none``; only its author knows what the function does."""
        return PermissionRequest(self.name, "call" if self.asks else "none")

    def run(self, arguments: Input, context: Context) -> ToolOutput:
        """Call the function; if it is a generator, report what it yields as progress."""
        returned = self._called(arguments, context)
        if inspect.isawaitable(returned) or isinstance(returned, AsyncIterator):
            return _await_in_thread(returned, context)
        return _drained(returned, context) if isinstance(returned, Iterator) else _as_output(returned)

    def _called(self, arguments: Input, context: Context) -> Any:
        positional, named = self.parameters.bind(arguments, context)
        return self.function(*positional, **named)


class _AsyncFunctionTool(FunctionTool):
    """A tool that awaits an async function; `run` does so in a new event loop."""

    async def run_async(self, arguments: Input, context: Context) -> ToolOutput:
        """Await the function."""
        return await _awaited(self._called(arguments, context), context)


# -- calling -------------------------------------------------------------------------------------


async def _awaited(awaitable: Any, context: Context) -> ToolOutput:
    """Await a coroutine, or drain an async iterator; returns its result."""
    if not isinstance(awaitable, AsyncIterator):
        return _as_output(await awaitable)
    texts: list[str] = []
    async for item in awaitable:
        _add_text(item, texts, context)
        if context.abort.is_set():
            if isinstance(awaitable, AsyncGenerator):
                await awaitable.aclose()
            texts.append(_STOPPED)
            break
    return ToolOutput(_lines(texts))


def _await_in_thread(awaitable: Any, context: Context) -> ToolOutput:
    """Like `_awaited`, but in a new thread, because this one may be running an event loop; stops with the call."""
    waiting = await_interruptibly(_awaited(awaitable, context), context.abort.is_set, 0.0)
    try:
        return in_own_thread(partial(asyncio.run, waiting)).result()
    except LeftBehind:
        return failed(_STOPPED)


def _drained(iterator: Iterator[Any], context: Context) -> ToolOutput:
    """Drain an iterator until it ends or the call should stop; returns its return value, else all it yielded."""
    texts: list[str] = []
    try:
        while not context.abort.is_set():
            _add_text(next(iterator), texts, context)
    except StopIteration as end:
        return ToolOutput(_lines(texts)) if end.value is None else _as_output(end.value)
    if isinstance(iterator, Generator):
        iterator.close()
    return ToolOutput(_lines([*texts, _STOPPED]))


def _add_text(item: Any, texts: list[str], context: Context) -> None:
    texts.append(_text_of(item))
    context.progress(f"{_lines(texts[-1:])}\n")


def _lines(texts: list[str]) -> str:
    return "\n".join(text.removesuffix("\n") for text in texts)


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind a partial application."""
    while isinstance(function, partial):
        function = function.func
    return function


def _is_async(function: Callable[..., Any]) -> bool:
    called = getattr(_unwrapped(function), "__call__", None)  # noqa: B004 (an object's own call may be async)
    return any(
        inspect.iscoroutinefunction(candidate) or inspect.isasyncgenfunction(candidate)
        for candidate in (function, called)
    )


# -- parameters ----------------------------------------------------------------------------------


class _Parameters(Struct, frozen=True):
    """The parameters of a function: their schema, and how an input becomes arguments.

    Two hooks handle types that JSON cannot represent: `_schema_hook` returns the schema the model sees, `_decode_hook`
    makes the value. So a parameter may be a path, or a class that describes and checks itself as pydantic's models do.
    """

    input: type[Struct]
    schema: Mapping[str, Any]
    kinds: Mapping[str, Any]
    """How each parameter is passed, in order."""
    context: frozenset[str]
    """The names of the parameters that receive the context of the call."""

    @classmethod
    def of(cls, function: Callable[..., Any], tool: str, descriptions: Mapping[str, str]) -> _Parameters:
        """Read the parameters from a function's signature; ``descriptions`` are those from its docstring, by name."""
        signature = _signature(function, tool)
        hints = _hints(function, tool)
        context = frozenset(name for name in signature.parameters if hints.get(name) is Context)
        fields: list[tuple[str, Any, Any]] = []
        for name, parameter in signature.parameters.items():
            if name not in context:
                hint = _described(_simple(hints.get(name, Any)), descriptions.get(name, ""))
                _check(tool, name, hint)
                fields.append((name, *_field(hint, parameter)))
        input_type = msgspec.defstruct(f"{tool}_input", fields, kw_only=True, forbid_unknown_fields=True)
        kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
        return cls(input_type, schema_of(input_type, _schema_hook), kinds, context)

    def bind(self, arguments: Input, context: Context) -> tuple[list[Any], dict[str, Any]]:
        """The positional and keyword arguments of one call."""
        typed = msgspec.convert(arguments, self.input, dec_hook=_decode_hook)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for name, kind in self.kinds.items():
            value: Any = context if name in self.context else getattr(typed, name)
            match kind:
                case Parameter.VAR_POSITIONAL:
                    positional += value
                case Parameter.VAR_KEYWORD:
                    named |= value
                case Parameter.KEYWORD_ONLY:
                    named[name] = value
                case _:
                    positional.append(value)
        return positional, named


def _signature(function: Callable[..., Any], tool: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{tool}: Python does not know which parameters it takes; wrap it in a function that names them"
        ) from error


def _hints(function: Callable[..., Any], tool: str) -> dict[str, Any]:
    target: Any = _unwrapped(function)
    if isinstance(target, type):
        target = vars(target).get("__init__", target)
    elif not hasattr(target, "__annotations__"):
        target = type(target).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except (NameError, TypeError) as error:
        raise InputError(
            f"{tool}: its type hints cannot be resolved ({error}); import what they name"
        ) from error


def _simple(hint: Any) -> Any:
    """The hint without path types, if it is a union that also has ``str``, which is enough."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else ()
    if str not in members:
        return hint
    members_left = tuple(member for member in members if not _is_subclass(member, PurePath))
    return Union[members_left]  # noqa: UP007 (made from what is left)


def _described(hint: Any, description: str) -> Any:
    """The hint with its description in a `Meta`, where msgspec looks for it."""
    if get_origin(hint) is Annotated:
        inner, *annotations = get_args(hint)
        metas = [annotation for annotation in annotations if isinstance(annotation, Meta)]
        for meta in metas:
            inner = Annotated[inner, meta]
        hint = _simple(inner)
        description = next(filter(None, map(_annotation, annotations)), description)
        if any(meta.description for meta in metas):
            description = ""
    if not description and _is_subclass(hint, tuple) and hasattr(hint, "_fields"):
        description = f"The values of {', '.join(hint._fields)}, in this order."
    return Annotated[hint, Meta(description=description)] if description else hint


def _annotation(annotation: Any) -> str:
    """The text of an annotation: a string, or the description of an object such as pydantic's ``Field``; else empty."""
    if isinstance(annotation, str):
        return annotation
    text = getattr(annotation, "description", None) or getattr(annotation, "documentation", None)
    return text if isinstance(text, str) and not isinstance(annotation, Meta) else ""


def _check(tool: str, name: str, hint: Any) -> None:
    if not _PROPERTY.fullmatch(name):
        raise InputError(
            f"{tool}: no provider takes {name!r} as the name of a parameter: up to 64 letters from a to z, "
            "digits, _, - and ."
        )
    try:
        schema_of(hint, _schema_hook)
    except InputError as error:
        raise InputError(
            f"{tool}: parameter {name}: {error} Use str, int, float, bool, None, list, dict, Literal, an enum, a path, "
            "a date, a dataclass, a TypedDict, a pydantic model or a union of these with one class at most."
        ) from error


def _field(hint: Any, parameter: Parameter) -> tuple[Any, Any]:
    """The type and default of a field; ``*args`` become a list, ``**kwargs`` an object."""
    match parameter.kind:
        case Parameter.VAR_POSITIONAL:
            return list[hint], msgspec.field(default_factory=list)
        case Parameter.VAR_KEYWORD:
            return dict[str, hint], msgspec.field(default_factory=dict)
        case _:
            return hint, _default(parameter.default)


def _default(value: Any) -> Any:
    if value is Parameter.empty:
        return msgspec.NODEFAULT
    if isinstance(value, list | dict | set | bytearray):
        return msgspec.field(default_factory=lambda: copy.deepcopy(value))
    try:
        msgspec.to_builtins(value)
    except (TypeError, ValueError, RecursionError):
        # No schema can show this default, but the parameter may still be left out.
        return msgspec.field(default_factory=lambda: value)
    return value


def _schema_hook(kind: Any) -> dict[str, Any]:
    """The schema of a type that JSON cannot represent; raises NotImplementedError if it is unknown."""
    if _is_subclass(kind, PurePath):
        return {"type": "string"}
    if hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate"):
        return plain(kind.model_json_schema())
    raise NotImplementedError


def _decode_hook(kind: Any, value: Any) -> Any:
    """Create a value of a type that `_schema_hook` knows."""
    if _is_subclass(kind, PurePath):
        return (Path if kind is PurePath else kind)(value)
    try:
        return kind.model_validate(value)
    except ValueError as error:
        list_errors = getattr(error, "errors", None)
        if list_errors is None:
            raise
        # On one line: pydantic's own message has many, with links to its manual.
        faults = (f"{'.'.join(map(str, fault['loc'])) or 'it'}: {fault['msg']}" for fault in list_errors())
        raise ValueError("; ".join(faults)) from None


def _is_subclass(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and kind is not NoneType and issubclass(kind, base)


# -- results -------------------------------------------------------------------------------------


def _as_output(returned: Any) -> ToolOutput:
    """The tool output for a function's return value."""
    if isinstance(returned, ToolOutput):
        return returned
    if isinstance(returned, _BYTES):
        raw = bytes(returned)
        kind = picture(raw)
        if kind and len(raw) <= MOST_IMAGE_BYTES:
            return ToolOutput([image_block(raw, kind)])
    try:
        return ToolOutput(_text_of(returned))
    except RecursionError:
        return failed(
            f"It returned a {_class_name(returned)} that contains itself, or is nested too deeply to show."
        )
    except (TypeError, ValueError, OverflowError) as error:
        return failed(f"It returned a {_class_name(returned)} that cannot be shown: {error}")


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    tree = _plain(msgspec.to_builtins(value, builtin_types=_BYTES, enc_hook=_encode_hook))
    return tree if isinstance(tree, str) else json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


def _encode_hook(value: Any) -> Any:
    """Convert an object that JSON cannot represent into its contents; called until everything is plain data."""
    match value:
        case PathLike():
            return fspath(value)
        case Mapping():
            return dict(value)
        case Set() | range():
            return list(value)
        case BaseException():
            return f"{type(value).__name__}: {value}"
        case Number():
            return value.tolist() if hasattr(value, "tolist") else str(value)
    for method, options in (("model_dump", {"mode": "json"}), ("to_dict", {}), ("tolist", {})):
        if not isinstance(value, type) and callable(dump := getattr(value, method, None)):
            return dump(**options)
    if getattr(type(value), "__str__", None) is not getattr(object, "__str__", None):
        return str(value)
    raise TypeError(f"a {_class_name(value)} has no form in JSON; return text, or its contents")


def _plain(tree: Any) -> Any:
    """A tree as JSON can hold it; binary data and numbers that are not finite become texts that name them."""
    match tree:
        case dict():
            return {
                key if isinstance(key, str) else _text_of(key): _plain(item) for key, item in tree.items()
            }
        case list() | tuple():
            return [_plain(item) for item in tree]
        case bytes() | bytearray() | memoryview():
            raw = bytes(tree)
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return f"[{len(raw):,} bytes that are not text]"
        case float() if not math.isfinite(tree):
            return str(tree)
        case _:
            return tree


def _class_name(value: Any) -> str:
    return type(value).__qualname__.rpartition(".")[2]
