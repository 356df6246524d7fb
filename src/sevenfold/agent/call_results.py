"""What the model is told of a call: the tool's output, what hooks add to it, and words for calls that have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from sevenfold.agent.loop import NOT_DONE, Call
from sevenfold.agent.tools.output import ToolOutput, failed, sendable
from sevenfold.agent.wait import Left
from sevenfold.conversation.hooks import HookOutcome

LEFT = (
    "The user interrupted while this was running, so it has no result. What it had done by then is done, and it may "
    "still be going on."
)


def block(call: Call, output: ToolOutput) -> Mapping[str, Any]:
    """The ``tool_result`` block for a call."""
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": output.content}
    return {**result, "is_error": True} if output.is_error else result


def stopped(stop: Exception) -> ToolOutput:
    """For a call that was interrupted, before it began or while it ran."""
    return failed(LEFT if isinstance(stop, Left) else NOT_DONE)


def broken(call: Call, error: Exception) -> ToolOutput:
    """For a call around which something went wrong that is not the tool's own doing."""
    return failed(f"{call.name} could not be carried out: {type(error).__name__}: {error}")


def after_hooks(
    output: ToolOutput, tool: str, after: HookOutcome, before: Sequence[str] = ()
) -> ToolOutput:
    """The output with what hooks put in its place, and beside it."""
    if after.updated_output is not UNSET:
        updated = after.updated_output
        words = updated if isinstance(updated, str) else msgspec.json.encode(updated).decode()
        output = replace(output, content=words)
    told = [*before, *([after.blocked] if after.blocked else []), *after.context]
    if not told:
        return sendable(output, tool)
    words = "[From a hook: " + "\n".join(told) + "]"
    if isinstance(output.content, str):
        return sendable(replace(output, content=f"{output.content}\n\n{words}"), tool)
    return sendable(replace(output, content=[*output.content, {"type": "text", "text": words}]), tool)
