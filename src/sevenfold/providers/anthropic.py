"""Anthropic's Messages API, whose format the engine itself uses.

The first-party SDK client sends the bytes it is given. The clients for other platforms (Bedrock, Vertex and the like)
put the model into the address and sign requests, so they get the request decoded; the same reader reads their answers.
Every block of an answer keeps the bytes that the provider sent, except insignificant whitespace: a block of a body is a
slice of it, and a block of a stream is joined from its deltas by `GrowingBlock`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from sevenfold.ports import Call, Piece, Reply
from sevenfold.profiles import Profile
from sevenfold.providers import reader
from sevenfold.providers.failures import MalformedAnswer
from sevenfold.providers.http_client import HttpClient
from sevenfold.providers.models import Fetch
from sevenfold.providers.provider import Put
from sevenfold.providers.reader import NULL, Fields, decoded
from sevenfold.providers.sdk import AsyncSdkClient, SdkBase, SdkClient, SdkOptions, SdkProvider, Vendor
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.log import Answer
from sevenfold.record.usage import UNMANAGED

ANTHROPIC = Vendor(
    "Anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com", "anthropic"
)
VERSION = "2026-10-21"
PATH = "/v1/messages"
BETAS = "anthropic-beta"
"""The header that lists the beta features a request uses."""
STREAM = b',"stream":true}'
PARAMETERS = frozenset(
    {"model", "max_tokens", "messages", "system", "tools", "cache_control", "container", "diagnostics"}
    | {"inference_geo", "metadata", "output_config", "service_tier", "speed", "stop_sequences", "thinking"}
    | {"tool_choice", "user_profile_id", "workspace_id"}
)
"""Fields that are parameters of the SDK's plain methods; all others go into `extra_body`."""


class Messages(SdkProvider):
    """The Messages API."""

    name = "messages"
    vendor = ANTHROPIC

    def profile(self, profile: Profile) -> Profile:
        """The model's profile unchanged, except that compaction accepts instructions."""
        return replace(profile, wire=self.name, compaction_instructions=True)

    def client(self, given: Any = None, wire: str | None = None) -> AnthropicClient:
        """A client that uses the SDK client ``given``, or a new one."""
        return AnthropicClient(given)

    def async_client(self, given: Any = None, wire: str | None = None) -> AsyncAnthropicClient:
        """Like `client`, for asyncio."""
        return AsyncAnthropicClient(given)

    def put(self, call: Call, *, stream: bool = False) -> Put:
        """The request unchanged, with its betas in a header."""
        headers = {BETAS: ",".join(call.betas)} if call.betas else {}
        return Put(PATH, streaming(call.body) if stream else call.body, headers)

    def arguments(self, put: Put) -> Mapping[str, Raw]:
        """The keyword arguments of `messages.create`; fields without a parameter are passed as extras."""
        fields = super().arguments(put)
        given = {name: raw for name, raw in fields.items() if name in PARAMETERS}
        if extra := {name: raw for name, raw in fields.items() if name not in PARAMETERS}:
            given["extra_body"] = Raw(msgspec.json.encode(extra))
        if put.headers:
            given["extra_headers"] = Raw(msgspec.json.encode(put.headers))
        return given

    def claims(self, fields: Fields, *, event: bool) -> bool:
        """Whether it is a message with an id and content or, with ``event``, the event that begins one."""
        kind = reader.string_value(fields.get("type", NULL))
        if event:
            return kind == "message_start"
        said = kind == "message" or reader.string_value(fields.get("role", NULL)) == "assistant"
        return said and "content" in fields and bool(reader.string_value(fields.get("id", NULL)))

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
        made = _with_key(sdk or _made(self.awaits, options))
        super().__init__(made, (MESSAGES,), stream=stream, owned=sdk is None)


class AnthropicClient(_AnthropicServer, SdkClient):
    """A client for Anthropic; ``sdk`` is a client of the official SDK, or one is created from the options."""


class AsyncAnthropicClient(_AnthropicServer, AsyncSdkClient):
    """Like `AnthropicClient`, for asyncio; ``sdk`` is one of the SDK's asynchronous clients."""


class _Event(Struct, frozen=True):
    type: str = ""
    index: int = 0
    message: Raw = NULL
    content_block: Raw = NULL
    delta: Raw = NULL
    usage: Raw = NULL
    context_management: Raw = NULL


class _Message(Struct):
    type: str = "message"
    id: str = ""
    model: str = ""
    content: list[Raw] = []
    stop_reason: str | None = None
    usage: Raw = NULL
    diagnostics: Raw = NULL
    context_management: Raw = NULL
    input_transformations: Raw = NULL
    stop_details: Raw = NULL


