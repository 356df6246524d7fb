"""What a provider is: everything about one API in one object.

The engine writes requests in the shape of the Messages API and reads answers in that shape. A provider translates
both, knows which client speaks its API, where its keys and its address come from, what an error of its SDK means, and
what a model can do behind it. Subclass `Provider` and `register` an instance to add an API.
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
from sevenfold.providers.reader import Fields, Reader

P = TypeVar("P", bound="Provider")


class Put(Struct, frozen=True):
    """A request as a server takes it."""

    path: str
    """Where it goes, behind the server's address."""
    body: bytes
    headers: Mapping[str, str] = {}
    """Headers it needs in addition to those of every request."""


class Provider:
    """One API. Of these methods only `client`, `async_client`, `put` and `reader` have no default."""

    name: str = ""
    """Chooses it: a session's `wire` option, or a profile's field `wire`."""

    # -- who it is for ---------------------------------------------------------------------------

    def recognises(self, client: object) -> bool:
        """Whether requests that go through this client, usually an SDK's, are to be put for this API."""
        return False

    def behind(self, client: object) -> Self:
        """This provider as that client needs it: servers of one API may differ in details."""
        return self

    def serves(self, profile: Profile) -> bool:
        """Whether a model is asked through this API if the caller names neither a client nor an API."""
        return profile.wire == self.name

    def profile(self, profile: Profile) -> Profile:
        """What a model can do behind this API."""
        return replace(profile, wire=self.name)

    # -- asking ----------------------------------------------------------------------------------

    def configured(self, env: Mapping[str, str]) -> bool:
        """Whether a client can be made from these environment variables; if not, the offline model answers."""
        return True

    def unconfigured(self) -> str:
        """What is missing, for a user whom the offline model answers instead."""
        return f"{self.name} is not configured"

    def address(self, env: Mapping[str, str]) -> str:
        """Where requests go according to these environment variables."""
        return ""

    def client(self, given: Any = None, wire: str | None = None) -> Client:
        """A client over the SDK client ``given``, or over a new one.

        ``wire`` is the API the caller named; if it is None, a client that speaks several may choose by the model.
        """
        raise NotImplementedError(f"{type(self).__name__} makes no clients that wait")

    def quick_client(self, env: Mapping[str, str]) -> Client:
        """A client for these environment variables that is ready soon, for programs that start often."""
        return self.client()

    def async_client(self, given: Any = None, wire: str | None = None) -> AsyncClient:
        """The same for asyncio."""
        raise NotImplementedError(f"{type(self).__name__} makes no clients for asyncio")

    # -- requests --------------------------------------------------------------------------------

    def put(self, call: Call, *, stream: bool = False) -> Put:
        """The request for this API; raises `RequestRefused` if it cannot be expressed.

        It must be a pure function, and a longer conversation must begin with the bytes of a shorter one, or no
        server finds it in its cache. A body with the field `compaction` asks for the provider's own summary; none
        comes unless the profile has `on_demand_compaction`.
        """
        raise NotImplementedError

    def arguments(self, put: Put) -> Mapping[str, Raw]:
        """The keyword arguments, as JSON, with which the SDK's own method sends this request."""
        return msgspec.json.decode(put.body, type=Fields)

    # -- answers ---------------------------------------------------------------------------------

    def claims(self, fields: Fields, *, event: bool) -> bool:
        """Whether this JSON object is an answer of this API, or with ``event`` the first event of its stream."""
        return False

    def reader(self, asked: bytes) -> Reader:
        """Reads the answer to ``asked``, a request in the shape of the Messages API."""
        raise NotImplementedError

    def read(self, raw: bytes, *, asked: bytes = b"", request_id: str | None = None) -> Reply:
        """The answer in a body that came in one piece; raises `MalformedAnswer` or `ErrorAnswer`."""
        reader = self.reader(asked)
        reader.body(raw)
        return reader.reply(request_id)

    def error(self, error: Exception, model: str = "") -> ModelError | None:
        """The error that an exception of the API's SDK means; None for exceptions of anything else."""
        return None


def choose(among: Sequence[P], model: str, wire: str | None = None) -> P:
    """The provider that ``wire`` names, else the one that serves the model, else the first."""
    if len(among) == 1:
        return among[0]
    named = (one for one in among if one.name == wire)
    profile = find(model)
    return next(named, None) or next((one for one in among if one.serves(profile)), among[0])
