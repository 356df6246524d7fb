"""Reads what a client sends: the body of a request to any of the three APIs, as messages and what precedes them.

Every message becomes a role and blocks in the shape of the Messages API. What has no such shape (an unknown block,
part, item or tool) is an opaque block with the client's own bytes, in its place. A body can be written again with other
messages: all its other fields keep their bytes and their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.decoding import NOT_JSON
from sevenfold.wire import foreign
from sevenfold.wire.error_report import MalformedRequest
from sevenfold.wire.reader import Fields

Api = Literal["messages", "chat", "responses"]
LIST_FIELDS: Mapping[Api, str] = {"messages": "messages", "chat": "messages", "responses": "input"}
"""The field of each API's requests that holds the conversation."""
_NAMES_OF_HELD_MESSAGES = ("previous_response_id", "conversation")
"""Fields of the Responses API that name messages which the provider keeps."""
_MARKER = b'"cache_control"'
_ADDITIONAL_TOOLS = b'"additional_tools"'
_BEFORE_TYPE = 60
"""How many bytes of an item are looked at for its type."""
_fields = msgspec.json.Decoder(Fields)
_raws = msgspec.json.Decoder(list[Raw])
_any = msgspec.json.Decoder()
_string = msgspec.json.Decoder(str)


class ClientMessage(Struct, frozen=True):
    """A message of a client's request; for the Responses API, one item of its input."""

    role: str
    """user, assistant or system"""
    blocks: tuple[Block, ...]


class ClientRequest(Struct, frozen=True, dict=True):
    """The body of a request, with its fields in the client's order and bytes."""

    api: Api
    fields: Fields

    @property
    def model(self) -> str:
        """The model; empty if the request names none."""
        return _string_in(self.fields, "model")

    @property
    def streams(self) -> bool:
        """Whether the answer is to come as a stream."""
        return bytes(self.fields.get("stream", b"")) == b"true"

    @property
    def is_held_by_provider(self) -> bool:
        """Whether the provider has the messages before these, so that the request shows only what is new."""
        names = _NAMES_OF_HELD_MESSAGES if self.api == "responses" else ()
        return any(bytes(self.fields.get(name, b"null")) != b"null" for name in names)

    def system(self) -> list[Block]:
        """The system prompt as blocks, without cache markers; for Chat Completions it is among the messages."""
        raw = self.fields.get("instructions" if self.api == "responses" else "system")
        if raw is None or self.api == "chat" or bytes(raw) == b"null":
            return []
        return list(_content(bytes(raw)))

    def tools(self) -> list[bytes]:
        """The tools in the client's order, each as it came but for cache markers."""
        tools = _listed(self.fields, "tools")
        if self.api == "responses":
            # Codex sends the tools of newer models as an item of the input.
            for item in self.raw_messages():
                if _ADDITIONAL_TOOLS in item[:_BEFORE_TYPE]:
                    tools += _listed(_object(item), "tools")
        return [unmarked(bytes(tool)) for tool in tools]

    def raw_messages(self) -> Sequence[bytes]:
        """The messages as the client wrote them; a plain text as input counts as one message."""
        return self._raw_messages

    @cached_property
    def _raw_messages(self) -> Sequence[bytes]:
        # Everybody who looks at a request asks for them, and a long conversation takes a millisecond to split.
        name = LIST_FIELDS[self.api]
        raw = bytes(self.fields.get(name, b"[]"))
        if raw.startswith(b'"'):
            return [b'{"role":"user","content":%b}' % raw]
        return [bytes(message) for message in _listed(self.fields, name)]

    def messages(self) -> list[ClientMessage]:
        """All messages in the shape of the Messages API."""
        return [read_message(raw, self.api) for raw in self.raw_messages()]

    def settings(self) -> dict[str, Raw]:
        """All fields besides the conversation, the system prompt, the tools, the model and whether to stream."""
        named = {LIST_FIELDS[self.api], "instructions", "system", "tools", "model", "stream"}
        return {name: raw for name, raw in self.fields.items() if name not in named}

    def with_messages(self, messages: Sequence[bytes]) -> bytes:
        """The body with these messages, each in bytes, in place of its own; everything else stays as it is."""
        name = LIST_FIELDS[self.api]
        listed = Raw(b"[%b]" % b",".join(messages))
        return msgspec.json.encode({**self.fields, name: listed})


