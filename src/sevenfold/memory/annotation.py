"""What a dream may add to an entry without touching a word of it: in its head, for the index and for people.

    dates   the dates of days that the statement names relative to the day it was made
    gone    paths, commands and flags in it that do not exist any more
    short   a shorter form of a long statement for the index, made of its own words

All three are checked against the statement where they are written and again where they are read, so an edit of the file
cannot put other words into them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from msgspec.structs import replace

from sevenfold.memory.dates import DATES, checked_dates
from sevenfold.memory.entry import MemoryEntry
from sevenfold.memory.generation import digest
from sevenfold.memory.index import DATES_KEY, GONE_KEY, MAX_SHORT_CHARS, SHORT_KEY
from sevenfold.memory.memory import EntryEdit, KnownEntry
from sevenfold.memory.tree import stale
from sevenfold.memory.words import shortens

_ONE_LINE = re.compile(r"\s+")


def annotated(
    known_entry: KnownEntry,
    dates: Iterable[tuple[str, str]] = (),
    short: str = "",
    there: Callable[[str], bool] | None = None,
) -> EntryEdit | None:
    """The entry with what can be added to its head; None if that changes nothing.

    ``dates`` and ``short`` are what a model proposes; ``there`` checks whether a path or command exists.
    """
    entry = known_entry.entry
    if entry.pinned or not known_entry.stamp.trusted:
        return None
    page = entry.page
    for key, value in (
        (DATES_KEY, _dates(known_entry, dates)),
        (
            GONE_KEY,
            ", ".join(stale(entry.statement, there))
            if there is not None
            else page.values.get(GONE_KEY, ""),
        ),
        (SHORT_KEY, _short(entry, short)),
    ):
        if value != page.values.get(key, ""):
            page = page.with_value(key, value)
    content = MemoryEntry(entry.file, page).render()
    if content == entry.render():
        return None
    return EntryEdit(content, replace(known_entry.stamp, sha256=digest(content)))


def _dates(known_entry: KnownEntry, proposed: Iterable[tuple[str, str]]) -> str:
    """The relative days in an entry with their dates, unless they were written down when it was made."""
    entry = known_entry.entry
    noted = known_entry.entry.page.values.get(DATES_KEY, "")
    if DATES in entry.note or not known_entry.stamp.created:
        return noted
    said_on = datetime.fromtimestamp(known_entry.stamp.created).date()
    named: Mapping[str, str] = checked_dates(entry.statement, proposed, said_on)
    return ", ".join(f"{_ONE_LINE.sub(' ', phrase)} is {day}" for phrase, day in named.items()) or noted


def _short(entry: MemoryEntry, proposed: str) -> str:
    plain = " ".join(entry.statement.split())
    short = " ".join(proposed.split())
    if short and len(short) <= MAX_SHORT_CHARS < len(plain) and shortens(short, plain):
        return short
    return entry.page.values.get(SHORT_KEY, "")
