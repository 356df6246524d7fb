"""A fact to look for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from sevenfold.ports import FoundRecord
from sevenfold.recall.search import Hit

USER_MESSAGE, CORRECTION, PREFERENCE, DECISION = "user_message", "correction", "preference", "decision"
EDITED_FILE, ERROR, PENDING_TASK = "edited_file", "error", "pending_task"
CURRENT_STEP, IDENTIFIER = "current_step", "identifier"
MOST = {
    USER_MESSAGE: 120,
    CORRECTION: 30,
    PREFERENCE: 30,
    DECISION: 30,
    PENDING_TASK: 30,
    CURRENT_STEP: 2,
    EDITED_FILE: 40,
    ERROR: 20,
    IDENTIFIER: 40,
}
"""What facts there are, those that matter most first, and how many of each are looked for at most."""
KINDS = tuple(MOST)

SHORT = 14
"""Characters up to which a message could be anywhere by chance."""

Match = Literal["verbatim", "exact", "words"]


class Probe(Struct, frozen=True):
    """A fact from the records a compaction hides, and how to tell whether it is still there."""

    kind: str
    text: str
    """What to look for, and what to ask recall."""
    record: str
    """The record it comes from; the newest, if several hold it."""
    sought: tuple[str, ...]
    """The kinds of record, as recall names them, among which that is found."""
    match: Match = "words"
    """How it counts as present: all of it (verbatim), to the letter between other signs (exact), or by its
    words, most of which must be close together."""
    accepts: tuple[str, ...] = ()
    """Other texts that say the same and count as well."""

    def found_among(self, hits: Iterable[Hit | FoundRecord]) -> bool:
        """Is its record among what recall found? Another that holds the same words does not count."""
        return any(hit.uuid == self.record for hit in hits)
