"""A compaction that the user asks for: with the notes as the summary if they can serve, else by asking a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sevenfold.conversation.flow import Flow
from sevenfold.errors import Refused
from sevenfold.layers.compact.compaction import Compacted, CompactionRequest
from sevenfold.layers.compact.compactor import Compactor
from sevenfold.layers.notes.layer import by_notes

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation


def compact(c: Conversation, request: CompactionRequest) -> Flow[Compacted | None]:
    """Compact on the user's request; uses the notes unless it has instructions, a span or another engine."""
    c.refresh()
    compactor = c.state(Compactor)
    compactor.must_be_on()
    if request.engine in (None, "notes") and not request.instructions and request.span == "whole":
        compactor.scope(request)
        outcome = yield from by_notes(c, request)
        if isinstance(outcome, Compacted) or outcome is None:
            return compactor.record_progress(outcome)
        if request.engine == "notes":
            raise Refused(f"the notes cannot serve as a summary: {outcome}")
    return compactor.record_progress((yield from compactor.run(request)))
