"""Anthropic's Messages API through the official SDK.

The first-party client sends the bytes it is given: the SDK is handed a finished body and returns the
response unread, so requests are what was hashed and logged, and answers are kept as they were written. The
clients for other platforms (Bedrock, Vertex and the like) put the model into the address and sign what they
send, so they get the request decoded; what they send back is read by the same reader.
"""

from __future__ import annotations

from typing import Any, Unpack
from urllib.parse import quote

import msgspec

from sevenfold.ports import Call
from sevenfold.providers.anthropic.stream import MessagesReader
from sevenfold.providers.exchange import (
    Asked,
    AsyncSdkClient,
    Options,
    SdkClient,
    model_of,
    raw_post,
    streaming,
)
from sevenfold.providers.failures import Place
from sevenfold.providers.keys import ANTHROPIC

PATH = "/v1/messages"


class AnthropicClient(SdkClient):
    """Asks Anthropic; ``sdk`` is a client of the official SDK, or one is made from the options."""

    def __init__(self, sdk: Any = None, *, stream: bool = True, **options: Unpack[Options]) -> None:
        module = ANTHROPIC.load()
        made = sdk or _made(module, module.Anthropic, options)
        super().__init__(made, MessagesWire(module, made, module.Stream, stream), owned=sdk is None)


class AsyncAnthropicClient(AsyncSdkClient):
    """The same without blocking; ``sdk`` is one of the SDK's asynchronous clients."""

    def __init__(self, sdk: Any = None, *, stream: bool = True, **options: Unpack[Options]) -> None:
        module = ANTHROPIC.load()
        made = sdk or _made(module, module.AsyncAnthropic, options)
        super().__init__(made, MessagesWire(module, made, module.AsyncStream, stream), owned=sdk is None)


class MessagesWire:
    """How the Messages API is asked and read."""

    def __init__(self, module: Any, client: Any, stream_class: Any, stream: bool) -> None:
        self.sdk = module
        self._first_party = type(client) in (module.Anthropic, module.AsyncAnthropic)
        self._stream_class = stream_class
        self._stream = stream
        self._url = str(client.base_url).rstrip("/")
        if self._first_party and not _has_key(client):
            raise ANTHROPIC.no_key()

    def asked(self, call: Call) -> Asked:
        """The request that goes out for a call."""
        headers = {"anthropic-beta": ",".join(call.betas)} if call.betas else {}
        body = streaming(call.body) if self._stream else call.body
        post = raw_post(PATH, body, headers)
        if not self._first_party:
            del post["content"]
            post["body"] = msgspec.json.decode(body)
        if not self._first_party and self._stream:
            # Bedrock frames its events in a way of its own, which only the SDK's stream can read.
            post |= {"cast_to": object, "stream_cls": self._stream_class[object]}
        return Asked(post, MessagesReader())

    def place(self, call: Call) -> Place:
        """Whom the call went to."""
        return Place(ANTHROPIC, self._url, model_of(call))

    def models(self, model: str) -> str:
        """Where Anthropic says what it knows of a model."""
        return f"/v1/models/{quote(model, safe='')}"


def _made(module: Any, maker: Any, options: Options) -> Any:
    try:
        return maker(**options)
    except module.CredentialsError as error:
        raise ANTHROPIC.bad_credentials(error) from error


def _has_key(client: Any) -> bool:
    headers = {name.lower() for name in client.default_headers}
    return bool(
        client.api_key
        or client.auth_token
        or client.credentials
        or headers & {"authorization", "x-api-key"}
    )
