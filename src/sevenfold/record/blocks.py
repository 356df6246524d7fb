"""Content blocks in the shape of the Messages API, kept byte for byte.

A `Block` holds the bytes of one block and the little the engine needs to pair, order and hide it. The rest is decoded
on demand (`Block.body`), so a session of many megabytes is in memory only once, as bytes, and unknown fields and
kinds survive unchanged.
"""

from __future__ import annotations

import binascii
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import msgspec
from msgspec import Raw, Struct

from sevenfold.errors import InputError

PLACEHOLDER_CLEARED = "[Old tool result content cleared]"
INVALID_INPUT = "INVALID_JSON"
"""The only key in a tool input that was not a JSON object; its value is the original text."""


class Text(Struct, frozen=True, gc=False, tag_field="type", tag="text"):
    """Text by the user, the model or a program."""

    text: str


class Thinking(Struct, frozen=True, gc=False, tag_field="type", tag="thinking"):
    """The model's reasoning; the text is often empty, with the content in the signature."""

    thinking: str = ""
    signature: str = ""


class RedactedThinking(Struct, frozen=True, gc=False, tag_field="type", tag="redacted_thinking"):
    """Reasoning the provider encrypted."""

    data: str = ""


class ToolUse(Struct, frozen=True, gc=False, tag_field="type", tag="tool_use"):
    """A tool call by the model; its input is kept as the original bytes."""

    id: str
    name: str
    input: Raw = Raw(b"{}")


class ToolResult(Struct, frozen=True, gc=False, tag_field="type", tag="tool_result"):
    """The result of a tool call."""

    tool_use_id: str
    content: str | list[Raw] | None = None
    is_error: bool | None = None


class Image(Struct, frozen=True, gc=False, tag_field="type", tag="image"):
    """An image: few tokens, many bytes."""

    source: Raw = Raw(b"{}")


class Document(Struct, frozen=True, gc=False, tag_field="type", tag="document"):
    """A document: a text, a list of texts and pictures, or a file such as a PDF, which the provider opens."""

    source: Raw = Raw(b"{}")
    title: str | None = None
    context: str | None = None


class MediaSource(Struct, frozen=True, gc=False):
    """Where the content of a picture or a document comes from."""

    type: str = ""
    media_type: str = ""
    data: str = ""
    """The text itself, or bytes in base64."""
    content: str | list[Raw] = ""

    def bytes(self, limit: int | None = None) -> bytes:
        """The bytes of the file, or the first ``limit``; empty if they are not here."""
        if self.type != "base64":
            return b""
        sent = self.data if limit is None else self.data[: limit * 4 // 3 + 4]
        # Base64 is decoded in groups of four characters; an incomplete one at the end is left out.
        whole = len(sent) - len(sent) % 4
        try:
            return binascii.a2b_base64(sent[:whole].encode(errors="replace"))[:limit]
        except binascii.Error:
            return b""


class Compaction(Struct, frozen=True, gc=False, tag_field="type", tag="compaction"):
    """A summary made by the provider: signed, or encrypted so that only the provider can read it."""

    content: str | None = None
    signature: str | None = None
    encrypted_content: str | None = None


class Opaque(Struct, frozen=True, gc=False):
    """A block of an unknown kind or with invalid fields; it is passed on unchanged."""

    type: str


Known = Text | Thinking | RedactedThinking | ToolUse | ToolResult | Image | Document | Compaction
Body = Known | Opaque

KNOWN_KINDS = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Known))
THINKING = frozenset({"thinking", "redacted_thinking"})
NOT_TEXT = frozenset({"image", "document", "tool_reference"})
"""Parts of a tool result that are useless as text, unless a document holds its text itself."""


class _Head(Struct, frozen=True, gc=False):
    type: str = ""
    id: str | None = None
    tool_use_id: str | None = None


_PLAIN = frozenset({str, int, bool, type(None), Raw})
"""Types of values that are JSON already, whatever they contain."""
TOO_DEEP = "it is nested too deeply, or contains itself"

_TOOLSET = "toolset_name"
_TEXT = b'{"type":"text","text":"'
"""How most text blocks begin."""
_VISIBLE = frozenset(range(ord("!"), 127)) - {ord('"'), ord("\\")}
"""First characters that show, without decoding, that a text is not blank."""

_NAMED = re.compile(rb'\{"type":"tool_(?:use","id|result","tool_use_id)":"([\w-]+)"')
"""How most tool calls and results begin, with the id; the others are decoded."""
_RESULT = b'{"type":"tool_r'
"""What distinguishes a result among these."""

_encoder = msgspec.json.Encoder()
_head = msgspec.json.Decoder(_Head)
_source = msgspec.json.Decoder(MediaSource)
_bodies: dict[str, msgspec.json.Decoder[Known]] = {
    str(kind.__struct_config__.tag): msgspec.json.Decoder(kind) for kind in get_args(Known)
}
"""One decoder per kind: a single one that chooses among them takes a third longer."""


