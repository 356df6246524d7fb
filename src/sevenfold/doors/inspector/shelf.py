"""The sessions of this machine, and those of them that are open."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex

from msgspec import Struct

from sevenfold.archive import sessions
from sevenfold.archive.lifetimes import LaneHistory
from sevenfold.archive.log_reader import LogReader, session_key
from sevenfold.archive.sessions import StoredSession
from sevenfold.archive.summaries import SummaryShelf
from sevenfold.archive.transcript import ArchivedSession
from sevenfold.stores.home import branch_of, user_home
from sevenfold.stores.jsonl.lock import is_held

OPEN = 8
"""How many sessions are held open at most."""
SCAN_SECONDS = 2.0
"""How often the folders are looked through for new and changed sessions."""
WRITTEN_LATELY = 90.0
"""Seconds after its last change for which another tool's session counts as running."""
PATIENCE = 20.0
"""A file that is still being written is summarised again only after this many times what reading it took."""


class ShelvedSession(Struct, frozen=True):
    """A session in the list."""

    key: str
    stored: StoredSession
    running: bool
    parent: str = ""
    """The key of the session whose sub-agent this is."""


class RequestMarks:
    """Says by a few characters which requests a page has, the same in every process."""

    def __init__(self, lane: LaneHistory) -> None:
        self.lane = lane
        self.counted = 0
        """How many requests are in the digest; it can only grow."""
        self._digest = blake2b(digest_size=9)

    def of(self, count: int) -> str:
        """The mark of the first ``count`` requests; of the last one only that it is there, as it may be revised."""
        for sent in self.lane.requests[self.counted : max(self.counted, count - 1)]:
            self._digest.update(f"{sent.request} {sent.report.at} {sent.report.prompt};".encode())
            self.counted += 1
        return self._digest.hexdigest()


class OpenSession:
    """A session that a page shows; used by one thread at a time, which holds the lock."""

    def __init__(self, key: str, stored: StoredSession) -> None:
        self.key = key
        self.stored = stored
        self.lock = threading.Lock()
        self.reader = LogReader(stored.path)
        self.done = 0
        self.total = 0
        """Bytes read and to be read, while the session is read for the first time."""
        self._marks = RequestMarks(self.reader.history.main)
        self._archived: ArchivedSession | None = None
        self._archived_at = (0, 0)

    def catch_up(self) -> bool:
        """Read what is new."""

        def report(done: int, total: int) -> None:
            self.done = done
            self.total = total

        return self.reader.catch_up(report)

    def archived(self) -> ArchivedSession:
        """The session with its recall index, as new as the reader."""
        state = (self.reader.version, self.reader.size)
        # A log that is converted in memory does not grow by itself.
        stale = self.reader.converted and state != self._archived_at
        if self._archived is None or stale:
            self.close()
            self._archived = ArchivedSession(self.stored.path)
            self._archived_at = state
        return self._archived

    def mark(self, count: int) -> str:
        """The mark of the first ``count`` requests."""
        lane = self.reader.history.main
        marks = self._marks
        if marks.lane is not lane or marks.counted > max(0, count - 1):
            marks = RequestMarks(lane)
            if count == len(lane.requests):
                self._marks = marks
        return marks.of(count)

    def close(self) -> None:
        """Let go of the index."""
        if self._archived is not None:
            self._archived.close()
            self._archived = None


