"""OpenAI and all compatible servers (vLLM, Ollama, llama.cpp…), through the official SDK.

Requests arrive in the format of the Messages API and are sent as Chat Completions or Responses; answers are returned in
the format of the Messages API.
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
from sevenfold.providers.provider import Put
from sevenfold.providers.sdk import AsyncSdkClient, SdkBase, SdkClient, SdkOptions, SdkProvider, Vendor
from sevenfold.wire.chat_answer import ChatReader
from sevenfold.wire.chat_request import chat_request
from sevenfold.wire.messages_request import only
from sevenfold.wire.reader import NULL, AskedFor, Fields, Reader, string_value
from sevenfold.wire.responses_answer import ResponsesReader, summary_reader
from sevenfold.wire.responses_request import compact_request, responses_request

OPENAI = Vendor("OpenAI", "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1", "openai")
ACCOUNT = {"OPENAI_ORG_ID": "openai-organization", "OPENAI_PROJECT_ID": "openai-project"}
"""Environment variables that identify the account to bill, and their headers."""
OFFICIAL = "api.openai.com"
OFFICIAL_ROOM = "max_completion_tokens"
COUNTED = frozenset(
    {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text"}
)
"""Fields that the endpoint of the Responses API for counting takes."""
UNUSED_KEY = "unused"
"""The key sent to a server that needs none: the SDK requires one."""


class OpenAIOptions(SdkOptions, total=False):
    """Options for servers that differ from OpenAI."""

    api: Literal["chat", "responses"] | None
    """The API to use; by default, the model's profile decides."""
    reasoning_field: str | None
    """The field in which the server accepts earlier reasoning; by default, reasoning is not sent back."""
    stream: bool


class OpenAIProvider(SdkProvider):
    """The common part of OpenAI's two APIs."""

    vendor = OPENAI

    def profile(self, profile: Profile) -> Profile:
        """The profile of a model as used through this API; a model of another API loses what only that API has."""
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
        lost["cache"] = replace(lost.get("cache", profile.cache), reports_misses=False)
        return replace(
            profile, wire=self.name, compaction_instructions=False, sends_blocks_as_recorded=False, **lost
        )

    def client(self, given: Any = None, wire: str | None = None) -> OpenAIClient:
        """A client that uses the SDK client ``given``, or a new one; without ``wire``, it supports both APIs."""
        return OpenAIClient(given, api=_api(wire))

    def async_client(self, given: Any = None, wire: str | None = None) -> AsyncOpenAIClient:
        """Like `client`, for asyncio."""
        return AsyncOpenAIClient(given, api=_api(wire))

    def headers(self, env: Mapping[str, str]) -> dict[str, str] | None:
        """The key and the account; a self-hosted server often has no key."""
        headers = {"authorization": f"Bearer {env.get(self.vendor.key_variable) or UNUSED_KEY}"}
        return headers | {name: env[variable] for variable, name in ACCOUNT.items() if variable in env}

    def describe(self, model: str, address: str, fetch: Fetch) -> bytes:
        """The server's listing; if it has no window, a local server is also asked about the running model."""
        raw = fetch("/models", None)  # the whole list: some servers say less about a single model
        if not is_local(address) or ((listed := read_listing(raw, model)) and listed.window):
            return raw
        address_parts = urlsplit(address)
        size = running_window(
            model, lambda path, body: fetch(f"{address_parts.scheme}://{address_parts.netloc}{path}", body)
        )
        if not size:
            return raw
        body = msgspec.json.decode(raw)
        listed = body.get("data") if isinstance(body, dict) else None
        entries = (entry for entry in listed or () if isinstance(entry, dict))
        other_models = [entry for entry in entries if entry.get("id") != model]
        return msgspec.json.encode({"data": [{"id": model, "max_input_tokens": size}, *other_models]})


