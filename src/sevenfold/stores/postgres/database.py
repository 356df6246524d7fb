"""A PostgreSQL database, as the stores of one process share it: connections, statements, a sign of life.

Statements run by their names in `queries.sql`, or as bytes. A connection knows the tenant that it works for; it is told
before the first statement for another one. Each statement is a transaction of its own and reaches the server as a
whole: a process that is killed or frozen in any moment leaves none open whose locks others would wait for.

A pooler such as PgBouncer may hand every transaction to another connection. There each transaction is told its tenant.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import psycopg
from msgspec import Struct
from psycopg import errors as refusals
from psycopg_pool import ConnectionPool, PoolTimeout

from sevenfold.errors import TranscriptDenied, TranscriptError, TranscriptFull
from sevenfold.stores.leases import RENEWALS
from sevenfold.stores.postgres.connection import AnnouncedStatement, TenantConnection

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

_log = logging.getLogger(__name__)
_HERE = Path(__file__).parent
_NAMED = re.compile(r"^-- (.+) --$", re.M)
_FOR_TRANSACTION = (
    b"SELECT set_config('sevenfold.tenant', %s, true), set_config('synchronous_commit', %s, true)"
)
_NOT_FOR_LONG = b"SET LOCAL idle_in_transaction_session_timeout = '60 s'"
"""A process that is frozen in the middle of a transaction must not hold its locks for ever."""
_ENDED_SOON = b"SET LOCAL transaction_timeout = '20 s'"
"""The same for one in the middle of a pipeline, which does not count as idle; since this version:"""
_ENDS_TRANSACTIONS = 170_000
_CONNECT_SECONDS = 10
_PATIENCE = 30.0
"""For how many seconds to try again what failed because the server was away."""
_SHORT_WAIT = 0.05
_PAUSE = 0.1
_AWAY = ("57P01", "57P02", "57P03", "25006")
"""SQLSTATEs of a server that is stopping, has stopped, is starting, or is a standby now."""


class DatabaseAddress(Struct, frozen=True):
    """Where a database is, and how to use it."""

    url: str
    """Without the parameters that are ours."""
    lease_seconds: float = 15.0
    connections: int = 8
    """The most connections of one process."""
    pooler: bool = False
    """Whether there is a pooler in between that hands transactions to different connections."""
    forced: bool = True
    """Whether every append waits for the disk, and not only those that are to be durable."""


@cache
def statement(name: str) -> bytes:
    """The SQL of a statement."""
    _, *parts = _NAMED.split((_HERE / "queries.sql").read_text(encoding="utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))[name].strip().encode()


def _sql(query: str | bytes) -> bytes:
    """The SQL of a statement that is given by its name, or as it is."""
    return query if isinstance(query, bytes) else statement(query)


def migrations() -> Mapping[int, bytes]:
    """The changes of the tables, by version."""
    files = sorted((_HERE / "migrations").glob("*.sql"))
    return {int(file.name.partition("_")[0]): file.read_bytes() for file in files}


class Database:
    """The connections of this process to one database, and this process as a holder of leases."""

    def __init__(self, address: DatabaseAddress) -> None:
        """Connect, and bring the tables up to date if that has not been done."""
        self.address = address
        self._life: dict[str, Any] = {
            "worker": uuid4(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "seconds": address.lease_seconds,
        }
        """What the sign of life of this process says."""
        migrate(address.url)
        self._pool = ConnectionPool(
            address.url,
            connection_class=TenantConnection,
            min_size=1,
            max_size=max(1, address.connections),
            kwargs={"autocommit": True, "prepare_threshold": None if address.pooler else 5},
            open=True,
            name="sevenfold",
        )
        self._beating = threading.Lock()
        self._stopped: threading.Event | None = None
        """Ends the thread that renews this process's sign of life; None until there is one."""
        self._abandoned: deque[tuple[int, int, int]] = deque()
        self._lendable = threading.Semaphore(address.connections // 2)
        """How many more statements may hold a connection while no caller waits for their answers."""
        self._announced: set[AnnouncedStatement] = set()

    def rows(
        self, tenant: int, query: str | bytes, /, *, forced: bool | None = None, **values: Any
    ) -> Rows:
        """Run a statement for a tenant and return its rows; raises `TranscriptError`.

        It is not tried again, because a statement whose connection broke may have been carried out.
        """
        try:
            return self.run(tenant, query, forced, values)
        except psycopg.Error as error:
            raise explained(error) from error

    def repeated(
        self, tenant: int, query: str | bytes, /, *, forced: bool | None = None, **values: Any
    ) -> Rows:
        """Like `rows`, for a statement that may be carried out twice: it is tried again while the server is away."""
        return self.persist(lambda: self.run(tenant, query, forced, values))

    def persist(self, work: Callable[[], T]) -> T:
        """Do some work, and do it again while the server is away."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return work()
            except psycopg.Error as error:
                if not is_away(error) or time.monotonic() > until:
                    raise explained(error) from error
                time.sleep(_PAUSE)

    def run(self, tenant: int, query: str | bytes, forced: bool | None, values: Mapping[str, Any]) -> Rows:
        """Run a statement once; raises what psycopg raises."""
        self._check_process()
        waits = "on" if (self.address.forced if forced is None else forced) else "off"
        parameters = {**values, "tenant": tenant}
        with self._pool.connection(timeout=_CONNECT_SECONDS) as connection:
            if self.address.pooler:
                # What is in one pipeline is one transaction, and goes to one connection of the pooler's.
                with connection.pipeline():
                    connection.execute(_FOR_TRANSACTION, (str(tenant), waits))
                    if connection.info.server_version >= _ENDS_TRANSACTIONS:
                        connection.execute(_ENDED_SOON)
                    cursor = connection.execute(_sql(query), parameters, binary=True)
            else:
                connection.bind(tenant, waits)
                cursor = connection.execute(_sql(query), parameters, binary=True)
            return cursor.fetchall() if cursor.description else []

    def announce(self, tenant: int, query: str, values: Mapping[str, Any]) -> AnnouncedStatement | None:
        """Send a statement without waiting for its answer; None if it was not sent, and is to be run as usual.

        Only where commits need not wait for the disk: there a statement that the server has got is as safe as one that
        it has answered.
        """
        if self.address.forced or self.address.pooler or not self._lendable.acquire(blocking=False):
            return None
        self._check_process()
        try:
            connection = self._pool.getconn(timeout=_SHORT_WAIT)
        except psycopg.Error:
            self._lendable.release()
            return None
        sent = AnnouncedStatement(connection, self._take_back)
        try:
            connection.bind(tenant, "off")
            connection.announce(query.encode(), statement(query), values)
        except psycopg.Error:
            # Perhaps it was sent: a statement that appends is never carried out twice, so it is run again.
            self._take_back(sent)
            return None
        self._announced.add(sent)
        return sent

    def _take_back(self, sent: AnnouncedStatement) -> None:
        self._announced.discard(sent)
        self._pool.putconn(sent.connection)
        self._lendable.release()

    def _check_process(self) -> None:
        """Raise in a child that was forked: two processes on one connection would get each other's answers."""
        if os.getpid() != self._life["pid"]:
            raise TranscriptError(
                "this store was opened before the process was forked; open one in the child process"
            )

    @contextmanager
    def transaction(self, tenant: int) -> Iterator[Callable[..., Rows]]:
        """One transaction for several statements; gives a function that runs them by name."""
        self._check_process()
        try:
            with self._pool.connection(timeout=_CONNECT_SECONDS) as connection, connection.transaction():
                connection.execute(_FOR_TRANSACTION, (str(tenant), "on"))
                connection.execute(_NOT_FOR_LONG)

                def run(query: str | bytes, /, **values: Any) -> Rows:
                    cursor = connection.execute(_sql(query), {**values, "tenant": tenant}, binary=True)
                    return cursor.fetchall() if cursor.description else []

                yield run
        except psycopg.Error as error:
            raise explained(error) from error

    def tenant(self, name: str) -> int:
        """The number of a tenant, new or known."""

        def number() -> Rows:
            with self._pool.connection(timeout=_CONNECT_SECONDS) as connection, connection.transaction():
                connection.execute(b"SELECT set_config('sevenfold.tenant_name', %s, true)", (name,))
                return connection.execute(statement("tenant"), {"name": name}).fetchall()

        found: Rows = []
        while not found:  # another process may be adding it at this moment
            found = self.persist(number)
        return int(found[0][0])

    # -- the sign of life ------------------------------------------------------------------------

    def begin(self) -> dict[str, Any]:
        """Renew the sign of life of this process from now on; returns the values for statements that renew it too."""
        with self._beating:
            if self._stopped is None:
                self._stopped = threading.Event()
                name = "sevenfold-leases"
                threading.Thread(
                    target=self._keep_beating, args=(self._stopped,), name=name, daemon=True
                ).start()
        return self._life

    def beat(self) -> None:
        """Renew the sign of life, and with it all leases of this process."""
        self.repeated(0, "beat", **self._life)

    def abandon(self, tenant: int, log: int, fence: int) -> None:
        """Release the lease of a log that is gone without having been closed, with the next sign of life."""
        self._abandoned.append((tenant, log, fence))

    def _keep_beating(self, stopped: threading.Event) -> None:
        with suppress(TranscriptError):
            self.rows(0, "sweep workers")
        while not stopped.wait(self.address.lease_seconds / RENEWALS):
            # A model may take minutes, and meanwhile others can use the connection.
            for sent in list(self._announced):
                sent.written()
            try:
                self.beat()
                while self._abandoned:
                    tenant, log, fence = self._abandoned[0]
                    self.rows(tenant, "release", log=log, fence=fence)
                    self._abandoned.popleft()
            except TranscriptError:
                # Nothing is lost: a process that takes over after the lease has expired gets a larger fencing number.
                _log.info("the leases could not be renewed", exc_info=True)

    def close(self) -> None:
        """Close all connections; what is still open counts as left by a process that died."""
        if self._stopped is not None:
            self._stopped.set()
            with suppress(TranscriptError):
                self.rows(0, "end worker", **self._life)
        for sent in list(self._announced):
            sent.written()
        self._pool.close()


def migrate(url: str) -> None:
    """Bring the tables of a database up to date, all changes in one transaction; raises `TranscriptError`."""
    wanted = migrations()
    try:
        with psycopg.connect(url, connect_timeout=_CONNECT_SECONDS, prepare_threshold=None) as connection:
            version = _version(connection)
            if version > max(wanted):
                raise TranscriptDenied(
                    f"the tables in this database have version {version}, and this Sevenfold knows those up to "
                    f"{max(wanted)}; install the newer one here too"
                )
            if version == max(wanted):
                return
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('sevenfold'))")
            version = _version(connection)
            connection.execute("CREATE SCHEMA IF NOT EXISTS sevenfold")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS sevenfold.version"
                " (number integer PRIMARY KEY, since timestamptz NOT NULL DEFAULT now())"
            )
            for number, change in wanted.items():
                if number > version:
                    connection.execute(change)
                    connection.execute("INSERT INTO sevenfold.version (number) VALUES (%s)", (number,))
    except psycopg.Error as error:
        raise explained(error) from error


