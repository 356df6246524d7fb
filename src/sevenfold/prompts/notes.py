"""The texts with which session notes are kept up to date."""

from __future__ import annotations

from sevenfold.prompts.text import KB, LINE_CAP, Text

_SHOWN = ""
PRESSING = 1.25
"""Over a limit by so much, the request to be shorter becomes a demand…"""
TOO_LONG = 2.0
"""…and by so much, the first thing to do."""


class NotesUpdate(Text, frozen=True):
    """The instruction to bring the notes up to date."""

    file = "notes_update"
    role = "user"
    body = "notes"
    cap = 200 * KB

    limit: int
    total: int
    notes: str
    urgent: str | None = None


class KeepShort(Text, frozen=True):
    """Which sections of the notes have become too long, and how pressing that is."""

    file = "notes_short"
    role = "user"
    cap = 2 * LINE_CAP

    whole: int
    total: int
    sections: str | None = None
    soon: str | None = None
    now: str | None = None
    first: str | None = None

    @classmethod
    def of(cls, over: float, sections: str, whole: int, total: int) -> KeepShort:
        """``over`` is how many times the limit the worst of them is."""
        return cls(
            whole,
            total,
            sections or None,
            soon=_SHOWN if over < PRESSING else None,
            now=_SHOWN if PRESSING <= over < TOO_LONG else None,
            first=_SHOWN if over >= TOO_LONG else None,
        )
