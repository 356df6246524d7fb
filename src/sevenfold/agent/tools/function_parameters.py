"""What a function takes, as the schema of a tool, and an input for it as the function's arguments.

Types that JSON knows nothing of come in through two hooks: one says which schema a model is shown, the other makes the
value. So a parameter may be a path, or a class that describes and checks itself the way pydantic's models do.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from inspect import Parameter
from pathlib import Path, PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.schemas import plain, schema_of
from sevenfold.agent.tools.tool import Input
from sevenfold.errors import InputError

_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""What providers take as the name of a property."""


class Parameters(Struct, frozen=True):
    """What a function takes."""

    input: type[Struct]
    schema: Mapping[str, Any]
    kinds: Mapping[str, Any]
    """How each parameter is passed, in order."""
    context: frozenset[str]
    """Those that get the context of the call."""

    @classmethod
    def of(cls, function: Callable[..., Any], tool: str, listed: Mapping[str, str]) -> Parameters:
        """Read them off a function; ``listed`` is what its docstring says of them."""
        signature = _signature(function, tool)
        hints = _hints(function, tool)
        context = frozenset(name for name in signature.parameters if hints.get(name) is Context)
        fields: list[tuple[str, Any, Any]] = []
        for name, parameter in signature.parameters.items():
            if name not in context:
                hint = _described(_simple(hints.get(name, Any)), listed.get(name, ""))
                _check(tool, name, hint)
                fields.append((name, _gathered(hint, parameter), _default(parameter)))
        given = msgspec.defstruct(f"{tool}_input", fields, kw_only=True, forbid_unknown_fields=True)
        kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
        return cls(given, schema_of(given, _shape), kinds, context)

    def bind(self, given: Input, context: Context) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of one call."""
        typed = msgspec.convert(given, self.input, dec_hook=_made)
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


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a partial application is one of."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _signature(function: Callable[..., Any], tool: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{tool}: Python does not know which parameters it takes; wrap it in a function that names them"
        ) from error


def _hints(function: Callable[..., Any], tool: str) -> dict[str, Any]:
    target: Any = unwrapped(function)
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
    """Where a function takes a text or a path, the text will do."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else ()
    if str not in members:
        return hint
    kept = tuple(one for one in members if not _is(one, PurePath))
    return Union[kept]  # noqa: UP007 (made from what is left)


def _described(hint: Any, listed: str) -> Any:
    """The hint with its description where JSON schemas have theirs."""
    if get_origin(hint) is Annotated:
        inner, *about = get_args(hint)
        metas = [one for one in about if isinstance(one, Meta)]
        for meta in metas:
            inner = Annotated[inner, meta]
        hint, listed = _simple(inner), next(filter(None, map(_words, about)), listed)
        if any(meta.description for meta in metas):
            listed = ""
    if not listed and _is(hint, tuple) and hasattr(hint, "_fields"):
        listed = f"The values of {', '.join(hint._fields)}, in this order."
    return Annotated[hint, Meta(description=listed)] if listed else hint


def _words(about: Any) -> str:
    """What an annotation says: a text, or an object that describes, as those of pydantic and typing do."""
    if isinstance(about, str):
        return about
    said = getattr(about, "description", None) or getattr(about, "documentation", None)
    return said if isinstance(said, str) and not isinstance(about, Meta) else ""


def _check(tool: str, name: str, hint: Any) -> None:
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{tool}: no provider takes {name!r} as the name of a parameter: up to 64 letters from a to z, "
            "digits, _, - and ."
        )
    try:
        schema_of(hint, _shape)
    except InputError as error:
        raise InputError(
            f"{tool}: parameter {name}: {error} Use str, int, float, bool, None, list, dict, Literal, an enum, a path, "
            "a date, a dataclass, a TypedDict, a pydantic model or a union of these with one class at most."
        ) from error


def _gathered(hint: Any, parameter: Parameter) -> Any:
    """Any number of arguments are one property: a list of them, or an object."""
    match parameter.kind:
        case Parameter.VAR_POSITIONAL:
            return list[hint]
        case Parameter.VAR_KEYWORD:
            return dict[str, hint]
        case _:
            return hint


def _default(parameter: Parameter) -> Any:
    value = parameter.default
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return msgspec.field(default_factory=list)
    if parameter.kind is Parameter.VAR_KEYWORD:
        return msgspec.field(default_factory=dict)
    if value is Parameter.empty:
        return msgspec.NODEFAULT
    if isinstance(value, list | dict | set | bytearray):
        return msgspec.field(default_factory=lambda: copy.deepcopy(value))
    try:
        msgspec.to_builtins(value)
    except (TypeError, ValueError, RecursionError):
        # No schema can show it; the parameter may be left out all the same.
        return msgspec.field(default_factory=lambda: value)
    return value


def _shape(kind: Any) -> dict[str, Any]:
    """The schema of a type JSON knows nothing of."""
    if _is(kind, PurePath):
        return {"type": "string"}
    if hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate"):
        return plain(kind.model_json_schema())
    raise NotImplementedError


def _made(kind: Any, given: Any) -> Any:
    """A value of such a type."""
    if _is(kind, PurePath):
        return (Path if kind is PurePath else kind)(given)
    try:
        return kind.model_validate(given)
    except ValueError as error:
        raise ValueError(_faults(error)) from None


def _faults(error: ValueError) -> str:
    """What is wrong, in a line: such classes tell it in many, with the addresses of their manuals."""
    listed = getattr(error, "errors", None)
    if listed is None:
        return str(error)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in listed())


def _is(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and kind is not NoneType and issubclass(kind, base)