def _version(connection: psycopg.Connection[Any]) -> int:
    there = connection.execute("SELECT to_regclass('sevenfold.version') IS NOT NULL").fetchone()
    if not there or not there[0]:
        return 0
    newest = connection.execute("SELECT coalesce(max(number), 0) FROM sevenfold.version").fetchone()
    return int(newest[0]) if newest else 0


def is_away(error: psycopg.Error) -> bool:
    """Whether the server could not be reached, or stopped: the same statement may succeed later."""
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    state = error.sqlstate or ""
    return lost and (not state or state.startswith("08") or state in _AWAY)


def explained(error: psycopg.Error) -> TranscriptError:
    """The error for a statement that failed, which says what to do."""
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    match error:
        case refusals.InsufficientPrivilege():
            return TranscriptDenied(
                f"the database refuses that ({reason}); let the owner of the database open the store once, and give "
                "this role the rights that docs/storage.md names"
            )
        case refusals.DiskFull():
            return TranscriptFull(f"the database has no room ({reason}); nothing was written")
        case PoolTimeout():
            return TranscriptError(
                "no connection to the database became free; allow more with ?connections="
            )
    if is_away(error):
        return TranscriptError(
            f"the database cannot be reached ({reason}); check its address and whether it runs"
        )
    return TranscriptError(f"the database refuses that ({reason})")


_shared: dict[DatabaseAddress, tuple[Database, int]] = {}
"""The databases in use, and by how many stores."""
_sharing = threading.Lock()


def share(address: DatabaseAddress) -> Database:
    """The database at a place, shared by all stores of the process that name it in the same way."""
    with _sharing:
        database, users = _shared.get(address) or (Database(address), 0)
        _shared[address] = database, users + 1
        return database


def give_back(database: Database) -> None:
    """Use a shared database no longer; the last one closes it."""
    with _sharing:
        _, users = _shared.pop(database.address)
        if users > 1:
            _shared[database.address] = database, users - 1
            return
    database.close()


def texts(*values: str) -> Sequence[str]:
    """Names as PostgreSQL takes them: what it cannot hold in a text is written as an escape."""
    return tuple(_UNFIT.sub(lambda match: f"\\u{ord(match[0]):04x}", value) for value in values)


def original(text: str) -> str:
    """The name that `texts` gave as this text."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


_UNFIT = re.compile(r"[\\\0\ud800-\udfff]")
_ESCAPE = re.compile(r"\\u([0-9a-f]{4})")
