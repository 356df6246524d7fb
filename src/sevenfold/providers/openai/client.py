"""OpenAI and every server that speaks as it does (vLLM, Ollama, llama.cpp…), through the official SDK.

Requests arrive in the shape of the Messages API and leave as Chat Completions or as Responses; answers come back in
the shape of the Messages API.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, Unpack
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from sevenfold.ports import Call
from sevenfold.profiles import Betas, Profile, ThinkingRules
from sevenfold.providers.models import Fetch, is_local, read_listing, running_window
from sevenfold.providers.openai import chat, responses
from sevenfold.providers.provider import Put
from sevenfold.providers.reader import NULL, AskedFor, Fields, Reader, words_in
from sevenfold.providers.sdk import AsyncSdkClient, SdkBase, SdkClient, SdkOptions, SdkProvider, Vendor

OPENAI = Vendor("OpenAI", "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1", "openai")
ACCOUNT = {"OPENAI_ORG_ID": "openai-organization", "OPENAI_PROJECT_ID": "openai-project"}
"""Variables that say who pays, and the headers they go into."""
OFFICIAL = "api.openai.com"
OFFICIAL_ROOM = "max_completion_tokens"
UNUSED_KEY = "unused"
"""The key sent to a server that has none: the SDK insists on one."""


class OpenAIOptions(SdkOptions, total=False):
    """How a server differs from OpenAI."""

    api: Literal["chat", "responses"] | None
    """The API to speak; left out, the model's profile decides."""
    reasoning_field: str | None
    """The field in which the server takes back what a model thought; left out, it is not sent back."""
    stream: bool


class OpenAIProvider(SdkProvider):
    """What OpenAI's two APIs have in common."""

    vendor = OPENAI

    def profile(self, profile: Profile) -> Profile:
        """What a model can do; one whose own API is another loses what only that API has."""
        if profile.wire == self.name:
            return profile
        lost: dict[str, Any] = {"threshold_compaction": False, "on_demand_compaction": False}
        if profile.wire not in (ChatCompletions.name, Responses.name):
            lost |= {
                "cache": replace(profile.cache, automatic=True, markers=0),
                "thinking": ThinkingRules(modes=profile.thinking.modes),
                "betas": Betas(),
                "tool_changes": False,
                "edits": (),
                "pinned_edits": False,
            }
        return replace(profile, wire=self.name, compaction_instructions=False, **lost)

    def client(self, given: Any = None, wire: str | None = None) -> OpenAIClient:
        """A client over the SDK client ``given``, or over a new one; if ``wire`` is left out, it speaks both APIs."""
        return OpenAIClient(given, api=_api(wire))

    def async_client(self, given: Any = None, wire: str | None = None) -> AsyncOpenAIClient:
        """The same for asyncio."""
        return AsyncOpenAIClient(given, api=_api(wire))

    def headers(self, env: Mapping[str, str]) -> dict[str, str] | None:
        """The key and who pays; a server of one's own often has no key."""
        headers = {"authorization": f"Bearer {env.get(self.vendor.key_variable) or UNUSED_KEY}"}
        return headers | {name: env[variable] for variable, name in ACCOUNT.items() if variable in env}

    def describe(self, model: str, address: str, fetch: Fetch) -> bytes:
        """The server's listing; where it leaves out the window, what a local server says about the running model."""
        raw = fetch("/models", None)  # the whole list: some servers tell less about a single model
        if not is_local(address) or ((listed := read_listing(raw, model)) and listed.window):
            return raw
        parts = urlsplit(address)
        size = running_window(
            model, lambda path, body: fetch(f"{parts.scheme}://{parts.netloc}{path}", body)
        )
        if not size:
            return raw
        body = msgspec.json.decode(raw)
        listed = body.get("data") if isinstance(body, dict) else None
        others = [one for one in listed or () if isinstance(one, dict) and one.get("id") != model]
        return msgspec.json.encode({"data": [{"id": model, "max_input_tokens": size}, *others]})


