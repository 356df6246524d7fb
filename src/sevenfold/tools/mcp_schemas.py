"""Schemas of strangers, made fit to be sent: what a provider or the check of inputs could trip over is left out.

One tool whose schema is refused would make every request of a session fail, so only keywords that are known, with
values of the right shape, go on. A regular expression is told in words, because running a stranger's could take for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sevenfold.errors import InputError

MOST_BYTES = 16 * 1024
"""Of one schema."""
DEEPEST = 32
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_AT_THE_TOP = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref")
"""Keywords that must not stand at the top of a tool's schema."""

Clean = Callable[[Any, int], Any]


def input_schema(given: Any) -> dict[str, Any]:
    """The schema of a tool's input; raises `InputError` if there is no using it."""
    if not isinstance(given, Mapping):
        raise InputError("its schema is none")
    try:
        size = len(msgspec.json.encode(given))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"its schema cannot be written down ({error})") from error
    if size > MOST_BYTES:
        raise InputError(f"its schema has {size:,} bytes; {MOST_BYTES:,} are the most")
    cleaned = {key: value for key, value in _schema(given, 0).items() if key not in _AT_THE_TOP}
    if strange := [name for name in cleaned.get("properties", {}) if not _PROPERTY.fullmatch(name)]:
        raise InputError(f"its property {strange[0][:80]!r} has a name no model can fill")
    return {**cleaned, "type": "object", "properties": cleaned.get("properties", {})}


def _schema(given: Any, depth: int) -> dict[str, Any]:
    """What is left of a schema; of a boolean or anything else, one that allows everything."""
    if depth > DEEPEST:
        raise InputError(f"its schema is nested more than {DEEPEST} deep")
    if not isinstance(given, Mapping):
        return {}
    found = {}
    for key, value in given.items():
        if key in _KEYWORDS and (cleaned := _KEYWORDS[key](value, depth + 1)) is not None:
            found[key] = cleaned
    if isinstance(pattern := given.get("pattern"), str):
        found["description"] = f"{found.get('description', '')} (must match {pattern})".strip()
    return found


def _text(value: Any, depth: int) -> str | None:
    return _sayable(value) if isinstance(value, str) else None


def _anything(value: Any, depth: int) -> Any:
    return value


def _number(value: Any, depth: int) -> float | int | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: Any, depth: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _type(value: Any, depth: int) -> str | list[str] | None:
    if isinstance(value, str):
        return value if value in _TYPES else None
    known = [one for one in _TYPES if isinstance(value, list) and one in value]
    return known or None


def _names(value: Any, depth: int) -> list[str] | None:
    if not isinstance(value, list):
        return None
    return list(dict.fromkeys(_sayable(one) for one in value if isinstance(one, str))) or None


def _choices(value: Any, depth: int) -> list[Any] | None:
    if not isinstance(value, list):
        return None
    unique = [one for place, one in enumerate(value) if one not in value[:place]]
    return unique or None


def _properties(value: Any, depth: int) -> dict[str, Any] | None:
    if not isinstance(value, Mapping):
        return None
    return {_sayable(name): _schema(one, depth) for name, one in value.items() if isinstance(name, str)}


def _schemas(value: Any, depth: int) -> list[dict[str, Any]] | None:
    return [_schema(one, depth) for one in value] if isinstance(value, list) and value else None


def _schema_or_flag(value: Any, depth: int) -> dict[str, Any] | bool | None:
    return value if isinstance(value, bool) else _one(value, depth)


def _one(value: Any, depth: int) -> dict[str, Any] | None:
    return _schema(value, depth) if isinstance(value, Mapping) else None


def _sayable(words: str) -> str:
    """Without halves of surrogate pairs."""
    return words.encode(errors="replace").decode()


_KEYWORDS: Mapping[str, Clean] = {
    "type": _type,
    "description": _text,
    "default": _anything,
    "const": _anything,
    "enum": _choices,
    "format": _text,
    "properties": _properties,
    "required": _names,
    "additionalProperties": _schema_or_flag,
    "items": _one,
    "anyOf": _schemas,
    "oneOf": _schemas,
    "allOf": _schemas,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _count),
}
