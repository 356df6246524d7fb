"""How many tokens a block is: a deterministic count that behaves like a tokenizer without being one.

Words, groups of digits and single signs are counted and multiplied by a ratio per tokenizer generation, so
that prose, code and JSON differ as they do in life and the current generation counts about 30% more than
the one before. Counts add up exactly, block by block. The figures are the simulator's own.


---

Blocks as the server compares them: canonical bytes, a digest, a count of tokens.

Cache markers are not part of a prompt, absent and null fields are the same, and the order of a block's own
fields does not matter; the order of keys inside a tool's input or schema does. A conversation is sent again
and again, so what a block weighs is remembered by its digest and each text is counted once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct, field

_PIECES = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z\d]|\s{2,}")


def words(text: str) -> int:
    """How many pieces a text falls into."""
    return len(_PIECES.findall(text))


def _ratios() -> dict[str, float]:
    return {"claude-a": 1.4, "claude-b": 1.8, "openai": 1.2, "unknown": 1.2}


class Counter(Struct, frozen=True):
    """How to count; every figure can be set, so that a test can work with numbers computed by hand."""

    pieces: Callable[[str], int] = words
    ratios: Mapping[str, float] = field(default_factory=_ratios)
    """Tokens per piece, by tokenizer generation."""
    image: int = 1_600
    document: int = 2_000
    per_message: int = 4
    per_call: int = 8
    per_result: int = 6
    tool_prompt: int = 286
    """What the provider adds to a prompt as soon as there are tools."""

    def tokens(self, load: Load, generation: str) -> int:
        """A measured load in the tokens of one generation."""
        ratio = self.ratios.get(generation, 1.0)
        return math.ceil(round(load.pieces * ratio, 6)) + load.flat

    def text(self, text: str, generation: str) -> int:
        """The tokens of a plain text."""
        return self.tokens(Load(self.pieces(text), 0), generation)

    def measure(self, block: Mapping[str, Any]) -> Load:
        """What a content block or a tool definition weighs, before any ratio."""
        match block.get("type"):
            case "text":
                return Load(self.pieces(str(block.get("text", ""))), 0)
            case "thinking":
                return Load(self.pieces(str(block.get("thinking", ""))), 0)
            case "redacted_thinking" | "cache_edits":
                return Load(0, 0)
            case "image":
                return Load(0, self.image)
            case "document":
                return self._document(block)
            case "compaction":
                return Load(self.pieces(str(block.get("content") or "")), 0)
            case "tool_use":
                given = self._json(block.get("input", {}))
                return Load(self.pieces(str(block.get("name", ""))) + given, self.per_call)
            case "tool_result":
                return self._result(block.get("content"))
            case _:
                bare = {key: value for key, value in block.items() if key != "cache_control"}
                return Load(self._json(bare), 0)

    def _document(self, block: Mapping[str, Any]) -> Load:
        source = block.get("source")
        if isinstance(source, Mapping) and source.get("type") == "text":
            return Load(self.pieces(str(source.get("data", ""))), 0)
        return Load(0, self.document)

    def _result(self, content: Any) -> Load:
        if isinstance(content, str):
            return Load(self.pieces(content), self.per_result)
        inner = [self.measure(item) for item in content or () if isinstance(item, Mapping)]
        return Load(sum(load.pieces for load in inner), sum(load.flat for load in inner) + self.per_result)

    def _json(self, value: Any) -> int:
        return self.pieces(msgspec.json.encode(value).decode())


class Load(Struct, frozen=True):
    """What a block weighs: pieces of text, which a ratio turns into tokens, and tokens that are fixed."""

    pieces: int
    flat: int


SIZE = 16
_REMEMBERED = 200_000
_encode = msgspec.json.Encoder().encode


class BlockDigest(Struct, frozen=True):
    """One block's identity and size."""

    digest: bytes
    tokens: int


def digest(*parts: bytes) -> bytes:
    """A short hash of some bytes, told apart from the same bytes cut elsewhere."""
    hashed = blake2b(digest_size=SIZE)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big"))
        hashed.update(part)
    return hashed.digest()


def chained(before: bytes, added: bytes) -> bytes:
    """The hash of a prefix that grew by one part."""
    return blake2b(before + added, digest_size=SIZE).digest()


def canonical(block: Mapping[str, Any]) -> bytes:
    """A block's bytes as the server compares them."""
    return _encode(_bare(block))


def value_digest(value: Any) -> bytes:
    """The digest of any JSON value, keys in the order given."""
    return digest(_encode(value))


def _bare(block: Mapping[str, Any]) -> dict[str, Any]:
    bare = {key: block[key] for key in sorted(block) if key not in _UNSEEN and block[key] is not None}
    if isinstance(content := bare.get("content"), list):
        bare["content"] = [_bare(item) if isinstance(item, dict) else item for item in content]
    return bare


_UNSEEN = frozenset({"cache_control", "cache_reference"})


class Scales:
    """Weighs blocks and remembers what they weigh."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self._loads: dict[bytes, Load] = {}

    def weigh(self, block: Mapping[str, Any], generation: str, tag: str = "") -> BlockDigest:
        """The piece a block is; ``tag`` sets apart blocks that are the same but for who says them."""
        name = digest(tag.encode(), canonical(block))
        load = self._loads.get(name)
        if load is None:
            if len(self._loads) >= _REMEMBERED:
                self._loads.clear()
            load = self._loads[name] = self.counter.measure(block)
        return BlockDigest(name, self.counter.tokens(load, generation))
