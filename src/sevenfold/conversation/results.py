"""The content of tool results: the whole of one as text, and whether there is any."""

from __future__ import annotations

from msgspec import Struct

from sevenfold.prompts.context import EmptyResult
from sevenfold.record import blocks
from sevenfold.record.blocks import NOT_TEXT, Block, Text, ToolResult


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
