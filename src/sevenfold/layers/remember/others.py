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
from sevenfold.errors import SevenfoldError
from sevenfold.layers.remember import policy
from sevenfold.layers.remember.asking import ask, find_endings, read_answer
from sevenfold.layers.remember.look import MOST_FACTS, Look
from sevenfold.layers.remember.requoting import requote
from sevenfold.layers.remember.span import (
    SearchSpan,
    others_in,
    portion_of,
    records_after,
    remarks_in,
    span_of,
)
from sevenfold.memory.admission import Admission, admit, admit_apart
from sevenfold.memory.generation import Origin
from sevenfold.memory.statements import LastingFact
from sevenfold.memory.witness import Witness
from sevenfold.prompts.memory import RememberFacts
from sevenfold.record.decisions import Remembered

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.memory.memory import Memory
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


def look(c: Conversation, unseen: UnseenSessions) -> Flow[list[OtherLook]]:
    """Look at the sessions that wait for it, if any."""
    store = c.services.store
    memory = c.services.memory
    if store is None or memory is None:
        return []
    claim = partial(unseen.claim, c.transcript.place.session, c.services.is_alive, MOST_SESSIONS)
    results = []
    for session in (yield from in_thread(claim)):
        try:
            results.append((yield from _look_at(c, store, unseen, session)))
        except SevenfoldError as error:
            results.append(OtherLook(session, problem=str(error)))
    return results


def _look_at(c: Conversation, store: Store, unseen: UnseenSessions, session: str) -> Flow[OtherLook]:
    memory = c.services.memory
    assert memory is not None
    unread = yield from in_thread(partial(_unread_in, store, session, unseen.covered(session)))
    span = unread.span
    if not policy.worth_asking(span.messages):
        yield from in_thread(partial(unseen.done, session, span.covered))
        return OtherLook(session)
    if not c.may_spend():
        return OtherLook(session, problem="the spending cap of this session is reached")
    entries = yield from in_thread(memory.entries)
    shown = Look.at(span.messages, span.days, span.around, entries, memory.today())
    answer, cost = yield from ask(c, shown, SOURCE)
    yield from _spent(memory, cost)
    facts = read_answer(shown, answer)[:MOST_FACTS]
    ending: list[LastingFact] = []
    if unread.others_wrote:
        ending, cost = yield from find_endings(c, shown, facts, SOURCE)
        yield from _spent(memory, cost)
        ending, cost = yield from requote(c, shown, ending, SOURCE)
        yield from _spent(memory, cost)
    facts, cost = yield from requote(c, shown, facts, SOURCE)
    yield from _spent(memory, cost)
    witness = Witness(
        messages=span.messages,
        days=span.days,
        times=span.times,
        unread=frozenset(span.messages),
        session=session,
        least_trusted=unread.least_trusted,
        always_shown=(RememberFacts.of("").render(),),
        only_users_words=not unread.others_wrote,
    )
    if unread.others_wrote:
        store_facts = partial(admit_apart, memory, facts, ending, witness, c.clock.now())
    else:
        store_facts = partial(admit, memory, facts, witness, c.clock.now())
    admitted = yield from in_thread(store_facts)
    yield from in_thread(partial(unseen.done, session, span.covered))
    return OtherLook(session, tuple(admitted))


def _spent(memory: Memory, cost: float | None) -> Flow[None]:
    if cost:
        yield from in_thread(partial(memory.spend, cost))


class _Unread(Struct, frozen=True):
    """The words of the user that a session left."""

    span: SearchSpan
    least_trusted: Origin
    """How little a conclusion from it can be trusted."""
    others_wrote: bool
    """Whether anything in the session may have been written by others."""


def _unread_in(store: Store, session: str, covered: str) -> _Unread:
    log = store.read(session)
    items = whole(log).items
    covered_records = {decision.covered for _, decision in log.decisions(Remembered)} | {covered}
    records = records_after(items, covered_records)
    others_wrote = any(record.attachment or record.meta or record.answers for record in records)
    least_trusted: Origin = "outside" if others_wrote else "model"
    return _Unread(
        portion_of(span_of(records, remarks_in(log))),
        least_trusted,
        others_in([item.record for item in items]),
    )
