"""A request that would be too long waits for a summary that is under way, and the program is told that it does."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from sevenfold.clock import RandomIds, SystemClock
from sevenfold.conversation.resume import read
from sevenfold.doors.follower.follower import CallEnd, ClientCall, FollowedCall
from sevenfold.doors.follower.keeper import KeepingFollower, KeepingOptions
from sevenfold.doors.gateway import keeper
from sevenfold.doors.gateway.keeper import GatewayKeeper, Ping
from sevenfold.doors.gateway.recorder import Recorder
from sevenfold.doors.gateway.relay import Handling
from sevenfold.doors.gateway.server import Gateway
from sevenfold.doors.gateway.upstreams import Upstreams
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.ports import Call, Client, Reply, Watcher
from sevenfold.record import blocks
from sevenfold.record.entries import Boundary
from sevenfold.record.log import Answer
from sevenfold.settings import Settings
from sevenfold.stores.jsonl.store import JsonlStore
from tests.doors.keeping import MODEL, TOOLS, offline
from tests.gateway.standing import follower

pytestmark = pytest.mark.spec("S40.15")

FILLER = "The build ran, and nobody had anything to add to it. " * 24


class HeldClient:
    """A client whose answers are held back."""

    def __init__(self, inside: Client) -> None:
        self.asked = threading.Event()
        self.let_go = threading.Event()
        self._inside = inside

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        self.asked.set()
        self.let_go.wait()
        return self._inside.ask(call, watch)

    def close(self) -> None:
        self._inside.close()


class WaitingProgram:
    """A program behind a gateway whose own calls are held back."""

    def __init__(self, folder: Path) -> None:
        self.client = HeldClient(offline(ClientCall("messages", "/", {}, b""), ""))
        options = KeepingOptions(Settings(context_window=10_000), client=lambda call, address: self.client)
        self.follower = KeepingFollower(
            JsonlStore(folder), "", b"s" * 32, options, clock=SystemClock(), ids=RandomIds()
        )
        self.recorder = Recorder(self.follower, lambda sentence: None)
        self.door = GatewayKeeper(self.recorder, self.follower)
        self.messages: list[dict[str, Any]] = []
        self.number = 0

    def request(self, text: str) -> ClientCall:
        """The next request of the program."""
        self.messages.append({"role": "user", "content": text})
        body = {"model": MODEL, "max_tokens": 9, "tools": TOOLS, "messages": self.messages}
        headers = {"x-sevenfold-session": "work", "x-api-key": "k"}
        return ClientCall("messages", "/v1/messages", headers, json.dumps(body).encode())

    def talk_until_a_summary_is_begun(self) -> None:
        """Talk until our own call is under way."""
        while not self.client.asked.is_set():
            followed = self.follower.prepare(self.request(f"This is day {self.number}. {FILLER}"), "")
            self.answer(followed)
            # The call begins in a thread of its own.
            while self.follower.has_summary_under_way(followed) and not self.client.asked.wait(0.01):
                pass

    def answer(self, followed: FollowedCall) -> None:
        """Take the answer to a request."""
        self.number += 1
        content = [{"type": "text", "text": f"Day {self.number} was calm. {FILLER}"}]
        sent = json.dumps(self.messages) if followed.body is None else followed.body.decode()
        usage = {"input_tokens": len(sent) // 4, "output_tokens": 300}
        parts = tuple(blocks.read(json.dumps(block).encode()) for block in content)
        raw = msgspec.Raw(json.dumps(usage).encode())
        self.follower.ended(
            followed, CallEnd(200, Answer(f"msg_{self.number}", MODEL, parts, raw, "end_turn"))
        )
        self.messages.append({"role": "assistant", "content": content})


def test_a_request_waits_for_the_summary_and_pings_come_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "PING_SECONDS", 0.0)
    program = WaitingProgram(tmp_path)
    program.talk_until_a_summary_is_begun()
    pings: list[bool] = []

    async def ping() -> None:
        pings.append(program.client.let_go.is_set())
        program.client.let_go.set()

    async def prepare() -> FollowedCall | None:
        return await program.door.prepare(program.request("A long one. " + FILLER * 8), "", ping)

    followed = asyncio.run(prepare())
    assert followed is not None
    assert followed.body is not None
    assert pings[0] is False
    log = followed.conversation.transcript.log
    assert any(isinstance(entry, Boundary) for _, entry in read(log))
    program.recorder.close()


def test_it_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "SUMMARY_SECONDS", 0.0)
    program = WaitingProgram(tmp_path)
    program.talk_until_a_summary_is_begun()

    async def ping() -> None:
        raise AssertionError("there was no time for that")

    async def prepare() -> FollowedCall | None:
        return await program.door.prepare(program.request("A long one. " + FILLER * 8), "", ping)

    followed = asyncio.run(prepare())
    assert followed is not None
    assert followed.body is not None
    program.client.let_go.set()
    program.recorder.close()


class PingingPreparer:
    """Takes its time over each request, and changes nothing."""

    async def prepare(self, call: ClientCall, address: str, ping: Ping) -> FollowedCall | None:
        await ping()
        await ping()
        return None

    def refused(self, call: FollowedCall) -> None:
        raise AssertionError("nothing is changed")

    def answer_headers(self, call: FollowedCall) -> bytes:
        return b""


@pytest.mark.parametrize(
    ("version", "program", "pings"),
    [
        ("1.1", "claude-cli/2.1.327 (external, cli)", 2),
        ("1.1", "codex_exec/0.169.0 (Debian 12.0.0; x86_64)", 2),
        ("1.1", "AsyncOpenAI/Python 3.49.0", 2),
        ("1.0", "curl/7.88.1", 0),
        ("1.1", "python-requests/2.34.2", 0),
        ("1.1", "Java/17.0.15", 0),
        ("1.1", "", 0),
    ],
)
def test_an_interim_answer_precedes_the_providers_own_if_the_program_reads_over_it(
    tmp_path: Path, version: str, program: str, pings: int
) -> None:
    recorder = Recorder(follower(tmp_path), lambda sentence: None)
    body = json.dumps(
        {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    ).encode()
    with serve(Simulator()) as url:
        upstreams = Upstreams.chosen(url, {})
        with Gateway(recorder, upstreams, handling=Handling(preparer=PingingPreparer())) as gateway:
            port = urlsplit(gateway.url).port
            head = (
                f"POST /v1/messages HTTP/{version}\r\nHost: 127.0.0.1:{port}\r\nx-api-key: k\r\n"
                f"Connection: close\r\nanthropic-version: 2023-06-01\r\nUser-Agent: {program}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            with closing(socket.create_connection(("127.0.0.1", port))) as connection:
                connection.sendall(head.encode() + body)
                received = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert received.count(b"HTTP/1.1 102 Processing\r\n\r\n") == pings
    assert received.removeprefix(b"HTTP/1.1 102 Processing\r\n\r\n" * pings).startswith(b"HTTP/1.1 200 ")


class ClosingProvider:
    """Answers one request on each connection, and ends the first one when it is told to."""

    def __init__(self) -> None:
        self.close_first = threading.Event()
        self.first_was_let_go = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        with self._accepted() as first:
            self.close_first.wait()
            first.shutdown(socket.SHUT_WR)
            while first.recv(65_536):
                pass
            self.first_was_let_go.set()
        with self._accepted():
            pass

    def _accepted(self) -> socket.socket:
        connection, _ = self._listener.accept()
        received = b""
        while not received.endswith(b"}"):
            received += connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        return connection


class HeldPreparer:
    """Holds the second request until the provider has ended the connection of the first."""

    def __init__(self, provider: ClosingProvider) -> None:
        self._provider = provider
        self._is_second = False

    async def prepare(self, call: ClientCall, address: str, ping: Ping) -> FollowedCall | None:
        if self._is_second:
            self._provider.close_first.set()
            await asyncio.to_thread(self._provider.first_was_let_go.wait, 5.0)
        self._is_second = True
        return None

    def refused(self, call: FollowedCall) -> None:
        raise AssertionError("nothing is changed")

    def answer_headers(self, call: FollowedCall) -> bytes:
        return b""


@pytest.mark.spec("S40.16")
def test_a_connection_that_the_provider_ends_while_a_request_is_prepared_does_not_cost_the_request(
    tmp_path: Path,
) -> None:
    provider = ClosingProvider()
    recorder = Recorder(follower(tmp_path), lambda sentence: None)
    handling = Handling(preparer=HeldPreparer(provider))
    body = json.dumps({"model": MODEL, "messages": []})
    with (
        Gateway(recorder, Upstreams.chosen(provider.url, {}), handling=handling) as gateway,
        closing(HTTPConnection("127.0.0.1", gateway.port, timeout=60)) as connection,
    ):
        for _ in range(2):
            connection.request("POST", "/v1/messages", body, {"x-api-key": "k"})
            assert connection.getresponse().read() == b"{}"
    provider.close()
