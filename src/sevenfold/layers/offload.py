"""Layer 1: a tool result too big for the context goes to disk, and a preview stays in its place.

A result over its tool's own threshold is stored before it is recorded: the record holds the preview and says
where the rest is. Results that are small enough each but too much together are recorded whole, and the largest
of them are replaced before they are first sent. Either way a result is decided about once: what was sent once is
sent the same ever after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from sevenfold.prompts.results import CutResult, EmptyResult, StoredResult
from sevenfold.prompts.text import cut
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, Text, ToolResult
from sevenfold.settings import Settings

NEVER_TEXT = frozenset({"image", "document"})
"""Parts of a result that stay in it: as text they would be of no use to anybody."""
SOME_READER = "a tool that reads files"


class Whole(Struct, frozen=True):
    """What goes to disk of a result."""

    text: str
    structured: bool
    """Whether it is JSON rather than what the tool printed."""

    @property
    def name_ending(self) -> str:
        """How its file is called at the end."""
        return ".json" if self.structured else ".txt"


def whole(block: Block) -> Whole:
    """The text of a result, images and documents aside."""
    body = block.body()
    content = body.content if isinstance(body, ToolResult) else None
    if content is None or isinstance(content, str):
        return Whole(content or "", False)
    parts = [part for part in map(blocks.read, map(bytes, content)) if part.kind not in NEVER_TEXT]
    if all(part.kind == "text" for part in parts):
        return Whole("\n".join(blocks.words_of(part) for part in parts), False)
    return Whole("[" + ",".join(part.raw.decode() for part in parts) + "]", True)


def stored(block: Block, found: Whole, path: str, reader: str, settings: Settings) -> Block:
    """The result with a preview where its text was."""
    text = StoredResult(
        characters=len(found.text),
        path=path,
        reader=reader or SOME_READER,
        text=cut(found.text, settings.preview_bytes),
    )
    return _saying(block, text.render())


def truncated(block: Block, found: Whole, most: int, problem: str) -> Block:
    """The result cut to its budget, because it could not be stored."""
    shown = cut(found.text[:most], most)
    text = CutResult(shown=len(shown), characters=len(found.text), problem=problem, text=shown)
    return _saying(block, text.render())


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


def too_much_together(results: Sequence[Block], settings: Settings) -> list[Block]:
    """Which of the results that go out in one message must leave it, the largest first.

    Those with pictures in them stay: a preview would take the pictures out as well.
    """
    sizes = sorted(
        ((len(whole(block).text), place) for place, block in enumerate(results) if not _pictures(block)),
        reverse=True,
    )
    excess = sum(size for size, _ in sizes) - settings.round_characters
    leaving = []
    for size, place in sizes:
        if excess <= 0 or size <= settings.preview_bytes:
            break
        leaving.append(results[place])
        excess -= size - settings.preview_bytes
    return leaving


def reader_of(kinds: Mapping[str, str]) -> str:
    """The tool that can read a stored result."""
    return next((name for name, kind in kinds.items() if kind == "read"), "")


def _saying(block: Block, words: str) -> Block:
    """The result with other words; pictures and documents in it stay where they were, behind the words."""
    kept = _pictures(block)
    if not kept:
        return blocks.with_content(block, words)
    body = block.body()
    content = [Raw(blocks.text(words).raw), *kept]
    fields: dict[str, object] = {"type": "tool_result", "tool_use_id": block.id, "content": content}
    if isinstance(body, ToolResult) and body.is_error:
        fields["is_error"] = True
    return Block("tool_result", msgspec.json.encode(fields), block.id)


def _pictures(block: Block) -> list[Raw]:
    body = block.body()
    content = body.content if isinstance(body, ToolResult) else None
    parts = content if isinstance(content, list) else []
    return [part for part in parts if blocks.read(bytes(part)).kind in NEVER_TEXT]


def _blank(raw: bytes) -> bool:
    match blocks.read(raw).body():
        case Text(text=words):
            return not words.strip()
        case _:
            return False


def words(block: Block) -> str:
    """What a result that was replaced says now."""
    return blocks.words_of(block)
