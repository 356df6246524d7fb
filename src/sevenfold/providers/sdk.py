"""Providers that use an official SDK, or plain HTTP in its place: send requests, read answers, explain failures.

An SDK gets finished bytes and returns the response unread, so the bytes sent are those that were hashed and logged, and
answers are stored as they were received. It retries until an answer begins, and never after that: an answer that has
begun is not requested again behind the caller's back. SDKs are imported when a client is created, because that takes
longer than everything else here; `sevenfold.providers.http_client` replaces them in programs that are started often.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from importlib import import_module
from typing import Any, Self, TypedDict, cast

import msgspec
from msgspec import Struct

from sevenfold.errors import Aborted, ModelError, NotAuthenticated, SettingError, Stalled
from sevenfold.ports import ArrivalWatcher, Call, Client, HeadWatcher, Piece, Reply, Watcher
from sevenfold.providers import failures
from sevenfold.providers.failures import WITHOUT_A_KEY, Endpoint, is_of
from sevenfold.providers.http_client import HttpClient
from sevenfold.providers.models import Fetch
from sevenfold.providers.progress import AnswerProgress
from sevenfold.providers.provider import Provider, Put, choose
from sevenfold.wire.error_report import MalformedAnswer
from sevenfold.wire.reader import AskedFor, EventLines

_log = logging.getLogger(__name__)
COUNT_SECONDS = 10.0
"""How long a server may take to count the tokens of a request."""
MOST_BYTES = 64_000_000
"""The most bytes in one answer. The longest answers of models take about half of that as a stream."""


class SdkOptions(TypedDict, total=False):
    """Options for creating an SDK client; the SDK's defaults apply to those left out."""

    api_key: str | None
    base_url: str | None
    max_retries: int
    """How often a request is retried before its answer begins."""
    timeout: float | None
    """Seconds without data after which a request fails; None means no limit."""


class Vendor(Struct, frozen=True):
    """The vendor of an API, as the user knows it: name, environment variables, address, SDK."""

    name: str
    key_variable: str
    url_variable: str
    url: str
    sdk: str
    """The module of the official SDK, and the name of the extra that installs it."""

    @property
    def headers_variable(self) -> str:
        """The environment variable with additional headers for every request."""
        return f"{self.sdk.upper()}_CUSTOM_HEADERS"

    def load(self) -> Any:
        """Import the SDK; raises `SettingError` if it is not installed."""
        try:
            return import_module(self.sdk)
        except ModuleNotFoundError as error:
            if error.name != self.sdk:
                raise
            raise SettingError(
                f"Talking to {self.name} needs its SDK: pip install 'sevenfold[{self.sdk}]'"
            ) from None

    def sdk_class(self, *, awaits: bool) -> Any:
        """The SDK's client class; with ``awaits``, the one for asyncio."""
        return getattr(self.load(), f"Async{self.name}" if awaits else self.name)

    def no_key(self) -> NotAuthenticated:
        """The error for a missing key."""
        return NotAuthenticated(
            f"There is no key for {self.name}. Set {self.key_variable} or pass api_key=…; {WITHOUT_A_KEY}"
        )

    def bad_credentials(self, reason: Exception) -> NotAuthenticated:
        """The error for credentials that exist but cannot be used."""
        return NotAuthenticated(
            f"The credentials for {self.name} cannot be used: {reason} Or set {self.key_variable}"
        )


