"""One connection of a program: its requests out, the bytes of the answers back.

A request is parsed, so that no two servers can disagree about where it ends, and its head is written anew with another
``Host``; its body keeps its bytes. The answer is not parsed at all on its way: every byte goes to the program as it
comes. Each connection of a program has its own connection to the provider, and they end in the same way. So whatever a
provider sends, slow, cut, compressed or broken, arrives as if nothing were in between.

The last piece of a body is held back until the whole body was looked at: a request that is refused has then never been
complete for the provider.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import h11
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.doors.follower.follower import ClientCall, FollowedCall
from sevenfold.doors.follower.identity import SESSION, api_of
from sevenfold.doors.follower.keeper import REFUSED
from sevenfold.doors.gateway.broker import Broker, BrokeredCall, is_named
from sevenfold.doors.gateway.guard import GatewayRefusal, Guard, names_another_server
from sevenfold.doors.gateway.interim import PROCESSING, reads_over_interim_answers
from sevenfold.doors.gateway.upstreams import Upstream, Upstreams
from sevenfold.wire.brokered import BROKER_HEADERS
from sevenfold.wire.client_request import Api

if TYPE_CHECKING:
    from collections.abc import Awaitable

PIECE = 65_536
MOST_HEAD = 262_144
"""Bytes that the head of a request may have."""
MOST_JSON = 64_000_000
"""Bytes that a body may have that is looked at; no provider takes one of this size."""
LINGER_SECONDS = 2.0
"""How long a program may go on sending after the provider has ended the connection."""
_FRAMING = (b"content-length", b"transfer-encoding")
_OURS = frozenset({SESSION, *BROKER_HEADERS})
"""Headers that are for the gateway, and not for the provider."""
_OF_THE_CONNECTION = frozenset({"connection", "keep-alive", "accept-encoding", "expect"})
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_FINAL_STATUS_LINE = re.compile(rb"HTTP/1\.[01] [2-9]\d\d[^\r\n]*\r\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_RESET = struct.pack("ii", 1, 0)
"""The option with which closing a socket resets the connection."""
_UNREADABLE = GatewayRefusal(400, "Bad Request", "the request is not HTTP/1.1 that can be read")
ANSWERED = GatewayRefusal(
    410,
    "Gone",
    "another process has recorded the answer to this request since; open the session again to continue from there",
)
_TOO_LARGE = GatewayRefusal(413, "Content Too Large", f"a body may have at most {MOST_JSON:,} bytes")


class RequestHead(Struct, frozen=True):
    """The head of a request, as it was read."""

    method: str
    target: str
    version: bytes
    fields: tuple[tuple[bytes, bytes], ...]
    """The headers in their order, with names as the program spells them."""
    headers: dict[str, str]
    """The headers with names in lower case."""

    @property
    def chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return "transfer-encoding" in self.headers

    @property
    def length(self) -> int:
        """The length of a body that does not come in chunks."""
        return int(self.headers.get("content-length") or 0)

    def raw(self, target: str, authority: str, length: int | None = None, *, alone: bool = False) -> bytes:
        """The head as it is passed on; with a ``length``, in front of a body of that length.

        If the request is ``alone``, the connection ends with its answer, which is not compressed.
        """
        lines = [b"%b %b HTTP/%b" % (self.method.encode(), target.encode("latin-1"), self.version)]
        if length is not None:
            lines.append(b"Content-Length: %d" % length)
        if alone:
            lines += [b"Connection: close", b"Accept-Encoding: identity"]
        for name, value in self.fields:
            lowered = name.lower()
            if lowered.decode("latin-1") in _OURS or (length is not None and lowered in _FRAMING):
                continue
            if alone and lowered.decode("latin-1") in _OF_THE_CONNECTION:
                continue
            lines.append(b"%b: %b" % (name, authority.encode() if lowered == b"host" else value))
        return b"\r\n".join((*lines, b"", b""))


class PassageWatcher(Protocol):
    """Gets a copy of what passes on one connection; its methods return at once and never fail."""

    def requested(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes | None,
        call: FollowedCall | None = None,
    ) -> None:
        """A request was sent; ``body`` is None if it was not kept, ``call`` is given if it was taken in before."""

    def received(self, chunk: bytes) -> None:
        """Bytes of the answer came."""

    def ended(self) -> None:
        """The connection has ended."""


class _Refused(Exception):
    def __init__(self, refusal: GatewayRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class RequestPreparer(Protocol):
    """Decides what is sent in place of a program's request to a model; its methods never fail."""

    async def prepare(
        self, call: ClientCall, address: str, ping: Callable[[], Awaitable[None]]
    ) -> FollowedCall | None:
        """Take in a request to the server at ``address``; None if it is sent as it is and recorded by its passage.

        ``ping`` tells the program that it is being worked on.
        """

    def refused(self, call: FollowedCall) -> None:
        """The provider refused what was sent in place of the program's own body."""

    def answer_headers(self, call: FollowedCall) -> bytes:
        """Headers for the answer to a request that was prepared, each with its line end."""


