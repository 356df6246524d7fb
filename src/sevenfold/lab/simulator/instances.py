"""Values that fit a JSON schema: structured answers and tool inputs, for brains that ignore schemas.

`ToolBrain` is a brain that calls the tools it is offered: enough to try an agent's loop without writing a script.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from sevenfold.lab.simulator.brains import (
    EchoBrain,
    Json,
    ModelPrompt,
    ModelReply,
    server_tool_use,
    text,
    tool_use,
)
from sevenfold.lab.simulator.tool_search import is_search_tool

DEEPEST = 40
"""How many levels of a recursive schema are followed."""
SHALLOW = 6
"""The depth from which a choice between an object and null takes null."""
FORMATS = {
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "date-time": "2026-01-01T00:00:00Z",
    "duration": "P1D",
    "email": "someone@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "hostname": "example.com",
}


_WORD = re.compile(r"[A-Za-z]{3,}")
_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"|'([^']+)'|(\S*[/.]\w[\w/.-]*\w)")
MOST_SHOWN = 300
"""How many characters of a tool result the answer repeats at most."""
_LIMITS = {
    "minimum": operator.ge,
    "exclusiveMinimum": operator.gt,
    "maximum": operator.le,
    "exclusiveMaximum": operator.lt,
}


def with_required_output(reply: ModelReply, prompt: ModelPrompt) -> ModelReply:
    """The reply, with a made-up tool call or structured answer if the request requires one and the brain gave none."""
    if any(block["type"] == "tool_use" for block in reply.blocks):
        return reply
    answer_text = "".join(str(block["text"]) for block in reply.blocks if block["type"] == "text")
    other_blocks = [block for block in reply.blocks if block["type"] != "text"]
    if (tool := _forced(prompt)) is not None:
        called = tool_use(tool["name"], instance(tool.get("input_schema") or {}, answer_text))
        return replace(reply, blocks=[*other_blocks, called])
    if (schema := _required_schema(prompt.body)) is not None and not _fits(answer_text, schema):
        answer = msgspec.json.encode(instance(schema, answer_text)).decode()
        return replace(reply, blocks=[*other_blocks, text(answer)])
    return reply


def instance(schema: Any, filler: str = "simulated") -> Any:
    """A value that fits a schema, with ``filler`` as its strings; None where the simulator cannot make one."""
    return _Maker(schema, filler).value(schema, 0)


def _forced(prompt: ModelPrompt) -> Json | None:
    """The tool that the request's `tool_choice` forces, in the syntax of any of the three APIs."""
    choice = prompt.body.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, Mapping) else choice
    if kind not in ("any", "required", "tool", "function", "custom"):
        return None
    named = choice if isinstance(choice, Mapping) else {}
    name = named.get("name") or (named.get("function") or named.get("custom") or {}).get("name")
    return next((tool for tool in prompt.tools if name in (None, tool.get("name"))), None)


def _required_schema(body: Json) -> Any:
    """The schema that a request sets for the answer; None if it accepts any text."""
    answer_format = (body.get("output_config") or {}).get("format") or body.get("response_format")
    answer_format = answer_format or (body.get("text") or {}).get("format") or {}
    if answer_format.get("type") == "json_object":
        return {"type": "object"}
    if answer_format.get("type") != "json_schema":
        return None
    return answer_format.get("schema") or (answer_format.get("json_schema") or {}).get("schema") or {}


def _fits(answer: str, schema: Any) -> bool:
    # Imported here because it takes longer to import than the server, and few requests need it.
    import jsonschema

    try:
        jsonschema.validate(msgspec.json.decode(answer), schema)
    except (msgspec.DecodeError, jsonschema.exceptions.ValidationError):
        return False
    return True


class _Maker:
    """Makes values for one schema and resolves references within it."""

    def __init__(self, root: Any, filler: str) -> None:
        self._root = root
        self._filler = filler

    def value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, Mapping) or depth > DEEPEST:
            return None
        if "$ref" in schema:
            return self.value(self._resolve(str(schema["$ref"])), depth + 1)
        if "const" in schema:
            return schema["const"]
        for name in ("enum", "examples"):
            if schema.get(name):
                return schema[name][0]
        for name in ("anyOf", "oneOf"):
            if schema.get(name):
                return self.value(_simplest(schema[name], depth), depth + 1)
        if schema.get("allOf"):
            return self.value(self._merged(schema), depth + 1)
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((name for name in kind if name != "null"), "null")
        return self._typed(kind or ("object" if "properties" in schema else "string"), schema, depth)

    def _typed(self, kind: str, schema: Json, depth: int) -> Any:
        match kind:
            case "object":
                required = schema.get("required") or ()
                fields = schema.get("properties") or {}
                return {name: self.value(fields.get(name, {}), depth + 1) for name in required}
            case "array":
                first = list(schema.get("prefixItems") or ())
                missing = max(0, int(schema.get("minItems", 0)) - len(first))
                return [
                    self.value(item_schema, depth + 1)
                    for item_schema in [*first, *[schema.get("items", {})] * missing]
                ]
            case "string":
                return self._text(schema)
            case "integer" | "number":
                return _number(schema, whole=kind == "integer")
            case "boolean":
                return False
            case _:
                return None

    def _text(self, schema: Json) -> str:
        if schema.get("format") in FORMATS:
            return FORMATS[schema["format"]]
        filler = self._filler[: schema.get("maxLength")]
        return filler.ljust(int(schema.get("minLength", 0)), ".")

    def _merged(self, schema: Json) -> Json:
        merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        for member in schema["allOf"]:
            member = self._resolve(str(member["$ref"])) if "$ref" in member else member
            for key, value in member.items():
                earlier = merged.get(key)
                if isinstance(earlier, Mapping) and isinstance(value, Mapping):
                    merged[key] = {**earlier, **value}
                elif key == "required" and earlier:
                    merged[key] = [*earlier, *value]
                else:
                    merged[key] = value
        return merged

    def _resolve(self, reference: str) -> Any:
        """The part of the schema that a reference such as ``#/$defs/Name`` points to."""
        target = self._root
        for key in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
            target = target.get(key) if isinstance(target, Mapping) else None
        return target


