"""Random requests and answers in bytes, a server that plays them, and a client that reports what it saw."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

PATHS = (
    "/v1/messages",
    "/v1/messages?beta=true",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/models/x",
    "/v1/files",
)
METHODS = ("POST", "POST", "POST", "GET", "PUT", "DELETE", "HEAD", "PATCH")
STATUSES = (
    *((200, "OK"), (200, ""), (201, "Created"), (204, "No Content"), (304, "Not Modified")),
    *(
        (400, "Bad Request"),
        (429, "Too Many Requests"),
        (500, "Internal Server Error"),
        (529, "Overloaded"),
    ),
)
RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Case:
    """A request, and the bytes with which the server answers it."""

    method: str
    head: tuple[tuple[str, str], ...]
    target: str
    body: bytes
    chunks: tuple[int, ...] | None
    """The sizes of the chunks in which the body is sent; None: with its length."""
    answer: tuple[bytes, ...]
    """The pieces of the answer."""
    ending: str
    """stay, close or reset"""

    def raw(self, host: str) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in self.head]
        if self.chunks is not None:
            lines.append("Transfer-Encoding: chunked")
        elif self.body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + b"".join(self._framed())

    def _framed(self) -> Iterator[bytes]:
        if self.chunks is None:
            yield self.body
            return
        at = 0
        for size in self.chunks:
            yield b"%X;ext=1\r\n%b\r\n" % (size, self.body[at : at + size])
            at += size
        yield b"0\r\n\r\n"


@dataclass
class Seen:
    """What the client and the server saw of a case."""

    answer: bytes = b""
    ending: str = ""
    request: bytes = b""
    head: tuple[str, ...] = ()


def make(rng: random.Random, number: int, largest: int) -> Case:
    """A random case."""
    method = rng.choice(METHODS)
    body = _body(rng, largest) if method in ("POST", "PUT", "PATCH") else b""
    chunks = None
    if body and rng.random() < 0.3:
        chunks = tuple(_sizes(rng, len(body)))
    head = [("X-Case", str(number))]
    names = ("x-Odd", "X-ODD", "accept", "User-Agent", "COOKIE")
    head += [(rng.choice(names), _value(rng)) for _ in range(rng.randrange(6))]
    if rng.random() < 0.6:
        head.append(
            ("content-Type", rng.choice(("application/json", "text/plain", "application/octet-stream")))
        )
    answer, ending = _answer(rng, method, largest)
    return Case(method, tuple(head), rng.choice(PATHS), body, chunks, answer, ending)


def _value(rng: random.Random) -> str:
    return "".join(rng.choice("abc XYZ;=,/é\"'()") for _ in range(rng.randrange(1, 40))).strip() or "v"


def _sizes(rng: random.Random, size: int) -> Iterator[int]:
    while size:
        part = min(size, rng.choice((1, 7, 1000, 70_000)))
        yield part
        size -= part


def _body(rng: random.Random, largest: int) -> bytes:
    size = rng.choice((0, 1, 100, 5_000, 70_000, largest))
    kind = rng.random()
    if kind < 0.3:
        return rng.randbytes(size)
    words = "".join(rng.choice('abcdé\\" \n😀') for _ in range(min(size, 2_000)))
    messages = [
        {"role": "user", "content": words},
        {"role": rng.choice(("user", "assistant", "x")), "content": [3]},
    ]
    made = json.dumps(
        {"model": "m", "tools": [{"name": "R"}], "messages": messages[: rng.randrange(3)]}
    ).encode()
    return made + b" " * max(0, size - len(made))


def _answer(rng: random.Random, method: str, largest: int) -> tuple[tuple[bytes, ...], str]:
    kind = rng.choice(
        ("length", "length", "chunked", "chunked", "events", "close", "cut", "reset", "garbage", "none")
    )
    status, reason = rng.choice(STATUSES)
    body = b"" if method == "HEAD" or status in (204, 304) else _content(rng, largest)
    lines = [
        f"HTTP/1.1 {status} {reason}".rstrip() if rng.random() < 0.5 else f"HTTP/1.1 {status} {reason}"
    ]
    names = ("X-Thing", "x-thing", "SERVER", "Set-Cookie", "request-id")
    lines += [f"{rng.choice(names)}:{_value(rng)}" for _ in range(rng.randrange(5))]
    encoding = rng.choice(("", "", "gzip", "deflate", "br"))
    if encoding:
        body = gzip.compress(body) if encoding == "gzip" else body
        body = zlib.compress(body) if encoding == "deflate" else body
        lines.append(f"Content-Encoding: {encoding}")
    ending = (
        "close" if kind in ("close", "cut", "garbage", "none") else "reset" if kind == "reset" else "stay"
    )
    early = b"HTTP/1.1 100 Continue\r\n\r\n" if rng.random() < 0.1 else b""
    if kind == "garbage":
        return _pieces(rng, rng.randbytes(rng.randrange(1, 500))), ending
    if kind == "none":
        return (), ending
    if kind == "chunked" and body:
        framed = (
            b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in _split(rng, body))
            + b"0\r\nX-T: 1\r\n\r\n"
        )
        lines.append("transfer-ENCODING: chunked")
    elif kind == "events":
        lines += ["content-type: text/event-stream", "Transfer-Encoding: chunked"]
        framed = (
            b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in _split(rng, _events(rng)))
            + b"0\r\n\r\n"
        )
        if method == "HEAD" or status in (204, 304):
            framed = b""
    else:
        framed = body
        if kind != "close":
            lines.append(f"Content-Length: {len(body)}")
    if kind in ("cut", "reset"):
        framed = framed[: rng.randrange(len(framed) + 1)]
    raw = early + "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + framed
    return _pieces(rng, raw), ending


def _content(rng: random.Random, largest: int) -> bytes:
    if rng.random() < 0.5:
        return rng.randbytes(rng.choice((1, 300, 20_000, largest)))
    blocks = [
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": f"toolu_{rng.random()}", "name": "R", "input": {}},
    ]
    usage = {"input_tokens": rng.randrange(9_000), "output_tokens": 3}
    said = {
        "id": f"msg_{rng.random()}",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "usage": usage,
    }
    return json.dumps({**said, "content": blocks, "stop_reason": "tool_use"}).encode()


def _events(rng: random.Random) -> bytes:
    made = [
        b": comment\n\n",
        b"event: ping\ndata: {}\n\n",
        b"data: [DONE]\r\n\r\n",
        b'data: {"type":"message_stop"}\n\n',
    ]
    return b"".join(rng.choice(made) for _ in range(rng.randrange(1, 30)))


def _split(rng: random.Random, body: bytes) -> Iterator[bytes]:
    at = 0
    for size in _sizes(rng, len(body)) if len(body) < 5_000 else [len(body)]:
        yield body[at : at + size]
        at += size


def _pieces(rng: random.Random, raw: bytes) -> tuple[bytes, ...]:
    cuts = sorted(rng.randrange(len(raw) + 1) for _ in range(rng.randrange(4)))
    return tuple(
        raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True) if start < end
    )


@dataclass
class Playing:
    """A server that answers each case as planned, and keeps what it got."""

    cases: dict[int, Case]
    seen: dict[int, Seen] = field(default_factory=dict)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        raw = await reader.readuntil(b"\r\n\r\n")
        lines = raw.decode("latin-1").split("\r\n")[:-2]
        headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines[1:]}
        number = int(headers["x-case"])
        if "transfer-encoding" in headers:
            body = b""
            while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0].strip(), 16):
                body += await reader.readexactly(size)
                await reader.readexactly(2)
            await reader.readuntil(b"\r\n")
        else:
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        seen = self.seen.setdefault(number, Seen())
        seen.request, seen.head = (
            body,
            tuple(line for line in lines if not line.lower().startswith("host:")),
        )
        case = self.cases[number]
        for piece in case.answer:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if case.ending == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()
        return case.ending == "stay"


async def ask(port: int, cases: list[Case]) -> list[Seen]:
    """Send cases on one connection, each after the answer to the one before; returns what came back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found: list[Seen] = []
    for case in cases:
        seen = Seen()
        found.append(seen)
        expected = sum(map(len, case.answer))
        try:
            writer.write(case.raw(f"127.0.0.1:{port}"))
            await writer.drain()
        except OSError:
            pass  # the server may have ended the connection already: what it sent can still be read
        try:
            while case.ending != "stay" or len(seen.answer) < expected:
                piece = await reader.read(65_536)
                if not piece:
                    seen.ending = "close"
                    break
                seen.answer += piece
            else:
                seen.ending = "stay"
        except OSError:
            seen.ending = "reset"
        if seen.ending != "stay":
            break
    writer.close()
    return found


@contextmanager
def playing(cases: dict[int, Case]) -> Iterator[tuple[int, Playing]]:
    """A server in a thread that plays these cases, with its port."""
    server = Playing(cases)
    loop = asyncio.new_event_loop()
    ports: list[int] = []
    ready = threading.Event()
    stop = asyncio.Event()

    async def serve() -> None:
        listener = await asyncio.start_server(server.connected, "127.0.0.1", 0, limit=1 << 20)
        ports.append(listener.sockets[0].getsockname()[1])
        ready.set()
        async with listener:
            await stop.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield ports[0], server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
