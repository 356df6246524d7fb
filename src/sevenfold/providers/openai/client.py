"""OpenAI and every server that speaks as it does (vLLM, Ollama, llama.cpp…), through the official SDK.

Requests arrive in the shape of the Messages API and leave as Chat Completions, or as Responses where the
model's profile says so; answers come back in the shape of the Messages API. A request for a summary goes to
the Responses API's address for those. The SDK is handed finished bytes and returns the response unread, as for
Anthropic.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Literal, Unpack

from sevenfold.ports import Call
from sevenfold.providers.anthropic.stream import Reader
from sevenfold.providers.exchange import (
    Asked,
    AsyncSdkClient,
    Options,
    SdkClient,
    model_of,
    raw_post,
)
from sevenfold.providers.failures import Place
from sevenfold.providers.keys import OPENAI
from sevenfold.providers.openai.chat_stream import ChatReader
from sevenfold.providers.openai.responses_compaction import CompactionReader
from sevenfold.providers.openai.responses_stream import ResponsesReader
from sevenfold.providers.wire import CHAT, COMPACT, Phrasing, at_openai

UNUSED_KEY = "unused"
"""What a server of one's own is sent as a key when there is none: the SDK insists on one."""


class Dialect(Options, total=False):
    """How a server differs from OpenAI."""

    api: Literal["chat", "responses"] | None
    """The API to speak; left out, the model's profile decides."""
    reasoning_field: str | None
    """The field in which the server takes back what a model thought; left out, it is not sent back."""
    stream: bool


class OpenAIClient(SdkClient):
    """Asks OpenAI or a server like it; ``sdk`` is a client of the official SDK, or one is made."""

    def __init__(self, sdk: Any = None, **dialect: Unpack[Dialect]) -> None:
        module = OPENAI.load()
        made = sdk or module.OpenAI(**_options(dialect))
        wire = OpenAIWire(module, made, dialect)
        super().__init__(made, wire, owned=sdk is None)
        self.phrasing = wire.phrasing
        """How a request for a model is put."""


class AsyncOpenAIClient(AsyncSdkClient):
    """The same without blocking; ``sdk`` is one of the SDK's asynchronous clients."""

    def __init__(self, sdk: Any = None, **dialect: Unpack[Dialect]) -> None:
        module = OPENAI.load()
        made = sdk or module.AsyncOpenAI(**_options(dialect))
        wire = OpenAIWire(module, made, dialect)
        super().__init__(made, wire, owned=sdk is None)
        self.phrasing = wire.phrasing
        """How a request for a model is put."""


class OpenAIWire:
    """How the two APIs are asked and read."""

    def __init__(self, module: Any, client: Any, dialect: Dialect) -> None:
        self.sdk = module
        self._url = str(client.base_url).rstrip("/")
        self._api = dialect.get("api")
        self._reasoning = dialect.get("reasoning_field")
        self._stream = dialect.get("stream", True)

    def phrasing(self, model: str) -> Phrasing:
        """How a request for a model is put."""
        return at_openai(model, self._url, self._api, self._reasoning)

    def asked(self, call: Call) -> Asked:
        """The request that goes out for a call."""
        model = model_of(call)
        path, body = self.phrasing(model).put(call.body, stream=self._stream)
        return Asked(raw_post(path, body, {}), _reader(path, model, seeded(call.body)))

    def place(self, call: Call) -> Place:
        """Whom the call went to."""
        return Place(OPENAI, self._url, model_of(call))

    def models(self, model: str) -> str:
        """Where the server lists its models: some list more than they tell of a single one."""
        return "/models"


def seeded(body: bytes) -> Callable[[], str]:
    """What names are made from that a server did not give: the request itself, so that they are the same each time."""
    return lambda: sha256(body).hexdigest()[:12]


def _reader(path: str, model: str, seed: Callable[[], str]) -> Reader:
    if path == COMPACT:
        return CompactionReader(model, seed)
    return ChatReader(seed) if path == CHAT else ResponsesReader(seed)


def _options(dialect: Dialect) -> dict[str, Any]:
    """What the SDK is made with: OpenAI itself needs a key, a server of one's own often has none."""
    key = dialect.get("api_key") or OPENAI.key_from_environment()
    if key is None and not (dialect.get("base_url") or OPENAI.url_from_environment()):
        raise OPENAI.no_key()
    own = ("api", "reasoning_field", "stream")
    return {
        **{name: value for name, value in dialect.items() if name not in own},
        "api_key": key or UNUSED_KEY,
    }