class ChatCompletions(OpenAIProvider):
    """Chat Completions."""

    name = "chat"

    def __init__(self, room: str = "max_tokens", reasoning: str | None = None) -> None:
        self.room = room
        """The server's name for the most tokens an answer may have."""
        self.reasoning = reasoning
        """The field in which it takes back what a model thought; None if it takes none."""

    def behind(self, client: object) -> Self:
        """Chat Completions as the server behind that client, or the one in the environment, speaks it."""
        known = super().behind(client)
        if known is not self:
            return known
        url = str(getattr(client, "base_url", "")) if self.recognises(client) else self.address(os.environ)
        # Local servers know the older name only, and OpenAI's newer models refuse it.
        official = urlsplit(url).hostname == OFFICIAL
        return type(self)(OFFICIAL_ROOM if official else "max_tokens", self.reasoning)

    def put(self, call: Call, *, stream: bool = False) -> Put:
        """The same request as Chat Completions."""
        # A server of one's own has one cache, and may refuse a field it does not know.
        key = call.cache_key if self.room == OFFICIAL_ROOM else ""
        made = chat.chat_request(
            call.body, stream=stream, room=self.room, reasoning=self.reasoning, cache_key=key
        )
        return Put("/chat/completions", made)

    def claims(self, fields: Fields, *, event: bool) -> bool:
        """Whether it is a chat completion, named so or not, or a chunk of one."""
        kind = "" if event else words_in(fields.get("object", NULL))
        return kind == "chat.completion" or (not kind and "choices" in fields)

    def reader(self, asked: bytes) -> Reader:
        """Reads a chat completion."""
        return chat.ChatReader(asked)


class Responses(OpenAIProvider):
    """The Responses API, without state at the provider."""

    name = "responses"

    def put(self, call: Call, *, stream: bool = False) -> Put:
        """The same request as one of the Responses API; one for its own summary is never answered as a stream."""
        if _wants_summary(call.body):
            return Put("/responses/compact", responses.compact_request(call.body, call.cache_key))
        return Put(
            "/responses", responses.responses_request(call.body, stream=stream, cache_key=call.cache_key)
        )

    def claims(self, fields: Fields, *, event: bool) -> bool:
        """Whether it is a response, or an event of one."""
        if event:
            return words_in(fields.get("type", NULL)).startswith("response.")
        return words_in(fields.get("object", NULL)) == "response"

    def reader(self, asked: bytes) -> Reader:
        """Reads a response, or the provider's own summary."""
        return (
            responses.summary_reader(asked) if _wants_summary(asked) else responses.ResponsesReader(asked)
        )


CHAT, RESPONSES = ChatCompletions(), Responses()


class _OpenAIServer(SdkBase):
    def __init__(self, sdk: Any = None, **dialect: Unpack[OpenAIOptions]) -> None:
        made = sdk or OPENAI.sdk_class(awaits=self.awaits)(**_options(dialect))
        stream = dialect.get("stream", True)
        super().__init__(made, _spoken(made, dialect), stream=stream, owned=sdk is None)


class OpenAIClient(_OpenAIServer, SdkClient):
    """Asks OpenAI or a server like it; ``sdk`` is a client of the official SDK, or one is made."""


class AsyncOpenAIClient(_OpenAIServer, AsyncSdkClient):
    """The same for asyncio; ``sdk`` is one of the SDK's asynchronous clients."""


def _wants_summary(body: bytes) -> bool:
    """Whether a request asks for the provider's own summary."""
    return bytes(AskedFor.of(body).compaction) != b"null"


def _api(wire: str | None) -> Literal["chat", "responses"] | None:
    return "chat" if wire == ChatCompletions.name else "responses" if wire == Responses.name else None


def _spoken(sdk: Any, dialect: OpenAIOptions) -> Sequence[OpenAIProvider]:
    """The APIs a client speaks; a model that belongs to neither is asked through the first."""
    own = ChatCompletions(reasoning=dialect.get("reasoning_field")).behind(sdk)
    return [one for one in (own, RESPONSES) if dialect.get("api") in (None, one.name)]


def _options(dialect: OpenAIOptions) -> dict[str, Any]:
    """What the SDK's client is made with: OpenAI itself needs a key, a server of one's own often has none."""
    key = dialect.get("api_key") or os.environ.get(OPENAI.key_variable)
    if not key and not (dialect.get("base_url") or os.environ.get(OPENAI.url_variable)):
        raise OPENAI.no_key()
    own = ("api", "reasoning_field", "stream")
    given = {name: value for name, value in dialect.items() if name not in own}
    return {**given, "api_key": key or UNUSED_KEY}
