"""What the provider itself left out of a request, as its answer tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from sevenfold.ports import Reply
from sevenfold.record.blocks import read_fields
from sevenfold.record.usage import counted
from sevenfold.record.wire import Message
from sevenfold.request.frame import Frame
from sevenfold.request.plan import Tail, edge_of

_EDITS = "context_management"


def taken_out(reply: Reply) -> int:
    """Tokens the provider's own edits took out, and those deleted from the cached prefix by reference."""
    deleted = counted(read_fields(reply.answer.usage), "cache_deleted_input_tokens")
    return deleted + sum(counted(edit, "cleared_input_tokens") for edit in _applied(reply))


def cleared_uses(reply: Reply) -> int:
    """How many tool calls the provider's edits cleared."""
    return sum(counted(edit, "cleared_tool_uses") for edit in _applied(reply))


def _applied(reply: Reply) -> list[dict[str, Any]]:
    edits = read_fields(reply.context_management).get("applied_edits")
    return [edit for edit in edits if isinstance(edit, dict)] if isinstance(edits, list) else []


def edge(frame: Frame, messages: Sequence[Message], uses: int) -> Tail | None:
    """The last result the provider cleared when it cleared so many; None if it clears nothing."""
    if not uses:
        return None
    managed = msgspec.json.decode(dict(frame.settings).get(_EDITS, b"{}"))
    excluded = {name for edit in managed.get("edits", ()) for name in edit.get("exclude_tools") or ()}
    return edge_of(messages, uses, excluded)