class Block(Struct, frozen=True, gc=False):
    """One content block: its kind, its bytes, and the id that pairs a tool call with its result."""

    kind: str
    raw: bytes
    id: str = ""

    def body(self) -> Body:
        """The decoded block; `Opaque` if its kind is unknown or its fields are invalid."""
        try:
            return _bodies[self.kind].decode(self.raw)
        except (KeyError, msgspec.DecodeError):
            return Opaque(self.kind)

    @property
    def blank(self) -> bool:
        """True for a text block of only whitespace: servers refuse those."""
        raw = self.raw
        if self.kind != "text" or (raw.startswith(_TEXT) and raw[len(_TEXT)] in _VISIBLE):
            return False
        body = self.body()
        return isinstance(body, Text) and not body.text.strip()


def read(raw: bytes) -> Block:
    """The block in these bytes; never fails. What is not a JSON object with a type gets an empty kind."""
    # Tool calls and results are most of what is read, and long, but all that is needed is at their start.
    if named := _NAMED.match(raw):
        kind = "tool_result" if raw.startswith(_RESULT) else "tool_use"
        return Block(kind, raw, named[1].decode())
    try:
        head = _head.decode(raw)
    except msgspec.DecodeError:
        return Block("", raw)
    return Block(head.type, raw, (head.tool_use_id if head.type == "tool_result" else head.id) or "")


def text(content: str) -> Block:
    """A text block with this text."""
    return Block("text", encode_json({"type": "text", "text": content}))


def result(tool_use_id: str, content: object, *, is_error: bool = False, toolset: str = "") -> Block:
    """A tool result; the result of a call to a ``toolset`` must name that."""
    fields: dict[str, object] = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content}
    if is_error:
        fields["is_error"] = True
    if toolset:
        fields["toolset_name"] = toolset
    return Block("tool_result", encode_json(fields), tool_use_id)


def toolset_of(block: Block) -> str:
    """The toolset that a tool call or result names; empty if none."""
    return read_field(block.raw, _TOOLSET) if _TOOLSET.encode() in block.raw else ""


def with_content(block: Block, content: object) -> Block:
    """The tool result ``block`` with ``content`` instead; the same input gives the same bytes."""
    body = block.body()
    is_error = isinstance(body, ToolResult) and bool(body.is_error)
    return result(block.id, content, is_error=is_error, toolset=toolset_of(block))


def with_words(block: Block, replacement: str) -> Block:
    """The tool result ``block`` with ``replacement`` in place of its text; images and the like stay, after it."""
    media = not_text(block)
    return with_content(block, [Raw(text(replacement).raw), *media] if media else replacement)


def not_text(block: Block) -> list[Raw]:
    """The parts of a tool result that are useless as text, such as images; also those inside a document of texts."""
    media = (part for part in result_parts(block) if part.kind in NOT_TEXT)
    return [Raw(part.raw) for part in media]


def result_parts(block: Block) -> list[Block]:
    """The parts of a tool result, with each document that holds its text in itself replaced by its own parts."""
    body = block.body()
    content = body.content if isinstance(body, ToolResult) else None
    if isinstance(content, str):
        return [text(content)]
    parts: list[Block] = []
    for raw in content or ():
        part = read(bytes(raw))
        inner = parts_of(document) if isinstance(document := part.body(), Document) else None
        parts += [part] if inner is None else inner
    return parts


def file_of(raw: Raw) -> MediaSource:
    """The source of a picture or a document; an empty one if its shape is unknown."""
    try:
        return _source.decode(raw)
    except msgspec.DecodeError:
        return MediaSource()


def parts_of(document: Document) -> list[Block] | None:
    """The texts and pictures of which a document consists; None if it is a file that the provider opens."""
    source = file_of(document.source)
    if source.type == "text":
        return [*titles_of(document), text(source.data)]
    if source.type == "base64" and source.media_type.startswith("text/"):
        return [*titles_of(document), text(source.bytes().decode(errors="replace"))]
    if source.type != "content":
        return None
    if isinstance(source.content, str):
        return [*titles_of(document), text(source.content)]
    return [*titles_of(document), *map(_inside_document, source.content)]


def _inside_document(raw: Raw) -> Block:
    """A part of a document; providers accept nothing but text and pictures there, so others are opaque."""
    part = read(bytes(raw))
    return part if part.kind in ("text", "image") else Block("", part.raw)


def titles_of(document: Document) -> list[Block]:
    """The title of a document and what is said about it, which the model reads before the document."""
    return [text(heading) for heading in (document.title, document.context) if heading]


def referenced(block: Block) -> Block:
    """The tool result with its call's id as the cache reference by which it can be deleted."""
    bare = block.raw.rstrip()
    return Block(block.kind, bare[:-1] + b',"cache_reference":' + encode_json(block.id) + b"}", block.id)


def deletion(calls: Iterable[str]) -> Block:
    """A block that deletes the results of these calls from the cached prefix."""
    edits = [{"type": "delete", "cache_reference": call} for call in calls]
    return Block("cache_edits", encode_json({"type": "cache_edits", "edits": edits}))


def is_unchanged(shown: Block, recorded: Block) -> bool:
    """Whether a block is shown as recorded, with or without a cache reference."""
    return shown is recorded or (shown.id == recorded.id and shown.raw == referenced(recorded).raw)


