"""Tool results: their content, and which files the model still sees in them.

An unchanged file need not be shown twice: a second read may return a short note that refers to the first, but only
while the first result is in view in full. Once that is cleared, offloaded or compacted, the next read is full again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.prompts.context import EmptyResult
from sevenfold.record import blocks
from sevenfold.record.blocks import NOT_TEXT, Block, ToolResult, ToolUse, read_field
from sevenfold.record.entries import Stored
from sevenfold.record.layout import Item
from sevenfold.record.view import View


class Whole(Struct, frozen=True):
    """The part of a result that is stored on disk."""

    text: str
    structured: bool
    """Whether the text is JSON rather than the tool's plain output."""

    @property
    def name_ending(self) -> str:
        """The extension of its file."""
        return ".json" if self.structured else ".txt"

    @property
    def content(self) -> bytes:
        """The file's bytes."""
        return self.text.encode(errors="surrogatepass")


def whole(block: Block) -> Whole:
    """The full text of a result, without images and other content that is not text."""
    body = block.body()
    content = body.content if isinstance(body, ToolResult) else None
    if content is None or isinstance(content, str):
        return Whole(content or "", False)
    texts = [block for block in blocks.result_parts(block) if block.kind not in NOT_TEXT]
    if all(block.kind == "text" for block in texts):
        return Whole("\n".join(blocks.words_of(block) for block in texts), False)
    return Whole("[" + ",".join(block.raw.decode() for block in texts) + "]", True)


def is_empty(block: Block) -> bool:
    """Whether the block is a tool result with no content."""
    body = block.body()
    if not isinstance(body, ToolResult):
        return False
    match body.content:
        case None:
            return True
        case str() as words:
            return not words.strip()
        case content:
            return all(blocks.read(bytes(raw)).blank for raw in content)


def with_placeholder(block: Block) -> Block:
    """The empty result with a placeholder text as its content."""
    return blocks.with_content(block, EmptyResult().render())


_IGNORED = frozenset({"cache_control", "citations", "caller"})


def same(ours: Block, theirs: Block, stored: Stored | None) -> bool:
    """Whether two blocks have the same content; a ``stored`` result is compared by the hash of its full text."""
    if ours.kind != theirs.kind or ours.id != theirs.id:
        return False
    if stored is not None:
        return hashlib.sha256(whole(theirs).content).hexdigest() == stored.sha256
    if ours.kind == "tool_result" and is_empty(theirs):
        theirs = with_placeholder(theirs)
    return ours.raw == theirs.raw or _plain(ours) == _plain(theirs)


def _plain(block: Block) -> Any:
    """A block normalised for comparison: without fields that SDKs add or omit, and with a single text as a string."""
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


# -- files that were read ---------------------------------------------------------------------------

PATHS = ("path", "file_path", "filePath", "filename", "file")
"""Names that tools use for the path of a file in their input."""


class Read(Struct, frozen=True):
    """A full read of a file."""

    call: str
    """The tool call whose result shows it."""
    version: str
    """The version of the file that was read, in whatever form the tool distinguishes versions."""


def paths_read(view: View, kinds: Mapping[str, str], folder: str) -> dict[str, str]:
    """Files in ``folder`` that the caller's own tools have read: a mapping from path to call id, newest first.

    A tool of the kind ``read`` whose input names a path has read that file, unless its result is an error.
    """
    paths: dict[str, str] = {}
    failed: set[str] = set()
    for item in reversed(view.items) if folder else ():
        for block in reversed(item.record.blocks):
            match block.body():
                case ToolResult(tool_use_id=call, is_error=True):
                    failed.add(call)
                case ToolUse(id=call, name=name, input=given) if (
                    kinds.get(name) == "read" and call not in failed
                ):
                    path = next(filter(None, (read_field(bytes(given), key) for key in PATHS)), "")
                    if inside := _inside(folder, path):
                        paths.setdefault(inside, call)
    return paths


def _inside(folder: str, path: str) -> str:
    """The full path of a file in a folder; empty if it is outside."""
    whole = PurePath(folder, path)
    inside = path and whole.is_relative_to(folder) and ".." not in whole.parts
    return str(whole) if inside else ""


def shown_whole(call: str, items: Sequence[Item]) -> bool:
    """Whether these records show the result of this call in full, exactly as the tool returned it."""
    for item in reversed(items):
        if call in item.record.answers:
            recorded = item.record.blocks
            whole = {
                block_shown.id
                for block_shown in item.shown
                if any(blocks.is_unchanged(block_shown, block) for block in recorded)
            }
            return call in whole and call not in item.record.stored
    return False
