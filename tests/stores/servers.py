"""The PostgreSQL server of a test run: one for each process of pytest, started by the first test that needs it."""

from __future__ import annotations

import atexit
from functools import cache
from pathlib import Path

from bench.servers.postgres import OWNER, PostgresServer
from sevenfold.stores.postgres.database import migrate
from sevenfold.stores.postgres.store import PostgresStore


@cache
def postgres() -> PostgresServer:
    """The server, with tables that belong to one role and are used by another one."""
    server = PostgresServer()
    atexit.register(server.close)
    migrate(server.url(OWNER))
    server.grant()
    return server


def url(folder: Path, tenant: str = "", **more: str) -> str:
    """The URL of a store whose sessions and memory no other folder shares."""
    return postgres().url(tenant=tenant, project=str(folder), end_user=str(folder), **more)


def in_postgres(folder: Path, tenant: str = "") -> PostgresStore:
    """The store of a folder."""
    return PostgresStore.at(url(folder, tenant))
