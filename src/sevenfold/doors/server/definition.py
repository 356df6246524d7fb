"""What a session is made of, and what a program may ask of it: the bodies of requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from sevenfold.agent.tools.handed_over import HandedOverTool, handed_over
from sevenfold.agent.tools.tool import Kind
from sevenfold.doors.server.problems import Problem
from sevenfold.errors import InputError

SESSION_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
USUAL_ANSWER = 16_000
"""The most tokens of one answer, unless the session says otherwise: as much is reserved of a budget for each call."""
MOST_TOOLS = 128
T = TypeVar("T", bound=Struct)
Text = Annotated[str, Meta(min_length=1)]
_NAME = re.compile(SESSION_NAME)


class ClientTool(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tool that the program carries out."""

    name: Annotated[
        str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,128}$", description="By which the model calls it.")
    ]
    description: Annotated[str, Meta(description="What the model is told about it.")] = ""
    input_schema: Annotated[dict[str, Any], Meta(description="The JSON schema of its input.")] = (
        msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    )
    kind: Annotated[
        Kind,
        Meta(description="Not empty if a result can be obtained again, so that an old one may be cleared."),
    ] = ""

    def tool(self) -> HandedOverTool:
        """The tool for an agent; raises `InputError`."""
        schema = {"name": self.name, "description": self.description, "input_schema": self.input_schema}
        return handed_over(schema, kind=self.kind)


class SessionDefinition(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a session is made of."""

    model: Annotated[str, Meta(description="The model; by default the server's first one.")] = ""
    system: Annotated[str, Meta(description="The system prompt.")] = ""
    tools: Annotated[
        list[ClientTool], Meta(max_length=MOST_TOOLS, description="Tools that the program carries out.")
    ] = []
    server_tools: Annotated[
        list[str], Meta(max_length=MOST_TOOLS, description="Names of tools that the server carries out.")
    ] = []
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000, description="The most tokens of one answer.")] = (
        USUAL_ANSWER
    )
    max_turns: Annotated[int, Meta(ge=1, le=10_000, description="The most requests of one run.")] = 200
    effort: Annotated[
        Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"],
        Meta(
            description="How much effort the model puts into its answers; not every model takes every value."
        ),
    ] = ""
    memory: Annotated[
        bool, Meta(description="Whether to remember lasting facts across the user's sessions.")
    ] = True
    metadata: Annotated[
        dict[str, str], Meta(max_length=32, description="Anything the program wants to find again.")
    ] = {}

    @property
    def client_tools(self) -> frozenset[str]:
        """The names of the tools that the program carries out."""
        return frozenset(tool.name for tool in self.tools)


class CreateBody(
    SessionDefinition, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """A new session."""

    id: Annotated[
        str, Meta(pattern=r"^$|" + SESSION_NAME, description="Its name; by default a new one is made up.")
    ] = ""

    def definition(self) -> SessionDefinition:
        """The definition without the name."""
        fields = {name: getattr(self, name) for name in SessionDefinition.__struct_fields__}
        return SessionDefinition(**fields)


class SayBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What the user says."""

    text: Annotated[str, Meta(min_length=1, description="The user's words.")]
    key: Annotated[
        str,
        Meta(
            max_length=200,
            description="A name for this message: one that was sent before under it is not said again, so a request "
            "whose answer was lost can be repeated.",
        ),
    ] = ""
    origin: Annotated[
        Literal["typed", "pasted", "program"],
        Meta(description="Whether the user typed it. Only typed words are remembered as the user's."),
    ] = "typed"
    wait: Annotated[bool, Meta(description="Whether to answer only when the run has ended.")] = False


class ToolResultBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a call."""

    id: Annotated[str, Meta(min_length=1, max_length=300, description="The id of the call.")]
    content: Annotated[Any, Meta(description="A text, or any other JSON.")] = ""
    is_error: bool = False

    def block(self) -> dict[str, Any]:
        """The content block; JSON that is no text becomes one, so that nothing in it can be anything else."""
        content = (
            self.content if isinstance(self.content, str) else msgspec.json.encode(self.content).decode()
        )
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": self.id, "content": content}
        return {**block, "is_error": True} if self.is_error else block


class ResultsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Results of calls that the run waits for."""

    results: Annotated[list[ToolResultBody], Meta(min_length=1, max_length=1_000)]
    wait: Annotated[bool, Meta(description="Whether to answer only when the run has ended.")] = False


class ContinueBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Continue work that stopped."""

    wait: Annotated[bool, Meta(description="Whether to answer only when the run has ended.")] = False


class CompactBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Summarise the conversation."""

    instructions: Annotated[
        str, Meta(max_length=20_000, description="What matters most in the summary.")
    ] = ""


class UndoBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Undo a decision of the layers."""

    decision: Annotated[str, Meta(max_length=300, description="Its id; by default the newest one.")] = ""


class InterruptBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Stop the run."""


def read(raw: bytes, kind: type[T]) -> T:
    """The body of a request; raises `Problem` for one that cannot be read. No body is an empty one."""
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise Problem(422, "invalid_body", f"the body is not accepted: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "invalid_json", f"the body is not JSON: {error}") from error


def checked_name(name: str) -> str:
    """The name of a session; raises `Problem` for one that no session has."""
    if not _NAME.fullmatch(name) or set(name) == {"."}:
        raise Problem(
            400,
            "invalid_session_id",
            f"{name!r:.80} cannot be the id of a session: up to 128 letters, digits, '.', '_' and '-', the first of "
            "them a letter or digit",
        )
    return name


def tools_of(definition: SessionDefinition, known: Mapping[str, Any]) -> list[Any]:
    """The tools of a session; raises `InputError` for one that is not there, or two with one name."""
    missing = [name for name in definition.server_tools if name not in known]
    if missing:
        there = ", ".join(sorted(known)) or "none"
        raise InputError(f"this server has no tool {missing[0]!r}; it has: {there}")
    tools: Sequence[Any] = [tool.tool() for tool in definition.tools]
    return [*tools, *(known[name] for name in dict.fromkeys(definition.server_tools))]
