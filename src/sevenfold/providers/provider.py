"""The interface of a provider: everything about one API in one object.

The engine builds requests in the format of the Messages API and reads answers in that format. A provider translates
both. It also knows which client to use for its API, where keys and addresses come from, what an error of its SDK means,
and what a model can do through it. To add an API, subclass `Provider` and `register` an instance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from sevenfold.errors import ModelError
from sevenfold.ports import AsyncClient, Call, Client, Reply
from sevenfold.profiles import Profile, find
from sevenfold.wire.brokered import broker_headers
from sevenfold.wire.reader import Fields, Reader

P = TypeVar("P", bound="Provider")


class Put(Struct, frozen=True):
    """A request as it is sent to the server."""

    path: str
    """The path, relative to the server's address."""
    body: bytes
    headers: Mapping[str, str] = {}
    """Headers in addition to those of every request."""


class Provider:
    """One API. Only the methods `client`, `async_client`, `put` and `reader` have no default."""

    name: str = ""
    """The name that selects it, in a session's `wire` option or a profile's field `wire`."""

    # -- selection -------------------------------------------------------------------------------

    def recognises(self, client: object) -> bool:
        """Whether requests through this client, usually an SDK's, must be built for this API."""
        return False

    def behind(self, client: object) -> Self:
        """This provider adapted to that client: servers of one API may differ in details."""
        return self

    def serves(self, profile: Profile) -> bool:
        """Whether this API is used for a model if the caller names neither a client nor an API."""
        return profile.wire == self.name

    def profile(self, profile: Profile) -> Profile:
        """The profile of a model as used through this API, for example with another window."""
        return replace(profile, wire=self.name)

    # -- clients ---------------------------------------------------------------------------------

    def configured(self, env: Mapping[str, str]) -> bool:
        """Whether these environment variables are enough to create a client; if not, the offline model answers."""
        return True

    def unconfigured(self) -> str:
        """A text that tells the user what is missing, and why the offline model answers instead."""
        return f"{self.name} is not configured"

    def address(self, env: Mapping[str, str]) -> str:
        """The server's address according to these environment variables."""
        return ""

    def client(self, given: Any = None, wire: str | None = None) -> Client:
        """A client that uses the SDK client ``given``, or a new one.

        ``wire`` is the API that the caller named; if None, a client that supports several may choose by model.
        """
        raise NotImplementedError(f"{type(self).__name__} makes no clients that wait")

    def quick_client(self, env: Mapping[str, str]) -> Client:
        """A client for these environment variables that starts fast, for programs that are started often."""
        return self.client()

    def async_client(self, given: Any = None, wire: str | None = None) -> AsyncClient:
        """Like `client`, for asyncio."""
        raise NotImplementedError(f"{type(self).__name__} makes no clients for asyncio")

    # -- requests --------------------------------------------------------------------------------

    def sent(self, call: Call, *, stream: bool = False) -> Put:
        """The request as `put` builds it, with the name that a broker in between knows it by, and what it inherits."""
        put = self.put(call, stream=stream)
        named = broker_headers(call.name, call.recorded)
        if call.inherited is None:
            return replace(put, headers={**put.headers, **named}) if named else put
        headers = {**call.inherited.headers, **put.headers, **named}
        if not call.inherited.fields:
            return replace(put, headers=headers)
        fields = {**msgspec.json.decode(put.body, type=Fields), **call.inherited.fields}
        return replace(put, body=msgspec.json.encode(fields), headers=headers)

    def put(self, call: Call, *, stream: bool = False) -> Put:
        """Build the request for this API; raises `RequestRefused` if the API cannot express it.

        This must be a pure function, and a longer conversation must begin with the bytes of a shorter one; otherwise
        the server cannot find it in its cache. A body with the field `compaction` asks for the provider's own summary;
        it occurs only if the profile has `on_demand_compaction`.
        """
        raise NotImplementedError

    def arguments(self, put: Put) -> Mapping[str, Raw]:
        """The keyword arguments, as JSON, for sending this request with the SDK's own method."""
        arguments = msgspec.json.decode(put.body, type=Fields)
        if put.headers:
            arguments["extra_headers"] = Raw(msgspec.json.encode(put.headers))
        return arguments

    # -- answers ---------------------------------------------------------------------------------

    def claims(self, fields: Fields, *, event: bool) -> bool:
        """Whether this JSON object is an answer of this API or, with ``event``, the first event of its stream."""
        return False

    def reader(self, asked: bytes) -> Reader:
        """A reader for the answer to ``asked``, a request in the format of the Messages API."""
        raise NotImplementedError

    def read(self, raw: bytes, *, asked: bytes = b"", request_id: str | None = None) -> Reply:
        """Read a complete response body; raises `MalformedAnswer` or `ErrorAnswer`."""
        reader = self.reader(asked)
        reader.body(raw)
        return reader.reply(request_id)

    def error(self, error: Exception, model: str = "") -> ModelError | None:
        """Our error for an exception of the API's SDK, whoever's client raised it; None for any other exception."""
        return None


def choose(among: Sequence[P], model: str, wire: str | None = None) -> P:
    """The provider that ``wire`` names, otherwise the one that serves the model, otherwise the first."""
    if len(among) == 1:
        return among[0]
    named = (provider for provider in among if provider.name == wire)
    profile = find(model)
    return next(named, None) or next((provider for provider in among if provider.serves(profile)), among[0])
