"""What the clients of a server send again when a connection breaks."""

from __future__ import annotations

import asyncio
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import parse_headers
from typing import Any

import httpx2
import pytest

from sevenfold.doors.server.async_client import AsyncServerClient
from sevenfold.doors.server.client import ServedSession, ServerClient, ServerError


class Hangup(socketserver.ThreadingTCPServer):
    """A server that hangs up on the first request without an answer, and finds nothing for those after it."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        super().__init__(("127.0.0.1", 0), _HangupHandler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _HangupHandler(socketserver.StreamRequestHandler):
    server: Hangup

    def handle(self) -> None:
        self.server.requests.append(self.rfile.readline())
        if len(self.server.requests) > 1:
            headers = parse_headers(self.rfile)
            self.rfile.read(int(headers["content-length"] or 0))
            self.wfile.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")


@contextmanager
def hanging_up() -> Iterator[Hangup]:
    with Hangup() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


REQUESTS: dict[str, tuple[Any, bool]] = {
    "describe": (lambda session: session.describe(), True),
    "interrupt": (lambda session: session.interrupt(), True),
    "compact": (lambda session: session.compact(), False),
    "undo": (lambda session: session.undo(), False),
    "erase": (lambda session: session.erase(), False),
}


@pytest.mark.spec("S36.12")
@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("awaited", [False, True])
def test_what_may_have_been_carried_out_is_sent_again_only_if_that_changes_nothing(
    name: str, awaited: bool
) -> None:
    send, is_repeated = REQUESTS[name]

    async def send_awaited(url: str) -> None:
        async with AsyncServerClient(url, "token") as client:
            await send(client.session("s"))

    with hanging_up() as server, suppress(httpx2.TransportError, ServerError):
        if awaited:
            asyncio.run(send_awaited(server.url))
        else:
            with ServerClient(server.url, "token") as client:
                send(ServedSession(client, "s"))
    assert len(server.requests) == (2 if is_repeated else 1)
