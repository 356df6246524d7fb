"""Sessions in memory: for tests, and for sessions that need not outlive the process."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from pathlib import Path
from threading import Condition, Lock
from typing import Self, Unpack

from msgspec import Struct, field

from sevenfold.errors import TranscriptError, TranscriptLocked, TranscriptMissing, TranscriptOvertaken
from sevenfold.ports import Folder, Log, Mailbox, Results, SessionInfo, StoredText
from sevenfold.record.entries import RESULT
from sevenfold.stores.fenced import FencedFolder, FencedMailbox, FencedResults, FencedText
from sevenfold.stores.files import missing_result, result_name, result_names
from sevenfold.stores.folder import MemoryFolder, hold_lock
from sevenfold.stores.jsonl.mailbox import SqliteMailbox
from sevenfold.stores.log import BranchLog, Lease, LineLog, PrefixLog, fill, positions


class MemoryLog(LineLog):
    """Lines in a list; the first is at position ``start``."""

    def __init__(self, lines: Sequence[bytes] = (), *, start: int = 0) -> None:
        self._lines: list[bytes] = []
        self._positions: list[int] = []
        self._start = start
        MemoryLog.append(self, lines)

    @property
    def end(self) -> int:
        """The position of the next line."""
        return self._positions[-1] + len(self._lines[-1]) if self._lines else self._start

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Append lines; ``durable`` makes no difference in memory."""
        # `end` is inlined here for speed, because every record of a session in memory is appended here.
        first = self._positions[-1] + len(self._lines[-1]) if self._lines else self._start
        appended = [first] if len(lines) == 1 else positions(first, lines)
        # Positions are added first, because readers in other threads count the lines.
        self._positions += appended
        self._lines += lines
        return appended

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the lines from a position on."""
        for index in range(bisect_left(self._positions, start), len(self._lines)):
            yield self._positions[index], self._lines[index]

    def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that contain ``text``, newest first."""
        end = len(self._lines) if before is None else bisect_left(self._positions, before)
        for index in range(min(end, len(self._lines)) - 1, -1, -1):
            if text in self._lines[index]:
                yield self._positions[index], self._lines[index]

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class MemoryResults:
    """Tool results in memory; see `sevenfold.ports.Results`."""

    directory: Path | None = None

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def keep(self, name: str, content: bytes) -> str:
        """Store a result; see `sevenfold.ports.Results`."""
        for candidate in result_names(name, content):
            if self._kept.setdefault(candidate, content) == content:
                return f"{RESULT}{candidate}"
        raise AssertionError("unreachable: two contents share a SHA-256")

    def fetch(self, path: str) -> bytes:
        """Return the result stored under a path; see `sevenfold.ports.Results`."""
        try:
            # Logs of earlier versions name them as if they were in a folder.
            named = path.startswith(RESULT)
            return self._kept[path.removeprefix(RESULT) if named else result_name(path, "memory")]
        except KeyError:
            raise missing_result(path) from None


class MemoryText:
    """A text in memory; see `sevenfold.ports.StoredText`."""

    def __init__(self, path: str = "memory/notes.md") -> None:
        self.path = path
        self._text: str | None = None

    def read(self) -> str | None:
        """Return the text, or None if there is none yet."""
        return self._text

    def write(self, text: str) -> None:
        """Replace the text."""
        self._text = text


class IndexInMemory:
    """The bytes of a search index in memory; see `sevenfold.ports.StoredIndex`."""

    file: Path | None = None

    def __init__(self) -> None:
        self._index: bytes | None = None

    def read(self) -> bytes | None:
        """Return the bytes last stored, or None."""
        return self._index

    def write(self, index: bytes) -> None:
        """Replace the bytes."""
        self._index = index


class _Session(Struct):
    """The data of a session, or of a branch."""

    log: MemoryLog
    fence: int = 0
    writing: bool = False
    modified: float = 0.0
    results: MemoryResults = field(default_factory=MemoryResults)
    notes: MemoryText = field(default_factory=MemoryText)
    index: IndexInMemory = field(default_factory=IndexInMemory)
    agent: MemoryText = field(default_factory=lambda: MemoryText("memory/state.json"))
    files: MemoryFolder = field(default_factory=MemoryFolder)
    """The other files of its agent."""


