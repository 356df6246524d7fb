"""What the user pinned: it survives every layer, word for word."""

from __future__ import annotations

from sevenfold.conversation.transcript import Transcript
from sevenfold.record.decisions import Pin
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item


def pinned(transcript: Transcript) -> set[str]:
    """The records that are pinned now."""
    view = transcript.view
    records = set(view.carry.pins) if view.carry else set()
    for made in view.decisions():
        if isinstance(made, Pin) and made.id not in view.undone:
            (records.discard if made.off else records.add)(made.record)
    return records


def pinned_items(transcript: Transcript) -> list[Item]:
    """The same as they were said, from the log where they are no longer in view."""
    found = (transcript.view.item(uuid) or _in_log(transcript, uuid) for uuid in sorted(pinned(transcript)))
    return [one for one in found if one is not None]


def _in_log(transcript: Transcript, uuid: str) -> Item | None:
    match transcript.log.record(uuid):
        case (_, Said() as said):
            return Item.of(said, 0)
        case _:
            return None
