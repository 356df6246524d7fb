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
from urllib.parse import quote, unquote

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
MOST_COPIED = 200
"""How many sessions are copied where all of a store are looked at."""
MOST_LISTED = 1_000
"""How many sessions of a store are listed, unless all are asked for."""
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
    match = _URL.fullmatch(name)
    if match is None:
        return None
    if not match[2]:
        raise InputError(
            "this names a store; add # and the name of a session in it, or list them: sevenfold sessions --store URL"
        )
    return SessionInStore(match[1], unquote(match[2]))


def name_in(url: str, name: str) -> str:
    """The name under which `by_url` finds a session of a store."""
    check_url(url)
    return f"{url}#{quote(name, safe='')}"


def check_url(url: str) -> None:
    """Raise `InputError` if this is not the URL of a store alone."""
    if by_url_of_store(url) is None:
        raise InputError(
            f"--store takes the URL of a store, without # and a session, got {one_line(url, 80)}"
        )


def by_url_of_store(url: str) -> str | None:
    """The URL of a store alone; None if it is something else."""
    match = _URL.fullmatch(url)
    return match[1] if match is not None and match[2] is None else None


def copies(url: str) -> Iterator[Path]:
    """Copies of the newest sessions of a store, at most `MOST_COPIED`."""
    with closing(open_store(url)) as store:
        names = [info.name for info in store.sessions(limit=MOST_COPIED)]
    for name in names:
        yield copy_of(SessionInStore(url, name), known=True)


def copy_of(session: SessionInStore, *, known: bool = False) -> Path:
    """The transcript of a copy of the session, with its notes; raises `TranscriptMissing`.

    If its name is not ``known`` to be whole, it may be the beginning of one, or `NEWEST`.
    """
    folder = Path(tempfile.mkdtemp(prefix="sevenfold-copy-"))
    if not _copies:
        atexit.register(remove_copies)
    _copies.append(folder)
    with closing(open_store(session.url)) as store:
        name = session.name if known else full_name(store, session.name)
        copy = JsonlStore(folder)
        copy.import_(name, store.export(name))
        notes = store.notes(name).read()
        if notes is not None:
            copy.notes(name).write(notes)
    return copy.files(name).transcript


def erase(url: str, name: str) -> None:
    """Remove a session of a store, by its whole name, with everything that belongs to it."""
    with closing(open_store(url)) as store:
        store.erase(name)


def remove_copy(transcript: Path) -> None:
    """Remove a copy that is not needed any more."""
    folder = next((folder for folder in _copies if transcript.is_relative_to(folder)), None)
    if folder is not None:
        _copies.remove(folder)
        shutil.rmtree(folder, ignore_errors=True)


def remove_copies() -> None:
    """Remove all copies that this process made."""
    while _copies:
        shutil.rmtree(_copies.pop(), ignore_errors=True)


def notes_of_copy(transcript: Path) -> Path:
    """The file with the notes of a copy."""
    return Project(transcript.parent).session(transcript.stem).notes


def listed(url: str, limit: int | None = None) -> Iterator[RecognisedSession]:
    """The sessions of a store, newest first, with their titles; at most so many."""
    with closing(open_store(url)) as store:
        for info in store.sessions(limit=limit):
            yield _listed(info, store.read(info.name))


def _listed(info: SessionInfo, log: Log) -> RecognisedSession:
    labels: dict[str, str] = {}
    first_words = ""
    for line in log.head(_HEAD_LINES):
        entry = entries.read(line)
        if isinstance(entry, Label):
            labels[entry.kind] = entry.text
        elif isinstance(entry, Said) and not entry.sidechain:
            first_words = first_words or users_words(entry)
    title = one_line(title_of(labels) or first_words, _LONGEST_TITLE)
    return RecognisedSession(info, title, log.identity().folder)


def full_name(store: Store, name: str) -> str:
    """The name of the session that is meant by this one, by its beginning or by `NEWEST`."""
    names = [info.name for info in store.sessions(limit=MOST_LOOKED_AT)]
    if not names:
        raise TranscriptMissing("there are no sessions in this store")
    if name == NEWEST:
        return names[0]
    matching = [candidate for candidate in names if candidate.startswith(name)]
    if name in matching or not matching:
        return name  # perhaps an older one; reading it says so if there is none
    if len(matching) > 1:
        examples = ", ".join(one_line(candidate, 60) for candidate in matching[:5])
        raise InputError(
            f"{one_line(name, 60)}: {len(matching)} sessions of the store begin with it: {examples}; give more of the "
            "name"
        )
    return matching[0]
