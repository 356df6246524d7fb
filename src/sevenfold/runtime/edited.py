"""What the provider itself left out of a request, as its answer tells."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sevenfold.ports import Reply
from sevenfold.record.wire import Message
from sevenfold.request.frame import Frame
from sevenfold.request.plan import Tail, edge_of

_EDITS = "context_management"


def taken_out(reply: Reply) -> int:
    """Tokens the provider's own edits took out, and those deleted from the cached prefix by reference."""
    usage = msgspec.json.decode(reply.answer.usage) if reply.answer.usage else None
    deleted = usage.get("cache_deleted_input_tokens") or 0 if isinstance(usage, dict) else 0
    match msgspec.json.decode(reply.context_management):
        case {"applied_edits": list() as edits}:
            cleared = (edit.get("cleared_input_tokens") or 0 for edit in edits if isinstance(edit, dict))
            return int(deleted) + sum(cleared)
        case _:
            return int(deleted)


def cleared_uses(reply: Reply) -> int:
    """How many tool calls the provider's edits cleared."""
    match msgspec.json.decode(reply.context_management):
        case {"applied_edits": list() as edits}:
            return sum(edit.get("cleared_tool_uses") or 0 for edit in edits if isinstance(edit, dict))
        case _:
            return 0


def edge(frame: Frame, messages: Sequence[Message], uses: int) -> Tail | None:
    """The last result the provider cleared when it cleared so many; None if it clears nothing."""
    if not uses:
        return None
    managed = msgspec.json.decode(dict(frame.settings).get(_EDITS, b"{}"))
    excluded = {name for edit in managed.get("edits", ()) for name in edit.get("exclude_tools") or ()}
    return edge_of(messages, uses, excluded)
