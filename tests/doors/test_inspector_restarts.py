"""A page that follows a session while the inspector and the session's writer are killed."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.archive.test_log_reader import tape_of

pytestmark = pytest.mark.spec("S33.13")

SECONDS = 60.0
WRITER = """
import sys, time
log = open(sys.argv[1], "ab", buffering=0)
for line in sys.stdin.buffer:
    log.write(line.rstrip(b"\\n").replace(b"<line break>", b"\\n"))
    print("written", flush=True)
"""


class Page:
    """What a page does: it opens a session and follows it, and after a lost connection goes on."""

    def __init__(self) -> None:
        self.requests: list[int] = []
        self.last = ""
        self._key = ""
        self._cursor = ""

    def open(self, port: int, token: str) -> None:
        (row,) = self._get(port, token, "/api/sessions")["sessions"]
        self._key = row["key"]
        session = self._get(port, token, f"/api/s/{self._key}")
        self.requests = session["series"]["request"]
        self._cursor = session["cursor"]

    def follow(self, port: int, token: str, until: int) -> None:
        headers = {"X-Sevenfold-Token": token} | ({"Last-Event-ID": self.last} if self.last else {})
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            connection.request("GET", f"/api/s/{self._key}/stream?cursor={self._cursor}", headers=headers)
            answer = connection.getresponse()
            while self.requests[-1] < until:
                self._take(answer.readline().decode().rstrip("\n"))
        finally:
            connection.close()

    def _take(self, line: str) -> None:
        if line.startswith("id: "):
            self.last = line.removeprefix("id: ")
        elif line.startswith("data: "):
            news = json.loads(line.removeprefix("data: "))
            assert not news.get("reload")
            series = news.get("series")
            if series:
                # As the page does: what comes replaces what was there from that place on.
                assert series["from"] <= len(self.requests), "nothing is left out"
                self.requests = [*self.requests[: series["from"]], *series["request"]]

    @staticmethod
    def _get(port: int, token: str, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            connection.request("GET", path, headers={"X-Sevenfold-Token": token})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    names = ("CODEX_HOME", "PI_CODING_AGENT_DIR", "KIMI_SHARE_DIR", "SEVENFOLD_HOME", "XDG_DATA_HOME")
    homes = {name: str(tmp_path / name.lower()) for name in (*names, "HERMES_HOME")}
    return {**os.environ, **homes, "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}


@contextmanager
def inspector(env: dict[str, str]) -> Iterator[tuple[int, str]]:
    """An inspector of its own process, which is killed at the end, whatever it does."""
    command = [sys.executable, "-m", "sevenfold", "inspect", "--no-open"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            address = next(line for line in process.stdout if "http://" in line)
            found = re.search(r"127\.0\.0\.1:(\d+)/.*token=(\S+)", address)
            assert found
            yield int(found[1]), found[2]
        finally:
            process.kill()


@contextmanager
def writer(log: Path) -> Iterator[Any]:
    """A process that writes to the session, and is killed at the end."""
    command = [sys.executable, "-c", WRITER, str(log)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def write(text: str) -> None:
            assert process.stdin
            assert process.stdout
            process.stdin.write(text.replace("\n", "<line break>").encode() + b"\n")
            process.stdin.flush()
            assert process.stdout.readline()

        try:
            yield write
        finally:
            process.kill()


def test_a_page_goes_on_after_the_inspector_and_the_writer_were_killed(
    tmp_path: Path, env: dict[str, str]
) -> None:
    log = tmp_path / "claude" / "projects" / "-work" / "s-1.jsonl"
    log.parent.mkdir(parents=True)
    turns = ["".join(f"{line}\n" for line in tape_of(9).lines[3 * n : 3 * n + 3]) for n in range(9)]
    log.write_text("".join(turns[:3]), encoding="utf-8")
    page = Page()
    with writer(log) as write, inspector(env) as (port, token):
        page.open(port, token)
        assert page.requests == [1, 2, 3]
        write(turns[3])
        page.follow(port, token, until=4)
        write(turns[4])
        write(turns[5][:-200])
        page.follow(port, token, until=5)
        # Both were killed, the writer in the middle of a line.
    with inspector(env) as (port, token):
        with writer(log) as write:
            write(turns[5][-200:])
            write(turns[6])
            page.follow(port, token, until=7)
        with writer(log) as write:
            write(turns[7] + turns[8])
            page.follow(port, token, until=9)
    assert page.requests == list(range(1, 10))
