"""JSON schemas: generated from types for the model, and used to check the model's input.

Generated schemas have the form that models read best: no references, no titles, and no "null" for properties that are
optional anyway. `jsonschema` does the checking; its errors are put into words a model can act on, each with its place.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from inspect import cleandoc
from typing import Any

import msgspec

from sevenfold.errors import InputError

_REFERENCE = "#/$defs/"
_NULL = {"type": "null"}
_VALUES = ("default", "enum", "const", "examples")
"""Keywords that hold values, not schemas."""
MOST_WORK = 4_000_000
"""The most values in an input times values in its schema; checking more could take minutes."""
_LONGEST_SHOWN = 60
_LONGEST_MESSAGE = 200
_BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "above",
    "exclusiveMaximum": "below",
}
_UNITS = {"minLength": "character", "maxLength": "character", "minItems": "item", "maxItems": "item"}


_ARGUMENTS = re.compile(r"^(?:Args|Arguments|Parameters):\s*$")
_SECTION = re.compile(r"^[A-Z]\w*:\s*$")
_LISTED = re.compile(r"^\s+\**(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
_FIELD = re.compile(r"^\s*:param\s+(?:[^:]*\s)?(\w+):\s*(.*)$")

# -- generating ----------------------------------------------------------------------------------


def schema_of(kind: Any, schema_hook: Callable[[Any], dict[str, Any]] | None = None) -> dict[str, Any]:
    """The schema of a type; raises `InputError` for types that JSON cannot represent.

    ``schema_hook`` returns the schemas of further types, or raises `NotImplementedError`.
    """
    try:
        raw = msgspec.json.schema(kind, schema_hook=schema_hook)
    except (TypeError, ValueError, NotImplementedError) as error:
        name = kind.__qualname__ if isinstance(kind, type) else str(kind)
        raise InputError(f"no schema can say what {name} is.") from error
    return plain(raw)


def plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a schema from elsewhere into the form of our own: without references and titles."""
    simplified: dict[str, Any] = _simplified(schema, schema.get("$defs", {}), ())
    return simplified


def _simplified(schema: Any, definitions: Mapping[str, Any], enclosing: tuple[str, ...]) -> Any:
    if isinstance(schema, list):
        return [_simplified(item, definitions, enclosing) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if (reference := schema.get("$ref", "")).startswith(_REFERENCE):
        name = reference.removeprefix(_REFERENCE)
        if name in enclosing:
            raise InputError(
                f"{name} is recursive, which a tool's schema cannot express; give it a fixed depth"
            )
        target = _simplified(definitions[name], definitions, (*enclosing, name))
        return {**target, **{key: value for key, value in schema.items() if key not in ("$ref", "$defs")}}
    if "properties" in schema:
        return _object(schema, definitions, enclosing)
    return {
        key: value if key in _VALUES else _simplified(value, definitions, enclosing)
        for key, value in schema.items()
        if key not in ("title", "$defs")
    }


def _object(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], enclosing: tuple[str, ...]
) -> dict[str, Any]:
    properties = {
        name: _optional(_simplified(property_schema, definitions, enclosing))
        for name, property_schema in schema["properties"].items()
    }
    header = {key: value for key, value in schema.items() if key in ("type", "description", "required")}
    if not header.get("required"):
        header.pop("required", None)
    return {
        **header,
        "properties": properties,
        "additionalProperties": _simplified(
            schema.get("additionalProperties", False), definitions, enclosing
        ),
    }


