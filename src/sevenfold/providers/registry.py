"""Finds the provider for a client, a model or an answer.

The caller's own client decides first, then the API that the caller names, then the model's profile. If the environment
has neither a key nor an address for that provider, the offline model answers, and says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from sevenfold.errors import InputError, ModelError
from sevenfold.plugins import PROVIDERS, Plugin, plugins
from sevenfold.ports import AsyncClient, Client
from sevenfold.profiles import Profile, find
from sevenfold.providers.anthropic import MESSAGES
from sevenfold.providers.mapped import mapped, mapped_async, unwrapped
from sevenfold.providers.offline import Job, Offline
from sevenfold.providers.openai.client import CHAT, RESPONSES
from sevenfold.providers.provider import Provider, choose
from sevenfold.wire.reader import Fields

OFFLINE = Offline()
"""The provider that answers if no other is configured."""
_BUILT_IN: tuple[Provider, ...] = (MESSAGES, CHAT, RESPONSES)
_providers: list[Provider] = [*_BUILT_IN]
_plugins_loaded: list[bool] = []
"""Not empty once the providers of other packages have been looked for."""


def register(provider: Provider) -> None:
    """Add a provider before all others; it replaces one with the same name."""
    if not provider.name:
        raise InputError(f"{type(provider).__name__} has no name, so nothing can choose it")
    _providers[:] = [
        provider,
        *(registered for registered in _providers if registered.name != provider.name),
    ]


def providers() -> tuple[Provider, ...]:
    """All providers, in order of priority; the offline model comes last."""
    return (*_providers, OFFLINE)


def wires() -> tuple[str, ...]:
    """The names of the APIs for which a session's requests can be built."""
    _load_plugins()
    return tuple(provider.name for provider in _providers)


def provider_for(model: str, client: Any = None, wire: str | None = None) -> Provider:
    """The provider that builds the requests; raises `InputError` if the given client uses another API than ``wire``."""
    client = unwrapped(client)
    recognising = _recognised(client) if client is not None else []
    chosen = choose(recognising or _candidates(model, wire), model, wire)
    if wire not in (None, chosen.name):
        raise InputError(f"wire={wire!r}, but the client given speaks {chosen.name}: leave one of them out")
    return chosen.behind(client)


def profile_through(provider: Provider, profile: Profile) -> Profile:
    """The profile of a model as used through this provider, whose window counts if it names another."""
    served = provider.profile(profile)
    if served.window != profile.window and served.window_source == profile.window_source:
        return replace(served, window_source="provider")
    return served


def is_offline(model: str) -> bool:
    """Whether the offline model answers for this model: by name, or because its provider is not configured."""
    return isinstance(_answering(model, None), Offline)


def client_for(
    model: str, wire: str | None = None, jobs: Mapping[str, Job] = {}, client: Any = None
) -> Client:
    """A client for this model: the given one, its provider's, or the offline model if nothing is configured.

    ``jobs`` are functions that produce the offline model's answers, by the source of a call.
    """
    if client is None:
        provider = _answering(model, wire, jobs)
        return mapped(provider.client(wire=wire), provider, model)
    return mapped(client_of(client, wire), provider_for(model, client, wire), model)


def quick_client_for(model: str, jobs: Mapping[str, Job] = {}) -> Client:
    """A client for this model that avoids loading an SDK if possible, for commands that are started often."""
    provider = _answering(model, None, jobs)
    return mapped(provider.quick_client(os.environ), provider, model)


def async_client_for(
    model: str, wire: str | None = None, jobs: Mapping[str, Job] = {}, client: Any = None
) -> AsyncClient:
    """Like `client_for`, for asyncio."""
    if client is None:
        provider = _answering(model, wire, jobs)
        return mapped_async(provider.async_client(wire=wire), provider, model)
    return mapped_async(async_client_of(client, wire), provider_for(model, client, wire), model)


