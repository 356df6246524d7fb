"""Where accounts are kept: in a file of SQLite for one machine, in PostgreSQL for several."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sevenfold.doors.server.accounts import Accounts, Rows, Transaction
from sevenfold.errors import InputError, TranscriptError
from sevenfold.stores.files import private_folder

_SCHEMA = """
CREATE TABLE IF NOT EXISTS tenant (name text PRIMARY KEY, nano bigint, per text, user_nano bigint, user_per text);
CREATE TABLE IF NOT EXISTS token (
    id text PRIMARY KEY, tenant text NOT NULL, digest text NOT NULL, for_user text, label text NOT NULL,
    made double precision NOT NULL);
CREATE INDEX IF NOT EXISTS token_tenant ON token (tenant);
CREATE TABLE IF NOT EXISTS ledger (
    tenant text NOT NULL, holder text NOT NULL, period text NOT NULL,
    spent bigint NOT NULL, reserved bigint NOT NULL, PRIMARY KEY (tenant, holder, period));
CREATE TABLE IF NOT EXISTS reservation (
    id text PRIMARY KEY, tenant text NOT NULL, holder text NOT NULL, period text NOT NULL, user_period text NOT NULL,
    nano bigint NOT NULL, made double precision NOT NULL);
CREATE INDEX IF NOT EXISTS reservation_made ON reservation (made);
CREATE TABLE IF NOT EXISTS run (
    tenant text NOT NULL, for_user text NOT NULL, session text NOT NULL, began double precision NOT NULL,
    PRIMARY KEY (tenant, for_user, session));
"""
_POSTGRES_SCHEMA = "sevenfold_server"
_VALUE = re.compile(r"(?<![:\w]):([a-z_]+)")
_BUSY_SECONDS = 30.0
_CONNECT_SECONDS = 10.0
_CONNECTIONS = 4


class SqliteAccountDatabase:
    """Accounts in a file that only its owner can read."""

    def __init__(self, path: Path | str) -> None:
        if path != ":memory:":
            path = Path(path)
            private_folder(path.parent)
            path.touch(mode=0o600)
        # One connection for all threads: transactions are short, and SQLite has one writer at a time anyway.
        self._connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._lock = threading.Lock()
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.executescript(_SCHEMA)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begin a transaction; see `AccountDatabase`."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield lambda statement, /, **values: self._connection.execute(
                        statement, values
                    ).fetchall()
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise TranscriptError(f"the accounts cannot be read or written: {error}") from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


class PostgresAccountDatabase:
    """Accounts in PostgreSQL, in a schema of their own."""

    def __init__(self, url: str) -> None:
        import psycopg
        from psycopg_pool import ConnectionPool

        self._pool = ConnectionPool(
            url,
            min_size=1,
            max_size=_CONNECTIONS,
            # Nothing is prepared: a pooler may hand each transaction to another connection.
            kwargs={"prepare_threshold": None},
            open=True,
            name="sevenfold-accounts",
        )
        self._errors = (psycopg.Error,)
        try:
            with self._transaction() as connection:
                # Two servers that start at the same time must not both make the tables.
                connection.execute(b"SELECT pg_advisory_xact_lock(hashtext('sevenfold_server'))")
                there = connection.execute(
                    b"SELECT 1 FROM pg_tables WHERE schemaname = 'sevenfold_server' AND tablename = 'run'"
                ).fetchall()
                if not there:
                    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_POSTGRES_SCHEMA}".encode())
                    connection.execute(f"SET LOCAL search_path = {_POSTGRES_SCHEMA}".encode())
                    connection.execute(_SCHEMA.encode())
        except BaseException:
            self._pool.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begin a transaction; see `AccountDatabase`."""
        with self._transaction() as connection:
            connection.execute(f"SET LOCAL search_path = {_POSTGRES_SCHEMA}".encode())

            def run(statement: str, /, **values: Any) -> Rows:
                cursor = connection.execute(_VALUE.sub(r"%(\1)s", statement).encode(), values)
                return cursor.fetchall() if cursor.description else []

            yield run

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        try:
            with self._pool.connection(timeout=_CONNECT_SECONDS) as connection, connection.transaction():
                yield connection
        except self._errors as error:
            raise TranscriptError(f"the accounts cannot be read or written: {error}") from error

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


def open_accounts(store: Path | str) -> Accounts:
    """The accounts that belong to a store: next to a folder's sessions, or in the same database."""
    text = str(store)
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
        return Accounts(SqliteAccountDatabase(Path(store).expanduser().resolve() / "accounts.sqlite"))
    if not text.lower().startswith(("postgresql://", "postgres://")):
        raise InputError(
            f"a server keeps sessions in a folder or in PostgreSQL, got {text.partition('://')[0]}://…"
        )
    try:
        from sevenfold.stores.postgres.store import split_url
    except ImportError as error:
        raise InputError(
            "keeping sessions in PostgreSQL needs psycopg: pip install 'sevenfold[postgres]'"
        ) from error
    return Accounts(PostgresAccountDatabase(split_url(text)[0]))
