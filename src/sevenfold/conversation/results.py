"""Tool results: the content of one, which files the model still sees in them, and finding one again.

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

from sevenfold.conversation import history
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import Refused, ResultMissing
from sevenfold.ports import Results
from sevenfold.prompts.context import EmptyResult
from sevenfold.record import blocks
from sevenfold.record.blocks import NOT_TEXT, Block, Text, ToolResult, ToolUse, read_field
from sevenfold.record.decisions import Offloaded, Purged
from sevenfold.record.entries import Clearing, Stored
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
                case _:
                    continue
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


# -- finding again ----------------------------------------------------------------------------------


class Finder:
    """Looks up what was said in a session: in view first, and in the whole log if need be."""

    def __init__(self, transcript: Transcript, results: Results) -> None:
        self._transcript = transcript
        self._results = results

    def keyed(self, key: str) -> str:
        """The record that was said under this key and led to the present; empty if there is none."""
        for item in reversed(self._transcript.view.items):
            if item.said.key == key:
                return item.said.uuid
        if self._transcript.view.boundary is None or not self._transcript.log.keyed(key):
            return ""
        said = (item.said for item in reversed(history.whole(self._transcript.log).items))
        return next((one.uuid for one in said if one.key == key), "")

    def answered(self, call: str) -> bool:
        """Has this call a result, be it before a compaction?"""
        if any(call in item.said.answers for item in self._transcript.view.items):
            return True
        compacted = self._transcript.view.boundary is not None
        return compacted and self._transcript.log.result(call) is not None

    def in_view(self, record: str) -> Item:
        """A record in view."""
        item = self._transcript.view.item(record)
        if item is None:
            raise Refused(f"{record} is not a record in view")
        return item

    def result(self, call: str) -> Block | None:
        """The result of a call as it was recorded."""
        for item in self._transcript.view.items:
            if call in item.said.answers:
                return next(block for block in item.said.blocks if block.id == call)
        return self._transcript.log.result(call)

    def same_result(self, given: Block) -> bool:
        """Is this what the session has as the result of that call, if it has one?"""
        known = self.result(given.id)
        place = self._transcript.log.stored(given.id) if known is not None else None
        return known is None or same(known, given, place)

    def fetch(self, reference: str) -> bytes:
        """The whole of a result that was offloaded or cleared, by its call, its path or its decision."""
        stored = self._stored(reference)
        if isinstance(stored, Stored) and stored.path:
            return self.whole(stored)
        block = self.result(stored if isinstance(stored, str) else reference)
        if block is None:
            raise ResultMissing(f"there is no result for {reference!r} in this session")
        body = block.body()
        content = body.content if isinstance(body, ToolResult) else None
        if isinstance(content, list):
            words = all(blocks.read(bytes(part)).kind == "text" for part in content)
            return blocks.words_of(block).encode() if words else _list(content)
        return (content or "").encode()

    def whole(self, stored: Stored) -> bytes:
        """A stored result; raises `sevenfold.errors.ResultMissing` if it is not what was stored."""
        content = self._results.fetch(stored.path)
        found = hashlib.sha256(content).hexdigest()
        if found != stored.sha256 and not self._purged(found):
            raise ResultMissing(
                f"{stored.path!r}: it was changed since it was stored, so it is not what the tool returned; "
                "make the call again"
            )
        return content

    def _purged(self, sha256: str) -> bool:
        """Is this what a purge made of a stored result?"""
        return any(sha256 in made.results.values() for _, made in self._transcript.log.decisions(Purged))

    def _stored(self, reference: str) -> Stored | str | None:
        """Where the whole of a result is: on disk, or under the call it answers."""
        for made in self._transcript.view.decisions():
            match made:
                case Offloaded() if reference in (made.id, made.path, made.tool_use_id):
                    return Stored(made.path, made.size, made.sha256) if made.path else made.tool_use_id
                case Clearing(uuid=uuid, about=about) if uuid == reference:
                    return self._cleared(uuid, about.compacted_tool_ids)
                case _:
                    continue
        for item in self._transcript.view.items:
            for call, place in item.said.stored.items():
                if reference in (call, place.path):
                    return place
        return self._transcript.log.stored(reference)

    def _cleared(self, clearing: str, calls: Sequence[str]) -> Stored | str | None:
        if len(calls) == 1:
            return self._stored(calls[0]) or calls[0]
        raise ResultMissing(
            f"{clearing} cleared {len(calls)} results: fetch one of them by its call ({', '.join(calls)})"
        )


def _list(parts: Sequence[Any]) -> bytes:
    return b"[" + b",".join(bytes(part) for part in parts) + b"]"
