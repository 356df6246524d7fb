"""An agent whose session is in PostgreSQL goes on on another machine: another home, workspace and process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.servers.postgres import OWNER
from tests.stores.servers import postgres

ROOT = Path(__file__).parents[2]


class Machine:
    """A home and a workspace, which programs see at the same place on every machine or at another one."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workspace = folder / "work"
        for made in (self.home, self.workspace):
            made.mkdir(parents=True)

    def run(self, url: str, phase: str, *more: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "tests.agent.machine", url, str(self.workspace), phase, *more]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SEVENFOLD_HOME": str(self.home / "sevenfold"),
        }
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return report


COPIES = """
INSERT INTO sevenfold.tenant (name) VALUES (%(to)s);
INSERT INTO sevenfold.log (tenant, project, session, branch, size, fence)
    SELECT (SELECT id FROM sevenfold.tenant WHERE name = %(to)s), project, session, branch, size, fence
    FROM sevenfold.log WHERE tenant = (SELECT id FROM sevenfold.tenant WHERE name = %(of)s);
CREATE TEMPORARY TABLE pair AS
    SELECT old.id AS old, new.id AS new, new.tenant FROM sevenfold.log AS old JOIN sevenfold.log AS new
    USING (project, session, branch)
    WHERE old.tenant = (SELECT id FROM sevenfold.tenant WHERE name = %(of)s)
        AND new.tenant = (SELECT id FROM sevenfold.tenant WHERE name = %(to)s);
INSERT INTO sevenfold.line (log, position, tenant, raw)
    SELECT new, position, pair.tenant, raw FROM sevenfold.line JOIN pair ON log = old;
INSERT INTO sevenfold.mark (log, name, position, tenant)
    SELECT new, name, position, pair.tenant FROM sevenfold.mark JOIN pair ON log = old;
INSERT INTO sevenfold.file (tenant, area, name, content)
    SELECT (SELECT id FROM sevenfold.tenant WHERE name = %(to)s), area, name, content
    FROM sevenfold.file WHERE tenant = (SELECT id FROM sevenfold.tenant WHERE name = %(of)s);
DROP TABLE pair;
"""


def copy_tenant(of: str, to: str) -> None:
    """Copy all that a tenant has, as it is in the tables."""
    with psycopg.connect(postgres().url(OWNER), cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute(COPIES, {"of": of, "to": to})


@pytest.mark.spec("S34.7")
def test_an_agent_goes_on_on_another_machine_as_it_would_have_on_its_own(tmp_path):
    here, there = Machine(tmp_path / "here"), Machine(tmp_path / "there")
    url = postgres().url(tenant=str(tmp_path))
    asked = here.run(url, "first")["asked"]
    copy_tenant(str(tmp_path), f"{tmp_path}-copy")
    stayed = here.run(url, "next", asked)
    moved = there.run(postgres().url(tenant=f"{tmp_path}-copy"), "next", asked)
    assert stayed["plan"] == "The plan."
    assert stayed["scratch"] == "from scratch"
    assert stayed["restores"] == ["a.txt"]
    assert any("Quayside" in excerpt for excerpt in stayed["recall"])
    assert stayed["result"] > 100_000
    assert moved == stayed
