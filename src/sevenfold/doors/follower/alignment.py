"""What a program's request has in common with what is recorded of its conversation, and what happened in between.

Programs rewrite their own past: a text becomes a list of blocks, reminders come and go in old messages, results are
cleared or cut short, parallel results change positions, the oldest rounds give way to a summary. So blocks are matched
one by one, by what identifies them and wherever they are: calls and results by the id of the call, texts by their
words, everything else by its bytes. Thinking is not compared: programs may leave it out.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence, Set
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


MessageBlocks = Sequence[Sequence[SentBlock]]
"""The blocks of each message of a request."""


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
    is_summary: Callable[[SentBlock, bool], bool] = lambda block, recorded: False,
) -> Alignment:
    """Compare a request with what is on record.

    ``named`` says that the program itself names the conversation; ``is_summary`` whether a block of the request, which
    is or is not on record, is a summary with which the conversation goes on from now on.
    """
    if not known:
        return Alignment("new", new=tuple(sent))
    positions = positions_of(known, sent)
    matched = {position for position in positions if position is not None}
    answers = {position for position, block in enumerate(known) if block.role == "assistant"}
    summarised = any(
        is_summary(block, position is not None) for block, position in zip(sent, positions, strict=True)
    )
    last_answer = max(answers & matched, default=-1)
    lost_in_between = any(position < last_answer for position in answers - matched)
    if lost_in_between or (summarised and not answers & matched):
        return _compacted(known, sent, positions)
    alignment = _without_compaction(known, sent, positions)
    is_beginning_alone = answers and not answers & matched and alignment.back_to and not named
    return replace(alignment, happened="other") if not matched or is_beginning_alone else alignment


def without_compaction(known: Sequence[KnownBlock], sent: Sequence[SentBlock]) -> Alignment:
    """The alignment if what is missing at the beginning or in between was left out without a summary."""
    return _without_compaction(known, sent, positions_of(known, sent))


def _without_compaction(
    known: Sequence[KnownBlock], sent: Sequence[SentBlock], positions: Sequence[int | None]
) -> Alignment:
    matched = {position for position in positions if position is not None}
    last = _last_sent(known, matched)
    left_behind = {block.record for block in known[last + 1 :]} - {known[last].record}
    went_back = bool(matched and left_behind)
    new: list[SentBlock] = []
    for block, position in zip(sent, positions, strict=True):
        # What was added to an old message later is recorded later: if it is still sent, it is recorded anew.
        is_left_behind = went_back and position is not None and known[position].record in left_behind
        if block.fingerprint is not None and (position is None or is_left_behind):
            new.append(block)
    return Alignment(
        "went_back" if went_back else "grew",
        len(matched),
        new=tuple(new),
        back_to=known[last].record if went_back else "",
        cleared=_cleared(known, sent, positions),
    )


def _last_sent(known: Sequence[KnownBlock], matched: Set[int]) -> int:
    """The position up to which the conversation is still sent: behind it an answer is missing, or nothing follows."""
    answers = [position for position, block in enumerate(known) if block.role == "assistant"]
    last_answer = max((position for position in answers if position in matched), default=-1)
    missing = next((position for position in answers if position > last_answer), len(known))
    return max((position for position in matched if position < missing), default=-1)


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
