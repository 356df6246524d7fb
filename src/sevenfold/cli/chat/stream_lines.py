"""The lines of ``stream-json`` that scripts for Claude Code read, and the lines they write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TextIO
from uuid import uuid4

import msgspec
from msgspec import Struct

from sevenfold.agent.events import Happened, ToolEnded
from sevenfold.cli.chat.lines import text_of
from sevenfold.errors import Refused
from sevenfold.events import Answered

if TYPE_CHECKING:
    from sevenfold.agent.agent import Agent
    from sevenfold.agent.events import AgentEvent

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


def message_line(agent: Agent, session: str, event: AgentEvent) -> dict[str, Any] | None:
    """The line of a message of the conversation: an answer of the model, or a tool's result; None for other events."""
    frame = {"session_id": session, "parent_tool_use_id": None, "uuid": str(uuid4())}
    if isinstance(event, ToolEnded):
        result = {"type": "tool_result", "tool_use_id": event.call.id, "content": text_of(event.output)}
        content = [{**result, "is_error": event.output.is_error}]
        return {"type": "user", "message": {"role": "user", "content": content}, **frame}
    if not (isinstance(event, Happened) and isinstance(answered := event.event, Answered)):
        return None
    said = next(
        (one for one in agent.assembly.store.log.answers() if one.message_id == answered.response), None
    )
    if said is None or said.sidechain:
        return None
    message = {
        "id": answered.response,
        "type": "message",
        "role": "assistant",
        "model": answered.model,
        "content": [msgspec.json.decode(block.raw) for block in said.blocks],
        "stop_reason": answered.stop_reason or None,
        "stop_sequence": None,
        "usage": usage_fields(
            answered.input_tokens,
            answered.cache_write_tokens,
            answered.cache_read_tokens,
            answered.output_tokens,
        ),
    }
    return {"type": "assistant", "message": message, **frame}


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
