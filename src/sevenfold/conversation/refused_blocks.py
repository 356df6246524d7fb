"""A block that the provider refuses, such as a picture it cannot read, keeps no session from going on.

The Messages API names the block. It would be sent again with every request, so each would be refused. A decision on
record has it sent as text from then on: a note in place of a picture or a file, the block's own bytes in place of
anything else. The record stays as it is, and the user is told.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sevenfold.errors import RequestRefused
from sevenfold.events import Repaired
from sevenfold.record.blocks import Block, read_fields
from sevenfold.record.decisions import SentAsText
from sevenfold.record.layout import Item

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

_NAMED = re.compile(r"\bmessages\.(?P<message>\d+)\.content\.(?P<block>\d+)[\w.]*: *(?P<why>[^\n]{0,200})")
_LEFT_ALONE = frozenset({"compaction", "cache_edits", "tool_addition", "tool_removal"})
"""Kinds that text could not usefully replace."""
MOST_AT_ONCE = 20
"""How many blocks are replaced before an answer comes, so that a server that refuses everything consumes no session."""


def send_as_text(c: Conversation, error: RequestRefused) -> bool:
    """Send the block that the error names as text from now on; False if it names none, or that would not help."""
    named = _NAMED.search(str(error))
    if named is None or not c.profile.sends_blocks_as_recorded:
        return False
    if _replaced_since_answer(c) >= MOST_AT_ONCE:
        return False
    messages = c.transcript.view.messages()
    number = int(named["message"])
    block_index = int(named["block"])
    if number >= len(messages) or block_index >= len(messages[number].parts):
        return False
    block = messages[number].parts[block_index]
    # What the user said meanwhile may have moved the blocks: then another one is there now. A cache marker, if it
    # was sent with one, stands before the block's last brace.
    if block.kind in _LEFT_ALONE or _is_plain_text(block) or block.raw[:-1] not in c.asked:
        return False
    origin = _origin(c.transcript.view.items, block)
    if origin is None:
        return False
    item, index = origin
    why = c.gate.text(named["why"]) if c.gate else named["why"]
    already = c.transcript.view.sent_as_text(item.record.uuid)
    if index in already:
        return False
    with c.atomic():
        if _thinking_follows(c, item):
            c.open_epoch("the provider refused a block", drops_thinking=True)
        else:
            c.announce("the provider refused a block")
        c.transcript.decide(SentAsText(record=item.record.uuid, block=index, why=why.strip()))
    c.events.tell(Repaired(what="refused_block", where=f"{block.kind}: {why.strip()}"))
    return True


def _is_plain_text(block: Block) -> bool:
    """Whether a block is a text and nothing else, so that a text in its place would be the same again."""
    return block.kind == "text" and read_fields(block.raw).keys() <= {"type", "text"}


def _replaced_since_answer(c: Conversation) -> int:
    replaced = 0
    answered = c.transcript.view.answered_at
    for decision in c.transcript.view.decisions():
        if isinstance(decision, SentAsText) and decision.timestamp > answered:
            replaced += 1
    return replaced


def _origin(items: list[Item], block: Block) -> tuple[Item, int] | None:
    """The record in view that a block of a message comes from, and the block's index in the record."""
    for item in items:
        # By identity, because the same picture may be there twice; a result that a layer shortened has its call's id.
        if not any(shown is block for shown in item.shown):
            continue
        for index, recorded in enumerate(item.record.blocks):
            if recorded is block or (block.id and (recorded.kind, recorded.id) == (block.kind, block.id)):
                return item, index
    return None


def _thinking_follows(c: Conversation, changed: Item) -> bool:
    """Whether thinking in view is bound to content that contains this record."""
    items = c.transcript.view.items
    later = items[c.transcript.view.layout.index[changed.record.uuid] :]
    return c.profile.thinking.bound and any(item.weight.thoughts for item in later)
