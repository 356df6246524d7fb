"""Records without their content, so that the fold of a long session needs little memory.

The fold only has to know which blocks there are, and which call a result answers. So a block keeps its kind and its id,
and instead of its bytes it has its position in the record, in decimal digits: the record is stored somewhere, and the
block is read there again when its content is needed.
"""

from __future__ import annotations

from functools import cache

from msgspec import structs

from sevenfold.record.blocks import Block
from sevenfold.record.entries import Said

_LONGEST_POSITION = 5
"""Digits. A block of JSON is never this short, so its length distinguishes both."""
_SHORT = 64
"""A block of this many bytes is not worth replacing."""
_THINNED = frozenset({"text", "thinking", "tool_use", "tool_result"})
_SHOWN_OTHERWISE = (b"is_error", b"toolset", b"image", b"document")
"""Of results with these, the fold needs more than the id."""


def without_content(message: Said, parent: str | None) -> Said:
    """A record as the fold needs it: long blocks are replaced by their positions in it.

    Short blocks, and those that the fold looks into, keep their bytes.
    """
    thinned = tuple([_thinned(position, block) for position, block in enumerate(message.blocks)])
    return structs.replace(message, blocks=thinned, parent=parent, timestamp="", model="", usage=None)


def is_position(raw: bytes) -> bool:
    """Whether these bytes of a block are only its position in the record."""
    return len(raw) <= _LONGEST_POSITION


def _thinned(position: int, block: Block) -> Block:
    raw = block.raw
    if len(raw) <= _SHORT or block.kind not in _THINNED or block.blank:
        return block
    if block.kind == "tool_result" and any(mark in raw for mark in _SHOWN_OTHERWISE):
        return block
    return Block(block.kind, b"%d" % position, block.id) if block.id else _placeholder(block.kind, position)


@cache
def _placeholder(kind: str, position: int) -> Block:
    # Shared by all records: most blocks have no id, and a session has many thousands of them.
    return Block(kind, b"%d" % position)
