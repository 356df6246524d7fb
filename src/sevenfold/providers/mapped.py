"""Clients whose errors are the engine's own, whatever the SDK behind them raises.

The layers act on `PromptTooLong`, the waiting on `RateLimited`, and so on. A provider knows what the exceptions of its
SDK mean (`Provider.error`), so its clients need not know our errors.
"""

from __future__ import annotations

from typing import Any

from sevenfold.errors import ModelError
from sevenfold.ports import AsyncClient, Call, Client, Reply, Watcher, count_with, count_with_async
from sevenfold.providers.models import Lister
from sevenfold.providers.provider import Provider
from sevenfold.providers.sdk import SdkProvider


def mapped(client: Client, provider: Provider, model: str) -> Client:
    """The client, with the exceptions of its SDK translated by the provider; as it is if that translates none."""
    if not _translates(client, provider):
        return client
    kind = _ListingClient if isinstance(client, Lister) else _MappedClient
    return kind(client, provider, model)


def mapped_async(client: AsyncClient, provider: Provider, model: str) -> AsyncClient:
    """Like `mapped`, for asyncio."""
    if not _translates(client, provider):
        return client
    kind = _AsyncListingClient if isinstance(client, Lister) else _AsyncMappedClient
    return kind(client, provider, model)


def unwrapped(client: Any) -> Any:
    """The client inside of all wrappers, by which its provider is recognised."""
    while isinstance(client, WrappedClient):
        client = client.inner
    return client


def _translates(client: object, provider: Provider) -> bool:
    # The clients of the built-in providers raise our errors themselves.
    built_in = (Provider.error, SdkProvider.error)
    return type(provider).error not in built_in and not isinstance(client, _Mapped)


class WrappedClient:
    """A client around another one, by which its provider is recognised."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class WrappedLister(WrappedClient):
    """A client around another one that can list its models."""

    # `Lister` is looked for in the class, where `__getattr__` is not seen.
    @property
    def address(self) -> str:
        """The address of its server."""
        address: str = self.inner.address
        return address

    def listing(self, model: str, seconds: float) -> bytes:
        """What its server says about its models."""
        listing: bytes = self.inner.listing(model, seconds)
        return listing


class _Mapped(WrappedClient):
    def __init__(self, inner: Any, provider: Provider, model: str) -> None:
        super().__init__(inner)
        self._provider = provider
        self._model = model


class _MappedClient(_Mapped):
    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        try:
            reply: Reply = self.inner.ask(call, watch)
        except ModelError:
            raise
        except Exception as error:
            ours = self._provider.error(error, self._model)
            if ours is None:
                raise
            raise ours from error
        return reply

    def count(self, call: Call) -> int | None:
        return count_with(self.inner, call)

    def close(self) -> None:
        self.inner.close()


class _AsyncMappedClient(_Mapped):
    async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        try:
            reply: Reply = await self.inner.ask(call, watch)
        except ModelError:
            raise
        except Exception as error:
            ours = self._provider.error(error, self._model)
            if ours is None:
                raise
            raise ours from error
        return reply

    async def count(self, call: Call) -> int | None:
        return await count_with_async(self.inner, call)

    async def close(self) -> None:
        await self.inner.close()


class _ListingClient(_MappedClient, WrappedLister):
    pass


class _AsyncListingClient(_AsyncMappedClient, WrappedLister):
    pass
