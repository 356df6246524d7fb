"""Anthropic's Messages API, whose format the engine itself uses.

The first-party SDK client sends the bytes it is given. The clients for other platforms (Bedrock, Vertex and the like)
put the model into the address and sign requests, so they get the request decoded; the same reader reads their answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack
from urllib.parse import quote

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from sevenfold.ports import Call
from sevenfold.profiles import Profile
from sevenfold.providers.http_client import HttpClient
from sevenfold.providers.models import Fetch
from sevenfold.providers.provider import Put
from sevenfold.providers.sdk import AsyncSdkClient, SdkBase, SdkClient, SdkOptions, SdkProvider, Vendor
from sevenfold.wire.messages_answer import MessagesReader
from sevenfold.wire.messages_request import only, streaming, threaded
from sevenfold.wire.reader import NULL, Fields, string_value

ANTHROPIC = Vendor(
    "Anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com", "anthropic"
)
VERSION = "2026-10-21"
PATH = "/v1/messages"
BETAS = "anthropic-beta"
"""The header that lists the beta features a request uses."""
THREADS = "message-threads-2026-08-12"
"""The beta feature of history that the provider holds."""
PARAMETERS = frozenset(
    {"model", "max_tokens", "messages", "system", "tools", "cache_control", "container", "diagnostics"}
    | {"inference_geo", "metadata", "output_config", "service_tier", "speed", "stop_sequences", "thinking"}
    | {"tool_choice", "user_profile_id", "workspace_id"}
)
"""Fields that are parameters of the SDK's plain methods; all others go into `extra_body`."""
COUNTED = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control"}
    | {"speed", "context_management", "mcp_servers"}
)
"""Fields that the counting endpoint takes."""


class Messages(SdkProvider):
    """The Messages API."""

    name = "messages"
    vendor = ANTHROPIC

    def profile(self, profile: Profile) -> Profile:
        """The model's profile, with what only this API has: instructions for a compaction, the records' own format."""
        return replace(profile, wire=self.name, compaction_instructions=True, sends_blocks_as_recorded=True)

    def client(self, given: Any = None, wire: str | None = None) -> AnthropicClient:
        """A client that uses the SDK client ``given``, or a new one."""
        return AnthropicClient(given)

    def async_client(self, given: Any = None, wire: str | None = None) -> AsyncAnthropicClient:
        """Like `client`, for asyncio."""
        return AsyncAnthropicClient(given)

    def put(self, call: Call, *, stream: bool = False) -> Put:
        """The request unchanged, with its betas in a header."""
        betas = call.betas
        body = call.body
        if call.thread is not None:
            betas = (*betas, THREADS)
            body = threaded(body, call.thread.previous, call.thread.covered)
        headers = {BETAS: ",".join(betas)} if betas else {}
        return Put(PATH, streaming(body) if stream else body, headers)

    def counting(self, call: Call, client: SdkBase) -> Put | None:
        """The same prompt for the counting endpoint, which takes nothing that concerns the answer alone."""
        if call.thread is not None or not (isinstance(client.sdk, HttpClient) or _first_party(client.sdk)):
            return None
        headers = {BETAS: ",".join(call.betas)} if call.betas else {}
        return Put(f"{PATH}/count_tokens", only(call.body, COUNTED), headers)

    def arguments(self, put: Put) -> Mapping[str, Raw]:
        """The keyword arguments of `messages.create`; fields without a parameter are passed as extras."""
        arguments = super().arguments(put)
        parameter_names = PARAMETERS | {"extra_headers"}
        parameters = {name: raw for name, raw in arguments.items() if name in parameter_names}
        if extra := {name: raw for name, raw in arguments.items() if name not in parameter_names}:
            parameters["extra_body"] = Raw(msgspec.json.encode(extra))
        return parameters

    def claims(self, fields: Fields, *, event: bool) -> bool:
        """Whether it is a message with an id and content or, with ``event``, the event that begins one."""
        kind = string_value(fields.get("type", NULL))
        if event:
            return kind == "message_start"
        is_message = kind == "message" or string_value(fields.get("role", NULL)) == "assistant"
        return is_message and "content" in fields and bool(string_value(fields.get("id", NULL)))

    def reader(self, asked: bytes) -> MessagesReader:
        """A reader for answers of the Messages API."""
        return MessagesReader()

    def headers(self, env: Mapping[str, str]) -> dict[str, str] | None:
        """The key and the API version; None without a key, since only the SDK handles profiles and signed requests."""
        key = env.get(self.vendor.key_variable)
        return {"authorization": f"Bearer {key}", "anthropic-version": VERSION} if key else None

    def describe(self, model: str, address: str, fetch: Fetch) -> bytes:
        """Anthropic's listing of a model, undecoded."""
        return fetch(f"/v1/models/{quote(model, safe='')}", None)

    def post(self, put: Put, client: SdkBase) -> dict[str, Any]:
        """Arguments for the SDK's `post`; clients for other platforms get the request decoded."""
        post = super().post(put, client)
        if isinstance(client.sdk, HttpClient) or _first_party(client.sdk):
            return post
        del post["content"]
        post["body"] = msgspec.json.decode(put.body)
        if client.stream:
            # Bedrock frames its events in its own way, which only the SDK's stream can read.
            frames = client.module.AsyncStream if client.awaits else client.module.Stream
            post |= {"cast_to": object, "stream_cls": frames[object]}
        return post


MESSAGES = Messages()


class _AnthropicServer(SdkBase):
    def __init__(self, sdk: Any = None, *, stream: bool = True, **options: Unpack[SdkOptions]) -> None:
        client = _with_key(sdk or _made(self.awaits, options))
        super().__init__(client, (MESSAGES,), stream=stream, owned=sdk is None)


class AnthropicClient(_AnthropicServer, SdkClient):
    """A client for Anthropic; ``sdk`` is a client of the official SDK, or one is created from the options."""


class AsyncAnthropicClient(_AnthropicServer, AsyncSdkClient):
    """Like `AnthropicClient`, for asyncio; ``sdk`` is one of the SDK's asynchronous clients."""


def _made(awaits: bool, options: SdkOptions) -> Any:
    try:
        return ANTHROPIC.sdk_class(awaits=awaits)(**options)
    except ANTHROPIC.load().CredentialsError as error:
        raise ANTHROPIC.bad_credentials(error) from error


def _with_key(sdk: Any) -> Any:
    """The SDK's client; raises if it needs a key and has none. Other platforms sign requests in their own ways."""
    if isinstance(sdk, HttpClient) or not _first_party(sdk):
        return sdk
    headers = {name.lower() for name in sdk.default_headers}
    if sdk.api_key or sdk.auth_token or sdk.credentials or headers & {"authorization", "x-api-key"}:
        return sdk
    raise ANTHROPIC.no_key()


def _first_party(sdk: Any) -> bool:
    module = ANTHROPIC.load()
    return type(sdk) in (module.Anthropic, module.AsyncAnthropic)