def is_encrypted_summary(block: Block) -> bool:
    """Whether the block is an encrypted summary, which only the provider can read."""
    body = block.body()
    return isinstance(body, Compaction) and body.content is None and bool(body.encrypted_content)


def words_of(block: Block) -> str:
    """The plain text of a text block or a tool result; empty for any other block."""
    match block.body():
        case Text(text=text):
            return text
        case ToolResult(content=str() as text):
            return text
        case ToolResult(content=list()):
            return "\n".join(filter(None, map(words_of, result_parts(block))))
        case _:
            return ""


def text_of(content: Iterable[Block]) -> str:
    """The text of all text blocks among these, joined with newlines."""
    text_blocks = (block for block in content if block.kind == "text")
    return "\n".join(filter(None, map(words_of, text_blocks)))


# -- JSON ----------------------------------------------------------------------------------------


def encode_json(value: Any) -> bytes:
    """The canonical JSON bytes of ``value``; raises an `InputError` naming what JSON cannot represent.

    What a provider or another tool wrote is kept as it is. What a caller passes as Python objects is encoded here,
    once, compact and in the order given; those bytes are then stored, hashed and sent. Values that JSON would change
    (numbers as keys, NaN, bytes, lone surrogates) are refused with their path, because after a silent conversion two
    requests could differ that look the same.
    """
    try:
        if _is_plain(value):
            return _encoder.encode(value)
    except UnicodeEncodeError:
        pass  # a lone surrogate: `_check` says where
    except RecursionError:
        raise InputError(TOO_DEEP) from None
    try:
        _check(value, "$")
        return _encoder.encode(value)
    except RecursionError:
        raise InputError(TOO_DEEP) from None
    except TypeError as error:  # a type of sequence or mapping that the encoder does not support
        raise InputError(f"{error}; use lists and dicts") from None


def minify(raw: bytes) -> bytes:
    """The same JSON without insignificant whitespace; every token stays as written."""
    return msgspec.json.format(raw, indent=-1)


def tool_input(text: str) -> bytes:
    """The input of a tool call as a JSON object; anything else is wrapped in one, so that the call can be answered."""
    try:
        raw = minify(text.encode() or b"{}")
    except (msgspec.DecodeError, RecursionError):
        raw = b""
    return raw if raw.startswith(b"{") else encode_json({INVALID_INPUT: text})


def read_field(raw: bytes, name: str) -> str:
    """The text in one field of an encoded object; empty if the field is missing or not text."""
    fields = msgspec.json.decode(raw, type=dict[str, Raw])
    try:
        return msgspec.json.decode(fields[name], type=str)
    except (KeyError, msgspec.ValidationError):
        return ""


def read_fields(raw: bytes | Raw) -> dict[str, Any]:
    """The encoded object as a dict, empty if it is not an object; floats that are out of range become infinite."""
    value = json.loads(bytes(raw) or b"{}")
    return value if isinstance(value, dict) else {}


def _is_plain(value: Any) -> bool:
    """Whether JSON can represent the value unchanged; most values need no closer check."""
    kind = type(value)
    if kind is dict:
        for key, inner in value.items():
            if type(key) is not str or not (type(inner) in _PLAIN or _is_plain(inner)):
                return False
        return True
    if kind is list:
        return all(type(inner) in _PLAIN or _is_plain(inner) for inner in value)
    return kind in _PLAIN or (kind is float and math.isfinite(value))


def _check(value: Any, path: str) -> None:
    match value:
        case None | bool() | int() | Raw():
            return
        case str():
            _check_text(value, path)
        case float():
            if not math.isfinite(value):
                raise InputError(f"{path} is {value}, which JSON cannot represent; send a number or null")
        case Mapping():
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise InputError(
                        f"{path} has the key {key!r}; JSON keys are strings, so write {str(key)!r}"
                    )
                _check_text(key, f"{path} (a key)")
                _check(inner, f"{path}.{key}")
        case bytes() | bytearray() | memoryview():
            raise InputError(
                f"{path} is bytes, which JSON cannot represent; decode it, or send it as base64 text"
            )
        case Sequence():
            for index, inner in enumerate(value):
                _check(inner, f"{path}[{index}]")
        case _:
            raise InputError(f"{path} is a {type(value).__name__}, which JSON cannot represent")


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{path} holds half a surrogate pair at character {error.start}; "
            "it was probably cut in the middle of a character, so cut it elsewhere or replace it"
        ) from None


class _ToolDefinition(Struct):
    type: str | None = None
    defer_loading: bool | None = None


def is_deferred(tool: bytes) -> bool:
    """Whether an encoded tool is not part of the prompt until the provider's own search has found it."""
    return b'"defer_loading"' in tool and bool(
        msgspec.json.decode(tool, type=_ToolDefinition).defer_loading
    )


def is_providers_own(tool: bytes) -> bool:
    """Whether an encoded tool is one of the provider's own, which has a type."""
    return b'"type"' in tool and msgspec.json.decode(tool, type=_ToolDefinition).type not in (
        None,
        "custom",
    )