class Handling(Struct, frozen=True):
    """What happens to requests to models besides being passed on."""

    preparer: RequestPreparer | None = None
    broker: Broker | None = None
    """Holds calls for workers that may be killed; None if the gateway is no broker."""
    may_ping: Callable[[bytes, Mapping[str, str]], bool] = reads_over_interim_answers
    """Whether a program may be sent interim answers, by the version of HTTP and the headers of its request."""


class SharedParts(Struct, frozen=True):
    """What all connections of a gateway share."""

    guard: Guard
    upstreams: Upstreams
    secure: ssl.SSLContext | None = None
    handling: Handling = Handling()


class Relay:
    """Serves one connection of a program."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        shared: SharedParts,
        passage: PassageWatcher,
        new_passage: Callable[[], PassageWatcher] | None = None,
    ) -> None:
        """``new_passage`` watches what the broker sends, which may go on when this connection has ended."""
        self._preparer = shared.handling.preparer
        self._broker = shared.handling.broker
        self._may_ping = shared.handling.may_ping
        self._new_passage = new_passage
        self._served = False
        """Whether the connection ends because a broker's answer does."""
        self._instead: tuple[FollowedCall, bytes, bytes] | None = None
        """What to send if the provider refuses the request under way: the call, and the head and the body of the
        program's own request."""
        self._answer_headers = b""
        """Our own headers for the answer that comes next."""
        self._holding = False
        """Whether a request has come that the provider has not got yet."""
        self._reader = reader
        self._writer = writer
        self._guard = shared.guard
        self._upstreams = shared.upstreams
        self._passage = passage
        self._secure = shared.secure
        self._rest = b""
        """Bytes that were read behind the end of a head or of a body in chunks."""
        self._upstream: Upstream | None = None
        self._out: asyncio.StreamWriter | None = None
        self._answers: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Pass on requests and answers until either side ends the connection."""
        try:
            while not self._served and (head := await self._head()) is not None:
                await self._pass_on(head)
            await self._requests_ended()
        except _Refused as refused:
            await self._refuse(refused.refusal)
        except (OSError, asyncio.IncompleteReadError, EOFError):
            pass  # either side has gone
        finally:
            await self._close()

    # -- requests ----------------------------------------------------------------------------------

    async def _head(self) -> RequestHead | None:
        """The head of the next request; None if the program sends no more."""
        raw = self._rest.lstrip(b"\r\n")
        while (end := _HEAD_END.search(raw)) is None:
            if len(raw) > MOST_HEAD:
                raise _Refused(
                    GatewayRefusal(
                        431, "Request Header Fields Too Large", "the head of the request is too large"
                    )
                )
            piece = await self._reader.read(PIECE)
            if not piece:
                return None
            raw = (raw + piece).lstrip(b"\r\n")
        self._rest = raw[end.end() :]
        return read_head(raw[: end.end()])

    async def _pass_on(self, head: RequestHead) -> None:
        """Pass on one request."""
        admitted = self._guard.admitted(head.method, head.target, head.headers)
        if isinstance(admitted, GatewayRefusal):
            raise _Refused(admitted)
        upstream, target = self._upstreams.route(admitted, head.headers)
        looked_at = api_of(head.method, admitted) is not None or "json" in head.headers.get(
            "content-type", ""
        )
        if looked_at and head.length > MOST_JSON:
            raise _Refused(_TOO_LARGE)
        api = api_of(head.method, admitted)
        if self._broker is not None and api is not None and is_named(head.headers):
            await self._pass_brokered(self._broker, head, admitted, api)
            return
        if self._preparer is not None and api is not None and "expect" not in head.headers:
            await self._pass_prepared(head, admitted, ClientCall(api, admitted, head.headers, b""))
            return
        out = await self._connected(upstream)
        raw = head.raw(target, upstream.authority)
        if head.chunked or head.length:
            body = await self._pass_body(head, raw, out, looked_at=looked_at)
        else:
            body = b""
            out.write(raw)
        self._passage.requested(head.method, admitted, head.headers, body)
        await out.drain()

    async def _pass_prepared(self, head: RequestHead, admitted: str, call: ClientCall) -> None:
        """Pass on a request to a model, or what is sent in its place, once all of it has come."""
        assert self._preparer is not None
        upstream, target = self._upstreams.route(admitted, head.headers)
        self._holding = True
        body = await self._whole_body(head)
        ping = self._ping if self._may_ping(head.version, head.headers) else _no_ping
        prepared = await self._preparer.prepare(replace(call, body=body), f"{upstream}", ping)
        sent = body if prepared is None or prepared.body is None else prepared.body
        out = await self._connected(upstream)
        self._holding = False
        self._answer_headers = self._preparer.answer_headers(prepared) if prepared is not None else b""
        if prepared is not None and prepared.body is not None:
            own = body if prepared.untouched is None else prepared.untouched
            self._instead = prepared, head.raw(target, upstream.authority, len(own)), own
        # In two writes: a long body would have to be copied to stand behind the head in one piece.
        out.write(head.raw(target, upstream.authority, len(sent)))
        out.write(sent)
        self._passage.requested(head.method, admitted, head.headers, sent, prepared)
        await out.drain()

    async def _ping(self) -> None:
        """Tell the program that its request is being worked on; the provider's answer stays as it is."""
        with suppress(RuntimeError):  # the provider's end of the connection has been passed on meanwhile
            self._writer.write(PROCESSING)
        await self._writer.drain()

    async def _pass_brokered(self, broker: Broker, head: RequestHead, admitted: str, api: Api) -> None:
        """Pass back the answer to a call that the broker makes, or has made for another worker."""
        assert self._new_passage is not None
        upstream, target = self._upstreams.route(admitted, head.headers)
        if "expect" in head.headers:
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await self._whole_body(head)
        raw = head.raw(target, upstream.authority, len(body), alone=True) + body
        call = BrokeredCall(api, admitted, head.headers, body, f"{upstream}", raw)
        answer = broker.ask(call, lambda: self._opened(upstream), self._new_passage)
        if answer is None:
            raise _Refused(ANSWERED)
        self._served = True
        started = False
        try:
            async for chunk in answer.chunks():
                started = True
                self._writer.write(chunk)
                await self._writer.drain()
        except OSError as error:
            if answer.failed is None:
                raise  # the worker has gone; the broker goes on
            if started:
                _reset(self._writer)
                return
            why = error.strerror or type(error).__name__
            raise _Refused(
                GatewayRefusal(502, "Bad Gateway", f"no connection to {upstream}: {why}")
            ) from None

    async def _whole_body(self, head: RequestHead) -> bytes:
        """The body of a request, which is looked at before any of it is passed on."""
        contents: list[bytes] = []
        size = 0
        async for content, _ in self._chunks(head) if head.chunked else self._counted(head.length):
            contents.append(content)
            size += len(content)
            if size > MOST_JSON:
                raise _Refused(_TOO_LARGE)
        body = b"".join(contents)
        _must_stay_here(body)
        return body

    async def _pass_body(
        self, head: RequestHead, raw: bytes, out: asyncio.StreamWriter, *, looked_at: bool
    ) -> bytes | None:
        """Pass on a head and its body; returns the body if it is looked at."""
        if "expect" in head.headers:
            # The program waits for the provider's permission to send the body.
            out.write(raw)
            raw = b""
        contents: list[bytes] = []
        size = 0
        pieces = self._chunks(head) if head.chunked else self._counted(head.length)
        held = raw
        async for content, framed in pieces:
            out.write(held)
            held = framed
            if looked_at:
                contents.append(content)
                size += len(content)
                if size > MOST_JSON:
                    raise _Refused(_TOO_LARGE)
            await out.drain()
        body = b"".join(contents) if looked_at else None
        if body:
            _must_stay_here(body)
        out.write(held)
        return body

    async def _counted(self, length: int) -> AsyncIterator[tuple[bytes, bytes]]:
        """The pieces of a body of known length."""
        remaining = length
        if self._rest:
            piece = self._rest[:remaining]
            self._rest = self._rest[remaining:]
            remaining -= len(piece)
            yield piece, piece
        while remaining:
            piece = await self._reader.read(min(PIECE, remaining))
            if not piece:
                raise EOFError
            remaining -= len(piece)
            yield piece, piece

    async def _chunks(self, head: RequestHead) -> AsyncIterator[tuple[bytes, bytes]]:
        """The chunks of a body, each also with its frame; the last one is empty."""
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD)
        parser.receive_data(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + self._rest
        )
        self._rest = b""
        try:
            while True:
                event = parser.next_event()
                if event is h11.NEED_DATA:
                    piece = await self._reader.read(PIECE)
                    if not piece:
                        raise EOFError
                    parser.receive_data(piece)
                elif isinstance(event, h11.Data):
                    content = bytes(event.data)
                    yield content, b"%x\r\n%b\r\n" % (len(content), content)
                elif isinstance(event, h11.EndOfMessage):
                    trailers = b"".join(b"%b: %b\r\n" % field for field in event.headers.raw_items())
                    self._rest = parser.trailing_data[0]
                    yield b"", b"0\r\n%b\r\n" % trailers
                    return
        except h11.RemoteProtocolError:
            raise _Refused(_UNREADABLE) from None

    async def _connected(self, upstream: Upstream) -> asyncio.StreamWriter:
        """The connection to the provider; a new one if the request goes to another provider than the one before."""
        if self._out is not None and upstream == self._upstream:
            return self._out
        await self._disconnect()
        try:
            reader, out = await self._opened(upstream)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise _Refused(
                GatewayRefusal(502, "Bad Gateway", f"no connection to {upstream}: {why}")
            ) from None
        self._upstream = upstream
        self._out = out
        self._answers = asyncio.create_task(self._pass_back(reader))
        return out

    async def _opened(self, upstream: Upstream) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A new connection to a provider."""
        return await asyncio.open_connection(
            upstream.host,
            upstream.port,
            ssl=self._secure if upstream.secure else None,
            server_hostname=upstream.host if upstream.secure else None,
            limit=4 * PIECE,
        )

    # -- answers -----------------------------------------------------------------------------------

    async def _pass_back(self, reader: asyncio.StreamReader) -> None:
        """Pass back every byte that the provider sends, then end the connection as the provider did."""
        writer = self._writer
        overlaps = False
        try:
            while chunk := await reader.read(PIECE):
                overlaps = overlaps or self._holding
                if self._instead is not None and (again := await self._again(chunk)) is not None:
                    reader = again
                    continue
                if self._answer_headers:
                    chunk = self._with_our_headers(chunk)
                writer.write(chunk)
                self._passage.received(chunk)
                await writer.drain()
        except OSError:
            if self._holding and not overlaps:
                self._let_go()
                return
            # An answer whose end is the end of the connection would otherwise look complete.
            _reset(writer)
            return
        if self._holding and not overlaps:
            self._let_go()
            return
        if not writer.is_closing() and writer.can_write_eof():
            with suppress(OSError):
                writer.write_eof()
        await asyncio.sleep(LINGER_SECONDS)
        writer.close()

    def _let_go(self) -> None:
        """Forget a connection that the provider has ended before the next request was sent.

        The program has all of the answer before, or it would not have sent that request: it goes out on a new one.
        """
        out = self._out
        self._out = None
        self._answers = None
        self._upstream = None
        if out is not None:
            out.transport.abort()

    def _with_our_headers(self, chunk: bytes) -> bytes:
        """The first bytes of an answer with our own headers behind the status line."""
        line = _FINAL_STATUS_LINE.match(chunk)
        if line is None:
            return chunk
        ours = self._answer_headers
        self._answer_headers = b""
        return chunk[: line.end()] + ours + chunk[line.end() :]

    async def _again(self, chunk: bytes) -> asyncio.StreamReader | None:
        """Send the program's own request if the first bytes of an answer refuse ours; returns what to read from then.

        Nothing of the refusal is passed back.
        """
        assert self._instead is not None
        call, own_head, own_body = self._instead
        self._instead = None
        status = _STATUS.match(chunk)
        if self._preparer is None or status is None or int(status[1]) not in REFUSED:
            return None
        self._preparer.refused(call)
        upstream = self._upstream
        before = self._out
        assert upstream is not None
        reader, out = await self._opened(upstream)
        self._out = out
        if before is not None:
            before.transport.abort()
        out.write(own_head)
        out.write(own_body)
        await out.drain()
        return reader

    async def _refuse(self, refusal: GatewayRefusal) -> None:
        """Send our own answer; what the program still sends is thrown away, or it might never read the answer."""
        await self._disconnect()
        with suppress(OSError, TimeoutError):
            self._writer.write(refusal.raw())
            await self._writer.drain()
            if self._writer.can_write_eof():
                self._writer.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):
                while await self._reader.read(PIECE):
                    pass

    async def _requests_ended(self) -> None:
        """The program sends no more; it may still wait for an answer."""
        out = self._out
        answers = self._answers
        if out is None or answers is None:
            return
        if out.can_write_eof():
            out.write_eof()
            await answers

    async def _disconnect(self) -> None:
        if self._answers is not None:
            self._answers.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await self._answers
        out = self._out
        self._out = None
        self._answers = None
        self._upstream = None
        if out is not None:
            out.transport.abort()
            with suppress(OSError):
                await out.wait_closed()

    async def _close(self) -> None:
        await self._disconnect()
        self._passage.ended()
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self._writer.wait_closed()
                return
        self._writer.transport.abort()


async def _no_ping() -> None:
    """Say nothing: the program might take an interim answer for the answer."""


def read_head(raw: bytes) -> RequestHead:
    """Parse the head of a request; refuses one about whose end servers could disagree."""
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD)
    try:
        parser.receive_data(raw)
        event = parser.next_event()
    except h11.RemoteProtocolError:
        raise _Refused(_UNREADABLE) from None
    if not isinstance(event, h11.Request):
        raise _Refused(_UNREADABLE)
    headers: dict[str, str] = {}
    for name, value in event.headers:
        key = name.decode("latin-1")
        text = value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    if "transfer-encoding" in headers and "content-length" in headers:
        raise _Refused(_UNREADABLE)
    return RequestHead(
        event.method.decode("latin-1"),
        event.target.decode("latin-1"),
        event.http_version,
        tuple((bytes(name), bytes(value)) for name, value in event.headers.raw_items()),
        headers,
    )


def _must_stay_here(body: bytes) -> None:
    """Refuse a body that names another server."""
    if field := names_another_server(body):
        raise _Refused(
            GatewayRefusal(403, "Forbidden", f"the field {field} names another server; leave it out")
        )


def _reset(writer: asyncio.StreamWriter) -> None:
    """Reset the connection instead of ending it."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