def read_request(body: bytes, api: Api) -> ClientRequest:
    """Read the body of a request; raises `MalformedRequest` if it is not a JSON object."""
    try:
        return ClientRequest(api, _fields.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRequest(f"the body is not a JSON object: {error}") from error


def read_message(raw: bytes, api: Api) -> ClientMessage:
    """Read one message or item; raises `MalformedRequest` if it is not an object of the API."""
    try:
        return _messages_message(raw) if api == "messages" else _openai_message(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRequest(f"a message is not as the API has it: {error}") from error


def unmarked(raw: bytes) -> bytes:
    """A block or a tool without insignificant whitespace and without cache markers, nested ones included."""
    if _MARKER not in raw:
        return blocks.minify(raw)
    fields = _fields.decode(raw)
    fields.pop("cache_control", None)
    for name in ("content", "source"):
        inner = bytes(fields.get(name, b""))
        if inner.startswith(b"[") and _MARKER in inner:
            parts = b",".join(unmarked(bytes(part)) for part in _raws.decode(inner))
            fields[name] = Raw(b"[%b]" % parts)
    return blocks.minify(msgspec.json.encode(fields))


def tool_name(tool: bytes) -> str:
    """The name of a tool of any API; its type if it has no name."""
    fields = _any.decode(tool)
    if not isinstance(fields, Mapping):
        return ""
    nested = fields.get(str(fields.get("type")))
    named = nested if isinstance(nested, Mapping) else fields
    return str(named.get("name") or fields.get("type") or "")


# -- messages --------------------------------------------------------------------------------


def _messages_message(raw: bytes) -> ClientMessage:
    fields = _fields.decode(raw)
    role = _string_in(fields, "role")
    return ClientMessage(role, _content(bytes(fields.get("content", b'""'))))


def _content(raw: bytes) -> tuple[Block, ...]:
    """The blocks of a content, which may be a plain text."""
    if raw.startswith(b'"'):
        text = _string.decode(raw)
        return (blocks.text(text),) if text else ()
    if not raw.startswith(b"["):
        return ()
    return tuple(blocks.read(unmarked(bytes(part))) for part in _raws.decode(raw))


def _openai_message(raw: bytes) -> ClientMessage:
    """A message of Chat Completions, or an item of the Responses API."""
    message = _any.decode(raw)
    if not isinstance(message, Mapping):
        raise MalformedRequest(f"a message must be an object, got {type(message).__name__}")
    converted = next(foreign.messages([message]))
    if converted is message and "role" not in message:
        kind = str(message.get("type") or "unknown")
        role = "user" if kind.endswith("_output") else "assistant"
        return ClientMessage(role, (Block(kind, blocks.minify(raw)),))
    content = converted.get("content")
    if isinstance(content, str):
        return ClientMessage(str(converted["role"]), (blocks.text(content),) if content else ())
    written = _parts_as_written(message, raw)
    parts = [_part(part, written.get(id(part))) for part in content or ()]
    return ClientMessage(str(converted.get("role") or "user"), tuple(parts))


def _parts_as_written(message: Mapping[str, Any], raw: bytes) -> dict[int, bytes]:
    """The bytes of each part of a content that is a list, by the identity of the decoded part."""
    content = message.get("content")
    if not isinstance(content, list):
        return {}
    raws = _raws.decode(_fields.decode(raw)["content"])
    return {id(part): bytes(written) for part, written in zip(content, raws, strict=True)}


def _part(part: Any, written: bytes | None) -> Block:
    """A part of a content as a block; one of an unknown kind keeps the bytes in which it was ``written``."""
    if isinstance(part, str):
        return blocks.text(part)
    block = foreign.part(part) if isinstance(part, Mapping) else {"type": "unknown", "value": part}
    if block is part and written is not None and "type" in block:
        return blocks.read(unmarked(written))
    if block.get("type") == "tool_result":
        block = {**block, "content": _result_content(block.get("content"))}
    if "type" not in block:
        block = {"type": "unknown", **block}
    return blocks.read(blocks.encode_json(block))


def _result_content(content: Any) -> Any:
    """The content of a result, with its parts in the shape of the Messages API."""
    if isinstance(content, list):
        return [foreign.part(part) if isinstance(part, Mapping) else part for part in content]
    return content


def _object(item: bytes) -> Fields:
    try:
        return _fields.decode(item)
    except NOT_JSON as error:
        raise MalformedRequest(f"an item of the input must be an object: {error}") from error


def _listed(fields: Fields, name: str) -> list[Raw]:
    """The elements of a field that is a list; empty if it is missing or null."""
    raw = bytes(fields.get(name, b"[]"))
    if raw == b"null":
        return []
    try:
        return _raws.decode(raw)
    except NOT_JSON as error:
        raise MalformedRequest(f"{name} must be a list: {error}") from error


def _string_in(fields: Fields, name: str) -> str:
    raw = bytes(fields.get(name, b""))
    return _string.decode(raw) if raw.startswith(b'"') else ""
