"""Holding an input against a JSON schema, with words a model can act on.

The part of JSON Schema that tools use: types, required and unknown properties, items, enumerations, alternatives,
and limits. All problems are told at once, each with its place. What the schema says beyond that is not checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_LONGEST_SHOWN = 60


def problems(value: Any, schema: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """What is wrong with a value; nothing if it fits."""
    if "anyOf" in schema or "oneOf" in schema:
        yield from _alternatives(value, schema.get("anyOf") or schema["oneOf"], at)
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{_place(at)} must be {_shown(schema['const'])}, not {_shown(value)}"
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield f"{_place(at)} must be one of {', '.join(map(_shown, schema['enum']))}, not {_shown(value)}"
    types = schema.get("type", ())
    types = (types,) if isinstance(types, str) else tuple(types)
    if types and not any(_is(value, name) for name in types):
        yield f"{_place(at)} must be of type {' or '.join(types)}, not {_shown(value)}"
        return
    yield from _limits(value, schema, at)
    if isinstance(value, dict):
        yield from _properties(value, schema, at)
    elif isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        for number, item in enumerate(value):
            yield from problems(item, items, f"{at}[{number}]")


def without_nulls(given: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The input without properties that are null where null means that they were left out."""
    known, required = schema.get("properties", {}), schema.get("required", ())
    return {
        name: value
        for name, value in given.items()
        if value is not None
        or name in required
        or name not in known
        or not any(problems(None, known[name]))
    }


def _alternatives(value: Any, choices: list[Mapping[str, Any]], at: str) -> Iterator[str]:
    found = [list(problems(value, choice, at)) for choice in choices]
    if all(found):
        # The choice with the fewest faults is most likely the one that was meant.
        yield from min(found, key=len)


def _properties(value: Mapping[str, Any], schema: Mapping[str, Any], at: str) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{_place(_join(at, name))} is missing"
    further = schema.get("additionalProperties", True)
    for name, one in value.items():
        place = _join(at, str(name))
        if name in known:
            yield from problems(one, known[name], place)
        elif further is False:
            near = get_close_matches(str(name), known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known) or 'none'}"
            yield f"{_place(place)} is unknown{hint}"
        elif isinstance(further, dict):
            yield from problems(one, further, place)


def _limits(value: Any, schema: Mapping[str, Any], at: str) -> Iterator[str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            yield f"{_place(at)} must be at least {schema['minimum']}, not {_shown(value)}"
        if "maximum" in schema and value > schema["maximum"]:
            yield f"{_place(at)} must be at most {schema['maximum']}, not {_shown(value)}"
        if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
            yield f"{_place(at)} must be above {schema['exclusiveMinimum']}, not {_shown(value)}"
        if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
            yield f"{_place(at)} must be below {schema['exclusiveMaximum']}, not {_shown(value)}"
    for kind, least, most, noun in (
        (str, "minLength", "maxLength", "characters"),
        (list, "minItems", "maxItems", "items"),
    ):
        if isinstance(value, kind):
            if len(value) < schema.get(least, 0):
                yield f"{_place(at)} must have at least {schema[least]} {noun}"
            if len(value) > schema.get(most, len(value)):
                yield f"{_place(at)} must have at most {schema[most]} {noun}, not {len(value)}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{_place(at)} must match {schema['pattern']}"


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, (object,)))


def _same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _place(at: str) -> str:
    return at or "the input"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
