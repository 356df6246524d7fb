"""A client of an official SDK whose conversations never outgrow the window: `sevenfold.wrap(client)`.

The client stays what it is, with all its methods, streams and types: only its HTTP transport is another one. It shows
each request to a follower, sends what the follower returns, and shows it a copy of the answer. A request that the
provider refuses with our changes is sent again as the program wrote it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from sevenfold.clock import RandomIds, SystemClock
from sevenfold.conversation.gate import Gate
from sevenfold.doors.follower.answer_reading import BodyReading
from sevenfold.doors.follower.follower import CallEnd, ClientCall, FollowedCall
from sevenfold.doors.follower.identity import SESSION, api_of
from sevenfold.doors.follower.keeper import REFUSED, KeepingFollower, KeepingOptions
from sevenfold.doors.follower.secret import secret_of
from sevenfold.errors import InputError
from sevenfold.ports import Store
from sevenfold.settings import Settings, Source
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.log import Sync
from sevenfold.stores.jsonl.store import JsonlStore
from sevenfold.stores.registry import open_store
from sevenfold.stores.settings_files import FileSource

C = TypeVar("C")


class _HeldConversation(Struct):
    """What a request names of a conversation that the provider holds."""

    previous_response_id: object = None
    conversation: object = None


MOST_PROBLEMS = 100
_HTTP_LIBRARIES = ("httpx2", "httpx")
_HELD = (b'"previous_response_id"', b'"conversation"')
_named: ContextVar[str] = ContextVar("sevenfold_conversation", default="")


@contextmanager
def conversation(name: str) -> Iterator[None]:
    """Whatever wrapped clients send in this block belongs to the conversation of this name."""
    token = _named.set(_checked_name(name))
    try:
        yield
    finally:
        _named.reset(token)


def wrap(
    client: C,
    *,
    session: str | None = None,
    store: Store | Path | str | None = None,
    settings: Mapping[str, object] | Settings | None = None,
) -> C:
    """The same client, whose conversations are recorded and kept within the window.

    All requests belong to the conversation ``session``; without it, each to the one that `conversation` or the header
    ``x-sevenfold-session`` names, or else to the one whose messages it continues. ``store`` is where sessions are kept,
    by default the project's in the user's home. The wrapped client has an attribute ``sevenfold``: call its `close` at
    the end.
    """
    _library_for(client)
    return WrappedConversations(session or "", store, settings).wrap(client)


def _checked_name(name: str) -> str:
    """The name of a conversation; raises `InputError` if it is no text, as an id of a database often is."""
    if not isinstance(name, str):
        raise InputError(
            f"the name of a conversation is a text, got {type(name).__name__}; pass for example str({name!r})"
        )
    return name


def can_wrap(client: object) -> bool:
    """Whether an object is a client of the Anthropic or OpenAI SDK."""
    return hasattr(client, "copy") and _library_of(getattr(client, "_client", None)) is not None


class WrappedConversations:
    """The conversations of wrapped clients; one that is not closed is at the end of the process."""

    def __init__(
        self,
        session: str = "",
        store: Store | Path | str | None = None,
        settings: Mapping[str, object] | Settings | None = None,
    ) -> None:
        folder = Path.cwd()
        home = user_home()
        source: Source = settings if isinstance(settings, Settings) else FileSource(folder, settings or {})
        sync = Sync(source.current().fsync)
        if store is None:
            store = JsonlStore(home.project(folder).folder, sync=sync, user_memory=home.memory)
        self._store = open_store(store, sync=sync)
        self._session = _checked_name(session)
        self._lock = RLock()
        self.problems: list[str] = []
        """The newest faults: why the program's own bytes were sent, or something was not recorded."""
        self._follower = KeepingFollower(
            self._store,
            str(folder),
            secret_of(home.root / "gateway.key"),
            KeepingOptions(source, gate=lambda: Gate.of(source.current()), failed=self._note),
            clock=SystemClock(),
            ids=RandomIds(),
        )
        weakref.finalize(self, self._follower.close)

    def wrap(self, client: C) -> C:
        """The same client, whose conversations are among these."""
        library = _library_for(client)
        awaits = hasattr(client._client, "aclose")  # type: ignore[attr-defined]
        door = _Door(self, str(client.base_url).rstrip("/"))  # type: ignore[attr-defined]
        transport = (_async_transport if awaits else _transport)(library, client, door)
        new_http = library.AsyncClient if awaits else library.Client
        wrapped: C = client.copy(http_client=new_http(transport=transport))  # type: ignore[attr-defined]
        wrapped.sevenfold = self  # type: ignore[attr-defined]
        return wrapped

    @property
    def sessions(self) -> tuple[str, ...]:
        """The names of the sessions that were written to."""
        return tuple(self._follower.sessions)

    def conversation(self, name: str) -> AbstractContextManager[None]:
        """Whatever is sent in this block belongs to the conversation of this name; like `sevenfold.conversation`."""
        return conversation(name)

    def close(self) -> None:
        """Finish what is under way, and close the sessions."""
        with self._lock:
            self._follower.close()

    def prepare(
        self, address: str, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> FollowedCall | None:
        """Take in a request to ``address``; None if it is no request to a model, or cannot be followed."""
        api = api_of(method, path)
        if api is None or _is_held_by_provider(body):
            return None
        named = self._session or _named.get()
        lowered = {name.lower(): value for name, value in headers.items()}
        call = ClientCall(api, path, lowered | ({SESSION: named} if named else {}), body)
        with self._lock:
            try:
                return self._follower.prepare(call, address)
            except Exception as error:  # noqa: BLE001 (a program must not fail because of us)
                self._note(error)
                return None

    def refused(self, call: FollowedCall) -> None:
        """Take note that the provider refused our changes."""
        with self._lock:
            self._follower.refused(call)

    def ended(self, call: FollowedCall, end: CallEnd) -> None:
        """Record how a request ended."""
        with self._lock:
            try:
                self._follower.ended(call, end)
            except Exception as error:  # noqa: BLE001 (a program must not fail because of us)
                self._note(error)

    def _note(self, error: Exception) -> None:
        self.problems.append(f"{type(error).__name__}: {error}")
        del self.problems[:-MOST_PROBLEMS]


class _Door(NamedTuple):
    """The conversations that the requests of one client belong to, and the address that it sends them to."""

    conversations: WrappedConversations
    address: str

    def passage(self, library: ModuleType, request: Any, body: bytes) -> _Passage:
        """Take in a request of the client."""
        call = self.conversations.prepare(
            self.address, request.method, request.url.path, request.headers, body
        )
        return _Passage(library, self.conversations, request, call)


class _Passage:
    """One request of a program on its way to the provider, and its answer on the way back."""

    def __init__(
        self, library: ModuleType, keeping: WrappedConversations, request: Any, call: FollowedCall | None
    ) -> None:
        self._library = library
        self._keeping = keeping
        self._call = call
        self._reading: BodyReading | None = None
        self._status = 0
        self._ended = call is None
        with suppress(KeyError):
            del request.headers[SESSION]  # it is meant for us
        self.original = request

    @property
    def request(self) -> Any:
        """The request to send."""
        return self._with_body(self._call.body if self._call is not None else None)

    @property
    def untouched(self) -> Any:
        """The request to send if the provider refused the first."""
        return self._with_body(self._call.untouched if self._call is not None else None)

    def _with_body(self, body: bytes | None) -> Any:
        original = self.original
        if body is None:
            return original
        framing = ("content-length", "transfer-encoding")
        headers = [(name, value) for name, value in original.headers.multi_items() if name not in framing]
        return self._library.Request(
            original.method, original.url, headers=headers, content=body, extensions=original.extensions
        )

    def must_repeat(self, status: int) -> bool:
        """Whether the provider refused our changes, so that the program's own request is sent instead."""
        if self._call is None or self._call.body is None or status not in REFUSED:
            return False
        self._keeping.refused(self._call)
        return True

    def answered(self, response: Any, copied: Callable[[Any, _Passage], Any]) -> Any:
        """The response for the program; its stream is ``copied`` as it passes."""
        call = self._call
        if call is None:
            return response
        headers = {name.lower(): value for name, value in response.headers.items()}
        body = self.original.content if call.body is None else call.body
        self._status = response.status_code
        self._reading = BodyReading(call.request.api, self.original.url.path, body, headers)
        return self._library.Response(
            response.status_code,
            headers=response.headers,
            stream=copied(response, self),
            extensions=response.extensions,
            request=self.original,
        )

    def take(self, chunk: bytes) -> None:
        """Read a piece of the answer."""
        if self._reading is not None:
            self._reading.take(chunk)

    def end(self, error: Exception | None = None) -> None:
        """Record how it ended, once."""
        if self._ended or self._call is None:
            return
        self._ended = True
        answer, problem = self._reading.ended(self._status) if self._reading else (None, "")
        problem = f"{type(error).__name__}: {error}" if error is not None else problem
        self._keeping.ended(self._call, CallEnd(self._status, answer, problem))


def _is_held_by_provider(body: bytes) -> bool:
    """Whether the provider holds the conversation, so that the request has only what is new in it."""
    if not any(name in body for name in _HELD):
        return False
    try:
        fields = msgspec.json.decode(body, type=_HeldConversation)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return bool(fields.previous_response_id or fields.conversation)


def _library_for(client: object) -> ModuleType:
    """The HTTP library that a client of an SDK uses; raises `InputError` for any other object."""
    library = _library_of(getattr(client, "_client", None))
    if library is None or not can_wrap(client):
        raise InputError(
            f"wrap() takes a client of the anthropic or openai SDK, got {type(client).__name__}; for your own loop "
            "use sevenfold.Session, for any program `sevenfold gateway`"
        )
    return library


def _library_of(http: object) -> ModuleType | None:
    """The HTTP library that a client of an SDK uses."""
    for kind in type(http).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in _HTTP_LIBRARIES:
            return sys.modules[name]
    return None


def _transport(library: Any, client: Any, door: _Door) -> Any:
    """A transport that sends through the HTTP client that ``client`` has then: frameworks replace a closed one."""

    class Copied(library.SyncByteStream):  # type: ignore[misc]
        def __init__(self, response: Any, passage: _Passage) -> None:
            self._response = response
            self._passage = passage

        def __iter__(self) -> Iterator[bytes]:
            for chunk in self._response.iter_raw():
                self._passage.take(chunk)
                yield chunk

        def close(self) -> None:
            self._response.close()
            self._passage.end()

    class Kept(library.BaseTransport):  # type: ignore[misc]
        def handle_request(self, request: Any) -> Any:
            body = request.read()
            passage = door.passage(library, request, body)
            try:
                response = client._client.send(passage.request, stream=True)
                if passage.must_repeat(response.status_code):
                    response.close()
                    response = client._client.send(passage.untouched, stream=True)
            except Exception as error:
                passage.end(error)
                raise
            return passage.answered(response, Copied)

        def close(self) -> None:
            client._client.close()

    return Kept()


def _async_transport(library: Any, client: Any, door: _Door) -> Any:
    """The same for a client that is awaited; what follows the conversations runs in a thread."""
    from anyio import to_thread  # what the client's HTTP library brings

    class Copied(library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, response: Any, passage: _Passage) -> None:
            self._response = response
            self._passage = passage

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._response.aiter_raw():
                self._passage.take(chunk)
                yield chunk

        async def aclose(self) -> None:
            await self._response.aclose()
            await to_thread.run_sync(self._passage.end)

    class Kept(library.AsyncBaseTransport):  # type: ignore[misc]
        async def handle_async_request(self, request: Any) -> Any:
            body = await request.aread()
            passage = await to_thread.run_sync(door.passage, library, request, body)
            try:
                response = await client._client.send(passage.request, stream=True)
                if passage.must_repeat(response.status_code):
                    await response.aclose()
                    response = await client._client.send(passage.untouched, stream=True)
            except Exception as error:
                passage.end(error)
                raise
            return passage.answered(response, Copied)

        async def aclose(self) -> None:
            await client._client.aclose()

    return Kept()


class _CallablePackage(ModuleType):
    """The package `sevenfold.conversation`, which shares its name with the function."""

    def __call__(self, name: str) -> AbstractContextManager[None]:
        return conversation(name)


# The import of any module of the package puts it in the place of the function in `sevenfold`.
sys.modules["sevenfold.conversation"].__class__ = _CallablePackage
