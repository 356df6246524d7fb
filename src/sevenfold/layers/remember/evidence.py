"""What a conversation proves about a proposed fact: the user's words in it, and what else was in view."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from sevenfold.layers.remember import policy
from sevenfold.layers.remember.policy import ATTACHMENT
from sevenfold.layers.remember.span import SearchSpan, span_of
from sevenfold.memory.commands import MemoryCommands
from sevenfold.memory.generation import Origin, least_trusted
from sevenfold.memory.witness import Witness
from sevenfold.prompts.memory import RememberFacts
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, read_field

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

READS = ("read", "search")
"""Kinds of tools that a look may use."""
SHOWS = (*READS, "shell")
"""Kinds of tools whose results show what is in files and in git."""


def memory_commands(c: Conversation) -> MemoryCommands | None:
    """The commands through which the model itself writes to memory; None if there is no memory."""
    return MemoryCommands(c.services.memory, partial(witness, c)) if c.services.memory is not None else None


def witness(c: Conversation, span: SearchSpan | None = None, read: Sequence[Block] = ()) -> Witness:
    """The evidence for facts from a conversation, and from what a fork of it ``read`` in addition.

    ``span`` is the part that has not been looked at before.
    """
    items = tuple(c.transcript.view.items)
    seen_blocks = [*chain.from_iterable(item.record.blocks for item in items), *read]
    kinds = _kinds_of_calls(c, seen_blocks)
    results = [
        block for block in seen_blocks if kinds.get(block.id) in SHOWS and block.kind == "tool_result"
    ]
    # If a model repeats text from the instruction, that is not a fact.
    always_shown = (
        RememberFacts.of("").render(),
        *(blocks.words_of(blocks.read(block)) for block in c.epoch.frame.system),
    )
    unread = span or SearchSpan({}, "")
    view = span_of([item.record for item in items], c.remarks)
    # In the order in which it was said: what left the context comes before what is in view.
    hidden = {record: text for record, text in unread.messages.items() if record not in view.messages}
    return Witness(
        messages={**hidden, **view.messages},
        days={**unread.days, **view.days},
        times={**unread.times, **view.times},
        unread=frozenset(unread.messages),
        session=c.transcript.place.session,
        least_trusted=_least_trusted_origin(c, kinds.values()),
        always_shown=always_shown,
        shown=(*map(blocks.words_of, results), *recalled_texts(c)),
    )


def recalled_texts(c: Conversation) -> list[str]:
    """The texts of recalled entries that are still in view."""
    texts: list[str] = []
    for item in c.transcript.view.items:
        if item.record.attachment == ATTACHMENT:
            texts += map(blocks.words_of, item.record.blocks)
    return texts


def _kinds_of_calls(c: Conversation, seen_blocks: Iterable[Block]) -> dict[str, str]:
    """The kind of the tool of each tool call among these blocks, by the call's id."""
    calls = (block for block in seen_blocks if block.kind == "tool_use")
    return {call.id: c.kinds.get(read_field(call.raw, "name"), "") for call in calls}


def _least_trusted_origin(c: Conversation, kinds: Iterable[str]) -> Origin:
    """The least trusted origin of anything in a conversation, given the kinds of tools called in view."""
    records = [item.record for item in c.transcript.view.items]
    # A summary may repeat what the results of earlier calls said, although those calls are no longer in view.
    if any(record.summary for record in records):
        earlier = chain.from_iterable(record.blocks for record in c.transcript.log.answers())
        kinds = [*kinds, *_kinds_of_calls(c, earlier).values()]
    return least_trusted(policy.least_trusted_origin(kinds), *map(policy.origin_of, records))