def _optional(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a property; if its default is null, without the default and the null alternative."""
    if "default" not in schema or schema["default"] is not None:
        return schema
    without_default = {key: value for key, value in schema.items() if key != "default"}
    choices = [choice for choice in without_default.get("anyOf", ()) if choice != _NULL]
    if len(choices) == 1:
        del without_default["anyOf"]
        return {**choices[0], **without_default}
    return {**without_default, "anyOf": choices} if choices else without_default


def with_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with argument lists in descriptions (from docstrings) moved to the properties they describe."""
    summary, argument_descriptions = read_docstring(schema.get("description", ""))
    result = {**schema, "description": summary} if argument_descriptions else dict(schema)
    for name, property_schema in schema.get("properties", {}).items():
        described = {"description": argument_descriptions[name]} if name in argument_descriptions else {}
        result["properties"] = {
            **result["properties"],
            name: {**described, **with_arguments(property_schema)},
        }
    if isinstance(items := result.get("items"), dict):
        result["items"] = with_arguments(items)
    return result


def read_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into its description and the description of each argument."""
    text: list[str] = []
    arguments: dict[str, str] = {}
    listing = False
    argument = ""
    indent = 0
    for line in cleandoc(docstring).splitlines():
        if match := _FIELD.match(line):
            argument = match[1]
            indent = len(line) - len(line.lstrip())
            arguments[argument] = match[2]
        elif _ARGUMENTS.match(line):
            listing = True
        elif listing and (line.startswith((" ", "\t")) or not line.strip()):
            depth = len(line) - len(line.lstrip())
            if (match := _LISTED.match(line)) and (not argument or depth <= indent):
                argument = match[1]
                indent = depth
                arguments[argument] = match[2]
            elif argument:
                arguments[argument] = f"{arguments[argument]} {line.strip()}".strip()
        elif _SECTION.match(line) and text:
            break
        else:
            listing = False
            text.append(line)
    return textwrap.dedent("\n".join(text)).strip(), arguments


# -- checking ------------------------------------------------------------------------------------


def problems(value: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    """The faults of a value, one at a time; none if it fits the schema.

    A schema that is broken or has unresolvable references is not enforced, and no schema is if `jsonschema` is not
    installed: tools still check the input they convert, and MCP servers check theirs.
    """
    try:
        from referencing import Registry
    except ImportError:
        return
    if _size(value) * _size(schema) > MOST_WORK:
        yield "the input is too large to be checked"
        return
    try:
        # An empty registry: the default one would fetch references over the network.
        for error in _dialect()(schema, registry=Registry()).iter_errors(value):
            yield from _faults(error)
    except RecursionError:
        yield "the input is nested too deeply to be checked"
    except Exception:  # noqa: BLE001 (a schema may be broken in any way)
        return


def without_nulls(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The input without null properties, where null is not allowed and can only mean that they were left out."""
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}

    def left_out(name: str) -> bool:
        optional = name in properties and name not in required
        return optional and any(problems(None, {**definitions, "allOf": [properties[name]]}))

    return {name: value for name, value in arguments.items() if value is not None or not left_out(name)}


def _size(value: Any) -> int:
    """How many values it contains, including itself."""
    count = 0
    pending = [value]
    while pending:
        count += 1
        match pending.pop():
            case Mapping() as container:
                pending += container.values()
            case list() as container:
                pending += container
    return count


@cache
def _dialect() -> Any:
    """The validator for the newest draft of JSON Schema, changed to name each missing or unknown property.

    ``oneOf`` is treated as ``anyOf``: many schemas say the one but mean the other.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    any_of = Draft202012Validator.VALIDATORS["anyOf"]
    changed = {"required": _required, "additionalProperties": _additional, "oneOf": any_of}
    return extend(Draft202012Validator, changed)


def _required(validator: Any, required: Iterable[str], instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    for name in required if isinstance(instance, dict) else ():
        if name not in instance:
            yield ValidationError("is missing", path=[name])


def _additional(validator: Any, additional: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    properties = schema.get("properties", {})
    patterns = "|".join(f"(?:{pattern})" for pattern in schema.get("patternProperties", ()))
    for name, value in instance.items() if isinstance(instance, dict) else ():
        if name in properties or (patterns and re.search(patterns, name)):
            continue
        if additional is not False:
            yield from validator.descend(value, additional, path=name)
            continue
        similar = get_close_matches(name, properties, 1)
        hint = f"did you mean {similar[0]}?" if similar else f"known: {', '.join(properties) or 'none'}"
        yield ValidationError(f"is unknown; {hint}", path=[name])


def _faults(error: Any) -> list[str]:
    """An error in words; if all alternatives fail, the faults of the one with the fewest, most likely the one meant."""
    if error.validator in ("anyOf", "oneOf"):
        alternatives: dict[int, list[str]] = {}
        for cause in error.context:
            alternatives.setdefault(cause.relative_schema_path[0], []).extend(_faults(cause))
        return min(alternatives.values(), key=len)
    location = ""
    for step in error.absolute_path:
        location += f"[{step}]" if isinstance(step, int) else f".{step}" if location else str(step)
    return [f"{location or 'the input'} {_message(error)}"]


def _message(error: Any) -> str:
    limit = error.validator_value
    value = error.instance
    match error.validator:
        case "type":
            types = [limit] if isinstance(limit, str) else limit
            return f"must be of type {' or '.join(types)}, not {_as_json(value)}"
        case "enum":
            return f"must be one of {', '.join(map(_as_json, limit))}, not {_as_json(value)}"
        case "const":
            return f"must be {_as_json(limit)}, not {_as_json(value)}"
        case keyword if keyword in _BOUNDS:
            return f"must be {_BOUNDS[keyword]} {limit}, not {_as_json(value)}"
        case "minLength" | "minItems" as keyword:
            return f"must have at least {limit} {_UNITS[keyword]}{_plural_ending(limit)}"
        case "maxLength" | "maxItems" as keyword:
            return f"must have at most {limit} {_UNITS[keyword]}{_plural_ending(limit)}, not {len(value)}"
        case "pattern":
            return f"must match {limit}"
        case "required" | "additionalProperties":
            return str(error.message)
        case _:
            return f"is not allowed: {error.message[:_LONGEST_MESSAGE]}"


def _plural_ending(count: int) -> str:
    """The plural ending for a count."""
    return "" if count == 1 else "s"


def _as_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
