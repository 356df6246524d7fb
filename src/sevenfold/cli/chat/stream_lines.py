"""The lines of ``stream-json`` that scripts for Claude Code read, and the lines they write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TextIO
from uuid import uuid4

import msgspec
from msgspec import Struct

from sevenfold.agent.events import AgentEvent, Happened, ToolBegan, ToolEnded
from sevenfold.errors import Refused
from sevenfold.events import Answered, Failed
from sevenfold.ports import Piece

if TYPE_CHECKING:
    from sevenfold.agent.agent import Agent

SUBTYPES = {"done": "success", "max_turns": "error_max_turns", "budget": "error_max_budget_usd"}
"""What Claude Code calls the ends of a run; every other is an error during execution."""


def init_line(agent: Agent, session: str) -> dict[str, Any]:
    """The first line: what the run begins with."""
    return {
        "type": "system",
        "subtype": "init",
        "session_id": session,
        "uuid": str(uuid4()),
        "cwd": str(agent.assembly.store.cwd),
        "model": agent.model,
        "tools": [tool.name for tool in agent.assembly.box],
        "mcp_servers": [],
        "permissionMode": agent.grants.mode,
    }


class MessageLines:
    """The lines of a run's messages: a block of an answer or a result each, as Claude Code writes them."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._blocks: list[tuple[str, str]] = []
        """The text and thinking of the answer that is coming: their kinds and words."""
        self._answered: Answered | None = None

    def lines(self, event: AgentEvent) -> Iterator[dict[str, Any]]:
        """The lines an event completes."""
        match event:
            case Piece(kind=("text" | "thinking") as kind, words=words):
                if self._blocks and self._blocks[-1][0] == kind:
                    words = self._blocks.pop()[1] + words
                self._blocks.append((kind, words))
            case Happened(event=Failed(source="main")):
                self._blocks = []  # it is asked for again from its beginning
            case Happened(event=Answered(source="main") as answered):
                self._answered = answered
                for name, whole in self._blocks:
                    yield self._answer({"type": name, name: whole})
                self._blocks = []
            case ToolBegan(call=call):
                yield self._answer(
                    {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}
                )
            case ToolEnded(call=call, output=output):
                result = {"type": "tool_result", "tool_use_id": call.id, "content": output.text}
                content = [{**result, "is_error": output.is_error}]
                yield {"type": "user", "message": {"role": "user", "content": content}, **self._frame()}

    def _answer(self, block: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"type": "message", "role": "assistant", "content": [block]}
        if answered := self._answered:
            usage = usage_fields(
                answered.input_tokens,
                answered.cache_write_tokens,
                answered.cache_read_tokens,
                answered.output_tokens,
            )
            stop = answered.stop_reason or None
            message |= {
                "id": answered.response,
                "model": answered.model,
                "stop_reason": stop,
                "usage": usage,
            }
        return {"type": "assistant", "message": message, **self._frame()}

    def _frame(self) -> dict[str, Any]:
        return {"session_id": self._session, "parent_tool_use_id": None, "uuid": str(uuid4())}


def usage_fields(fresh: int, written: int, read: int, output: int) -> dict[str, int]:
    """Counts of tokens under the names of the Messages API."""
    return {
        "input_tokens": fresh,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": output,
    }


class _Text(Struct):
    text: str
    type: Literal["text"] = "text"


class _Message(Struct):
    content: str | list[_Text]
    role: Literal["user"] = "user"


class _Input(Struct):
    message: _Message
    type: Literal["user"] = "user"


def read_prompts(lines: TextIO) -> Iterator[str]:
    """The prompts of ``--input-format stream-json``, one a line; raises `Refused` for a line that is none."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            content = msgspec.json.decode(line, type=_Input).message.content
        except msgspec.DecodeError as error:
            raise Refused(
                f"line {number} of the input is no message of a user: {error}; write a line such as "
                '{"type": "user", "message": {"role": "user", "content": "…"}}'
            ) from error
        words = content if isinstance(content, str) else "\n".join(part.text for part in content)
        if not words.strip():
            raise Refused(f"line {number} of the input: the prompt is empty")
        yield words
