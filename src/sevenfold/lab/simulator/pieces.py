"""Blocks as the server compares them: canonical bytes, a digest, a count of tokens.

Cache markers are not part of a prompt, absent and null fields are the same, and the order of a block's own
fields does not matter; the order of keys inside a tool's input or schema does. A conversation is sent again
and again, so what a block weighs is remembered by its digest and each text is counted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.lab.simulator.tokens import Counter, Load

SIZE = 16
_REMEMBERED = 200_000
_encode = msgspec.json.Encoder().encode


class Piece(Struct, frozen=True):
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

    def weigh(self, block: Mapping[str, Any], generation: str, tag: str = "") -> Piece:
        """The piece a block is; ``tag`` sets apart blocks that are the same but for who says them."""
        name = digest(tag.encode(), canonical(block))
        load = self._loads.get(name)
        if load is None:
            if len(self._loads) >= _REMEMBERED:
                self._loads.clear()
            load = self._loads[name] = self.counter.measure(block)
        return Piece(name, self.counter.tokens(load, generation))