def _simplest(choices: Sequence[Any], depth: int) -> Any:
    """The alternative least likely to recurse; from depth `SHALLOW` on, null rather than an object."""
    objects = [choice for choice in choices if isinstance(choice, Mapping)]
    flat = [choice for choice in objects if not {"$ref", "properties"} & choice.keys()]
    flat_values = [choice for choice in flat or objects if choice.get("type") != "null"]
    shallow = flat_values or [choice for choice in objects if choice.get("type") != "null"]
    return next(iter(shallow if depth < SHALLOW or flat_values else flat), None)


def _number(schema: Json, *, whole: bool) -> float:
    """The first obvious candidate (0, or a number near a limit) that is within the limits; 0 if none is."""
    limits = [
        (holds, schema[name])
        for name, holds in _LIMITS.items()
        if isinstance(schema.get(name), int | float)
    ]
    step = schema.get("multipleOf") or (1 if whole else None)
    bounds = [limit for _, limit in limits]
    shift = step or 0.5
    near_bounds = [*chain.from_iterable((bound, bound + shift, bound - shift) for bound in bounds)]
    candidates = [0, *near_bounds, sum(bounds) / len(bounds) if bounds else 0]
    if step:
        candidates = [*chain.from_iterable(_multiples_around(candidate, step) for candidate in candidates)]
    return next(
        (candidate for candidate in candidates if all(holds(candidate, limit) for holds, limit in limits)),
        0,
    )


def _multiples_around(value: float, step: float) -> tuple[float, float]:
    return math.ceil(value / step) * step, math.floor(value / step) * step


class ToolBrain:
    """Calls the tool that best matches the user's words, then repeats its result."""

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """Answer a user message with a tool call, and tool results with a text that repeats them."""
        last = prompt.messages[-1]["content"] if prompt.messages else ()
        results = [block for block in last if block.get("type") == "tool_result"]
        if results:
            shown = "\n".join(_shown(block) for block in results)
            return ModelReply([text(f"The tool returned:\n{shown}")])
        search = next((tool for tool in prompt.tools if is_search_tool(tool)), None)
        if search is not None and prompt.messages[-1]["role"] == "user":
            field = "pattern" if "regex" in search["type"] else "query"
            return ModelReply([server_tool_use(search["name"], {field: prompt.last_text})])
        tool = _best_tool(prompt)
        if tool is None:
            return EchoBrain().reply(prompt)
        return ModelReply(
            [text(f"I will use {tool['name']}."), tool_use(tool["name"], _input(tool, prompt.last_text))]
        )


def _best_tool(prompt: ModelPrompt) -> Json | None:
    """The tool the user names, or whose name, then description, has most of their words; None if nothing fits."""
    user_words = {word.lower() for word in _WORD.findall(prompt.last_text)}
    if prompt.body.get("tool_choice") in ("none", {"type": "none"}):
        return None

    def fit(tool: Json) -> tuple[bool, int, int]:
        name = str(tool.get("name") or "")
        exact = bool(name) and re.search(rf"\b{re.escape(name)}\b", prompt.last_text, re.I) is not None
        name_words = {name_part.lower() for name_part in re.findall(r"[A-Za-z][a-z]{2,}", name)}
        description_words = {
            description_word.lower()
            for description_word in _WORD.findall(str(tool.get("description") or ""))
        }
        return exact, len(user_words & name_words), len(user_words & description_words)

    offered = [tool for tool in prompt.tools if tool.get("name") and not is_search_tool(tool)]
    best = max(offered, key=fit, default=None)
    return best if best is not None and any(fit(best)) else None


def _input(tool: Json, user_text: str) -> dict[str, Any]:
    """The JSON object in the user's words, or an input that fits the schema, with their quotations as its strings."""
    if (given_input := _object(user_text)) is not None:
        return given_input
    schema = tool.get("input_schema") or {}
    quoted = [next(filter(None, alternatives)) for alternatives in _QUOTED.findall(user_text)]
    generated = instance(schema, user_text)
    if not schema or not isinstance(generated, dict):
        return {"input": user_text}
    fields = schema.get("properties") or {}
    for name, value in generated.items():
        free = isinstance(value, str) and not {"enum", "const", "format"} & fields.get(name, {}).keys()
        if free and quoted:
            generated[name] = quoted.pop(0)
    return generated


def _object(user_text: str) -> dict[str, Any] | None:
    start = user_text.find("{")
    end = user_text.rfind("}")
    try:
        value = msgspec.json.decode(user_text[start : end + 1]) if 0 <= start < end else None
    except msgspec.DecodeError:
        return None
    return value if isinstance(value, dict) else None


def _shown(result: Json) -> str:
    content = result.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(str(block.get("text", f"[{block.get('type')}]")) for block in content)
    return content if len(content) <= MOST_SHOWN else f"{content[:MOST_SHOWN]}…"
