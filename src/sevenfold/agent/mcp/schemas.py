"""Schemas of strangers, made fit to be sent: what a provider or the check of inputs could trip over is left out.

One tool whose schema is refused would make every request of a session fail, so only keywords that are known, with
values of the right shape, go on. References are written out. A regular expression is told in words, because running a
stranger's could take for ever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from sevenfold.errors import InputError

MOST_BYTES = 16 * 1024
"""Of one schema."""
MOST_PARTS = 1000
"""Schemas within one schema, references written out."""
DEEPEST = 24
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_REFERENCE = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems"})
_NOT_AT_THE_TOP = frozenset({"anyOf", "oneOf", "allOf", "enum", "const"})


def input_schema(given: Any) -> dict[str, Any]:
    """The schema of a tool's input; raises `InputError` if there is no using it."""
    schema = _plain(given)
    cleaned = _Cleaner(schema).clean(schema)
    kept = {key: value for key, value in cleaned.items() if key not in _NOT_AT_THE_TOP}
    kept = {**kept, "type": "object", "properties": kept.get("properties", {})}
    if strange := [name for name in kept["properties"] if not _PROPERTY.fullmatch(name)]:
        raise InputError(f"its property {strange[0][:80]!r} has a name no model can fill")
    _plain(kept)
    return kept


def _plain(given: Any) -> dict[str, Any]:
    """As JSON has it, if it is not too much."""
    try:
        raw = msgspec.json.encode(given)
        schema = msgspec.json.decode(raw)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"its schema cannot be written as JSON ({error})") from error
    if len(raw) > MOST_BYTES:
        raise InputError(f"its schema has {len(raw):,} bytes; {MOST_BYTES:,} are the most")
    if not isinstance(schema, dict):
        raise InputError("its schema is no object")
    return schema


class _Cleaner:
    """Cleans one schema with all that is in it."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        places = (whole.get("$defs"), whole.get("definitions"))
        self._known = {
            name: one for place in places if isinstance(place, dict) for name, one in place.items()
        }
        self._left = MOST_PARTS

    def clean(self, given: Any, within: tuple[str, ...] = (), depth: int = 0) -> dict[str, Any]:
        """What is left of a schema; where it is none, or leads into itself, one that allows everything."""
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            raise InputError("its schema has too many parts")
        if not isinstance(given, dict):
            return {}
        found: dict[str, Any] = {}
        match = _REFERENCE.fullmatch(str(given.get("$ref", "")))
        if match and match[1] in self._known and match[1] not in within:
            found = self.clean(self._known[match[1]], (*within, match[1]), depth + 1)
        for key, value in given.items():
            cleaned = self._keyword(key, value, within, depth + 1)
            if cleaned is not None:
                found[key] = cleaned
        if isinstance(pattern := given.get("pattern"), str):
            found["description"] = f"{found.get('description', '')} (must match {pattern})".strip()
        return found

    def _keyword(self, key: str, value: Any, within: tuple[str, ...], depth: int) -> Any:
        """The value a keyword goes on with; None: it does not."""
        match key, value:
            case "properties", dict():
                return {name: self.clean(one, within, depth) for name, one in value.items()}
            case "items" | "additionalProperties", dict():
                return self.clean(value, within, depth)
            case "anyOf" | "oneOf" | "allOf", [_, *_]:
                return [self.clean(one, within, depth) for one in value]
            case _:
                return _simple(key, value)


def _simple(key: str, value: Any) -> Any:
    """The same for keywords that hold no schemas."""
    match key, value:
        case "type", str():
            return value if value in _TYPES else None
        case "type", list():
            return [one for one in _TYPES if one in value] or None
        case "required", list():
            return list(dict.fromkeys(one for one in value if isinstance(one, str))) or None
        case "enum", [_, *_]:
            return list({msgspec.json.encode(one): one for one in value}.values())
        case "description" | "format", str():
            return value
        case "additionalProperties", bool():
            return value
        case "default" | "const", _:
            return value
        case _, bool():
            return None
        case _, int() | float() if key in _NUMBERS:
            return value
        case _, int() if key in _COUNTS and value >= 0:
            return value
        case _:
            return None
