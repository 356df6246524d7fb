"""Looks at what other sessions of the project left: one whose process died, or that had no time at its end.

The conversation that asks has nothing to do with those sessions, and nothing of theirs is in its cache. So each look is
a plain call that shows the user's messages, with a sentence of the answers around them. What it costs is on the bill of
the session that runs it, under a source of its own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from sevenfold.conversation.flow import Flow, in_thread
from sevenfold.conversation.history import whole
from sevenfold.errors import ModelError, SevenfoldError
from sevenfold.layers.compact.engines import ask_and_bill, plain_call
from sevenfold.layers.remember import policy
from sevenfold.layers.remember.look import MOST_FACTS, Look
from sevenfold.layers.remember.span import SearchSpan, portion_of, span_of
from sevenfold.memory.admission import Admission, admit
from sevenfold.memory.witness import Witness
from sevenfold.prompts.memory import RememberFacts
from sevenfold.record import blocks
from sevenfold.record.decisions import Remembered
from sevenfold.record.wire import Message

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.memory.generation import Origin
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
    reply, _, cost = yield from ask_and_bill(c, plain_call(c.profile, [message], source, most), c.profile)
    return blocks.text_of(reply.answer.blocks), cost


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
    span, least = yield from in_thread(partial(_left_in, store, session, unseen.covered(session)))
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
    facts = shown.read(answer)
    if facts is None:
        raise ModelError("the answer does not keep to the format")
    seen = Witness(
        said=span.said,
        days=span.days,
        times=span.times,
        new=frozenset(span.said),
        session=session,
        least=least,
        given=(RememberFacts("").render(),),
    )
    admitted = yield from in_thread(partial(admit, memory, facts[:MOST_FACTS], seen, c.clock.now()))
    yield from in_thread(partial(unseen.done, session, span.covered))
    return OtherLook(session, tuple(admitted))


def _left_in(store: Store, session: str, covered: str) -> tuple[SearchSpan, Origin]:
    """The words of the user that a session left, and how little a conclusion from it can be trusted."""
    log = store.read(session)
    items = whole(log).items
    known = {made.covered for _, made in log.decisions(Remembered)} | {covered}
    start = max((place for place, item in enumerate(items, 1) if item.said.uuid in known), default=0)
    records = [item.said for item in items[start:]]
    others_wrote = any(record.attachment or record.meta or record.answers for record in records)
    return portion_of(span_of(records)), "outside" if others_wrote else "model"
