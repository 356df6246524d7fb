"""Tool results: the content of one, and which files the model still sees in them.

A file that is unchanged need not be shown twice: a second reading may be a short note that names the first, but only
while that one is in view, whole. Cleared, offloaded or compacted away, the next reading is a full one again.
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
            return all(blocks.read(bytes(part)).blank for part in parts)


def filled(block: Block) -> Block:
    """An empty result with a word in it."""
    return blocks.with_content(block, EmptyResult().render())


_IGNORED = frozenset({"cache_control", "citations", "caller"})


def same(ours: Block, theirs: Block, stored: Stored | None) -> bool:
    """Do two blocks say the same? Of a result that was ``stored`` the whole is known by its hash."""
    if ours.kind != theirs.kind or ours.id != theirs.id:
        return False
    if stored is not None:
        return hashlib.sha256(whole(theirs).content).hexdigest() == stored.sha256
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


# -- files that were read ---------------------------------------------------------------------------

PATHS = ("path", "file_path", "filePath", "filename", "file")
"""What tools call the path of a file in their input."""


class Read(Struct, frozen=True):
    """A full reading of a file."""

    call: str
    """The tool call whose result shows it."""
    version: str
    """What the file was then, in whatever way the reader tells versions apart."""


def paths_read(view: View, kinds: Mapping[str, str], folder: str) -> dict[str, str]:
    """Files in ``folder`` that the caller's own tools have read, by path: the call of each, the newest first.

    A tool of the kind ``read`` whose input names a path has read that file, unless its result is an error.
    """
    found: dict[str, str] = {}
    failed: set[str] = set()
    for item in reversed(view.items) if folder else ():
        for block in reversed(item.said.blocks):
            match block.body():
                case ToolResult(tool_use_id=call, is_error=True):
                    failed.add(call)
                case ToolUse(id=call, name=name, input=given) if (
                    kinds.get(name) == "read" and call not in failed
                ):
                    path = next(filter(None, (read_field(bytes(given), key) for key in PATHS)), "")
                    if inside := _inside(folder, path):
                        found.setdefault(inside, call)
    return found


def _inside(folder: str, path: str) -> str:
    """The whole path of a file in a folder; empty for one that is outside."""
    whole = PurePath(folder, path)
    inside = path and whole.is_relative_to(folder) and ".." not in whole.parts
    return str(whole) if inside else ""


def shown_whole(call: str, items: Sequence[Item]) -> bool:
    """Is the result of this call among these records, shown as the tool gave it?"""
    for item in reversed(items):
        if call in item.said.answers:
            whole = {
                one.id for one in item.shown if any(blocks.same(one, said) for said in item.said.blocks)
            }
            return call in whole and call not in item.said.stored
    return False
