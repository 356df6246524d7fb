"""A request that would be too long waits for a summary that is under way, and the program is told that it does."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import closing
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


@pytest.mark.parametrize(("version", "pings"), [("1.1", 2), ("1.0", 0)])
def test_a_ping_is_an_interim_answer_in_front_of_the_providers_own(
    tmp_path: Path, version: str, pings: int
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
                "Connection: close\r\nanthropic-version: 2023-06-01\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            with closing(socket.create_connection(("127.0.0.1", port))) as connection:
                connection.sendall(head.encode() + body)
                received = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert received.count(b"HTTP/1.1 102 Processing\r\n\r\n") == pings
    assert received.removeprefix(b"HTTP/1.1 102 Processing\r\n\r\n" * pings).startswith(b"HTTP/1.1 200 ")
