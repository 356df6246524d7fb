"""Who answers: which client stands behind a model's name, or behind a client the caller brings.

A model's name decides: its profile says whose it is, the environment whether there is a key or an address
for that provider. Where there is neither, the offline model answers, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sevenfold.errors import InputError
from sevenfold.layers.compact.offline import summarise, take_notes
from sevenfold.ports import AsyncClient, Client
from sevenfold.profiles import find
from sevenfold.providers.anthropic.client import AnthropicClient, AsyncAnthropicClient
from sevenfold.providers.keys import ANTHROPIC, OPENAI, Provider
from sevenfold.providers.offline.client import NAME, AsyncOfflineClient, OfflineClient, Script
from sevenfold.providers.openai.client import AsyncOpenAIClient, OpenAIClient
from sevenfold.providers.wire import Api, Phrasing, at_openai


def client_for(model: str, wire: Api | None = None) -> Client:
    """Whoever answers for this model here: its provider, or the offline model where nothing is configured."""
    provider = _provider(model, wire)
    if not _configured(provider):
        return OfflineClient(offline_script())
    return AnthropicClient() if provider is ANTHROPIC else OpenAIClient(api=_openais(wire))


def async_client_for(model: str, wire: Api | None = None) -> AsyncClient:
    """The same for those who do not wait in line."""
    provider = _provider(model, wire)
    if not _configured(provider):
        return AsyncOfflineClient(offline_script())
    return AsyncAnthropicClient() if provider is ANTHROPIC else AsyncOpenAIClient(api=_openais(wire))


def client_of(given: Any, wire: Api | None = None) -> Client:
    """The caller's own client: one of the official SDKs', or anything that can `ask`."""
    match _sdk(given):
        case "anthropic":
            return AnthropicClient(given)
        case "openai":
            return OpenAIClient(given, api=_openais(wire))
        case _:
            client: Client = _asks(given)
            return client


def async_client_of(given: Any, wire: Api | None = None) -> AsyncClient:
    """The same for those who do not wait in line."""
    match _sdk(given):
        case "anthropic":
            return AsyncAnthropicClient(given)
        case "openai":
            return AsyncOpenAIClient(given, api=_openais(wire))
        case _:
            client: AsyncClient = _asks(given)
            return client


def address_for(model: str, wire: Api | None = None) -> str:
    """Where whoever answers for this model here would be asked."""
    provider = _provider(model, wire)
    return (provider.url_from_environment() or provider.url).rstrip("/")


def phrasing_for(model: str, given: Any = None, wire: Api | None = None) -> Phrasing:
    """How requests are put for the caller's own client; without one, for the one that would be made here."""
    put = _phrasing(model, given, wire)
    if wire not in (None, put.api):
        raise InputError(f"wire={wire!r}, but the client given speaks {put.api}: leave one of them out")
    return put


def _phrasing(model: str, given: Any, wire: Api | None) -> Phrasing:
    if isinstance(given, OpenAIClient | AsyncOpenAIClient):
        return given.phrasing(model)
    if _sdk(given) == "openai":
        return at_openai(model, str(given.base_url), _openais(wire))
    speaks_messages = (
        isinstance(given, AnthropicClient | AsyncAnthropicClient) or _sdk(given) == "anthropic"
    )
    if speaks_messages or _provider(model, wire) is ANTHROPIC:
        return Phrasing()
    return at_openai(model, OPENAI.url_from_environment() or OPENAI.url, _openais(wire))


def _sdk(given: Any) -> str:
    return type(given).__module__.partition(".")[0]


def _asks(given: Any) -> Any:
    if not callable(getattr(given, "ask", None)):
        raise InputError(
            f"a {type(given).__name__} cannot be asked; give a client of the anthropic or openai package, "
            "or one of ours"
        )
    return given


def offline_script() -> Script:
    """What the offline model says when nobody gave it a script: what it is, and what it heard.

    Summaries and notes it makes by extraction, so that every layer works without a key.
    """
    jobs = {"main": _heard, "sdk": _heard, "compact": summarise, "session_memory": take_notes}
    return Script([], jobs=jobs)


def _heard(request: Mapping[str, Any]) -> str:
    words = [
        block["text"]
        for message in request["messages"]
        if message["role"] == "user"
        for block in message["content"]
        if block.get("type") == "text"
    ]
    return f"({NAME}) You said: {words[-1] if words else 'nothing in words'}"


def _provider(model: str, wire: Api | None) -> Provider:
    speaks = wire or find(model).wire
    return ANTHROPIC if speaks == "messages" else OPENAI


def _openais(wire: Api | None) -> Literal["chat", "responses"] | None:
    return None if wire == "messages" else wire


def _configured(provider: Provider) -> bool:
    return bool(provider.key_from_environment() or provider.url_from_environment())
