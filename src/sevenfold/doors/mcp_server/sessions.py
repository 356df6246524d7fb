"""Which sessions the tools may read, and which of them is "this" one.

Only recorded sessions can be named, by id or title: a path that a model gives is never opened. "This" session is the
one that the plugin's hook noted for the program that started the server. Where no hook did, there is none: the newest
session of the folder might be that of another window.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sevenfold.doors.plugins.window import WindowSession
from sevenfold.errors import InputError, TranscriptMissing

if TYPE_CHECKING:
    from sevenfold.archive.sessions import StoredSession
    from sevenfold.archive.transcript import ArchivedSession
    from sevenfold.memory.memory import Memory

MOST_OPEN = 16
"""Sessions whose index is kept for the next question."""
_LISTED = 5

Window = Callable[[], WindowSession | None]


def shelf_of(folder: Path, window: Window, store: str | None) -> SessionShelf:
    """The sessions of this machine, or those of the store with this URL."""
    if store is None:
        return SessionShelf(folder, window)
    from sevenfold.doors.mcp_server.store_sessions import StoreShelf

    return StoreShelf(folder, store)


class SessionShelf:
    """The recorded sessions, each opened once and followed as it grows.

    What reads them is imported with the first question, because a program waits for its servers when it starts.
    """

    def __init__(self, folder: Path, window: Window) -> None:
        self._folder = folder
        self._window = window
        self._open: OrderedDict[Path, ArchivedSession] = OrderedDict()

    @property
    def folder(self) -> Path:
        """The folder of the project; after a change of folder in the window, still the one it began in."""
        window = self._window()
        return window.folder if window else self._folder

    def memory(self, *, user: bool) -> Memory:
        """What is remembered of the project, or of the user."""
        from sevenfold.session.factory import (
            open_memory,  # half as much to load as everything else together
        )

        return open_memory(self.folder, user=user)

    def named(self, name: str) -> ArchivedSession:
        """The session with this id, beginning of an id, or title; without a name, this window's."""
        from sevenfold.archive import sessions as archived

        if not name.strip():
            return self.opened(self.this())
        return self.opened(archived.named(name, archived.stored()).path)

    def this(self) -> Path:
        """The transcript of this window's session; raises `InputError` if it is not known."""
        window = self._window()
        if window is None:
            raise InputError(
                f"which session runs in this window is not known; name one: {self._some_here()}"
            )
        if not window.transcript.is_file():
            raise TranscriptMissing(
                f"nothing of this session is on record yet; other sessions: {self._some_here()}"
            )
        return window.transcript

    def here(self) -> list[StoredSession]:
        """The sessions of this project, the newest first."""
        from sevenfold.archive import sessions as archived

        return [session for session in archived.stored() if archived.is_in(session, self.folder)]

    def everywhere(self) -> list[StoredSession]:
        """The sessions of all projects, the newest first."""
        from sevenfold.archive import sessions as archived

        return archived.stored()

    def opened(self, path: Path) -> ArchivedSession:
        """A session, with the index it was given before; the one used longest ago is closed to make room."""
        from sevenfold.archive.transcript import ArchivedSession

        session = self._open.pop(path, None) or ArchivedSession(path)
        self._open[path] = session
        while len(self._open) > MOST_OPEN:
            _, oldest = self._open.popitem(last=False)
            oldest.close()
        return session

    def forget(self, path: Path) -> None:
        """Close a session, if it is open."""
        session = self._open.pop(path, None)
        if session is not None:
            session.close()

    def close(self) -> None:
        """Close all sessions."""
        while self._open:
            self._open.popitem()[1].close()

    def _some_here(self) -> str:
        from sevenfold.archive import sessions as archived

        sessions = self.here()[:_LISTED]
        return "; ".join(map(archived.describe, sessions)) or "this folder has none"
