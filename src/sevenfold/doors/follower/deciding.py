"""What our decisions about a conversation change in a request of the program's, block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sevenfold.doors.follower.alignment import KnownBlock, MessageBlocks, SentBlock, positions_of
from sevenfold.doors.follower.program_view import ProgramView
from sevenfold.doors.follower.rewriting import BlockChange, NotSent, ShownAs, rewritten
from sevenfold.record.authorship import typed
from sevenfold.record.blocks import THINKING, Block
from sevenfold.record.calls import original_id
from sevenfold.record.layout import Item
from sevenfold.record.view import View
from sevenfold.wire.client_request import ClientRequest


def as_decided(
    request: ClientRequest,
    sent: MessageBlocks,
    known: Sequence[KnownBlock],
    view: View,
    program_view: ProgramView,
) -> bytes | None:
    """The request as our layers decided; None if no decision concerns it."""
    if not program_view.hidden and not any(map(_is_decided, view.items)):
        return None
    blocks = [block for message in sent for block in message]
    records = [
        None if position is None else known[position].record for position in positions_of(known, blocks)
    ]
    hidden = {item.record.uuid: item for item in program_view.hidden}
    changes = _changes(blocks, records, view, hidden, program_view)
    if not changes:
        return None
    counts = list(map(len, sent))
    summary = program_view.summary(view.items)
    return rewritten(request, counts, changes, summary, _place_of_summary(counts, changes))


def without_thinking(request: ClientRequest, sent: MessageBlocks) -> bytes | None:
    """The program's own messages without thinking; None if they have none."""
    thinking: dict[tuple[int, int], BlockChange] = {
        (number, part): NotSent()
        for number, message in enumerate(sent)
        for part, block in enumerate(message)
        if block.block.kind in THINKING
    }
    return rewritten(request, list(map(len, sent)), thinking, (), len(sent)) if thinking else None


def _changes(
    sent: Sequence[SentBlock],
    records: Sequence[str | None],
    view: View,
    hidden: Mapping[str, Item],
    program_view: ProgramView,
) -> dict[tuple[int, int], BlockChange]:
    """What happens to each block of a request, by its message and its place in it."""
    changes: dict[tuple[int, int], BlockChange] = {}
    first_answer = next((block.message for block in sent if block.role == "assistant"), len(sent))
    part = 0
    message = -1
    for block, record in zip(sent, _with_thinking(sent, records), strict=True):
        part = part + 1 if block.message == message else 0
        message = block.message
        if record is None:
            continue
        if record in hidden:
            item = hidden[record]
            # Behind a compaction of its own, a program may send its instructions behind an answer that it kept.
            is_first = message < first_answer or record in program_view.restored
            if not is_first or not _is_programs(block, item) or not program_view.stays(block.block, item):
                changes[message, part] = NotSent()
            continue
        shown = view.item(record)
        if shown is not None and (change := _change(block.block, shown)) is not None:
            changes[message, part] = change
    return changes


def _place_of_summary(counts: Sequence[int], changes: Mapping[tuple[int, int], BlockChange]) -> int:
    """The message in front of which a summary stands: where the first of what it stands for stood."""
    left_out = sorted(place for place, change in changes.items() if isinstance(change, NotSent))
    if not left_out:
        return len(counts)
    first = left_out[0][0]
    is_gone = sum(number == first for number, _ in left_out) == counts[first]
    return first if is_gone else first + 1


def _with_thinking(sent: Sequence[SentBlock], records: Sequence[str | None]) -> list[str | None]:
    """The record of each block; thinking, which is not compared, belongs to what follows it in the same answer."""
    known: list[str | None] = list(records)
    for position in reversed(range(len(sent) - 1)):
        is_thinking = sent[position].block.kind in THINKING
        in_same_answer = sent[position + 1].role == sent[position].role
        if known[position] is None and is_thinking and in_same_answer:
            known[position] = known[position + 1]
    return known


def _is_decided(item: Item) -> bool:
    """Whether anything was decided about a record in view: one that is sent as it was said shares its blocks."""
    return bool(item.hidden_by or item.record.stored) or item.shown is not item.record.blocks


def _change(block: Block, item: Item) -> BlockChange | None:
    """What happens to a block whose record is in view; None if it is sent as it is."""
    if block.kind in THINKING:
        recorded = any(part.kind in THINKING for part in item.record.blocks)
        is_shown = any(part.kind in THINKING for part in item.shown)
        return NotSent() if recorded and not is_shown else None
    if item.hidden_by:
        return NotSent()
    if block.kind != "tool_result":
        return None
    # A call whose id another one had was recorded under a longer one.
    same_call = (part for part in item.shown if original_id(part.id) == original_id(block.id))
    shown = next(same_call, None)
    if shown is None:
        return None
    is_decided = shown not in item.record.blocks or shown.id in item.record.stored
    return ShownAs(shown) if is_decided else None


def _is_programs(block: SentBlock, item: Item) -> bool:
    """Whether a block is the program's own text, such as reminders, instruction files and the environment."""
    return block.role == "system" or (block.block.kind == "text" and not typed(item.record, block.block))
