"""Stored conversations: the sessions of a folder, and the messages one can rewind to."""

from __future__ import annotations

import secrets
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from sevenfold.archive import stores
from sevenfold.cli.text import duration, one_line, size
from sevenfold.conversation import history
from sevenfold.errors import TranscriptError
from sevenfold.ports import Log
from sevenfold.record import entries
from sevenfold.record.authorship import users_words
from sevenfold.record.entries import Label, Said
from sevenfold.record.log import title_of
from sevenfold.record.view import View
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.log import JsonlLog

LOOKED_AT = 200
"""Records at the start of a transcript that are searched for the user's first words."""
LONGEST_TITLE = 200
TAIL_BYTES = 256 * 1024
"""Bytes at the end of a transcript that are searched for a title."""
PRINT_MODE_PREFIX = "p-"
"""The prefix of the names of sessions that `-p` created."""

# -- the sessions of a folder ----------------------------------------------------------------


class KeptSession(Struct, frozen=True):
    """A session on disk, or in a store."""

    name: str
    title: str
    modified: float
    size: int
    path: Path | None = None
    """Its file; None if it is in a store."""

    def about(self, now: float) -> str:
        """How long ago the session was last written to, and its size."""
        return f"{duration(max(0.0, now - self.modified))} ago, {size(self.size)}"


def sessions(folder: Path, store: str = "") -> list[KeptSession]:
    """The sessions of a folder that have a title or a message of the user, the newest first.

    With the URL of a ``store``, they are the newest sessions there.
    """
    if store:
        return [
            KeptSession(listed.info.name, listed.title, listed.info.modified, listed.info.size)
            for listed in stores.listed(store, stores.MOST_LISTED)
            if listed.title
        ]
    return [
        KeptSession(file.path.stem, named, file.modified, file.size, file.path)
        for file in user_home().project(folder).sessions()
        if (named := title(file.path))
    ]


def chat_sessions(sessions: list[KeptSession]) -> list[KeptSession]:
    """The sessions in which a user talked to an agent, without those of `-p`."""
    return [session for session in sessions if not session.name.startswith(PRINT_MODE_PREFIX)]


def find_session(sessions: list[KeptSession], name: str) -> KeptSession | None:
    """The newest session with this name or title, else the only one whose name or title begins with it, else None."""
    wanted = name.strip().casefold()
    for session in sessions:
        if wanted in (session.name.casefold(), session.title.casefold()):
            return session
    begun = [
        session
        for session in sessions
        if session.name.startswith(wanted) or session.title.casefold().startswith(wanted)
    ]
    return begun[0] if len(begun) == 1 else None


def new_name(*, printed: bool = False) -> str:
    """A name for a new session: the time and a random suffix, with `PRINT_MODE_PREFIX` if `-p` creates it."""
    return f"{PRINT_MODE_PREFIX if printed else ''}{datetime.now():%Y-%m-%d-%H%M%S}-{secrets.token_hex(2)}"


def title(path: Path) -> str:
    """The title of a session, or the user's first words; empty if there are none.

    Reads only the start and the end of the file. If that fails, the title says why.
    """
    try:
        if labelled := _label(path):
            return one_line(labelled, LONGEST_TITLE)
        for line in JsonlLog(path).head(LOOKED_AT):
            match entries.read(line):
                case Said(sidechain=False) as said if words := users_words(said):
                    return one_line(words, LONGEST_TITLE)
    except (TranscriptError, OSError) as error:
        return f"(cannot be read: {one_line(str(error), 80)})"
    return ""


def _label(path: Path) -> str:
    """The title near the end of a transcript, where every compaction repeats it; empty if there is none."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        found = [entries.read(line) for line in file.read(TAIL_BYTES).splitlines() if b'title"' in line]
    return title_of({one.kind: one.text for one in found if isinstance(one, Label)})


# -- rewinding -------------------------------------------------------------------------------


class RewindPoint(Struct, frozen=True):
    """A message of the user to which the conversation can be rewound."""

    record: str
    before: str | None
    """The record to continue from; None for the start of the conversation."""
    words: str
    at: str
    """The timestamp of the message."""
    after: int
    """How many records a rewind would leave behind, the message included."""
    compacted: bool = False
    """Whether a compaction has hidden the message since."""


def rewind_points(log: Log, view: View) -> list[RewindPoint]:
    """The user's messages in this conversation, including those before compactions, the newest first."""
    whole = history.whole(log)
    items = whole.items
    found = []
    for index, item in enumerate(items):
        record = item.record
        elsewhere = item.hidden_by or record.attachment or record.answers
        if not elsewhere and (words := users_words(record)):
            previous = items[index - 1].record.uuid if index else None
            before = _hidden_parent(log, whole, record) or previous
            gone = view.item(record.uuid) is None
            found.append(
                RewindPoint(record.uuid, before, words, record.timestamp, len(items) - index, gone)
            )
    return found[::-1]


def _hidden_parent(log: Log, whole: View, record: Said) -> str | None:
    """The parent of a message if it is in the log but not in the view without compactions, as a summary is."""
    parent = record.parent
    follows = parent is not None and whole.entry(parent) is None and history.holds(log, parent)
    return parent if follows else None
