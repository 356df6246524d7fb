"""Holds calls to models for workers that may be killed: whoever asks again for an answer that was paid for gets it.

A worker names each call by the record of its request in the session's log. The broker, not the worker, holds the
connection to the provider, and lets it finish when the worker is gone. Another worker that opens the session finds the
request without an answer, builds the same bytes, and names the call by the same record: it gets the answer from its
first byte on, also while it is still coming. So a call is the same for the same credentials, the same record and the
same bytes; one that the user wants to have made again has a record of its own.

An answer is kept, in memory only, until the worker has recorded it, which the next call of the session says, or for an
hour. Only a complete answer without an error is given twice. A worker that was frozen for longer than its lease, and
asks for what another one has recorded since, is refused: it would pay for an answer that the log does not take.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

import h11
from msgspec import Struct

from sevenfold.doors.follower.answer_reading import BodyReading
from sevenfold.doors.follower.identity import CREDENTIALS
from sevenfold.wire.brokered import CALL_HEADER, RECORDED_HEADER
from sevenfold.wire.client_request import Api

if TYPE_CHECKING:
    from sevenfold.doors.gateway.relay import PassageWatcher

KEPT_SECONDS = 3600.0
MOST_KEPT = 512_000_000
"""Bytes of answers that are kept; beyond that, the oldest go first."""
MOST_NAMES = 100_000
"""Names of recorded calls that are remembered."""
PIECE = 65_536
LONGEST_NAME = 200
Opening = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class CallKey(Struct, frozen=True):
    """What makes two requests the same call."""

    principal: bytes
    """A digest of the credentials."""
    name: str
    """The record of the request, as the worker names it."""
    body: bytes
    """A digest of what is sent, and to where."""


class BrokeredCall(Struct, frozen=True):
    """A request that the broker is to send."""

    api: Api
    target: str
    headers: Mapping[str, str]
    body: bytes
    address: str
    """The server it goes to."""
    raw: bytes
    """The whole request, as it is sent."""

    @property
    def key(self) -> CallKey:
        """What it has in common with the same call of another worker."""
        sent = sha256(f"{self.address} {self.target}\n".encode() + self.body).digest()
        return CallKey(principal_of(self.headers), self.headers[CALL_HEADER], sent)


def principal_of(headers: Mapping[str, str]) -> bytes:
    """A digest of the credentials in these headers."""
    return sha256("\n".join(f"{name}:{headers.get(name, '')}" for name in CREDENTIALS).encode()).digest()


def is_named(headers: Mapping[str, str]) -> bool:
    """Whether a worker named its call for a broker."""
    return 0 < len(headers.get(CALL_HEADER, "")) <= LONGEST_NAME


class HeldAnswer:
    """The bytes of one answer, for everybody who asked for it."""

    def __init__(self, call: BrokeredCall) -> None:
        self.call = call
        self.began = time.monotonic()
        self.size = 0
        self.finished = False
        """Whether nothing more will come."""
        self.failed: OSError | None = None
        """Why the connection could not be opened or broke off."""
        self._chunks: list[bytes] = []
        self._news = asyncio.Event()
        self._complete: bool | None = None

    def add(self, chunk: bytes) -> None:
        """The next bytes have come."""
        self._chunks.append(chunk)
        self.size += len(chunk)
        self._tell()

    def finish(self, failed: OSError | None = None) -> None:
        """Nothing more will come."""
        self.finished = True
        self.failed = failed
        self._tell()

    async def chunks(self) -> AsyncIterator[bytes]:
        """All bytes, from the first one on, as they come; raises `OSError` at the end if they broke off."""
        sent = 0
        while True:
            news = self._news
            while sent < len(self._chunks):
                sent += 1
                yield self._chunks[sent - 1]
            if self.finished:
                break
            await news.wait()
        if self.failed is not None:
            raise self.failed

    def is_complete(self) -> bool:
        """Whether it may be given again: a finished answer of the model, whole and without an error."""
        if self._complete is None:
            self._complete = self.finished and self.failed is None and self._reads_as_whole()
        return self._complete

    def _reads_as_whole(self) -> bool:
        http = answer_parser()
        http.receive_data(b"".join(self._chunks))
        http.receive_data(b"")
        body: BodyReading | None = None
        status = 0
        try:
            while True:
                event = http.next_event()
                if isinstance(event, h11.Response):
                    status = event.status_code
                    headers = {
                        name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers
                    }
                    body = BodyReading(self.call.api, self.call.target, self.call.body, headers)
                elif isinstance(event, h11.Data) and body is not None:
                    body.take(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    break
                elif event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
                    return False
        except h11.RemoteProtocolError:
            return False
        if body is None or status != 200:
            return False
        answer, problem = body.ended(status)
        return answer is not None and not problem

    def _tell(self) -> None:
        news = self._news
        self._news = asyncio.Event()
        news.set()


def answer_parser() -> h11.Connection:
    """A parser for the answer to one request."""
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=PIECE * 16)
    http.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    http.send(h11.EndOfMessage())
    return http


class Broker:
    """The calls that are under way or kept; everything happens in one event loop."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._answers: dict[CallKey, HeldAnswer] = {}
        self._recorded: dict[tuple[bytes, str], float] = {}
        """The calls whose answers are in a log, and since when this is known; the oldest first."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.asked = 0
        """How many calls were asked for."""
        self.given_again = 0
        """How many of them had been paid for already."""

    def ask(
        self, call: BrokeredCall, opening: Opening, new_passage: Callable[[], PassageWatcher]
    ) -> HeldAnswer | None:
        """The answer to a call, which is sent, and watched, unless it is under way or kept.

        None if the session's log has the answer already.
        """
        self.asked += 1
        key = call.key
        self._forget(key.principal, call.headers.get(RECORDED_HEADER, ""))
        if (key.principal, key.name) in self._recorded:
            return None
        known = self._answers.get(key)
        if known is not None and (not known.finished or known.is_complete()):
            self.given_again += 1
            return known
        answer = HeldAnswer(call)
        answer.began = self._now()
        self._answers[key] = answer
        self._keep_within_limits()
        task = asyncio.create_task(self._carry_out(answer, opening, new_passage()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return answer

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _forget(self, principal: bytes, recorded: str) -> None:
        """Keep the answer to a call no longer: it is in the log of its session."""
        if recorded:
            self._recorded.setdefault((principal, recorded), self._now())
            for key in [key for key in self._answers if (key.principal, key.name) == (principal, recorded)]:
                del self._answers[key]

    def _keep_within_limits(self) -> None:
        now = self._now()
        size = 0
        # The newest first; the oldest are those for which there is no room.
        for key, answer in reversed(list(self._answers.items())):
            size += answer.size
            outdated = answer.finished and now - answer.began > KEPT_SECONDS
            if outdated or (answer.finished and size > MOST_KEPT):
                del self._answers[key]
        for call, since in list(self._recorded.items()):
            if now - since < KEPT_SECONDS and len(self._recorded) <= MOST_NAMES:
                break
            del self._recorded[call]

    async def _carry_out(self, answer: HeldAnswer, opening: Opening, passage: PassageWatcher) -> None:
        """Send a call and take in all of its answer, whoever still waits for it."""
        call = answer.call
        out: asyncio.StreamWriter | None = None
        failed: OSError | None = None
        http = answer_parser()
        try:
            reader, out = await opening()
            out.write(call.raw)
            passage.requested("POST", call.target, dict(call.headers), call.body)
            await out.drain()
            async for chunk, passed_on in _pieces(reader):
                answer.add(passed_on)
                passage.received(chunk)
                if _ends_with(http, chunk):
                    break
        except OSError as error:
            failed = error
        except asyncio.CancelledError:
            failed = ConnectionAbortedError("the gateway was stopped")
            raise
        finally:
            answer.finish(failed)
            passage.ended()
            if out is not None:
                out.transport.abort()
                with suppress(OSError):
                    await out.wait_closed()


async def _pieces(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, bytes]]:
    """The pieces of an answer, each as it came and as it is passed on.

    The head that is passed on says that the connection ends with the answer. Not every provider repeats that, and a
    worker that sends its next request on the same connection would find it closed.
    """
    head = b""
    while b"\n" not in head:
        chunk = await reader.read(PIECE)
        if not chunk:
            yield head, head
            return
        head += chunk
    status, _, rest = head.partition(b"\n")
    yield head, status + b"\nConnection: close\r\n" + rest
    while chunk := await reader.read(PIECE):
        yield chunk, chunk


def _ends_with(http: h11.Connection, chunk: bytes) -> bool:
    """Whether the answer ends in this chunk; if not, it ends with the connection."""
    try:
        http.receive_data(chunk)
        while True:
            event = http.next_event()
            if isinstance(event, h11.EndOfMessage):
                return True
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return False
    except h11.RemoteProtocolError:
        return False
