"""Sizes of blocks in tokens, and hashes that identify equal blocks.

The count is deterministic and only resembles a tokenizer's: the number of words, groups of digits and single signs is
multiplied by a ratio per tokenizer generation. Prose, code and JSON differ as they do with real tokenizers, and the
current generation counts about 30% more than the previous one. Counts add up exactly, block by block.

When blocks are compared, cache markers, null fields and the order of a block's own fields do not matter; the order of
keys inside a tool's input or schema does.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from sevenfold.record.media import PictureSize, pdf_pages, picture_size

_PIECES = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z\d]|\s{2,}")
_UNSEEN = frozenset({"cache_control", "cache_reference"})
_SIZE = 16
_REMEMBERED = 200_000
_encode = msgspec.json.Encoder().encode


def count_pieces(text: str) -> int:
    """How many words, groups of digits and signs a text has; a long word counts as several."""
    return len(_PIECES.findall(text))


class Load(NamedTuple):
    """The weight of a block: pieces of text, which a ratio converts to tokens, pictures, and a number of tokens."""

    pieces: int
    flat: int = 0
    pictures: tuple[PictureSize, ...] = ()
    """The sizes of its pictures; each generation of models has a rule of its own for them."""

    def __add__(self, other: Load) -> Load:  # type: ignore[override]
        return Load(self.pieces + other.pieces, self.flat + other.flat, self.pictures + other.pictures)


class Counter(Struct, frozen=True):
    """How to count tokens; every figure can be set, so that a test can compute the counts by hand."""

    pieces: Callable[[str], int] = count_pieces
    ratios: Mapping[str, float] = field(
        default_factory=lambda: {"claude-a": 1.4, "claude-b": 1.8, "openai": 1.2, "unknown": 1.2}
    )
    """Tokens per piece, by tokenizer generation."""
    image: int = 1_600
    """A picture whose size its bytes do not tell."""
    document: int = 2_000
    """A document whose length its bytes do not tell."""
    page: int = 3_000
    """A page of a PDF."""
    per_message: int = 4
    per_call: int = 8
    per_result: int = 6
    tool_prompt: int = 286
    """Tokens the provider adds to a prompt that has tools."""

    def tokens(self, load: Load, generation: str) -> int:
        """Convert a load to tokens of one tokenizer generation."""
        picture_tokens = sum(_picture_tokens(size, generation) for size in load.pictures)
        return (
            math.ceil(round(load.pieces * self.ratios.get(generation, 1.0), 6)) + load.flat + picture_tokens
        )

    def text(self, text: str, generation: str) -> int:
        """Count the tokens of a plain text."""
        return self.tokens(Load(self.pieces(text)), generation)

    def block(self, block: Mapping[str, Any], generation: str) -> int:
        """Count the tokens of a content block or a tool definition."""
        return self.tokens(self.measure(block), generation)

    def measure(self, block: Mapping[str, Any]) -> Load:
        """The weight of a content block or a tool definition, before any ratio."""
        match block:
            case {"type": "text" | "thinking" as kind}:
                return Load(self.pieces(str(block.get(kind, ""))))
            case {"type": "redacted_thinking" | "cache_edits"}:
                return Load(0)
            case {"type": "image"}:
                size = picture_size(_bytes_of(block))
                return Load(0, self.image) if size is None else Load(0, 0, (size,))
            case {"type": "document"}:
                return self._document(block)
            case {"type": "compaction"}:
                return Load(self.pieces(str(block.get("content") or "")))
            case {"type": "tool_use"}:
                input_pieces = self._json(block.get("input", {}))
                return Load(self.pieces(str(block.get("name", ""))) + input_pieces, self.per_call)
            case {"type": "tool_result", "content": str() as content}:
                return Load(self.pieces(content), self.per_result)
            case {"type": "tool_result"}:
                return self._parts(block.get("content")) + Load(0, self.per_result)
            case _:
                return Load(self._json({key: block[key] for key in block if key != "cache_control"}))

    def _document(self, block: Mapping[str, Any]) -> Load:
        """A document: what it holds, or the pages of a file, and what is said about it."""
        description = Load(sum(self.pieces(block.get(name) or "") for name in ("title", "context")))
        match block.get("source"):
            case {"type": "text", "data": str() as text} | {"type": "content", "content": str() as text}:
                return description + Load(self.pieces(text))
            case {"type": "content", "content": content}:
                return description + self._parts(content)
        pages = pdf_pages(_bytes_of(block))
        return description + Load(0, self.document if pages is None else pages * self.page)

    def _parts(self, content: Any) -> Load:
        loads = [self.measure(block) for block in content or () if isinstance(block, Mapping)]
        return sum(loads, Load(0))

    def _json(self, value: Any) -> int:
        return self.pieces(_encode(value).decode())


def _picture_tokens(size: PictureSize, generation: str) -> int:
    if generation == "openai":
        return 85 + 170 * size.tiles
    return size.fine_patches if generation == "claude-b" else size.patches


def _bytes_of(block: Mapping[str, Any]) -> bytes:
    """The bytes of a picture or a file; empty if they are elsewhere."""
    source = block.get("source")
    data = source.get("data") if isinstance(source, Mapping) and source.get("type") == "base64" else None
    try:
        return base64.b64decode(data or "")
    except (ValueError, TypeError):
        return b""


class WeighedBlock(NamedTuple):
    """A block's identity and size."""

    digest: bytes
    tokens: int


class Scales:
    """Weighs blocks and remembers them: a conversation is sent many times, but each block is measured once."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self._loads: dict[bytes, Load] = {}

    def weigh(self, block: Mapping[str, Any], generation: str, tag: str = "") -> WeighedBlock:
        """Weigh a block; ``tag`` distinguishes equal blocks of different roles."""
        name = digest(tag.encode(), _encode(_bare(block)))
        load = self._loads.get(name)
        if load is None:
            if len(self._loads) >= _REMEMBERED:
                self._loads.clear()
            load = self._loads[name] = self.counter.measure(block)
        return WeighedBlock(name, self.counter.tokens(load, generation))


def digest(*parts: bytes) -> bytes:
    """A short hash of several byte strings; where each one ends matters."""
    hashed = blake2b(digest_size=_SIZE)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big"))
        hashed.update(part)
    return hashed.digest()


def chained(prefix: bytes, added: bytes) -> bytes:
    """The hash of a prefix extended by one part."""
    return blake2b(prefix + added, digest_size=_SIZE).digest()


def value_digest(value: Any) -> bytes:
    """The digest of a JSON value; the order of its keys matters."""
    return digest(_encode(value))


def _bare(block: Mapping[str, Any]) -> dict[str, Any]:
    bare = {key: block[key] for key in sorted(block) if key not in _UNSEEN and block[key] is not None}
    if isinstance(content := bare.get("content"), list):
        bare["content"] = [_bare(item) if isinstance(item, dict) else item for item in content]
    return bare