class SdkProvider(Provider):
    """An API that is used through its vendor's SDK."""

    vendor: Vendor

    def recognises(self, client: object) -> bool:
        """Whether it is a client of the SDK, or one of ours that supports this API."""
        if isinstance(client, SdkBase):
            return any(provider.name == self.name for provider in client.speaks)
        return is_of(client, (self.vendor.sdk,))

    def behind(self, client: object) -> Self:
        """This API as configured in one of our clients."""
        speaks = client.speaks if isinstance(client, SdkBase) else ()
        return next((provider for provider in speaks if isinstance(provider, type(self))), self)

    def configured(self, env: Mapping[str, str]) -> bool:
        """Whether there is a key or an address."""
        return bool(env.get(self.vendor.key_variable) or env.get(self.vendor.url_variable))

    def unconfigured(self) -> str:
        """A text that names the environment variables for the missing key and address."""
        vendor = self.vendor
        return f"There is no key for {vendor.name} ({vendor.key_variable}) and no address ({vendor.url_variable})"

    def address(self, env: Mapping[str, str]) -> str:
        """The address in the environment, or the vendor's default."""
        return (env.get(self.vendor.url_variable) or self.vendor.url).rstrip("/")

    def error(self, error: Exception, model: str = "") -> ModelError | None:
        """Our error for an exception of the SDK or its transport, even if wrapped; None for any other."""
        at = Endpoint(self.vendor, self.vendor.url, model)
        packages = (self.vendor.sdk, *failures.TRANSPORTS)
        cause = next((cause for cause in _causes(error) if is_of(cause, packages)), None)
        return None if cause is None else failures.error_of(cause, at)

    def describe(self, model: str, address: str, fetch: Fetch) -> bytes:
        """A server's listing of a model, undecoded."""
        raise NotImplementedError

    def headers(self, env: Mapping[str, str]) -> dict[str, str] | None:
        """The headers of every request in this environment; None if only the SDK can sign requests."""
        return None

    def http(self, env: Mapping[str, str], **options: Any) -> HttpClient | None:
        """A replacement for the SDK's client in this environment; None if only the SDK can sign requests."""
        headers = self.headers(env)
        if headers is None:
            return None
        # One per line, as the SDKs read them.
        lines = (line.partition(":") for line in env.get(self.vendor.headers_variable, "").split("\n"))
        custom = {name.strip().lower(): value.strip() for name, colon, value in lines if colon}
        return HttpClient(self.address(env), headers | custom, **options)

    def quick_client(self, env: Mapping[str, str]) -> Client:
        """A client that loads no SDK, if that is possible."""
        return self.client(self.http(env))

    def counting(self, call: Call, client: SdkBase) -> Put | None:
        """The request that has the server count the tokens of this one; None if the API or the platform has none."""
        return None

    def post(self, put: Put, client: SdkBase) -> dict[str, Any]:
        """Arguments for the SDK's `post` that send these bytes and return the response unread."""
        return {
            "path": put.path,
            "cast_to": client.response,
            "content": put.body,
            "options": {"headers": dict(put.headers)},
            "stream": True,
        }


class SdkBase:
    """The common part of our clients over an SDK, synchronous and asynchronous."""

    awaits = False
    """Whether the SDK's client is asynchronous."""
    now: Callable[[], float] = staticmethod(time.monotonic)
    """The clock by which an answer stalls, in seconds."""

    def __init__(self, sdk: Any, speaks: Sequence[SdkProvider], *, stream: bool, owned: bool) -> None:
        self.speaks = tuple(speaks)
        """The APIs it supports; the model of each call decides which is used."""
        self.sdk = sdk
        self.stream = stream
        self._counts = True
        """Whether its server may count tokens; False once it said that it does not know how."""
        self._owned = owned or isinstance(sdk, HttpClient)

    @property
    def address(self) -> str:
        """The server's address."""
        return str(self.sdk.base_url).rstrip("/")

    @property
    def module(self) -> Any:
        """The SDK's module."""
        return self.speaks[0].vendor.load()

    @property
    def response(self) -> type:
        """The type that makes the SDK return responses unread."""
        kind: type = (
            object if isinstance(self.sdk, HttpClient) else failures.transport_of(self.module).Response
        )
        return kind

    def provider(self, call: Call) -> SdkProvider:
        """The provider for a call."""
        return choose(self.speaks, AskedFor.of(call.body).model) if len(self.speaks) > 1 else self.speaks[0]

    def _describe(self, sdk: Any, model: str, seconds: float) -> bytes:
        options = {"timeout": seconds, "max_retries": 0}

        def fetch(path: str, body: object = None) -> bytes:
            ask = sdk.get if body is None else sdk.post
            sent = {} if body is None else {"body": body}
            content: bytes = ask(path, cast_to=self.response, options=options, **sent).content
            return content

        return choose(self.speaks, model).describe(model, self.address, fetch)

    def _counting(self, call: Call) -> dict[str, Any] | None:
        """Arguments for the SDK's `post` that have the server count a request; None if it cannot."""
        put = self.provider(call).counting(call, self) if self._counts else None
        if put is None:
            return None
        options = {"headers": dict(put.headers), "timeout": COUNT_SECONDS, "max_retries": 0}
        return {"path": put.path, "cast_to": self.response, "content": put.body, "options": options}

    def _not_counted(self, error: Exception) -> None:
        """Note that a server did not count; one that does not know the address is not asked again."""
        self._counts = getattr(error, "status_code", None) not in (404, 405, 501)
        _log.info("the server did not count a request, so its size stays an estimate", exc_info=error)


