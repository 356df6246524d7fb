"""A store that remembers every write in order, so that a session can be continued from any of them: a kill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sevenfold.stores.log import LineLog
from sevenfold.stores.memory import MemoryLog, MemoryStore


class _Watched(MemoryLog):
    """A log whose writes are reported."""

    def __init__(self, log: LineLog, store: RememberingStore, branch: str) -> None:
        super().__init__()
        self._log, self._store, self._branch = log, store, branch
        self.fence = log.fence
        self.read, self.find, self.close = log.read, log.find, log.close  # type: ignore[method-assign]

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        places = self._log.append(lines, durable=durable)
        # Line by line: a crash may leave the first lines of a write.
        self._store.writes += [(self._branch, line) for line in lines]
        return places


class RememberingStore(MemoryStore):
    """Sessions in memory, and all writes to them in the order in which they happened."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[str, bytes]] = []
        """Branch (empty: the session itself), and the line."""
        self.starts: dict[str, tuple[str, int]] = {}
        """What each branch begins with, and how much of it."""

    def open(self, session: str, *, wait: float = 0.0, take: bool = False) -> LineLog:
        return _Watched(super().open(session, wait=wait, take=take), self, "")

    def branch(self, session: str, name: str, *, of: str = "", **more: Any) -> LineLog:
        made = super().branch(session, name, of=of, **more)
        self.starts.setdefault(name, (of, self._branches[session, name][0].end))
        return _Watched(made, self, name)

    def killed_after(self, count: int, session: str) -> RememberingStore:
        """A store as a kill after so many lines would have left it."""
        again = RememberingStore()
        log = MemoryStore.open(again, session)
        log.append([line for branch, line in self.writes[:count] if not branch])
        log.close()
        for name in dict.fromkeys(branch for branch, _ in self.writes[:count] if branch):
            of, start = again.starts[name] = self.starts[name]
            own = MemoryStore.branch(again, session, name, of=of, at=start)
            own.append([line for branch, line in self.writes[:count] if branch == name])
            own.close()
        again.writes = list(self.writes[:count])
        return again
