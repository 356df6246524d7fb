"""A tool in few words, for windows in which every token counts.

The model is told the same things, shorter: of the description only the first sentence, or words made for the
purpose, and of the input only what a call needs, with the types. The tool itself is the same, and takes the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sevenfold.agent.permissions.request import Wish
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.tool import Input, Kind, Tool

_TELLING = ("type", "enum", "items", "properties", "required")


class Brief:
    """A tool that is described in few words."""

    def __init__(self, tool: Tool, words: str = "", *, without: Collection[str] = ()) -> None:
        self._tool = tool
        self.name = tool.name
        self.kind: Kind = tool.kind
        self.concurrent = tool.concurrent
        self.description = words or _first_sentence(tool.description)
        self.schema: Mapping[str, Any] = _without(_shortened(tool.schema), without)

    def wish(self, given: Input, context: Context) -> Wish:
        """What this call is about to do."""
        return self._tool.wish(given, context)

    def run(self, given: Input, context: Context) -> ToolOutput:
        """Do it."""
        return self._tool.run(given, context)


def _first_sentence(words: str) -> str:
    first = words.split("\n", 1)[0]
    return first.partition(". ")[0].removesuffix(".") + "."


def _shortened(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a model needs of a schema to fill it in; the tool checks the rest."""
    short: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            short[key] = {name: _shortened(inner) for name, inner in value.items()}
        elif key == "items":
            short[key] = _shortened(value)
        elif key in _TELLING:
            short[key] = value
    return short


def _without(schema: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    kept = {name: inner for name, inner in schema.get("properties", {}).items() if name not in names}
    return {**schema, "properties": kept}
