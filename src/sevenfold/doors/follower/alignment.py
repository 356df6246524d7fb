"""What a program's request has in common with what is recorded of its conversation, and what happened in between.

Programs rewrite their own past: a text becomes a list of blocks, reminders come and go in old messages, results are
cleared or cut short, parallel results change positions, the oldest rounds give way to a summary. So blocks are matched
one by one, by what identifies them and wherever they are: calls and results by the id of the call, texts by their
words, everything else by its bytes. Thinking is not compared: programs may leave it out.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.record import blocks
from sevenfold.record.blocks import THINKING, Block
from sevenfold.record.calls import original_id

Happened = Literal["new", "grew", "went_back", "compacted", "other"]


class BlockFingerprint(Struct, frozen=True):
    """What identifies a block; and, where the content may change under the same identity, its hash and size."""

    name: bytes
    content: bytes = b""
    size: int = 0


class KnownBlock(Struct, frozen=True):
    """A block on record."""

    fingerprint: BlockFingerprint
    role: str
    record: str
    result_of: str = ""
    """The call that it is the result of, as recorded."""


class SentBlock(Struct, frozen=True):
    """A block of a request, with the index of its message."""

    fingerprint: BlockFingerprint | None
    """None for one that is not compared."""
    message: int
    role: str
    block: Block
    recorded: str = ""
    """After a compaction: the record that it repeats; empty if it is new."""


class Alignment(Struct, frozen=True):
    """How a request relates to what is recorded."""

    happened: Happened
    """``other``: it belongs to another conversation."""
    matched: int = 0
    """How many blocks of the request are on record."""
    leading: tuple[SentBlock, ...] = ()
    """After a compaction: what is sent before the first record that was kept."""
    new: tuple[SentBlock, ...] = ()
    """The other blocks that are not on record, in the order of the request."""
    kept: tuple[str, str] | None = None
    """After a compaction: the first and the last of the records that are still sent unchanged."""
    back_to: str = ""
    """The last record that is still sent, if the program went back to it."""
    cleared: tuple[str, ...] = ()
    """Calls whose results are shorter now than they were recorded."""


def fingerprint(block: Block) -> BlockFingerprint | None:
    """What identifies a block; None for one that is not compared."""
    if block.kind in THINKING:
        return None
    if block.kind == "tool_use" and block.id:
        return BlockFingerprint(b"call:" + original_id(block.id).encode())
    if block.kind == "tool_result" and block.id:
        content = blocks.words_of(block).strip().encode() or block.raw
        return BlockFingerprint(b"result:" + original_id(block.id).encode(), _hash(content), len(content))
    if block.kind == "text":
        text = blocks.words_of(block).strip()
        return BlockFingerprint(b"text:" + _hash(text.encode())) if text else None
    return BlockFingerprint(b"other:" + _hash(_sorted_fields(block.raw)))


def _sorted_fields(raw: bytes) -> bytes:
    """The JSON with its fields in order: programs write a block that they got with other spaces and orders."""
    try:
        return msgspec.json.encode(msgspec.json.decode(raw), order="sorted")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return raw


def _hash(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def align(
    known: Sequence[KnownBlock],
    sent: Sequence[SentBlock],
    *,
    named: bool = False,
    summarised: bool = False,
) -> Alignment:
    """Compare a request with what is on record.

    ``named`` says that the program itself names the conversation; ``summarised`` that a summary is among what it sends.
    """
    if not known:
        return Alignment("new", new=tuple(sent))
    positions = positions_of(known, sent)
    matched = {position for position in positions if position is not None}
    answers = {position for position, block in enumerate(known) if block.role == "assistant"}
    last = max(matched, default=-1)
    lost_in_between = any(position < last for position in answers - matched)
    if (answers & matched and lost_in_between) or (summarised and not answers & matched):
        return _compacted(known, sent, positions)
    new = tuple(block for block, position in zip(sent, positions, strict=True) if _is_new(block, position))
    later = {block.record for block in known[last + 1 :]} - {known[last].record}
    if not matched or (answers and not answers & matched and later and not named):
        return Alignment("other", len(matched), new=new)
    return Alignment(
        "went_back" if later else "grew",
        len(matched),
        new=new,
        back_to=known[last].record if later else "",
        cleared=_cleared(known, sent, positions),
    )


def positions_of(known: Sequence[KnownBlock], sent: Sequence[SentBlock]) -> list[int | None]:
    """For each block of the request, the position of the recorded block that it is; None if there is none."""
    waiting: defaultdict[bytes, deque[int]] = defaultdict(deque)
    for position, block in enumerate(known):
        waiting[block.fingerprint.name].append(position)
    positions: list[int | None] = []
    for sent_block in sent:
        name = sent_block.fingerprint.name if sent_block.fingerprint else b""
        same = waiting.get(name)
        positions.append(same.popleft() if same else None)
    return positions


def grown(known: Sequence[KnownBlock], sent: Sequence[SentBlock]) -> Alignment:
    """The alignment if nothing counts but what is new: what is missing was left out without a summary."""
    positions = positions_of(known, sent)
    new = tuple(block for block, position in zip(sent, positions, strict=True) if _is_new(block, position))
    matched = sum(position is not None for position in positions)
    return Alignment("grew", matched, new=new, cleared=_cleared(known, sent, positions))


def _is_new(block: SentBlock, position: int | None) -> bool:
    return position is None and block.fingerprint is not None


def _compacted(
    known: Sequence[KnownBlock], sent: Sequence[SentBlock], positions: Sequence[int | None]
) -> Alignment:
    """The program compacted: what it still sends, without a gap up to the newest record, was kept."""
    matched = {position for position in positions if position is not None}
    first = len(known)
    while first and first - 1 in matched:
        first -= 1
    while 0 < first < len(known) and known[first].record == known[first - 1].record:
        first += 1  # a record is kept whole or not at all
    kept = None if first == len(known) else (known[first].record, known[-1].record)
    leading: list[SentBlock] = []
    new: list[SentBlock] = []
    behind = False
    for block, position in zip(sent, positions, strict=True):
        if position is not None and position >= first:
            behind = True
        elif block.fingerprint is not None:
            recorded = "" if position is None else known[position].record
            (new if behind else leading).append(replace(block, recorded=recorded))
    return Alignment("compacted", len(matched), tuple(leading), tuple(new), kept)


def _cleared(
    known: Sequence[KnownBlock], sent: Sequence[SentBlock], positions: Sequence[int | None]
) -> tuple[str, ...]:
    """The calls whose results are shorter in the request than on record."""
    calls: list[str] = []
    for block, position in zip(sent, positions, strict=True):
        if position is None or block.fingerprint is None or not known[position].result_of:
            continue
        if block.fingerprint.size < known[position].fingerprint.size:
            calls.append(known[position].result_of)
    return tuple(calls)
