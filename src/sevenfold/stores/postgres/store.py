"""Sessions in PostgreSQL, for programs that run on several machines: ``store="postgresql://…"``.

An append is one statement that checks the writer's fencing number, moves the end of the log, and adds the lines with
the marks that queries look for. Whoever holds leases shows that it lives in one row per process, so leases cost nothing
while sessions are idle. Nothing needs a connection of its own between two statements: a pooler may hand every
transaction to another one.

A store is bound to one tenant. Every statement names it, and row-level security shows it no row of another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from uuid import uuid4

from msgspec import Struct

from sevenfold.errors import InputError, Refused, TranscriptLocked, TranscriptMissing
from sevenfold.ports import Log, SessionInfo
from sevenfold.stores.log import LineLog, exists_already, positions
from sevenfold.stores.objects import ObjectStorage, prefix_of
from sevenfold.stores.postgres.database import (
    Database,
    DatabaseAddress,
    Rows,
    give_back,
    original,
    share,
    texts,
)
from sevenfold.stores.postgres.log import PostgresBranch, PostgresLog
from sevenfold.stores.postgres.marks import digests_of
from sevenfold.stores.postgres.parts import (
    Area,
    PostgresFolder,
    PostgresIndex,
    PostgresMailbox,
    PostgresResults,
    PostgresText,
    SessionObjects,
    area,
    overtaken,
)

T = TypeVar("T")

_LONGEST_NAME = 600
"""In bytes: four names have to fit into one entry of an index."""
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5
"""Seconds between two tries to get a lease."""
_BATCH_BYTES = 4 << 20
"""How much of an imported session is sent at once."""
_YES_NO = {"yes": True, "no": False}


class LogRow(Struct, frozen=True):
    """A log in the database."""

    id: int
    origin: int | None
    start: int
    size: int


class Writer(Struct, frozen=True):
    """Who may write through a fenced store."""

    log: int
    fence: int


class PostgresStore:
    """The sessions of one tenant's project; a `sevenfold.ports.Store`."""

    def __init__(
        self,
        url: str,
        *,
        tenant: str = "",
        project: str = "",
        end_user: str = "",
        results: str = "",
        **options: Any,
    ) -> None:
        """Connect to the database at ``url``, and make or upgrade its tables if that has not been done.

        ``end_user`` is whose memory `user_memory` is; ``results`` is the URL below which large results are objects,
        for example ``s3://bucket/prefix``: without it they are in the database, too. ``options`` are those of
        `sevenfold.stores.postgres.database.DatabaseAddress`.
        """
        for name in (tenant, project, end_user):
            check_length(name)
        self.tenant = tenant
        self.project = project
        self.end_user = end_user
        self._objects = ObjectStorage(results) if results else None
        self._database = share(DatabaseAddress(url, **options))
        try:
            self._tenant = self._database.tenant(*texts(tenant))
        except BaseException:
            give_back(self._database)
            raise
        self._closed = False
        self._writer: Writer | None = None
        """The writer that this store is fenced by."""

    @classmethod
    def at(cls, url: str) -> Self:
        """Open the store that a URL names; its parameters are ours, or PostgreSQL's."""
        plain, options = split_url(url)
        return cls(plain, **options)

    @property
    def database(self) -> Database:
        """The connections, which all stores of the process share."""
        return self._database

    # -- statements, for the parts of the store --------------------------------------------------

    def run(self, query: str | bytes, /, **values: Any) -> Rows:
        """Run a statement that may be carried out twice, by its name in `queries.sql` or as it is."""
        values.setdefault("project", *texts(self.project))
        return self._database.repeated(self._tenant, query, **values)

    def run_once(self, query: str, /, **values: Any) -> Rows:
        """Run a statement that must not be carried out twice; if its connection breaks, that is an error."""
        values.setdefault("project", *texts(self.project))
        return self._database.rows(self._tenant, query, **values)

    def fencing(self) -> dict[str, int | None]:
        """The values for statements that a writer who was overtaken must not carry out."""
        if self._writer is None:
            return {"writer": None, "fence": None}
        return {"writer": self._writer.log, "fence": self._writer.fence}

    @staticmethod
    def check(allowed: object) -> None:
        """Raise `TranscriptOvertaken` unless a statement was allowed to change something."""
        if not allowed:
            raise overtaken()

    # -- logs ------------------------------------------------------------------------------------

    def open(self, session: str, *, wait: float = 0.0, take: bool = False) -> LineLog:
        """Open the session's log for writing; see `sevenfold.ports.Store`."""
        if self._row(session) is None:
            self._create(session)
        return self._leased(session, "", wait, take)[0]

    def read(self, session: str) -> LineLog:
        """Open the session's log for reading; raises `TranscriptMissing` if there is none."""
        row = self._there(session)
        return PostgresLog(self._database, self._tenant, session, row.id)

    def branch(
        self,
        session: str,
        name: str,
        *,
        of: str = "",
        at: int | None = None,
        wait: float = 0.0,
        take: bool = False,
    ) -> LineLog:
        """Open a branch of the session for writing; see `sevenfold.ports.Store`."""
        if self._row(session, name) is None:
            origin = self._there(session, of)
            start = origin.size if at is None else at
            if start and start != origin.size and not self._ends_line(origin, start):
                raise InputError(f"{session}: a branch cannot begin at {start:,}, where no line ends")
            self._create(session, name, origin.id, start)
        own, row = self._leased(session, name, wait, take)
        return self._joined(session, own, row)

    def _create(self, session: str, branch: str = "", origin: int | None = None, start: int = 0) -> None:
        for name in (session, branch):
            check_length(name)
        session, branch = texts(session, branch)
        self.run("create log", session=session, branch=branch, origin=origin, start=start)

    def _leased(self, session: str, branch: str, wait: float, take: bool) -> tuple[PostgresLog, LogRow]:
        name = f"{session}, branch {branch}" if branch else session
        names = dict(zip(("session", "branch"), texts(session, branch), strict=True))
        life = self._database.begin()
        opening = uuid4()

        def attempt(last: bool) -> tuple[PostgresLog, LogRow] | None:
            takes = take and last
            seen, free = next(iter(self.run("lease state", **names)), (0, False))
            values = {**names, **life, "opening": opening, "take": takes, "seen": seen, "free": free}
            for *row, fence in self.run("lease", **values):
                found = LogRow(*row)
                size = found.size
                return PostgresLog(
                    self._database, self._tenant, name, found.id, size=size, fence=fence
                ), found
            return None

        leased = _retried(attempt, wait)
        if leased is None:
            raise self._locked(name, self.run("holder", **names))
        return leased

    @staticmethod
    def _locked(name: str, holders: Rows) -> TranscriptLocked:
        holder = "another writer"
        for host, pid in holders:
            holder = f"process {pid} on {host}"
        error = TranscriptLocked(f"{name}: {holder} has it open; close that one or wait for it")
        error.holder = holder
        return error

    def _joined(self, session: str, own: PostgresLog, row: LogRow) -> LineLog:
        """A log with the lines that it began with before its own."""
        if row.origin is None:
            return own
        (origin,) = self._rows("log by id", log=row.origin)
        before = self._joined(
            session, PostgresLog(self._database, self._tenant, session, origin.id), origin
        )
        return PostgresBranch(before.upto(row.start), own, row.start)

    def _ends_line(self, row: LogRow, position: int) -> bool:
        while position < row.start or (position == row.start and row.origin is not None):
            (row,) = self._rows("log by id", log=row.origin)
        return bool(self.run("line end", log=row.id, position=position))

    def _row(self, session: str, branch: str = "") -> LogRow | None:
        session, branch = texts(session, branch)
        return next(iter(self._rows("log", session=session, branch=branch)), None)

    def _rows(self, query: str, **values: Any) -> list[LogRow]:
        return [LogRow(*row) for row in self.run(query, **values)]

    def _there(self, session: str, branch: str = "") -> LogRow:
        row = self._row(session, branch)
        if row is None:
            raise TranscriptMissing(
                f"{session}: there is no branch {branch}"
                if branch
                else f"{session}: there is no such session"
            )
        return row

    def branches(self, session: str) -> Sequence[str]:
        """Return the names of the session's branches."""
        (name,) = texts(session)
        return sorted(original(branch) for (branch,) in self.run("branches", session=name))

    def transcript(self, session: str, branch: str = "") -> Path | None:
        """Return None: there is no file."""
        return None

    def fenced(self, writer: Log) -> Self:
        """Return a store whose writes are refused once the writer was overtaken; see `sevenfold.ports.Store`."""
        log = getattr(writer, "log", None)
        if not isinstance(log, int):
            raise Refused(f"the writer is a {type(writer).__name__}, which is no log of this store")
        fenced = copy(self)
        fenced._writer = Writer(log, writer.fence)
        fenced._closed = True  # the connections are those of the store it was made of
        return fenced

    # -- what belongs to a session, and memory ---------------------------------------------------

    def results(self, session: str) -> PostgresResults:
        """The session's tool results."""
        objects = None
        if self._objects is not None:
            objects = SessionObjects(self._objects, prefix_of(self.tenant, self.project, session))
        rows = self._area("session", session, "results")
        return PostgresResults(self, rows, self._area("session", session, "objects"), objects)

    def notes(self, session: str, branch: str = "") -> PostgresText:
        """The notes of the session, or of a branch."""
        return PostgresText(self._area("session", session, "notes", branch), "notes.md")

    def recall_index(self, session: str, branch: str = "") -> PostgresIndex:
        """The search index of the session, or of a branch."""
        return PostgresIndex(self._area("session", session, "index", branch))

    def agent_state(self, session: str) -> PostgresText:
        """The state of the session's agent."""
        return PostgresText(self._area("session", session, "state"), "state.json")

    def agent_files(self, session: str, branch: str = "") -> PostgresFolder:
        """The files of the session's agent, or of a branch's."""
        return PostgresFolder(self, self._area("session", session, "agent", branch), "agent files")

    def memory(self) -> PostgresFolder:
        """The memory of the project."""
        return PostgresFolder(self, self._area("memory"), "project memory")

    def user_memory(self) -> PostgresFolder:
        """The memory of the store's end user, for all projects."""
        return PostgresFolder(self, Area(self, area("user", self.end_user)), "user memory")

    def mailbox(self) -> PostgresMailbox:
        """The mailbox of the project's agents."""
        return PostgresMailbox(self)

    def _area(self, *parts: str) -> Area:
        return Area(self, area("project", self.project, *parts))

    def lock(self, name: str, *, wait: float = 0.0) -> Any:
        """Return a context that holds the lock of that name; see `sevenfold.ports.Store`."""
        return self.hold(area("project", self.project, "lock", name), name, wait)

    @contextmanager
    def hold(self, key: str, name: str, wait: float) -> Iterator[None]:
        """Hold a lock of the tenant; ``name`` is how an error names it."""
        life = self._database.begin()
        taking = uuid4()
        if _retried(lambda _: self.run("lock", name=key, taking=taking, **life), wait) is None:
            raise TranscriptLocked(f"{name}: locked by another process; wait for it")
        try:
            yield
        finally:
            self.run("unlock", name=key, taking=taking)

    # -- all sessions ----------------------------------------------------------------------------

    def sessions(self, *, since: float = 0.0, limit: int | None = None) -> Sequence[SessionInfo]:
        """Return the sessions modified at ``since`` or later, newest first; at most ``limit``."""
        rows = self.run("sessions", since=since, most=limit)
        return [SessionInfo(original(name), modified, size) for name, modified, size in rows]

    def export(self, session: str) -> Iterator[bytes]:
        """Yield the session's lines."""
        return (line for _, line in self.read(session).read())

    def import_(self, session: str, lines: Iterable[bytes]) -> None:
        """Create a session from these lines, in one transaction; see `sevenfold.ports.Store`."""
        check_length(session)
        (name,) = texts(session)
        (project,) = texts(self.project)
        with self._database.transaction(self._tenant) as run:
            ((log, size, held),) = run("new session", project=project, session=name)
            if size:
                raise exists_already(session)
            if held:
                raise TranscriptLocked(
                    f"{session}: another writer has it open; close that one or wait for it"
                )
            for batch in _batches(lines):
                offsets = positions(size, batch)
                marks = [
                    (mark, position)
                    for position, line in zip(offsets, batch, strict=True)
                    for mark in digests_of(line)
                ]
                run(
                    "import lines",
                    log=log,
                    positions=offsets,
                    lines=batch,
                    names=[mark for mark, _ in marks],
                    marked=[position for _, position in marks],
                )
                size += sum(map(len, batch))
            run("set size", log=log, size=size)

    def erase(self, session: str) -> None:
        """Remove the session and all that belongs to it; see `sevenfold.ports.Store`."""
        (name,) = texts(session)
        (project,) = texts(self.project)
        below = area("project", self.project, "session", session, "")
        objects: list[str] = []
        if self._objects is not None:
            objects = self._objects.below(prefix_of(self.tenant, self.project, session))
        with self._database.transaction(self._tenant) as run:
            logs = run("logs to erase", project=project, session=name)
            if any(held for _, held in logs):
                raise TranscriptLocked(
                    f"{session}: another writer has it open; close that one or wait for it"
                )
            ids = [log for log, _ in logs]
            # The logs go first: an append that waits for its row then finds none, and adds no lines.
            for statement in ("erase logs", "erase lines", "erase marks"):
                run(statement, logs=ids)
            files = run("erase files", below=below, above=f"{below[:-1]}0")
        if self._objects is not None:
            # Last, because no row may lead nowhere. Erasing again removes what a kill in between has left.
            self._objects.remove(objects)
        if not logs and not files and not objects:
            raise TranscriptMissing(f"{session}: there is no such session; check its name")

    def close(self) -> None:
        """Give back the connections; a store made of this one needs them no longer."""
        if not self._closed:
            self._closed = True
            give_back(self._database)


