"""The PostgreSQL server of a test run: one for each process of pytest, started by the first test that needs it.

With the path of a pgbouncer in the variable PGBOUNCER, stores reach it through that, in transaction mode.
"""

from __future__ import annotations

import atexit
import os
from functools import cache
from pathlib import Path

from bench.servers.pgbouncer import PgBouncer
from bench.servers.postgres import OWNER, PostgresServer
from sevenfold.stores.postgres.store import PostgresStore
from sevenfold.work.postgres.tables import migrate


@cache
def postgres() -> PostgresServer:
    """The server, with tables that belong to one role and are used by another one."""
    server = PostgresServer()
    atexit.register(server.close)
    migrate(server.url(OWNER))
    server.grant()
    return server


@cache
def pooler() -> PgBouncer | None:
    """The pooler before the server, if there is to be one."""
    program = os.environ.get("PGBOUNCER")
    if not program:
        return None
    made = PgBouncer(postgres(), program)
    atexit.register(made.close)
    return made


def url(folder: Path, tenant: str = "", **more: str) -> str:
    """The URL of a store whose sessions and memory no other folder shares."""
    named = {"tenant": tenant, "project": str(folder), "end_user": str(folder), **more}
    between = pooler()
    return between.url(pooler="yes", **named) if between else postgres().url(**named)


def in_postgres(folder: Path, tenant: str = "") -> PostgresStore:
    """The store of a folder."""
    return PostgresStore.at(url(folder, tenant))