class InspectorShelf:
    """What the inspector's server knows; its methods may be called from several threads."""

    def __init__(self, summaries: SummaryShelf, extra: Iterable[Path] = ()) -> None:
        """``extra`` are files outside the known folders that were named on the command line."""
        self.summaries = summaries
        self.reading = 0
        """How many files are still to be summarised."""
        self._extra = list(extra)
        self._listed: dict[str, ShelvedSession] = {}
        self._open: OrderedDict[str, OpenSession] = OrderedDict()
        self._lock = threading.Lock()
        self._scanning = threading.Lock()
        self._scanned = 0.0
        self._not_before: dict[Path, float] = {}
        self.changes = 0
        """Grows whenever a summary or the list changes."""
        self._begun = token_hex(4)

    @property
    def state(self) -> str:
        """Another text whenever the list is another one; never one of an earlier process."""
        return f"{self._begun}-{self.changes}"

    # -- the list ----------------------------------------------------------------------------------

    def listed(self) -> list[ShelvedSession]:
        """All sessions, the newest first."""
        if time.monotonic() - self._scanned > SCAN_SECONDS or not self._scanned:
            self._scan()
        with self._lock:
            return list(self._listed.values())

    def _scan(self) -> None:
        with self._scanning:
            stored = [*sessions.stored(), *self._branches(), *self._others()]
            stored.sort(key=lambda session: (-session.modified, str(session.path)))
            listed = {}
            parents = {session.path for session in stored if not branch_of(session.path)}
            for session in stored:
                key = session_key(session.path)
                branch = branch_of(session.path)
                parent = ""
                if branch is not None:
                    # Sessions of several projects may have the same name.
                    above = session.path.parents[2] / f"{branch.session}.jsonl"
                    parent = session_key(above) if above in parents else ""
                listed[key] = ShelvedSession(key, session, _is_running(session), parent)
            with self._lock:
                if listed != self._listed:
                    self.changes += 1
                self._listed = listed
            self._scanned = time.monotonic()

    def _branches(self) -> list[StoredSession]:
        """The sub-agents of our own sessions, which have files of their own."""
        sessions = []
        for project in user_home().projects():
            for session in project.all_sessions():
                sessions += [StoredSession.of(path, "Sevenfold") for path in session.branch_files()]
        return sessions

    def _others(self) -> list[StoredSession]:
        return [StoredSession.of(path, "") for path in self._extra if path.is_file()]

    def summarise(self) -> bool:
        """Read the files whose summary is missing or old; returns whether there were any."""
        paths = [session.stored.path for session in self.listed()]
        now = time.monotonic()
        old = [path for path in self.summaries.outdated(paths) if self._not_before.get(path, 0.0) <= now]
        self.reading = len(old)
        began = time.monotonic()
        for path in self.summaries.read(old):
            self.reading = max(0, self.reading - 1)
            self.changes += 1
            ended = time.monotonic()
            self._not_before[path] = ended + PATIENCE * min(ended - began, 30.0) / max(1, len(old))
        if old and self.summaries.count_copies_once():
            self.changes += 1
        self.reading = 0
        return bool(old)

    # -- one session -------------------------------------------------------------------------------

    def find(self, key: str) -> ShelvedSession | None:
        """The session with this key; None if there is none."""
        with self._lock:
            known = self._listed.get(key)
        if known is None:
            self._scan()
            with self._lock:
                known = self._listed.get(key)
        return known

    def named(self, name: str) -> str:
        """The key of the session that a user named; raises what `sessions.find` raises."""
        path = sessions.find(name)
        if not path.exists():
            with suppress(OSError):
                path = path.resolve()
        for listed in self.listed():
            if listed.stored.path == path or listed.stored.path == path.absolute():
                return listed.key
        self._extra.append(path.absolute())
        self._scan()
        return session_key(path.absolute())

    def open(self, key: str) -> OpenSession | None:
        """A session, opened; the one that was not looked at for longest is closed for it."""
        listed = self.find(key)
        if listed is None:
            return None
        with self._lock:
            session = self._open.get(key)
            if session is None:
                session = self._open[key] = OpenSession(key, listed.stored)
            self._open.move_to_end(key)
            while len(self._open) > OPEN:
                _, oldest = self._open.popitem(last=False)
                if oldest.lock.acquire(blocking=False):
                    oldest.close()
                    oldest.lock.release()
        return session


def _is_running(session: StoredSession) -> bool:
    """Whether some process works on a session: it holds its lock, or wrote to it a moment ago."""
    if session.tool == "Sevenfold" and branch_of(session.path) is None:
        return is_held(session.path)
    return time.time() - session.modified < WRITTEN_LATELY
