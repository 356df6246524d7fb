"""A brain that uses the tools it is offered: enough to try an agent's loop without writing a script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sevenfold.lab.simulator.brains import EchoBrain, Json, ModelPrompt, ModelReply, text, tool_use
from sevenfold.lab.simulator.instances import instance

_WORD = re.compile(r"[A-Za-z]{3,}")
_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"|'([^']+)'|(\S*[/.]\w[\w/.-]*\w)")
MOST_SHOWN = 300
"""Characters of a tool's result that the answer repeats."""


class ToolBrain:
    """Calls the tool that the user's words fit best, then says what it returned."""

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """A call for a new message of the user, and an answer for the result of a call."""
        last = prompt.messages[-1]["content"] if prompt.messages else ()
        results = [block for block in last if block.get("type") == "tool_result"]
        if results:
            shown = "\n".join(_shown(block) for block in results)
            return ModelReply([text(f"The tool returned:\n{shown}")])
        tool = _fitting(prompt)
        if tool is None:
            return EchoBrain().reply(prompt)
        return ModelReply(
            [text(f"I will use {tool['name']}."), tool_use(tool["name"], _input(tool, prompt.last_text))]
        )


def _fitting(prompt: ModelPrompt) -> Json | None:
    """The tool that has most of the user's words in its name, then in its description; None if nothing fits."""
    words = {word.lower() for word in _WORD.findall(prompt.last_text)}
    if prompt.body.get("tool_choice") in ("none", {"type": "none"}):
        return None

    def fit(tool: Json) -> tuple[bool, int, int]:
        name = str(tool.get("name") or "")
        exact = bool(name) and re.search(rf"\b{re.escape(name)}\b", prompt.last_text, re.I) is not None
        parts = {part.lower() for part in re.findall(r"[A-Za-z][a-z]{2,}", name)}
        described = {word.lower() for word in _WORD.findall(str(tool.get("description") or ""))}
        return exact, len(words & parts), len(words & described)

    best = max((tool for tool in prompt.tools if tool.get("name")), key=fit, default=None)
    return best if best is not None and any(fit(best)) else None


def _input(tool: Json, words: str) -> dict[str, Any]:
    """The JSON object in the user's words, or an input that fits the schema, with what they quote as its texts."""
    if (given := _object(words)) is not None:
        return given
    schema = tool.get("input_schema") or {}
    quoted = [next(filter(None, found)) for found in _QUOTED.findall(words)]
    made = instance(schema, words)
    if not schema or not isinstance(made, dict):
        return {"input": words}
    for name in _texts(schema, made):
        made[name] = quoted.pop(0) if quoted else made[name]
    return made


def _texts(schema: Json, made: Mapping[str, Any]) -> Sequence[str]:
    """The fields that hold a free text."""
    fields = schema.get("properties") or {}
    return [
        name
        for name in made
        if isinstance(made[name], str) and not {"enum", "const", "format"} & fields.get(name, {}).keys()
    ]


def _object(words: str) -> dict[str, Any] | None:
    start, end = words.find("{"), words.rfind("}")
    try:
        given = msgspec.json.decode(words[start : end + 1]) if 0 <= start < end else None
    except msgspec.DecodeError:
        return None
    return given if isinstance(given, dict) else None


def _shown(result: Json) -> str:
    content = result.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(str(block.get("text", f"[{block.get('type')}]")) for block in content)
    return content if len(content) <= MOST_SHOWN else f"{content[:MOST_SHOWN]}…"
