"""A fact to look for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

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

SHORT = 14
"""Characters up to which a message could stand anywhere by chance."""

Match = Literal["verbatim", "exact", "words"]


class Found(Protocol):
    """What recall gives back, as far as it matters here."""

    @property
    def uuid(self) -> str:
        """The record."""

    @property
    def exact(self) -> bool:
        """Does it hold the text as it was asked for?"""


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

    def found_among(self, hits: Iterable[Found]) -> bool:
        """Is a record with this fact among what recall found?

        A name, or a message as short as one, is the same fact in every record that holds it to the letter; else
        it must be one of the records it was taken from.
        """
        records = {self.record, *self.others}
        alike = self.match == "exact" or len(self.text) <= SHORT
        return any(hit.uuid in records or (alike and hit.exact) for hit in hits)
