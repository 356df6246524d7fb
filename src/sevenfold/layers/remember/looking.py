"""Carries out one look for lasting facts: asks a model, checks what it answers, and stores what holds.

A look is a fork of the conversation, which reads the cached prefix and may read files, or a plain call, which is shown
the user's messages alone. What the user's words *end* is found only by a call that shows nothing but their words:
others' text in view could make a model pair an innocent sentence of the user's with a rule of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation import intake
from sevenfold.conversation.flow import Flow, in_thread
from sevenfold.conversation.fork import fork
from sevenfold.conversation.request import Outcome, ToolCall
from sevenfold.conversation.tool_loop import work
from sevenfold.errors import Aborted, ModelError
from sevenfold.layers.remember import policy
from sevenfold.layers.remember.asking import ask, find_endings, read_answer
from sevenfold.layers.remember.budget import LookBudget
from sevenfold.layers.remember.evidence import READS, witness
from sevenfold.layers.remember.look import MOST_FACTS, Look
from sevenfold.layers.remember.recalling import MemoryRecall
from sevenfold.layers.remember.reports import SOURCE, aside
from sevenfold.layers.remember.requoting import requote
from sevenfold.layers.remember.span import SearchSpan, others_in
from sevenfold.layers.remember.unread import UnreadWords
from sevenfold.memory.admission import Admission, admit, admit_apart
from sevenfold.memory.memory import Memory
from sevenfold.memory.statements import LastingFact
from sevenfold.record import blocks
from sevenfold.record.blocks import Block

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation, RunReadOnly

MOST_TURNS = 5
MOST_READS = 8
"""The most tool calls carried out in one turn."""
NO_TOOLS = "This is not available here, or not any more. Answer with the facts, or with <nothing/>."


class LookResult(Struct, frozen=True):
    """What a look has covered, and what became of each proposed fact."""

    span: SearchSpan
    admitted: list[Admission]


class ReadingRights:
    """A look may read files, at most a few of them in each turn."""

    def __init__(self, run: RunReadOnly | None) -> None:
        """``run`` carries out calls of reading tools and refuses all others; None if there are no tools."""
        self._run = run

    def carry_out(self, calls: Sequence[ToolCall], *, last: bool) -> Flow[list[Block]]:
        """Carry out the first calls; those beyond the limit, or with the answer due, are refused."""
        allowed = 0 if last or self._run is None else MOST_READS
        results: list[Block] = []
        if self._run is not None and allowed:
            results += intake.results((yield from self._run(calls[:allowed])))
        return [*results, *(blocks.result(call.id, NO_TOOLS) for call in calls[allowed:])]


class Looking:
    """Carries out looks in one conversation."""

    def __init__(
        self, c: Conversation, memory: Memory, unread: UnreadWords, budget: LookBudget, recall: MemoryRecall
    ) -> None:
        self.closed = False
        """Whether the session is closed: then nothing is stored any more."""
        self._c = c
        self._memory = memory
        self._unread = unread
        self._budget = budget
        self._recall = recall

    def as_fork(self, span: SearchSpan) -> Flow[LookResult]:
        """Ask a fork of the conversation, which may read files first."""
        look = yield from in_thread(partial(self._look_at, span))
        answer, read = yield from self._ask_fork(look)
        facts = read_answer(look, answer)
        endings = yield from self._endings(look, facts)
        facts = yield from self._requoted(look, facts)
        return (yield from self._store(facts, span, read, endings))

    def as_plain_call(self, span: SearchSpan) -> Flow[LookResult]:
        """Ask in a separate small request that shows the messages, and nothing else of the conversation."""
        if not policy.worth_asking(span.messages):
            yield from self._unread.note_done(span)
            return LookResult(span, [])
        look = yield from in_thread(partial(self._look_at, span))
        answer, cost = yield from ask(self._c, look, SOURCE)
        yield from self._budget.spend(cost)
        facts = read_answer(look, answer)
        endings: list[LastingFact] | None = None
        # The sentences of the model's around each message may repeat what others wrote, if anything in view is theirs.
        if others_in([item.record for item in self._c.transcript.view.items]):
            endings = yield from self._endings(look, facts)
        facts = yield from self._requoted(look, facts)
        return (yield from self._store(facts, span, endings=endings))

    def at_rest_of_session(self) -> Flow[LookResult]:
        """Look at all that was not looked at, in the context or not; one portion of it, if it is long."""
        span = yield from in_thread(self._unread.portion)
        return (yield from self.as_plain_call(span))

    def _look_at(self, span: SearchSpan) -> Look:
        return Look.at(span.messages, span.days, span.around, self._memory.entries(), self._memory.today())

    def _ask_fork(self, look: Look) -> Flow[tuple[str, Sequence[Block]]]:
        """Ask a fork for facts; returns its answer, and the calls and results of what it read before."""
        asking = fork(self._c, SOURCE)
        may_read = self._c.read_only is not None and self._budget.allows_reading()
        reading = [name for name, kind in self._c.kinds.items() if kind in READS and may_read]
        asking.user(look.instruction(in_view=True, reading=reading).render())
        # It has the tools of the conversation, so it may call them although the instruction names none.
        rights = ReadingRights(self._c.read_only)
        done = yield from work(asking, rights, most_turns=MOST_TURNS, after_answer=self._count_cost)
        if done.outcome is None:
            raise ModelError(f"it kept calling tools for {done.turns} turns")
        return blocks.text_of(done.outcome.reply.answer.blocks), done.seen

    def _count_cost(self, outcome: Outcome) -> Flow[None]:
        yield from self._budget.spend(outcome.cost)

    def _endings(self, look: Look, facts: Sequence[LastingFact]) -> Flow[list[LastingFact]]:
        """What the user's words end, according to a call that shows these words alone."""
        endings, cost = yield from find_endings(self._c, look, facts, SOURCE)
        yield from self._budget.spend(cost)
        if not endings and any(fact.replaces for fact in facts):
            aside(self._c, "nothing earlier was closed: your words alone do not say what they end")
        # The call showed the user's words alone, and so does what it leads to.
        return (yield from self._requoted(look, endings))

    def _requoted(self, look: Look, facts: Sequence[LastingFact]) -> Flow[list[LastingFact]]:
        """The facts, those that misquote the user as the model quotes them when it is asked again."""
        exact, cost = yield from requote(self._c, look, facts, SOURCE)
        yield from self._budget.spend(cost)
        return exact

    def _store(
        self,
        facts: list[LastingFact],
        span: SearchSpan,
        read: Sequence[Block] = (),
        endings: Sequence[LastingFact] | None = None,
    ) -> Flow[LookResult]:
        """Store the facts, and close what they end; with ``endings``, what those end instead."""
        if self.closed:
            raise Aborted("the session was closed")
        if len(facts) > MOST_FACTS:
            aside(self._c, f"more than {MOST_FACTS} facts at once: the rest of the answer was left out")
        admitted = yield from in_thread(partial(self._admit, facts[:MOST_FACTS], span, read, endings))
        yield from self._unread.note_done(span)
        return LookResult(span, admitted)

    def _admit(
        self,
        facts: list[LastingFact],
        span: SearchSpan,
        read: Sequence[Block],
        endings: Sequence[LastingFact] | None,
    ) -> list[Admission]:
        evidence = witness(self._c, span, read)
        likeness = self._recall.likeness() if facts else None
        alike = likeness.alike if likeness is not None else None
        now = self._c.clock.now()
        if endings is not None:
            return admit_apart(self._memory, facts, endings, evidence, now, alike)
        # Nothing of others was in view, so the look itself showed the user's words alone.
        return admit(self._memory, facts, replace(evidence, only_users_words=True), now, alike)
