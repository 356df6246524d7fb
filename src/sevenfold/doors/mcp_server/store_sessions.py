"""The sessions of a store that has a URL, for the tools of the MCP server.

What reads sessions reads files, so each session that a question is about is copied, again only when it has grown.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sevenfold.archive import stores
from sevenfold.archive.sessions import StoredSession
from sevenfold.archive.untrusted import one_line
from sevenfold.doors.mcp_server.sessions import SessionShelf
from sevenfold.errors import InputError
from sevenfold.ports import SessionInfo
from sevenfold.stores.registry import open_store

if TYPE_CHECKING:
    from sevenfold.archive.transcript import ArchivedSession
    from sevenfold.memory.memory import Memory

_NAMED = 5


class StoreShelf(SessionShelf):
    """The newest sessions of a store; none of them is "this" one, because no window keeps its session there."""

    def __init__(self, folder: Path, url: str) -> None:
        stores.check_url(url)
        super().__init__(folder, lambda: None)
        self._url = url
        self._store = open_store(url)
        self._copies: dict[str, StoredSession] = {}
        """The newest copy of each session, with when that was modified and its size then."""

    def memory(self, *, user: bool) -> Memory:
        """What is remembered in the store."""
        from sevenfold.session.factory import open_memory

        return open_memory(user=user, store=self._store)

    def named(self, name: str) -> ArchivedSession:
        """The session with this name, or this beginning of one."""
        if not name.strip():
            return self.opened(self.this())
        full_name = stores.full_name(self._store, name)
        infos = [
            info for info in self._store.sessions(limit=stores.MOST_LOOKED_AT) if info.name == full_name
        ]
        if infos:
            return self.opened(self._copied(infos[0]).path)
        return self.opened(stores.copy_of(stores.SessionInStore(self._url, full_name), known=True))

    def this(self) -> Path:
        """Raises `InputError`: which session of a store is meant has to be said."""
        names = [one_line(info.name, 60) for info in self._store.sessions(limit=_NAMED)]
        raise InputError(
            f"say which session of the store; the newest are: {'; '.join(names) or 'the store has none'}"
        )

    def here(self) -> list[StoredSession]:
        """The newest sessions of the store: its URL says of which project."""
        return self.everywhere()

    def everywhere(self) -> list[StoredSession]:
        """The newest sessions of the store."""
        return [self._copied(info) for info in self._store.sessions(limit=stores.MOST_COPIED)]

    def close(self) -> None:
        """Close all sessions, and the store."""
        super().close()
        self._store.close()

    def _copied(self, info: SessionInfo) -> StoredSession:
        """A copy of a session as it is now."""
        before = self._copies.get(info.name)
        if before is not None:
            if (before.modified, before.size) == (info.modified, info.size):
                return before
            self.forget(before.path)
            stores.remove_copy(before.path)
        path = stores.copy_of(stores.SessionInStore(self._url, info.name), known=True)
        copied = StoredSession(path, "Sevenfold", info.name, info.modified, info.size)
        self._copies[info.name] = copied
        return copied
