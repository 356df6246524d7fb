"""PgBouncer in transaction mode before a server, from the program on the PATH (Debian's package pgbouncer)."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import Self

import psycopg

from bench.servers.postgres import APP, OWNER, PostgresServer, unprivileged

PORT = 6432
SECONDS_TO_START = 30
CONNECTIONS = 4
"""So few that the connections of one process are mixed with one another."""


class PgBouncer:
    """A pooler whose every transaction may get another connection; it ends with `close`."""

    def __init__(self, server: PostgresServer, program: str | None = None) -> None:
        found = program or shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
        if found is None:
            raise RuntimeError("there is no pgbouncer here; install the package of that name")
        self._server = server
        folder = server.folder
        settings = folder / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\npostgres = host={folder} port=5432 dbname=postgres\n"
            f"[pgbouncer]\npool_mode = transaction\ndefault_pool_size = {CONNECTIONS}\nmax_client_conn = 500\n"
            f"listen_port = {PORT}\nunix_socket_dir = {folder}\nlogfile = {folder}/pgbouncer.log\n"
            f"auth_type = trust\nauth_file = {folder}/users.txt\n"
        )
        (folder / "users.txt").write_text("".join(f'"{role}" ""\n' for role in (OWNER, APP)))
        self._process = subprocess.Popen([*unprivileged(), found, "--quiet", str(settings)])
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        until = time.monotonic() + SECONDS_TO_START
        while True:
            try:
                psycopg.connect(self.url()).close()
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"PgBouncer does not answer: {error}") from error
                time.sleep(0.05)
            else:
                return

    def url(self, role: str = APP, **parameters: str) -> str:
        """The URL of the database behind it, with parameters of the store."""
        return self._server.url(role, port=str(PORT), **parameters)

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
