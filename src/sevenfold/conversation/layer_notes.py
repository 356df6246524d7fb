"""What a layer keeps for itself, in the session's log: so it is there again when the session is opened again.

State that only matters while a session is open lives in `Conversation.state`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Raw

from sevenfold.errors import InputError
from sevenfold.record.decisions import LayerNote
from sevenfold.record.decoding import NOT_JSON

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

T = TypeVar("T")


def keep(c: Conversation, layer: str, note: object) -> None:
    """Record a note under the layer's name, in place of its last one; ``note`` is anything that JSON can hold."""
    if not layer:
        raise InputError("a note needs the name of the layer that keeps it; pass the layer's name")
    encoded = msgspec.json.encode(note)
    if c.gate is not None:
        encoded = c.gate.json(encoded)
    with c.lock:
        c.transcript.decide(LayerNote(layer=layer, note=Raw(encoded)))


def read(c: Conversation, layer: str, kind: type[T]) -> T | None:
    """The last note that was kept under the layer's name in this log; None if there is none, or it is of another kind.

    Rewinding does not take a note back: if that matters, put into it which record it is about.
    """
    with c.lock:
        for _, note in c.transcript.log.decisions(LayerNote):
            if note.layer == layer:
                return _converted(note.note, kind)
    return None


def _converted(note: Raw, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(note, type=kind)
    except NOT_JSON:
        # Another version of the layer kept it.
        return None