class SdkClient(SdkBase):
    """A synchronous client over an SDK."""

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request and wait for the complete answer."""
        incoming = Incoming(self, call, watch)
        with incoming.explained():
            response = self.sdk.post(**incoming.post)
            try:
                incoming.begin(_headers(response))
                for chunk in response.iter_bytes() if hasattr(response, "iter_bytes") else response:
                    incoming.take(_bytes(chunk))
            finally:
                response.close()
        return incoming.reply()

    def count(self, call: Call) -> int | None:
        """The tokens of the request's prompt as the server counts them; None if it does not say."""
        post = self._counting(call)
        if post is None:
            return None
        try:
            return read_count(self.sdk.post(**post).content)
        except Exception as error:  # noqa: BLE001 (a count is never worth a failed turn)
            self._not_counted(error)
            return None

    def listing(self, model: str, seconds: float) -> bytes:
        """The server's data about a model, undecoded; raises any error of the SDK."""
        return self._describe(self.sdk, model, seconds)

    def close(self) -> None:
        """Close the connections, unless they belong to a client that the caller gave."""
        if self._owned:
            self.sdk.close()


class AsyncSdkClient(SdkBase):
    """An asynchronous client over an SDK."""

    awaits = True

    async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request and wait for the complete answer."""
        incoming = Incoming(self, call, watch)
        with incoming.explained():
            response = await self.sdk.post(**incoming.post)
            try:
                incoming.begin(_headers(response))
                chunks = response.aiter_bytes() if hasattr(response, "aiter_bytes") else aiter(response)
                async with aclosing(chunks):
                    async for chunk in chunks:
                        incoming.take(_bytes(chunk))
            finally:
                await (response.aclose() if hasattr(response, "aclose") else response.close())
        return incoming.reply()

    async def count(self, call: Call) -> int | None:
        """The tokens of the request's prompt as the server counts them; None if it does not say."""
        post = self._counting(call)
        if post is None:
            return None
        try:
            response = await self.sdk.post(**post)
            return read_count(response.content)
        except Exception as error:  # noqa: BLE001 (a count is never worth a failed turn)
            self._not_counted(error)
            return None

    def listing(self, model: str, seconds: float) -> bytes:
        """The server's data about a model, undecoded; blocks, so call it in a thread."""
        waiting = getattr(self.module, type(self.sdk).__name__.removeprefix("Async"))
        with waiting(api_key=self.sdk.api_key, base_url=self.sdk.base_url) as sdk:
            return self._describe(sdk, model, seconds)

    async def close(self) -> None:
        """Close the connections, unless they belong to a client that the caller gave."""
        if self._owned:
            await self.sdk.close()


