"""Which sessions of a project hold words of the user that were not looked at for lasting facts.

A session enters its name here when the user says something, and takes it out once a look has covered that. So the next
session finds what a process left that was killed, or had no time at its end. A claim lets one of several sessions that
start at once look at it; the process that made it may die too, so it expires.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.ports import Clock, Folder
from sevenfold.record.decoding import NOT_JSON

UNSEEN = ".versions/unseen.json"
WAIT = 10.0
"""Seconds to wait for the lock of another process."""
CLAIM_SECONDS = 600.0
"""How long a session that was claimed is left to who claimed it."""
MOST_SESSIONS = 2_000
"""The most sessions of which it is known how far they were looked at; beyond that, the oldest are forgotten."""


class SessionLooks(Struct, frozen=True, omit_defaults=True):
    """How far one session was looked at."""

    at: float
    """When this last changed, in seconds since 1970."""
    covered: str = ""
    """The last record that a look covered; empty if there was no look."""
    waiting: bool = False
    """Whether the user said something after it."""
    owner: str = ""
    """The process that has the session open; empty if it was closed."""
    claimed: float = 0.0


class UnseenSessions:
    """The sessions of one memory."""

    def __init__(self, folder: Folder, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    def covered(self, session: str) -> str:
        """The last record of a session that a look covered; empty if unknown."""
        looks = self._read().get(session)
        return looks.covered if looks else ""

    def begin(self, session: str, owner: str) -> None:
        """Note that a session, open in the process ``owner``, has words that were not looked at."""
        self._change(session, lambda looks: replace(looks, waiting=True, owner=owner, claimed=0.0))

    def leave(self, session: str) -> None:
        """Note that a session was closed, so that others may look at what it left."""
        self._change(session, lambda looks: replace(looks, owner="", claimed=0.0))

    def done(self, session: str, covered: str) -> None:
        """Note that a session was looked at up to a record."""
        self._change(session, lambda looks: replace(looks, covered=covered, waiting=False, claimed=0.0))

    def claim(self, own_session: str, is_alive: Callable[[str], bool], limit: int) -> list[str]:
        """Claim sessions that wait and whose process is gone, but not the own one; up to a limit, the oldest first."""
        if not any(looks.waiting and name != own_session for name, looks in self._read().items()):
            return []
        with self._folder.lock(wait=WAIT):
            sessions = self._read()
            now = self._clock.now()

            def is_free(name: str) -> bool:
                looks = sessions[name]
                if name == own_session or not looks.waiting or 0 <= now - looks.claimed < CLAIM_SECONDS:
                    return False
                return not (looks.owner and is_alive(looks.owner))

            oldest_first = sorted(sessions, key=lambda name: sessions[name].at)
            free = list(filter(is_free, oldest_first))[:limit]
            if free:
                self._write(sessions | {name: replace(sessions[name], claimed=now) for name in free})
            return free

    def waiting(self, own_session: str = "") -> list[str]:
        """The sessions with words that were not looked at, other than ``own_session``."""
        return [name for name, looks in self._read().items() if looks.waiting and name != own_session]

    def _change(self, session: str, change: Callable[[SessionLooks], SessionLooks]) -> None:
        with self._folder.lock(wait=WAIT):
            sessions = self._read()
            now = self._clock.now()
            changed = replace(change(sessions.get(session) or SessionLooks(now)), at=now)
            if changed.waiting or changed.covered:
                self._write(sessions | {session: changed})

    def _read(self) -> dict[str, SessionLooks]:
        with suppress(*NOT_JSON):
            return msgspec.json.decode(self._folder.read(UNSEEN) or b"{}", type=dict[str, SessionLooks])
        return {}

    def _write(self, sessions: dict[str, SessionLooks]) -> None:
        newest = sorted(sessions.items(), key=lambda item: (not item[1].waiting, -item[1].at))[
            :MOST_SESSIONS
        ]
        self._folder.write(UNSEEN, msgspec.json.encode(dict(newest)))