class _Writer(MemoryLog):
    """A session's log, opened for writing."""

    def __init__(self, session: _Session, name: str, changed: Condition) -> None:
        super().__init__(start=session.log._start)
        # These lists are shared with every other log object of the session.
        self._lines = session.log._lines
        self._positions = session.log._positions
        self.fence = session.fence
        self._kept = session
        self._closed = False
        self._name = name
        self._changed = changed

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Append lines; raises `TranscriptOvertaken` if another writer took over."""
        if self._closed:
            raise TranscriptError(f"{self._name}: closed, so nothing can be appended")
        with self._changed:
            if self._kept.fence != self.fence:
                self.renew()  # raises
            return super().append(lines)

    def renew(self) -> None:
        """Raise `TranscriptOvertaken` if another writer has had the lease since; it does not expire."""
        if self._kept.fence != self.fence:
            raise TranscriptOvertaken(
                f"{self._name}: taken over by another writer; nothing was written. Open the session again to "
                "continue from what is there now"
            )

    def close(self) -> None:
        """Release the log, so that others can write."""
        with self._changed:
            if not self._closed and self._kept.fence == self.fence:
                self._kept.writing = False
                self._kept.modified = time.time()
                self._changed.notify_all()
            self._closed = True


class MemoryStore:
    """Sessions that end with the process; a `sevenfold.ports.Store`."""

    def __init__(self, tenant: str = "") -> None:
        self.tenant = tenant
        self._sessions: dict[str, _Session] = {}
        self._branches: dict[tuple[str, str], tuple[PrefixLog, _Session]] = {}
        """For each session and branch name: the lines it starts with, and its own data."""
        self._unopened: dict[tuple[str, str], _Session] = {}
        """What was stored for branches that have no log yet."""
        self._locks: dict[str, Lock] = {}
        self._changed = Condition()
        self._memory = MemoryFolder()
        self._user_memory = MemoryFolder()
        self._mailbox = SqliteMailbox()
        self._writer: Log | None = None
        """The writer that this store is fenced by."""

    def open(self, session: str, **lease: Unpack[Lease]) -> LineLog:
        """Open the session's log for writing; see `sevenfold.ports.Store`."""
        return self._opened(self._kept(session), session, **lease)

    def fenced(self, writer: Log) -> Self:
        """Return a store whose writes are refused once the writer was overtaken; see `sevenfold.ports.Store`."""
        fenced = copy(self)
        fenced._writer = writer
        return fenced

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """The context of one change, during which no other writer can take over."""
        with self._changed:
            if self._writer is not None:
                self._writer.renew()
            yield

    def read(self, session: str) -> LineLog:
        """Open the session's log for reading; raises `TranscriptMissing` if there is none."""
        return self._there(session).log

    def branch(
        self, session: str, name: str, *, of: str = "", at: int | None = None, **lease: Unpack[Lease]
    ) -> LineLog:
        """Open a branch of the session for writing; see `sevenfold.ports.Store`."""
        branch_log = self._there(session).log
        whole: LineLog = branch_log
        if of and (session, of) not in self._branches:
            raise TranscriptMissing(f"{session}: there is no branch {of}")
        if of:
            before, data = self._branches[(session, of)]
            branch_log = data.log
            whole = BranchLog(before, branch_log, before.end)
        start = branch_log.end if at is None else at
        if (session, name) not in self._branches:
            fresh = self._unopened.pop((session, name), None) or _Session(MemoryLog())
            fresh.log = MemoryLog(start=start)
            self._branches[(session, name)] = whole.upto(start), fresh
        base, data = self._branches[(session, name)]
        return BranchLog(base, self._opened(data, f"{session}, branch {name}", **lease), base.end)

    def branches(self, session: str) -> Sequence[str]:
        """Return the names of the session's branches."""
        return sorted(name for owner, name in self._branches if owner == session)

    def transcript(self, session: str, branch: str = "") -> Path | None:
        """Return None: there is no file."""
        return None

    def results(self, session: str) -> Results:
        """The session's tool results."""
        results = self._kept(session).results
        return results if self._writer is None else FencedResults(results, self._writing)

    def notes(self, session: str, branch: str = "") -> StoredText:
        """The notes of the session, or of a branch."""
        return self._text(self._kept(session, branch).notes)

    def recall_index(self, session: str, branch: str = "") -> IndexInMemory:
        """The search index of the session, or of a branch."""
        return self._kept(session, branch).index

    def agent_state(self, session: str) -> StoredText:
        """The state of the session's agent."""
        return self._text(self._kept(session).agent)

    def agent_files(self, session: str, branch: str = "") -> Folder:
        """The files of the session's agent, or of a branch's."""
        return self._folder(self._kept(session, branch).files)

    def memory(self) -> Folder:
        """The memory that outlives the sessions."""
        return self._folder(self._memory)

    def user_memory(self) -> Folder:
        """The user's memory, for all projects."""
        return self._folder(self._user_memory)

    def mailbox(self) -> Mailbox:
        """The mailbox shared by the agents of this process."""
        return self._mailbox if self._writer is None else FencedMailbox(self._mailbox, self._writing)

    def lock(self, name: str, *, wait: float = 0.0) -> AbstractContextManager[None]:
        """Return a context that holds the lock of that name; see `sevenfold.ports.Store`."""
        problem = TranscriptLocked(f"{name}: locked by another thread; wait for it")
        return hold_lock(self._locks.setdefault(name, Lock()), wait, problem)

    def sessions(self, *, since: float = 0.0, limit: int | None = None) -> Sequence[SessionInfo]:
        """Return the sessions with lines that were modified at ``since`` or later, newest first."""
        sessions = [
            SessionInfo(name, data.modified, data.log.end) for name, data in list(self._sessions.items())
        ]
        modified = [info for info in sessions if info.size and info.modified >= since]
        return sorted(modified, key=lambda info: (-info.modified, info.name))[:limit]

    def export(self, session: str) -> Iterator[bytes]:
        """Yield the session's lines."""
        return (line for _, line in self._there(session).log.read())

    def import_(self, session: str, lines: Iterable[bytes]) -> None:
        """Create a session from these lines; see `sevenfold.ports.Store`."""
        fill(self.open(session), session, lines)

    def erase(self, session: str) -> None:
        """Remove the session and all that belongs to it; see `sevenfold.ports.Store`."""
        with self._changed:
            data = self._there(session)
            branches = [name for owner, name in self._branches if owner == session]
            removed = [data, *(self._branches[(session, name)][1] for name in branches)]
            if any(stored.writing for stored in removed):
                raise TranscriptLocked(
                    f"{session}: another writer has it open; close that one or wait for it"
                )
            for stored in removed:
                stored.fence += 1  # what still holds a log of it cannot write any more
            for name in branches:
                del self._branches[(session, name)]
            for owner, name in [key for key in self._unopened if key[0] == session]:
                del self._unopened[(owner, name)]
            del self._sessions[session]

    def close(self) -> None:
        """Do nothing: others may use the same store."""

    def _text(self, text: MemoryText) -> StoredText:
        return text if self._writer is None else FencedText(text, self._writing)

    def _folder(self, folder: MemoryFolder) -> Folder:
        return folder if self._writer is None else FencedFolder(folder, self._writing)

    def _kept(self, session: str, branch: str = "") -> _Session:
        if not branch:
            return self._sessions.setdefault(session, _Session(MemoryLog()))
        if (session, branch) in self._branches:
            return self._branches[(session, branch)][1]
        return self._unopened.setdefault((session, branch), _Session(MemoryLog()))

    def _there(self, session: str) -> _Session:
        if session not in self._sessions:
            raise TranscriptMissing(f"{session}: there is no such session; check its name")
        return self._sessions[session]

    def _opened(self, data: _Session, name: str, wait: float = 0.0, take: bool = False) -> _Writer:
        with self._changed:
            if not self._changed.wait_for(lambda: not data.writing, wait) and not take:
                raise TranscriptLocked(f"{name}: another writer has it open; close that one or wait for it")
            data.fence += 1
            data.writing = True
            data.modified = time.time()
            return _Writer(data, name, self._changed)
