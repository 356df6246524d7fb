"""The content of tool results: the whole of one as text, and whether there is any."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.prompts.context import EmptyResult
from sevenfold.record import blocks
from sevenfold.record.blocks import NOT_TEXT, Block, Text, ToolResult
from sevenfold.record.entries import Stored


class Whole(Struct, frozen=True):
    """What goes to disk of a result."""

    text: str
    structured: bool
    """Whether it is JSON rather than what the tool printed."""

    @property
    def name_ending(self) -> str:
        """How its file is called at the end."""
        return ".json" if self.structured else ".txt"

    @property
    def content(self) -> bytes:
        """The file's bytes."""
        return self.text.encode(errors="surrogatepass")


def whole(block: Block) -> Whole:
    """The text of a result, pictures and the like aside."""
    body = block.body()
    content = body.content if isinstance(body, ToolResult) else None
    if content is None or isinstance(content, str):
        return Whole(content or "", False)
    parts = [part for part in map(blocks.read, map(bytes, content)) if part.kind not in NOT_TEXT]
    if all(part.kind == "text" for part in parts):
        return Whole("\n".join(blocks.words_of(part) for part in parts), False)
    return Whole("[" + ",".join(part.raw.decode() for part in parts) + "]", True)


def nothing(block: Block) -> bool:
    """Does the result hold neither words nor anything else?"""
    body = block.body()
    if not isinstance(body, ToolResult):
        return False
    match body.content:
        case None:
            return True
        case str() as words:
            return not words.strip()
        case parts:
            return all(_blank(bytes(part)) for part in parts)


def filled(block: Block) -> Block:
    """An empty result with a word in it."""
    return blocks.with_content(block, EmptyResult().render())


def _blank(raw: bytes) -> bool:
    match blocks.read(raw).body():
        case Text(text=words):
            return not words.strip()
        case _:
            return False


_IGNORED = frozenset({"cache_control", "citations", "caller"})


def same(ours: Block, theirs: Block, stored: Stored | None) -> bool:
    """Do two blocks say the same? Of a result that was ``stored`` the whole is known by its hash."""
    if ours.kind != theirs.kind or ours.id != theirs.id:
        return False
    if stored is not None:
        text = whole(theirs).text.encode(errors="surrogatepass")
        return hashlib.sha256(text).hexdigest() == stored.sha256
    if ours.kind == "tool_result" and nothing(theirs):
        theirs = filled(theirs)
    return ours.raw == theirs.raw or _plain(ours) == _plain(theirs)


def _plain(block: Block) -> Any:
    """What a block says, without what SDKs add to it or leave out; a text is the same as a list with one."""
    value = {
        name: inner
        for name, inner in msgspec.json.decode(block.raw, type=dict[str, Any]).items()
        if inner is not None and name not in _IGNORED and not (name == "is_error" and inner is False)
    }
    if block.kind == "tool_result":
        match value.get("content"):
            case [{"type": "text", "text": str() as words}]:
                value["content"] = words
            case None | []:
                value["content"] = ""
    return value
