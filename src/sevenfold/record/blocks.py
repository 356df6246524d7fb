"""Content blocks in the shape of the Messages API, kept byte for byte.

A `Block` is the bytes of one block with the little the engine must know to pair, place and hide it. The
rest is decoded when somebody asks (`Block.body`), so a session of many megabytes is held once, as bytes,
and fields or kinds that nobody here has heard of survive untouched.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from sevenfold.record import canonical

PLACEHOLDER_CLEARED = "[Old tool result content cleared]"


class Text(Struct, frozen=True, tag_field="type", tag="text"):
    """Words of the user or the model."""

    text: str


class Thinking(Struct, frozen=True, tag_field="type", tag="thinking"):
    """The model's reasoning: often no text at all, its substance is in the signature."""

    thinking: str = ""
    signature: str = ""


class RedactedThinking(Struct, frozen=True, tag_field="type", tag="redacted_thinking"):
    """Reasoning the provider encrypted."""

    data: str = ""


class ToolUse(Struct, frozen=True, tag_field="type", tag="tool_use"):
    """A call the model makes; its input stays as the bytes that came."""

    id: str
    name: str
    input: Raw = Raw(b"{}")


class ToolResult(Struct, frozen=True, tag_field="type", tag="tool_result"):
    """What a tool answered."""

    tool_use_id: str
    content: str | list[Raw] | None = None
    is_error: bool | None = None


class Image(Struct, frozen=True, tag_field="type", tag="image"):
    """A picture: few tokens, many bytes."""

    source: Raw = Raw(b"{}")


class Document(Struct, frozen=True, tag_field="type", tag="document"):
    """A document such as a PDF."""

    source: Raw = Raw(b"{}")


class Compaction(Struct, frozen=True, tag_field="type", tag="compaction"):
    """A summary the provider made: signed, or encrypted so that only the provider can read it."""

    content: str | None = None
    signature: str | None = None
    encrypted_content: str | None = None


class Opaque(Struct, frozen=True):
    """A block of a kind, or in a state, that is not known here; it is passed on as it is."""

    type: str


Known = Text | Thinking | RedactedThinking | ToolUse | ToolResult | Image | Document | Compaction
Body = Known | Opaque

THINKING = frozenset({"thinking", "redacted_thinking"})
NOT_TEXT = frozenset({"image", "document", "tool_reference"})
"""Parts of a tool result that are what they are: as text they would be of no use to anybody."""


class _Head(Struct, frozen=True):
    type: str = ""
    id: str | None = None
    tool_use_id: str | None = None


_head = msgspec.json.Decoder(_Head)
_body: msgspec.json.Decoder[Known] = msgspec.json.Decoder(Known)


class Block(Struct, frozen=True):
    """One content block: its kind, its bytes, and the id that pairs a call with its result."""

    kind: str
    raw: bytes
    id: str = ""

    def body(self) -> Body:
        """The block decoded; `Opaque` when its kind is unknown or its fields are not as they should be."""
        try:
            return _body.decode(self.raw)
        except msgspec.DecodeError:
            return Opaque(self.kind)

    @property
    def blank(self) -> bool:
        """True for a text block without a visible character: servers refuse those."""
        if self.kind != "text" or len(self.raw) > 400:
            return False
        body = self.body()
        return isinstance(body, Text) and not body.text.strip()


def read(raw: bytes) -> Block:
    """The block in these bytes. Anything that is JSON is accepted; what is not an object is opaque."""
    try:
        head = _head.decode(raw)
    except msgspec.DecodeError:
        return Block("", raw)
    return Block(head.type, raw, (head.tool_use_id if head.type == "tool_result" else head.id) or "")


def text(words: str) -> Block:
    """A text block saying ``words``."""
    return Block("text", canonical.encode({"type": "text", "text": words}))


def result(tool_use_id: str, content: str, *, is_error: bool = False) -> Block:
    """A tool result holding plain text."""
    fields: dict[str, object] = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content}
    if is_error:
        fields["is_error"] = True
    return Block("tool_result", canonical.encode(fields), tool_use_id)


def with_content(block: Block, content: str) -> Block:
    """The tool result ``block`` saying ``content`` instead, with the same bytes every time."""
    body = block.body()
    return result(block.id, content, is_error=isinstance(body, ToolResult) and bool(body.is_error))


def with_words(block: Block, words: str) -> Block:
    """The tool result ``block`` saying ``words`` instead; what is no text in it stays, behind the words."""
    kept = not_text(block)
    if not kept:
        return with_content(block, words)
    body = block.body()
    fields: dict[str, object] = {"type": "tool_result", "tool_use_id": block.id}
    fields["content"] = [Raw(text(words).raw), *kept]
    if isinstance(body, ToolResult) and body.is_error:
        fields["is_error"] = True
    return Block("tool_result", msgspec.json.encode(fields), block.id)


def not_text(block: Block) -> list[Raw]:
    """The parts of a tool result that are of no use as text."""
    body = block.body()
    content = body.content if isinstance(body, ToolResult) else None
    parts = content if isinstance(content, list) else []
    return [part for part in parts if read(bytes(part)).kind in NOT_TEXT]


def referenced(block: Block) -> Block:
    """The tool result with its call's id as the name it can be deleted by."""
    bare = block.raw.rstrip()
    return Block(
        block.kind, bare[:-1] + b',"cache_reference":' + canonical.encode(block.id) + b"}", block.id
    )


def deletion(calls: Iterable[str]) -> Block:
    """A block that deletes these results from the cached prefix."""
    edits = [{"type": "delete", "cache_reference": call} for call in calls]
    return Block("cache_edits", canonical.encode({"type": "cache_edits", "edits": edits}))


def same(shown: Block, said: Block) -> bool:
    """Is a block shown as it was said, with or without a reference?"""
    return shown is said or (shown.id == said.id and shown.raw == referenced(said).raw)


def opaque(block: Block) -> bool:
    """Is it a summary that only the provider can read?"""
    match block.body():
        case Compaction(content=None, encrypted_content=str() as sealed):
            return bool(sealed)
        case _:
            return False


def words_of(block: Block) -> str:
    """All the plain text in a text block or a tool result; empty for everything else."""
    match block.body():
        case Text(text=words):
            return words
        case ToolResult(content=str() as words):
            return words
        case ToolResult(content=list() as parts):
            return "\n".join(filter(None, (words_of(read(bytes(part))) for part in parts)))
        case _:
            return ""
