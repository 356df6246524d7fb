"""What a tool is, and what the tools of this package have in common.

A `Tool` has a name, words and a schema for the model; a kind for the engine (results of a kind can be had again,
so they may be cleared when old); and two methods: `wish` says what a call is about to do, so that permissions can be
asked, and `run` does it. An `AsyncTool` can also be awaited. `StandardTool` adds inputs with types: a subclass names
the class of its input, and the schema follows from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

import msgspec
from msgspec import Struct

from sevenfold.agent.permissions.request import Wish
from sevenfold.agent.tools import texts
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.schemas import schema_of

Kind = Literal["", "read", "shell", "search", "web", "edit", "write"]
Input = Mapping[str, Any]


@runtime_checkable
class Tool(Protocol):
    """Something the model can have done."""

    @property
    def name(self) -> str:
        """What the model calls it by."""
        ...

    @property
    def description(self) -> str:
        """What the model is told about it."""
        ...

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of its input."""
        ...

    @property
    def kind(self) -> Kind:
        """What the engine takes it for."""
        ...

    @property
    def concurrent(self) -> bool:
        """May calls run beside others?"""
        ...

    def wish(self, given: Input, context: Context) -> Wish:
        """What this call is about to do."""
        ...

    def run(self, given: Input, context: Context) -> ToolOutput:
        """Do it; errors of any class become error results."""
        ...


@runtime_checkable
class AsyncTool(Tool, Protocol):
    """A tool that does not wait in line."""

    async def run_async(self, given: Input, context: Context) -> ToolOutput:
        """Do it."""
        ...


Given = TypeVar("Given", bound=Struct)


class StandardTool(ABC, Generic[Given]):
    """A tool whose input has a type."""

    name: ClassVar[str]
    kind: ClassVar[Kind] = ""
    concurrent: ClassVar[bool] = False
    input: ClassVar[type[Struct]]
    """The class of its input; its fields are the properties the model fills."""

    def __init__(self) -> None:
        self.description = texts.load(self.name)
        self.schema: Mapping[str, Any] = schema_of(self.input)

    def wish(self, given: Input, context: Context) -> Wish:
        """What this call is about to do."""
        return self.wants(self._typed(given), context)

    def run(self, given: Input, context: Context) -> ToolOutput:
        """Do it."""
        return self.act(self._typed(given), context)

    def wants(self, given: Given, context: Context) -> Wish:
        """What this call is about to do: nothing anybody need be asked about, unless a subclass says otherwise."""
        return Wish(self.name)

    @abstractmethod
    def act(self, given: Given, context: Context) -> ToolOutput:
        """Do it."""

    def _typed(self, given: Input) -> Given:
        typed: Given = msgspec.convert(given, self.input)  # type: ignore[assignment]  # a ClassVar cannot be generic
        return typed
