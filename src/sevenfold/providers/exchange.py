"""One question to a provider through its SDK: send, read, explain what went wrong.

What is the same for every API and for sync and async stands in `Exchange`, which does no I/O: it turns
bytes into an answer and exceptions into the errors of `sevenfold.errors`. The two clients below only move
bytes. An SDK retries until an answer begins and never after: what was said once is not asked for again
behind the caller's back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Protocol, TypedDict

import msgspec

from sevenfold.errors import Aborted, ModelError
from sevenfold.ports import Call, Piece, Reply, Watcher
from sevenfold.providers import failures
from sevenfold.providers.anthropic.stream import Reader
from sevenfold.providers.failures import Garbled, Place
from sevenfold.providers.sse import EventLines

STREAM = b',"stream":true}'


class Options(TypedDict, total=False):
    """How a client of an SDK is made when none is handed in; what is left out is the SDK's to choose."""

    api_key: str | None
    base_url: str | None
    max_retries: int
    """How often it asks again before an answer begins."""
    timeout: float | None
    """Seconds without a byte after which it gives up; None waits for ever."""


class _Named(msgspec.Struct):
    model: str = ""


_named = msgspec.json.Decoder(_Named)


class Asked(msgspec.Struct, frozen=True):
    """A request as an SDK is given it, and who reads the answer."""

    post: Mapping[str, Any]
    """The arguments of the SDK's `post`."""
    reader: Reader


class Wire(Protocol):
    """How one API is spoken."""

    sdk: Any
    """The module of the SDK, for its exceptions."""

    def asked(self, call: Call) -> Asked:
        """The request that goes out for a call."""
        ...

    def place(self, call: Call) -> Place:
        """Whom the call went to, for the texts of errors."""
        ...

    def models(self, model: str) -> str:
        """Where the server says what it knows of a model."""
        ...


class Exchange:
    """An answer on its way in."""

    def __init__(self, wire: Wire, call: Call, watch: Watcher | None) -> None:
        asked = wire.asked(call)
        self.post = asked.post
        self._reader = asked.reader
        self._wire, self._call, self._watch = wire, call, watch
        self._lines = EventLines()
        self._body: list[bytes] | None = None
        self._request_id: str | None = None

    def begin(self, headers: Mapping[str, str]) -> None:
        """Take the head of the answer; a server may answer whole although it was asked for a stream."""
        self._request_id = headers.get("request-id") or headers.get("x-request-id")
        self._body = None if "event" in headers.get("content-type", "") else []

    def take(self, chunk: bytes) -> None:
        """Take the next bytes, wherever they were cut."""
        if self._body is not None:
            self._body.append(chunk)
            return
        for data in self._lines.feed(chunk):
            self._show(self._reader.event(_checked(data)))

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Let what goes wrong inside come out as our errors, with what had been said until then."""
        try:
            yield
        except Aborted as error:
            error.partial = error.partial or self._reader.partial(self._request_id)
            raise
        except ModelError:
            raise
        except Exception as error:
            found = failures.of(error, self._wire.sdk, self._wire.place(self._call))
            if found is None:
                raise
            # A connection that breaks after the last word has broken nothing.
            if not self._reader.whole:
                raise self._with_partial(found) from error
        except BaseException as stop:
            # An interrupt or a cancellation stays what it is; what was said goes along as its cause.
            raise stop from self._with_partial(Aborted())

    def reply(self) -> Reply:
        """The answer, once all bytes are there."""
        with self.explained():
            if self._body is not None:
                self._show(self._reader.body(_checked(b"".join(self._body))))
            if not self._reader.whole:
                raise Garbled("it ended in the middle of the answer")
        return self._reader.reply(self._request_id)

    def _show(self, pieces: Iterable[Piece]) -> None:
        if self._watch is not None:
            for piece in pieces:
                self._watch(piece)

    def _with_partial(self, error: ModelError) -> ModelError:
        error.partial = self._reader.partial(self._request_id)
        error.request_id = error.request_id or self._request_id or ""
        return error


class SdkClient:
    """Asks through an SDK and waits."""

    def __init__(self, sdk: Any, wire: Wire, *, owned: bool) -> None:
        self._sdk, self._wire, self._owned = sdk, wire, owned

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request, wait for the whole answer."""
        exchange = Exchange(self._wire, call, watch)
        with exchange.explained():
            came = self._sdk.post(**exchange.post)
            try:
                exchange.begin(_headers(came))
                for chunk in came.iter_bytes() if hasattr(came, "iter_bytes") else came:
                    exchange.take(_bytes(chunk))
            finally:
                came.close()
        return exchange.reply()

    @property
    def address(self) -> str:
        """Where the server is."""
        return str(self._sdk.base_url).rstrip("/")

    def listing(self, model: str, seconds: float) -> bytes:
        """What the server says of a model, unread; raises whatever the SDK raises."""
        return _got(self._sdk, self._wire.models(model), seconds)

    def close(self) -> None:
        """Let go of connections; those of a client that was handed in stay with who made it."""
        if self._owned:
            self._sdk.close()


