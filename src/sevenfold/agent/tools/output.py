"""The output of a tool: content for the model, and facts for user interfaces and the engine.

Facts are a closed union, so that an interface can show each kind in its own way and the engine can act on those it
needs. Facts are not sent to the model. Content goes through `sendable`: a result that a provider rejects would stay in
the conversation for good, and every later request would fail.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.errors import InputError
from sevenfold.record.blocks import encode_json

_HALF = re.compile("[\ud800-\udfff]")
_ESCAPED_BYTES = range(0xDC80, 0xDD00)
"""The lone surrogates that represent bytes that are not UTF-8 in a Python string."""
_NEEDS: Mapping[str, tuple[str, type]] = {
    "text": ("text", str),
    "image": ("source", dict),
    "document": ("source", dict),
    "search_result": ("content", list),
    "tool_reference": ("type", str),
    "browser_state": ("type", str),
}
"""The types of blocks a result may contain, each with a required field and its type."""


class FileRead(Struct, frozen=True, tag=True):
    """A file was shown to the model."""

    path: str
    version: str
    whole: bool = False
    """Whether the model was shown all of it; an unchanged file need not be shown again while this is in view."""
    again: str = ""
    """The earlier call whose result shows the file, if this call only refers to it."""


class FileChanged(Struct, frozen=True, tag=True):
    """A file was written."""

    path: str
    version: str
    diff: str
    """A unified diff, cut if it is too long."""
    added: int = 0
    removed: int = 0
    created: bool = False


class CommandRan(Struct, frozen=True, tag=True):
    """A command ended, or was stopped."""

    command: str
    code: int | None = None
    """None if it was stopped."""
    problem: str = ""
    cwd: str = ""
    """The working directory of the next command."""
    seconds: float = 0.0


class TaskChanged(Struct, frozen=True, tag=True):
    """A background task started, or changed its state."""

    task: str
    command: str
    state: Literal["running", "completed", "failed", "killed", "gone"]
    path: str
    """The file with its output."""


class TodosChanged(Struct, frozen=True, tag=True):
    """The to-do list changed."""

    open: int
    done: int


class UserAnswered(Struct, frozen=True, tag=True):
    """The user answered questions, and has seen their answers."""

    answers: int


class PlanChanged(Struct, frozen=True, tag=True):
    """Planning began or ended."""

    planning: bool
    path: str


class SkillUsed(Struct, frozen=True, tag=True):
    """A skill was loaded."""

    name: str
    path: str


class Denied(Struct, frozen=True, tag=True):
    """The call was not permitted, so nothing was done."""

    reason: str


Fact = (
    FileRead
    | FileChanged
    | CommandRan
    | TaskChanged
    | TodosChanged
    | UserAnswered
    | PlanChanged
    | SkillUsed
    | Denied
)


class ToolOutput(Struct, frozen=True):
    """The result of a tool call."""

    content: str | list[dict[str, Any]]
    """Text, or content blocks in the provider's format for tool results."""
    is_error: bool = False
    facts: tuple[Fact, ...] = ()

    @property
    def text(self) -> str:
        """The text of the result; blocks without text are represented by their type."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(
            str(block.get("text", f"({block.get('type', 'block')})")) for block in self.content
        )


def failed(text: str) -> ToolOutput:
    """Make an error result; ``text`` says what went wrong and what to do about it."""
    return ToolOutput(text, is_error=True)


def denied(why: str) -> ToolOutput:
    """Make the error result of a call that was not permitted."""
    return ToolOutput(why, is_error=True, facts=(Denied(why),))


def sendable(returned: Any, tool: str) -> ToolOutput:
    """Convert what a tool returned into a result that every provider accepts.

    Lone surrogates, as in file names in another encoding, are escaped; empty text blocks are dropped; a value that is
    not a valid result becomes an error result that says so.
    """
    if not isinstance(returned, ToolOutput):
        return failed(f"{tool} returned {type(returned).__name__} instead of ToolOutput.")
    try:
        content = _clean(returned.content)
        encode_json(content)
    except (InputError, RecursionError) as error:
        return failed(f"{tool} gave back something that cannot be sent: {error}")
    if isinstance(content, list) and all(map(_is_block, content)):
        content = [block for block in content if block["type"] != "text" or block["text"].strip()]
        if returned.is_error:
            # Providers accept only text in an error result.
            content = "\n".join(str(block.get("text", f"[{block['type']}]")) for block in content)
    elif not isinstance(content, str):
        return failed(f"{tool} returned something that is neither text nor a list of content blocks.")
    return returned if content == returned.content else replace(returned, content=content)


def _clean(value: Any) -> Any:
    match value:
        case str():
            return _HALF.sub(_spelled, str.__str__(value))
        case Mapping():
            return {_clean(key): _clean(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_clean(item) for item in value]
        case _:
            return value


def _spelled(surrogate: re.Match[str]) -> str:
    code = ord(surrogate[0])
    return f"\\x{code - 0xDC00:02x}" if code in _ESCAPED_BYTES else f"\\u{code:04x}"


def _is_block(block: Any) -> bool:
    match block:
        case {"type": str() as block_type} if block_type in _NEEDS:
            field, expected_type = _NEEDS[block_type]
            return isinstance(block.get(field), expected_type)
        case _:
            return False