class Incoming:
    """An answer while it arrives. Does no I/O: turns bytes into a reply, and exceptions into our errors."""

    def __init__(self, client: SdkBase, call: Call, watch: Watcher | None) -> None:
        self._client = client
        self._call = call
        self._watch = watch
        listens: object = watch
        self._arrived = listens.arrived if isinstance(listens, ArrivalWatcher) else None
        self._provider = client.provider(call)
        self.post = self._provider.post(self._provider.sent(call, stream=client.stream), client)
        """The arguments for the SDK's `post`."""
        if call.retries is not None:
            self.post["options"] = {**self.post.get("options", {}), "max_retries": call.retries}
        self._reader = self._provider.reader(call.body)
        self._lines = EventLines()
        self._body: list[bytes] | None = None
        self._request_id: str | None = None
        self._begun = False
        self._bytes = 0
        self._progress = AnswerProgress(client.now, call.content_seconds)

    def begin(self, headers: Mapping[str, str]) -> None:
        """Process the response headers; a server may send one body although a stream was requested."""
        self._request_id = headers.get("request-id") or headers.get("x-request-id")
        self._body = None if "event" in headers.get("content-type", "") else []

    def take(self, chunk: bytes) -> None:
        """Process the next bytes, which may be split anywhere."""
        self._bytes += len(chunk)
        if self._arrived is not None:
            self._arrived()
        if self._bytes > MOST_BYTES:
            raise MalformedAnswer(f"it goes on after {MOST_BYTES:,} bytes")
        if self._body is not None:
            self._body.append(chunk)
            self._progress.raw(chunk)
        else:
            self._take_events(chunk)
        if self._progress.stalled and not self._reader.whole:
            raise self._with_partial(
                Stalled(
                    f"{self._client.address} keeps the answer open, but has added nothing to it for "
                    f"{self._call.content_seconds:,.0f} s. Ask again; a model that thinks longer than that needs a "
                    "higher content_seconds (SEVENFOLD_CONTENT_SECONDS)"
                )
            )

    def _take_events(self, chunk: bytes) -> None:
        for data in self._lines.feed(chunk):
            pieces = list(self._reader.event(_checked(data)))
            self._progress.event(data, pieces)
            if not self._begun and (head := self._reader.partial(self._request_id)) is not None:
                self._begun, watch = True, cast("object", self._watch)
                if isinstance(watch, HeadWatcher):
                    watch.begin(head)
            self._show(pieces)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn exceptions in this context into our errors, with the part of the answer that had arrived."""
        try:
            yield
        except Aborted as error:
            error.partial = error.partial or self._reader.partial(self._request_id)
            raise
        except ModelError:
            raise
        except Exception as error:
            at = Endpoint(self._provider.vendor, self._client.address, AskedFor.of(self._call.body).model)
            translated = failures.error_of(error, at)
            if translated is None:
                raise
            # A connection that breaks after the end of the answer does no harm.
            if not self._reader.whole:
                raise self._with_partial(translated) from error
        except BaseException as stop:
            # An interrupt or a cancellation is re-raised as it is, with the partial answer attached to its cause.
            raise stop from self._with_partial(Aborted())

    def reply(self) -> Reply:
        """The answer, once all bytes have arrived."""
        with self.explained():
            if self._body is not None:
                self._show(self._reader.body(_checked(b"".join(self._body))))
            if not self._reader.whole:
                raise MalformedAnswer("it ended in the middle of the answer")
        return self._reader.reply(self._request_id)

    def _show(self, pieces: Iterable[Piece]) -> None:
        if self._watch is not None:
            for piece in pieces:
                self._watch(piece)

    def _with_partial(self, error: ModelError) -> ModelError:
        error.partial = self._reader.partial(self._request_id)
        error.request_id = error.request_id or self._request_id or ""
        return error


def _causes(error: BaseException | None) -> Iterator[Exception]:
    """An exception with its causes and grouped exceptions: frameworks wrap the SDK's exceptions in their own."""
    waiting = [error]
    visited = list[BaseException]()
    for error_in_chain in waiting:
        if isinstance(error_in_chain, BaseException) and error_in_chain not in visited:
            visited.append(error_in_chain)
            grouped = error_in_chain.exceptions if isinstance(error_in_chain, BaseExceptionGroup) else ()
            waiting += [*grouped, error_in_chain.__cause__ or error_in_chain.__context__]
            if isinstance(error_in_chain, Exception):
                yield error_in_chain


def _checked(data: bytes) -> bytes:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise MalformedAnswer(f"it is not UTF-8: {error}") from None
    return data


def _headers(response: Any) -> Mapping[str, str]:
    """The headers of a response, or of the response behind an SDK's stream."""
    headers: Mapping[str, str] = getattr(response, "response", response).headers
    return headers


def _bytes(chunk: object) -> bytes:
    """Bytes unchanged; an event that an SDK has decoded is encoded again as in a stream."""
    return chunk if isinstance(chunk, bytes) else b"data: " + msgspec.json.encode(chunk) + b"\n\n"


class _TokenCount(Struct):
    input_tokens: int


def read_count(raw: bytes) -> int | None:
    """The tokens in a server's answer to a request to count; None if it has none."""
    try:
        tokens = msgspec.json.decode(raw, type=_TokenCount).input_tokens
    except msgspec.DecodeError:
        return None
    return tokens if tokens > 0 else None
