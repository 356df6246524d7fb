"""The tools of OpenAI's two APIs: the same functions, in one nested in a field of their own, in the other not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sevenfold.lab.simulator.openai_common import bad

Json = Mapping[str, Any]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_tools(tools: Sequence[Json], *, nested: bool) -> None:
    """Raise where a tool is none, such as one in the shape of another API."""
    for number, tool in enumerate(tools):
        where = f"tools[{number}]"
        kind = _required(tool, "type", where)
        if nested and kind != "function":
            words = f"Invalid value: '{kind}'. Supported values are: 'function' and 'custom'."
            raise bad(words, param=f"{where}.type", code="invalid_value")
        if nested:
            _check_function(_required(tool, "function", where), f"{where}.function")
        elif kind == "function":
            _check_function(tool, where)


def _check_function(function: Json, where: str) -> None:
    name = _required(function, "name", where)
    if not NAME.fullmatch(name):
        raise bad(
            f"Invalid '{where}.name': string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
            param=f"{where}.name",
            code="invalid_value",
        )
    kind = (function.get("parameters") or {"type": "object"}).get("type")
    if kind != "object":
        raise bad(
            f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got "
            f"'type: \"{kind}\"'.",
            param=f"{where}.parameters",
            code="invalid_function_parameters",
        )


def _required(given: Json, name: str, where: str) -> Any:
    if given.get(name) is None:
        param = f"{where}.{name}"
        words = f"Missing required parameter: '{param}'."
        raise bad(words, param=param, code="missing_required_parameter")
    return given[name]
