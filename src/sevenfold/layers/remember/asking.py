"""Asks a model about the user's words: what is worth remembering, and what it ends.

Each is a plain call, which shows the user's messages and nothing else of the conversation but a sentence around each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sevenfold.conversation.flow import Flow
from sevenfold.conversation.plain_call import plain_call
from sevenfold.conversation.turn import turn
from sevenfold.errors import ModelError
from sevenfold.layers.remember import policy
from sevenfold.layers.remember.look import MOST_FACTS, Look
from sevenfold.memory.statements import LastingFact
from sevenfold.record import blocks
from sevenfold.record.wire import Message

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation


def ask(c: Conversation, look: Look, source: str) -> Flow[tuple[str, float | None]]:
    """Ask in a plain call; returns the answer and its cost."""
    instruction = look.instruction(in_view=False).render()
    message = Message.of("user", c.gated([blocks.text(instruction)]))
    max_tokens = min(policy.MOST_OUTPUT, c.profile.max_output)
    outcome = yield from turn(plain_call(c, c.profile, [message], source, max_tokens))
    return blocks.text_of(outcome.reply.answer.blocks), outcome.cost


def find_endings(
    c: Conversation, shown: Look, facts: Sequence[LastingFact], source: str
) -> Flow[tuple[list[LastingFact], float | None]]:
    """What the user's words end, asked again in a call that shows these words and entries alone; and its cost.

    These facts come from a look that had text of others in view, which could make any model pair an innocent sentence
    of the user's with a rule of theirs. They only decide whether it is worth asking.
    """
    if not any(fact.replaces for fact in facts) or not c.may_spend():
        return [], None
    alone = shown.alone()
    answer, cost = yield from ask(c, alone, source)
    return [fact for fact in read_answer(alone, answer) if fact.replaces][:MOST_FACTS], cost


def read_answer(shown: Look, answer: str) -> list[LastingFact]:
    """The facts in an answer; raises `ModelError` if it does not keep to the format."""
    facts = shown.read(answer)
    if facts is None:
        raise ModelError("the answer does not keep to the format")
    return facts
