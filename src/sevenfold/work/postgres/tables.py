"""The tables of jobs: ours by version, and those of the queue by the versions of procrastinate.

They are made when jobs are first opened, so that a database that has only sessions gets none. The queue's tables are in
our schema, and its functions are told so: they work whatever the search path of a connection is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from procrastinate.schema import SchemaManager

from sevenfold.errors import TranscriptDenied
from sevenfold.stores.postgres import database

_HERE = Path(__file__).parent
_NAMED = re.compile(r"^-- (.+) --$", re.M)
_VERSIONS = """
CREATE TABLE IF NOT EXISTS sevenfold.job_version
    (part text, name text, since timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (part, name))
"""
_IN_OUR_SCHEMA = """
DO $$
DECLARE
    named regprocedure;
BEGIN
    FOR named IN SELECT oid FROM pg_proc
        WHERE pronamespace = 'sevenfold'::regnamespace AND proname LIKE 'procrastinate\\_%'
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = sevenfold, pg_temp', named);
    END LOOP;
END $$
"""
Connection = psycopg.Connection[Any]


@cache
def statement(name: str) -> bytes:
    """The SQL of a statement."""
    _, *names_and_statements = _NAMED.split((_HERE / "queries.sql").read_text(encoding="utf-8"))
    statements = dict(zip(names_and_statements[::2], names_and_statements[1::2], strict=True))
    return statements[name].strip().encode()


def migrate(url: str) -> None:
    """Bring the tables of jobs up to date, all changes in one transaction; raises `TranscriptError`."""
    database.migrate(url)
    ours = {file.stem: file for file in sorted((_HERE / "migrations").glob("*.sql"))}
    queue = {file.stem: file for file in sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))}
    try:
        with psycopg.connect(url, connect_timeout=10, prepare_threshold=None) as connection:
            if _is_current(connection, ours, queue):
                return
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('sevenfold'))")
            connection.execute(_VERSIONS)
            connection.execute("SELECT set_config('search_path', 'sevenfold', true)")
            _migrate_queue(connection, queue)
            for name in ours.keys() - _versions(connection, "jobs"):
                connection.execute(ours[name].read_bytes())
                _note(connection, "jobs", name)
    except psycopg.Error as error:
        raise database.explained(error) from error


def _migrate_queue(connection: Connection, queue: Mapping[str, Path]) -> None:
    applied = _versions(connection, "queue")
    if not applied:
        connection.execute(SchemaManager.get_schema().encode())
    for name in sorted(queue.keys() - applied):
        if applied:
            connection.execute(queue[name].read_bytes())
        _note(connection, "queue", name)
    connection.execute(_IN_OUR_SCHEMA)


def _is_current(connection: Connection, ours: Mapping[str, Path], queue: Mapping[str, Path]) -> bool:
    """Whether there is nothing to change; raises `TranscriptDenied` if the tables are newer than this program."""
    row = connection.execute("SELECT to_regclass('sevenfold.job_version') IS NOT NULL").fetchone()
    if not row or not row[0]:
        return False
    changes_by_schema = (("jobs", ours), ("queue", queue))
    for schema, changes in changes_by_schema:
        if unknown := _versions(connection, schema) - changes.keys():
            raise TranscriptDenied(
                f"the tables of {schema} in this database have the change {max(unknown)}, which is not known here; "
                "install the newer version of Sevenfold and procrastinate here too"
            )
    return all(_versions(connection, schema) == changes.keys() for schema, changes in changes_by_schema)


def _versions(connection: Connection, schema: str) -> set[str]:
    rows = connection.execute("SELECT name FROM sevenfold.job_version WHERE part = %s", (schema,))
    return {name for (name,) in rows.fetchall()}


def _note(connection: Connection, schema: str, name: str) -> None:
    connection.execute("INSERT INTO sevenfold.job_version (part, name) VALUES (%s, %s)", (schema, name))