def client_of(given: Any, wire: str | None = None) -> Client:
    """A client over the caller's own: an official SDK's client, or any object with an `ask` method."""
    client: Client = given if _asks(given) else _recognising(given, wire).client(given, wire)
    return client


def async_client_of(given: Any, wire: str | None = None) -> AsyncClient:
    """Like `client_of`, for asyncio."""
    client: AsyncClient = given if _asks(given) else _recognising(given, wire).async_client(given, wire)
    return client


def address_for(model: str, wire: str | None = None) -> str:
    """The server address that would be used for this model."""
    return choose(_candidates(model, wire), model, wire).address(os.environ)


def claiming(fields: Fields, *, event: bool) -> Provider | None:
    """The provider to which this answer belongs (with ``event``, this first event of a stream); None if unknown."""
    return next((provider for provider in _providers if provider.claims(fields, event=event)), None)


def error_of(error: Exception, profile: Profile) -> ModelError | None:
    """Our error for an SDK's exception; None for one that has nothing to do with a model."""
    if isinstance(error, ModelError):
        return error
    # The model's own provider first: several may share a transport, and the error text names the provider.
    for provider in sorted(_providers, key=lambda one: not one.serves(profile)):
        if (ours := provider.error(error, profile.model)) is not None:
            return ours
    return None


def _recognised(client: object) -> list[Provider]:
    """The providers that know this client; those of other packages are looked for if none of ours does."""
    recognising = [provider for provider in _providers if provider.recognises(client)]
    if recognising or _asks(client):
        return recognising
    _load_plugins()
    return [provider for provider in _providers if provider.recognises(client)]


def _candidates(model: str, wire: str | None) -> list[Provider]:
    """The providers to choose from; those of other packages are looked for if ours know neither model nor API."""
    ours = any(provider.name == wire for provider in _providers) or (wire is None and _serves(model))
    if not ours:
        _load_plugins()
    return _providers


def _serves(model: str) -> bool:
    """Whether the model is ours, or one that a registered provider asks for."""
    profile = find(model)
    registered = (provider for provider in _providers if provider not in _BUILT_IN)
    return (
        profile.known or model == OFFLINE.name or any(provider.serves(profile) for provider in registered)
    )


def _load_plugins() -> None:
    """Add the providers that installed packages bring: before ours, after those that the program registered."""
    if _plugins_loaded:
        return
    _plugins_loaded.append(True)
    for plugin in plugins(PROVIDERS):
        provider = _made(plugin)
        if provider is None:
            continue
        if any(loaded.name == provider.name for loaded in _providers):
            plugin.warn(f"there is a provider of the name {provider.name!r} already")
            continue
        index = next((number for number, loaded in enumerate(_providers) if loaded in _BUILT_IN), 0)
        _providers.insert(index, provider)


def _made(plugin: Plugin) -> Provider | None:
    """The provider that a plugin names or makes; None, and a warning, if it is none."""
    named = plugin.load()
    if named is None:
        return None
    try:
        provider = named if isinstance(named, Provider) else named()
    except Exception as error:  # noqa: BLE001 (whatever a plugin does, the program continues without it)
        plugin.warn(f"{type(error).__name__}: {error}")
        return None
    if not isinstance(provider, Provider) or not provider.name:
        plugin.warn(f"it is a {type(provider).__name__}, not a Provider with a name")
        return None
    return provider


def _answering(model: str, wire: str | None, jobs: Mapping[str, Job] = {}) -> Provider:
    chosen = choose(_candidates(model, wire), model, wire)
    configured = model != OFFLINE.name and chosen.configured(os.environ)
    return chosen if configured else Offline(jobs)


def _recognising(client: Any, wire: str | None) -> Provider:
    recognising = _recognised(client)
    if not recognising:
        raise InputError(
            f"a {type(client).__name__} is not a client; pass a client of the anthropic or openai package, "
            "or one of ours"
        )
    return next((provider for provider in recognising if provider.name == wire), recognising[0])


def _asks(client: Any) -> bool:
    return callable(getattr(client, "ask", None))