class ChatCompletions(OpenAIProvider):
    """The Chat Completions API."""

    name = "chat"

    def __init__(self, room: str = "max_tokens", reasoning: str | None = None) -> None:
        self.room = room
        """The server's name for the most tokens in an answer."""
        self.reasoning = reasoning
        """The field in which it accepts earlier reasoning; None if it accepts none."""

    def behind(self, client: object) -> Self:
        """This API adapted to the server of that client, or to the one in the environment."""
        provider = super().behind(client)
        if provider is not self:
            return provider
        url = str(getattr(client, "base_url", "")) if self.recognises(client) else self.address(os.environ)
        # Local servers know only the older name, and OpenAI's newer models reject it.
        official = urlsplit(url).hostname == OFFICIAL
        return type(self)(OFFICIAL_ROOM if official else "max_tokens", self.reasoning)

    def put(self, call: Call, *, stream: bool = False) -> Put:
        """The request translated to Chat Completions."""
        # A self-hosted server has one cache, and may reject a field that it does not know.
        key = call.cache_key if self.room == OFFICIAL_ROOM else ""
        body = chat_request(
            call.body, stream=stream, room=self.room, reasoning=self.reasoning, cache_key=key
        )
        return Put("/chat/completions", body)

    def claims(self, fields: Fields, *, event: bool) -> bool:
        """Whether it is a chat completion, labelled as such or not, or a chunk of one."""
        kind = "" if event else string_value(fields.get("object", NULL))
        return kind == "chat.completion" or (not kind and "choices" in fields)

    def reader(self, asked: bytes) -> Reader:
        """A reader for chat completions."""
        return ChatReader(asked)


class Responses(OpenAIProvider):
    """The Responses API; nothing is stored at the provider, unless a call has a thread."""

    name = "responses"

    def put(self, call: Call, *, stream: bool = False) -> Put:
        """The request translated to the Responses API; one for the provider's own summary is never streamed."""
        if _wants_summary(call.body):
            return Put("/responses/compact", compact_request(call.body, call.cache_key))
        thread = call.thread
        body = responses_request(
            call.body,
            stream=stream,
            cache_key=call.cache_key,
            previous=None if thread is None else thread.previous,
            covered=thread.covered if thread else 0,
        )
        return Put("/responses", body)

    def counting(self, call: Call, client: SdkBase) -> Put | None:
        """The same prompt for the counting endpoint, which takes nothing that concerns the answer alone."""
        if call.thread is not None or _wants_summary(call.body):
            return None
        return Put("/responses/input_tokens", only(responses_request(call.body, stream=False), COUNTED))

    def claims(self, fields: Fields, *, event: bool) -> bool:
        """Whether it is a response or, with ``event``, an event of one."""
        if event:
            return string_value(fields.get("type", NULL)).startswith("response.")
        return string_value(fields.get("object", NULL)) == "response"

    def reader(self, asked: bytes) -> Reader:
        """A reader for a response, or for the provider's own summary."""
        return summary_reader(asked) if _wants_summary(asked) else ResponsesReader(asked)


CHAT = ChatCompletions()
RESPONSES = Responses()


class _OpenAIServer(SdkBase):
    def __init__(self, sdk: Any = None, **dialect: Unpack[OpenAIOptions]) -> None:
        client = sdk or OPENAI.sdk_class(awaits=self.awaits)(**_options(dialect))
        stream = dialect.get("stream", True)
        super().__init__(client, _spoken(client, dialect), stream=stream, owned=sdk is None)


class OpenAIClient(_OpenAIServer, SdkClient):
    """A client for OpenAI or a compatible server; ``sdk`` is a client of the official SDK, or one is created."""


class AsyncOpenAIClient(_OpenAIServer, AsyncSdkClient):
    """Like `OpenAIClient`, for asyncio; ``sdk`` is one of the SDK's asynchronous clients."""


def _wants_summary(body: bytes) -> bool:
    """Whether a request asks for the provider's own summary."""
    return bytes(AskedFor.of(body).compaction) != b"null"


def _api(wire: str | None) -> Literal["chat", "responses"] | None:
    return "chat" if wire == ChatCompletions.name else "responses" if wire == Responses.name else None


def _spoken(sdk: Any, dialect: OpenAIOptions) -> Sequence[OpenAIProvider]:
    """The APIs that a client supports; a model that belongs to neither uses the first."""
    chat = ChatCompletions(reasoning=dialect.get("reasoning_field")).behind(sdk)
    return [provider for provider in (chat, RESPONSES) if dialect.get("api") in (None, provider.name)]


def _options(dialect: OpenAIOptions) -> dict[str, Any]:
    """The arguments for creating the SDK's client. OpenAI itself needs a key; a self-hosted server often has none."""
    key = dialect.get("api_key") or os.environ.get(OPENAI.key_variable)
    if not key and not (dialect.get("base_url") or os.environ.get(OPENAI.url_variable)):
        raise OPENAI.no_key()
    ours = ("api", "reasoning_field", "stream")
    options = {name: value for name, value in dialect.items() if name not in ours}
    return {**options, "api_key": key or UNUSED_KEY}