_event = msgspec.json.Decoder(_Event)
_message = msgspec.json.Decoder(_Message)


class MessagesReader:
    """Reads an answer of the Messages API."""

    def __init__(self) -> None:
        self._head: _Message | None = None
        self._usage: Fields = {}
        self._growing: dict[int, reader.GrowingBlock] = {}
        self._blocks: dict[int, Block] = {}
        self._ended = False

    @property
    def whole(self) -> bool:
        """Whether all blocks are closed and the end, or at least the stop reason, has arrived."""
        if self._head is None or self._growing:
            return False
        return self._ended or self._head.stop_reason is not None

    def event(self, data: bytes) -> list[Piece]:
        """Process one event; unknown kinds are ignored, as the API requires of its clients."""
        event = decoded(_event, data)
        match event.type:
            case "message_start":
                self._begin(decoded(_message, event.message))
            case "content_block_start":
                self._growing[event.index] = block = reader.GrowingBlock(bytes(event.content_block))
                return reader.pieces_in(block.fields)
            case "content_block_delta":
                delta = decoded(reader.fields_of, event.delta) or {}
                self._block(event.index).grow(delta)
                return reader.pieces_in(delta)
            case "content_block_stop":
                self._blocks[event.index] = blocks.read(self._block(event.index).raw())
                del self._growing[event.index]
            case "message_delta":
                self._end(event)
            case "message_stop":
                self._ended = True
            case "error":
                raise reader.error_answer(data)
        return []

    def body(self, raw: bytes) -> list[Piece]:
        """Process a complete response body."""
        head = decoded(_message, raw)
        if head.type == "error":
            raise reader.error_answer(raw)
        self._begin(head)
        self._ended = True
        return [piece for block in self._blocks.values() for piece in reader.pieces_of(block)]

    def reply(self, request_id: str | None) -> Reply:
        """The finished answer, with the additional data that came with it."""
        head = self._begun()
        extras = head.diagnostics, head.input_transformations, head.stop_details
        return Reply(self._answer(self._blocks, request_id), *map(_kept, extras))

    def partial(self, request_id: str | None) -> Answer | None:
        """Closed blocks and unclosed text; other unclosed blocks are not valid."""
        if self._head is None:
            return None
        texts = {index: blocks.read(block.raw()) for index, block in self._growing.items() if block.is_text}
        unfinished = {index: block for index, block in texts.items() if not block.blank}
        return self._answer({**self._blocks, **unfinished}, request_id)

    def _begin(self, head: _Message) -> None:
        self._head = head
        self._usage = decoded(reader.fields_of, head.usage) or {}
        self._blocks = {
            index: blocks.read(blocks.minify(bytes(raw))) for index, raw in enumerate(head.content)
        }

    def _begun(self) -> _Message:
        if self._head is None:
            raise MalformedAnswer("an event came before the one that begins a message")
        return self._head

    def _block(self, index: int) -> reader.GrowingBlock:
        if index not in self._growing:
            raise MalformedAnswer(f"an event continues block {index}, which is not open")
        return self._growing[index]

    def _end(self, event: _Event) -> None:
        head, ending = self._begun(), decoded(_message, event.delta)
        head.stop_reason = ending.stop_reason or head.stop_reason
        if bytes(ending.stop_details) != b"null":
            head.stop_details = ending.stop_details
        if bytes(event.context_management) != b"null":
            head.context_management = event.context_management
        # The counts are running totals; values that are missing here, such as the split by lifetime, stay valid.
        counted = decoded(reader.fields_of, event.usage) or {}
        self._usage |= {name: value for name, value in counted.items() if bytes(value) != b"null"}

    def _answer(self, found: Mapping[int, Block], request_id: str | None) -> Answer:
        head = self._begun()
        ordered = tuple(block for _, block in sorted(found.items()))
        usage = _kept(Raw(msgspec.json.encode(self._usage)))
        managed = head.context_management
        edits = UNMANAGED if bytes(managed) == b"null" else _kept(managed)
        return Answer(head.id, head.model, ordered, usage, head.stop_reason, request_id, edits)


def streaming(body: bytes) -> bytes:
    """The body with ``"stream": true`` added at its end; all other bytes are unchanged."""
    end = body.rindex(b"}")
    empty = body.find(b'"', 0, end) < 0
    return b"".join((memoryview(body)[:end], STREAM[1:] if empty else STREAM))


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


def _kept(raw: Raw) -> Raw:
    """The value without whitespace, copied so that it does not keep its whole event in memory."""
    return Raw(blocks.minify(bytes(raw)))
