"""A fact to look for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

USER_MESSAGE, CORRECTION, PREFERENCE, DECISION = "user_message", "correction", "preference", "decision"
EDITED_FILE, ERROR, PENDING_TASK = "edited_file", "error", "pending_task"
CURRENT_STEP, IDENTIFIER = "current_step", "identifier"
KINDS = (
    USER_MESSAGE,
    CORRECTION,
    PREFERENCE,
    DECISION,
    PENDING_TASK,
    CURRENT_STEP,
    EDITED_FILE,
    ERROR,
    IDENTIFIER,
)
"""What facts there are, those that matter most first."""

Match = Literal["verbatim", "exact", "words"]


class Probe(Struct, frozen=True):
    """A fact from the records a compaction hides, and how to tell whether it is still there."""

    kind: str
    text: str
    """What to look for, and what to ask recall."""
    record: str
    """The record it comes from…"""
    sought: tuple[str, ...]
    """…and the kinds of records, as recall names them, among which that is found."""
    match: Match = "words"
    """How it counts as present: all of it (verbatim), to the letter between other signs (exact), or by its
    words, most of which must stand close together."""
    accepts: tuple[str, ...] = ()
    """Other texts that say the same and count as well."""
    others: tuple[str, ...] = ()
    """Further records that hold the same fact."""

    def found_in(self, records: Iterable[str]) -> bool:
        """Is a record with this fact among these?"""
        return not {self.record, *self.others}.isdisjoint(records)
