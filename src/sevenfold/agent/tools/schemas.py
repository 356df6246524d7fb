"""JSON schemas from types, as a model reads them best: no references, no titles, nothing optional spelled twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sevenfold.errors import InputError

_REFERENCE = "#/$defs/"
_NULL = {"type": "null"}


def schema_of(kind: Any, shape: Callable[[Any], dict[str, Any]] | None = None) -> dict[str, Any]:
    """The schema of a class of inputs; raises `InputError` for types JSON has no shape for.

    ``shape`` knows the schemas of further types, or raises `NotImplementedError`.
    """
    try:
        raw = msgspec.json.schema(kind, schema_hook=shape)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InputError(f"no schema can say what {_named(kind)} is.") from error
    return plain(raw)


def plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema from elsewhere, in the same form."""
    made: dict[str, Any] = _plain(schema, schema.get("$defs", {}), ())
    return made


def _named(kind: Any) -> str:
    return kind.__qualname__ if isinstance(kind, type) else str(kind)


def _plain(part: Any, definitions: Mapping[str, Any], within: tuple[str, ...]) -> Any:
    if isinstance(part, list):
        return [_plain(one, definitions, within) for one in part]
    if not isinstance(part, dict):
        return part
    if (reference := part.get("$ref", "")).startswith(_REFERENCE):
        name = reference.removeprefix(_REFERENCE)
        if name in within:
            raise InputError(
                f"{name} holds itself, which a tool's schema cannot say; give it a fixed depth"
            )
        meant = _plain(definitions[name], definitions, (*within, name))
        beside = {key: value for key, value in part.items() if key not in ("$ref", "$defs")}
        return {**meant, **beside}
    return _object(part, definitions, within) if "properties" in part else _other(part, definitions, within)


def _other(
    part: Mapping[str, Any], definitions: Mapping[str, Any], within: tuple[str, ...]
) -> dict[str, Any]:
    literal = ("default", "enum", "const", "examples")
    return {
        key: value if key in literal else _plain(value, definitions, within)
        for key, value in part.items()
        if key not in ("title", "$defs")
    }


def _object(
    part: Mapping[str, Any], definitions: Mapping[str, Any], within: tuple[str, ...]
) -> dict[str, Any]:
    properties = {
        name: _optional(_plain(one, definitions, within)) for name, one in part["properties"].items()
    }
    rest = {key: value for key, value in part.items() if key in ("type", "description", "required")}
    if not rest.get("required"):
        rest.pop("required", None)
    return {
        **rest,
        "properties": properties,
        "additionalProperties": _plain(part.get("additionalProperties", False), definitions, within),
    }


def _optional(one: dict[str, Any]) -> dict[str, Any]:
    """A property that may be left out need not say that it may be null as well."""
    if "default" not in one or one["default"] is not None:
        return one
    kept = {key: value for key, value in one.items() if key != "default"}
    choices = [choice for choice in kept.get("anyOf", ()) if choice != _NULL]
    if len(choices) == 1:
        del kept["anyOf"]
        return {**choices[0], **kept}
    return {**kept, "anyOf": choices} if choices else kept
