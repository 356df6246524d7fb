"""Looks at what other sessions of the project left: one whose process died, or that had no time at its end.

The conversation that asks has nothing to do with those sessions, and nothing of theirs is in its cache. So each look is
a plain call that shows the user's messages, with a sentence of the answers around them. What it costs is on the bill of
the session that runs it, under a source of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from sevenfold.conversation.flow import Flow, in_thread
from sevenfold.conversation.history import whole
from sevenfold.conversation.plain_call import plain_call
from sevenfold.conversation.turn import turn
from sevenfold.errors import ModelError, SevenfoldError
from sevenfold.layers.remember import policy
from sevenfold.layers.remember.look import MOST_FACTS, Look
from sevenfold.layers.remember.span import SearchSpan, others_in, portion_of, remarks_in, span_of
from sevenfold.memory.admission import Admission, admit, admit_apart
from sevenfold.memory.generation import Origin
from sevenfold.memory.statements import LastingFact
from sevenfold.memory.witness import Witness
from sevenfold.prompts.memory import RememberFacts
from sevenfold.record import blocks
from sevenfold.record.decisions import Remembered
from sevenfold.record.wire import Message

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.memory.unseen import UnseenSessions
    from sevenfold.ports import Store

SOURCE = "extract_memories:earlier"
MOST_SESSIONS = 5
"""The most sessions of others that one session looks at."""


class OtherLook(Struct, frozen=True):
    """The outcome of a look at another session."""

    session: str
    admitted: tuple[Admission, ...] = ()
    problem: str = ""
    """Why it failed; empty if it did not."""


def ask(c: Conversation, look: Look, source: str) -> Flow[tuple[str, float | None]]:
    """Ask in a plain call; returns the answer and its cost."""
    instruction = look.instruction(in_view=False).render()
    message = Message.of("user", c.gated([blocks.text(instruction)]))
    most = min(policy.MOST_OUTPUT, c.profile.max_output)
    outcome = yield from turn(plain_call(c, c.profile, [message], source, most))
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


def look(c: Conversation, unseen: UnseenSessions) -> Flow[list[OtherLook]]:
    """Look at the sessions that wait for it, if any."""
    store, memory = c.services.store, c.services.memory
    if store is None or memory is None:
        return []
    claim = partial(unseen.claim, c.transcript.place.session, c.services.is_alive, MOST_SESSIONS)
    results = []
    for session in (yield from in_thread(claim)):
        try:
            results.append((yield from _one(c, store, unseen, session)))
        except SevenfoldError as error:
            results.append(OtherLook(session, problem=str(error)))
    return results


def _one(c: Conversation, store: Store, unseen: UnseenSessions, session: str) -> Flow[OtherLook]:
    memory = c.services.memory
    assert memory is not None
    left = yield from in_thread(partial(_left_in, store, session, unseen.covered(session)))
    span = left.span
    if not policy.worth_asking(span.said):
        yield from in_thread(partial(unseen.done, session, span.covered))
        return OtherLook(session)
    if not c.may_spend():
        return OtherLook(session, problem="the spending cap of this session is reached")
    entries = yield from in_thread(memory.entries)
    shown = Look.at(span.said, span.days, span.around, entries, memory.today())
    answer, cost = yield from ask(c, shown, SOURCE)
    if cost:
        yield from in_thread(partial(memory.spend, cost))
    facts = read_answer(shown, answer)[:MOST_FACTS]
    seen = Witness(
        said=span.said,
        days=span.days,
        times=span.times,
        new=frozenset(span.said),
        session=session,
        least=left.least,
        given=(RememberFacts("").render(),),
        only_users_words=not left.others_wrote,
    )
    if left.others_wrote:
        ending, further = yield from find_endings(c, shown, facts, SOURCE)
        if further:
            yield from in_thread(partial(memory.spend, further))
        store_facts = partial(admit_apart, memory, facts, ending, seen, c.clock.now())
    else:
        store_facts = partial(admit, memory, facts, seen, c.clock.now())
    admitted = yield from in_thread(store_facts)
    yield from in_thread(partial(unseen.done, session, span.covered))
    return OtherLook(session, tuple(admitted))


class _Left(Struct, frozen=True):
    """The words of the user that a session left."""

    span: SearchSpan
    least: Origin
    """How little a conclusion from it can be trusted."""
    others_wrote: bool
    """Whether anything in the session may have been written by others."""


def _left_in(store: Store, session: str, covered: str) -> _Left:
    log = store.read(session)
    items = whole(log).items
    known = {made.covered for _, made in log.decisions(Remembered)} | {covered}
    start = max((place for place, item in enumerate(items, 1) if item.said.uuid in known), default=0)
    records = [item.said for item in items[start:]]
    others_wrote = any(record.attachment or record.meta or record.answers for record in records)
    least: Origin = "outside" if others_wrote else "model"
    return _Left(
        portion_of(span_of(records, remarks_in(log))), least, others_in([item.said for item in items])
    )