class AsyncSdkClient:
    """Asks through an SDK without blocking."""

    def __init__(self, sdk: Any, wire: Wire, *, owned: bool) -> None:
        self._sdk, self._wire, self._owned = sdk, wire, owned

    async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request, wait for the whole answer."""
        exchange = Exchange(self._wire, call, watch)
        with exchange.explained():
            came = await self._sdk.post(**exchange.post)
            try:
                exchange.begin(_headers(came))
                chunks = came.aiter_bytes() if hasattr(came, "aiter_bytes") else aiter(came)
                async with aclosing(chunks):
                    async for chunk in chunks:
                        exchange.take(_bytes(chunk))
            finally:
                await (came.aclose() if hasattr(came, "aclose") else came.close())
        return exchange.reply()

    @property
    def address(self) -> str:
        """Where the server is."""
        return str(self._sdk.base_url).rstrip("/")

    def listing(self, model: str, seconds: float) -> bytes:
        """What the server says of a model, unread; waits for it, so it is to be called in a thread of its own."""
        waiting = getattr(self._wire.sdk, type(self._sdk).__name__.removeprefix("Async"))
        with waiting(api_key=self._sdk.api_key, base_url=self._sdk.base_url) as sdk:
            return _got(sdk, self._wire.models(model), seconds)

    async def close(self) -> None:
        """Let go of connections; those of a client that was handed in stay with who made it."""
        if self._owned:
            await self._sdk.close()


def streaming(body: bytes) -> bytes:
    """A request's body with the wish for a stream put in at its end; all other bytes stay as they are."""
    end = body.rindex(b"}")
    empty = body.find(b'"', 0, end) < 0
    return b"".join((memoryview(body)[:end], STREAM[1:] if empty else STREAM))


def model_of(call: Call) -> str:
    """The model a call is for."""
    return _named.decode(call.body).model


def raw_post(path: str, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    """Arguments for an SDK's `post` that send these bytes and give back the response as it comes in."""
    import httpx2

    return {
        "path": path,
        "cast_to": httpx2.Response,
        "content": body,
        "options": {"headers": dict(headers)},
        "stream": True,
    }


def _got(sdk: Any, path: str, seconds: float) -> bytes:
    import httpx2

    options = {"timeout": seconds, "max_retries": 0}
    content: bytes = sdk.get(path, cast_to=httpx2.Response, options=options).content
    return content


def _checked(data: bytes) -> bytes:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise Garbled(f"it is not UTF-8: {error}") from None
    return data


def _headers(came: Any) -> Mapping[str, str]:
    """The headers of a response, or of the response behind an SDK's stream."""
    headers: Mapping[str, str] = getattr(came, "response", came).headers
    return headers


def _bytes(came: object) -> bytes:
    """Bytes as they came, or an event that an SDK has decoded as it would stand in a stream."""
    return came if isinstance(came, bytes) else b"data: " + msgspec.json.encode(came) + b"\n\n"
