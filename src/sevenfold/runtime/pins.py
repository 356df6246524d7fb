"""What the user pinned."""

from __future__ import annotations

from sevenfold.record.decisions import Pin
from sevenfold.runtime.transcript import Transcript


def pinned(transcript: Transcript) -> set[str]:
    """The records that are pinned now."""
    view = transcript.view
    records = set(view.carry.pins) if view.carry else set()
    for made in view.decisions():
        if isinstance(made, Pin) and made.id not in view.undone:
            (records.discard if made.off else records.add)(made.record)
    return records
