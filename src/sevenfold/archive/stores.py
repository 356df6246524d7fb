"""Sessions in stores that have a URL: ``postgresql://db.example.com/agents?tenant=acme#support-42``.

Whoever takes the name of a recorded session takes that as well. What reads sessions reads files, so it gets a copy: the
session as it is now, in a temporary folder that is removed when the process ends.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct

from sevenfold.archive.untrusted import one_line
from sevenfold.errors import InputError, TranscriptMissing
from sevenfold.ports import Log, SessionInfo, Store
from sevenfold.record import entries
from sevenfold.record.authorship import users_words
from sevenfold.record.entries import Label, Said
from sevenfold.record.log import title_of
from sevenfold.stores.home import Project
from sevenfold.stores.jsonl.store import JsonlStore
from sevenfold.stores.registry import open_store

NEWEST = "last"
MOST_LOOKED_AT = 1_000
"""How many sessions, the newest first, a beginning of a name is compared with."""
_HEAD_LINES = 200
_LONGEST_TITLE = 80
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+://[^#]*)(?:#(.*))?", re.DOTALL)
_copies: list[Path] = []
"""The folders with copies."""


class SessionInStore(Struct, frozen=True):
    """A session in a store, by its name there."""

    url: str
    name: str


class RecognisedSession(Struct, frozen=True):
    """A session in a store, and what people recognise it by."""

    info: SessionInfo
    title: str
    project: str


def by_url(name: str) -> SessionInStore | None:
    """The session that a URL names; None if it is no URL, `InputError` if it names a store alone."""
    parts = _URL.fullmatch(name)
    if parts is None:
        return None
    if not parts[2]:
        raise InputError(
            "this names a store; add # and the name of a session in it, or list them: sevenfold sessions --store URL"
        )
    return SessionInStore(parts[1], unquote(parts[2]))


def copy_of(session: SessionInStore) -> Path:
    """The transcript of a copy of the session, with its notes; raises `TranscriptMissing`."""
    folder = Path(tempfile.mkdtemp(prefix="sevenfold-copy-"))
    if not _copies:
        atexit.register(remove_copies)
    _copies.append(folder)
    with closing(open_store(session.url)) as store:
        name = _full_name(store, session.name)
        copy = JsonlStore(folder)
        copy.import_(name, store.export(name))
        notes = store.notes(name).read()
        if notes is not None:
            copy.notes(name).write(notes)
    return copy.files(name).transcript


def remove_copies() -> None:
    """Remove all copies that this process made."""
    while _copies:
        shutil.rmtree(_copies.pop(), ignore_errors=True)


def notes_of_copy(transcript: Path) -> Path:
    """The file with the notes of a copy."""
    return Project(transcript.parent).session(transcript.stem).notes


def listed(url: str) -> Iterator[RecognisedSession]:
    """The sessions of a store, newest first, with their titles."""
    with closing(open_store(url)) as store:
        for info in store.sessions():
            yield _listed(info, store.read(info.name))


def _listed(info: SessionInfo, log: Log) -> RecognisedSession:
    labels: dict[str, str] = {}
    words = ""
    for line in log.head(_HEAD_LINES):
        entry = entries.read(line)
        if isinstance(entry, Label):
            labels[entry.kind] = entry.text
        elif isinstance(entry, Said) and not entry.sidechain:
            words = words or users_words(entry)
    title = one_line(title_of(labels) or words, _LONGEST_TITLE)
    return RecognisedSession(info, title, log.identity().folder)


def _full_name(store: Store, name: str) -> str:
    names = [info.name for info in store.sessions(limit=MOST_LOOKED_AT)]
    if not names:
        raise TranscriptMissing("there are no sessions in this store")
    if name == NEWEST:
        return names[0]
    matching = [known for known in names if known.startswith(name)]
    if name in matching or not matching:
        return name  # perhaps an older one; reading it says so if there is none
    if len(matching) > 1:
        some = ", ".join(one_line(known, 60) for known in matching[:5])
        raise InputError(
            f"{one_line(name, 60)}: {len(matching)} sessions of the store begin with it: {some}; give more of the name"
        )
    return matching[0]
