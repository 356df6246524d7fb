"""The tool loop of a fork: ask, carry out the tool calls of the answer, ask again, until an answer has none.

A fork has exactly the tools of its parent, or it could not read the parent's cache. What it may do with them is decided
when a call is made, by its rights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from sevenfold.conversation.flow import Flow
from sevenfold.conversation.fork import Fork
from sevenfold.conversation.request import Outcome, ToolCall, completed
from sevenfold.errors import PromptTooLong
from sevenfold.record.blocks import Block


class Rights(Protocol):
    """What a fork may do with the tools it has."""

    def carry_out(self, calls: Sequence[ToolCall], *, last: bool) -> Flow[Sequence[Block]]:
        """Carry out the calls that are allowed and refuse the others; returns a result for each.

        ``last`` says that only one more answer is awaited, so that more looking would be of no use.
        """


class Work(Struct, frozen=True):
    """What a fork did."""

    outcome: Outcome | None
    """The answer without tool calls; None if it still called tools when it was stopped."""
    turns: int
    """How often it asked."""
    seen: tuple[Block, ...] = ()
    """The calls it made, in the answers that made them, and their results."""


def work(
    fork: Fork, rights: Rights, *, most_turns: int, after_answer: Callable[[Outcome], Flow[None]]
) -> Flow[Work]:
    """Let a fork work until it answers without tool calls, in at most ``most_turns`` turns within the spending cap.

    ``after_answer`` is called with each answer, and may stop the work by raising. A fork that outgrows the window
    clears the results of its earlier calls and continues: unlike a conversation, it has no layers that make room.
    """
    exchanged: list[Block] = []
    for turn in range(1, most_turns + 1):
        try:
            outcome = yield from fork.turn()
        except PromptTooLong:
            if not fork.clear_results():
                raise
            outcome = yield from fork.turn()
        yield from after_answer(outcome)
        calls = completed(outcome).calls
        if not calls:
            return Work(outcome, turn, tuple(exchanged))
        if turn == most_turns or not fork.may_spend():
            break
        results = yield from rights.carry_out(calls, last=turn == most_turns - 1)
        fork.tool_results(results)
        exchanged += outcome.reply.answer.blocks
        exchanged += results
    return Work(None, turn, tuple(exchanged))