def _retried(attempt: Callable[[bool], T], wait: float) -> T | None:
    """Call a function, with True at the last attempt, until it returns something or ``wait`` seconds have passed."""
    until = time.monotonic() + wait
    pause = _FIRST_PAUSE
    while True:
        remaining = until - time.monotonic()
        if result := attempt(remaining <= 0):
            return result
        if remaining <= 0:
            return None
        time.sleep(min(pause, remaining))
        pause = min(pause * 2, _LONGEST_PAUSE)


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if size > _BATCH_BYTES:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


def check_length(name: str) -> None:
    """Raise `InputError` for a name that is too long for an index."""
    if len(name.encode(errors="surrogatepass")) > _LONGEST_NAME:
        raise InputError(f"{name[:60]!r}… is too long for a name here; use at most {_LONGEST_NAME} bytes")


def split_url(url: str) -> tuple[str, dict[str, Any]]:
    """The URL of a database, and the options of a store that were among its parameters."""
    parts = urlsplit(url)
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    options: dict[str, Any] = {}
    for name, (option, read) in _PARAMETERS.items():
        if name in parameters:
            options[option] = _parameter(name, parameters.pop(name), read)
    return urlunsplit(parts._replace(query=urlencode(parameters))), options


def with_names(url: str, **names: str) -> str:
    """The URL of a store with another tenant, project or end user."""
    parts = urlsplit(url)
    parameters = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **names}
    return urlunsplit(parts._replace(query=urlencode(parameters)))


def _yes_no(text: str) -> bool:
    return _YES_NO[text]


_PARAMETERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "tenant": ("tenant", str),
    "project": ("project", str),
    "end_user": ("end_user", str),
    "results": ("results", str),
    "lease": ("lease_seconds", float),
    "connections": ("connections", int),
    "pooler": ("pooler", _yes_no),
    "forced": ("forced", _yes_no),
}
"""The parameters of a URL that are ours, with the options that they set."""


def _parameter(name: str, text: str, read: Callable[[str], Any]) -> Any:
    try:
        value = read(text)
    except (KeyError, ValueError) as error:
        wanted = "yes or no" if read is _yes_no else "a number"
        raise InputError(f"the store's parameter {name} is {text!r}; it has to be {wanted}") from error
    if read in (float, int) and not 0 < value < 100_000:
        raise InputError(f"the store's parameter {name} is {text}; it has to be above 0")
    return value
