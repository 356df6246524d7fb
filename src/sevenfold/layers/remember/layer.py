"""Layer 5: what the user said is looked at for lasting facts; before a request, fitting entries are recalled.

A look happens at the end of every session, in a pause of ten minutes, before a compaction hides words that were not
looked at, and, if something sounds lasting, right after the turn. It runs in the background and no request waits for
it: as a fork, which reads the cached prefix, or, where that is cheaper or nothing is cached, as a plain call with the
user's messages. What a session leaves, the next one of the project looks at (`sevenfold.layers.remember.others`). Code
decides what may be stored, and as whose words (`sevenfold.memory.admission`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sevenfold.conversation import intake
from sevenfold.conversation.background import Stop
from sevenfold.conversation.flow import Flow, in_thread
from sevenfold.conversation.fork import fork
from sevenfold.conversation.history import whole
from sevenfold.conversation.request import Outcome, ToolCall
from sevenfold.conversation.tool_loop import work
from sevenfold.errors import Aborted, ModelError, SevenfoldError
from sevenfold.events import Acted
from sevenfold.layers import breaker
from sevenfold.layers.remember import others, policy
from sevenfold.layers.remember.asking import ask, find_endings, read_answer
from sevenfold.layers.remember.look import MOST_FACTS, Look
from sevenfold.layers.remember.policy import ATTACHMENT
from sevenfold.layers.remember.requoting import requote
from sevenfold.layers.remember.span import (
    SearchSpan,
    others_in,
    portion_of,
    records_after,
    remarks_in,
    span_of,
    users_typed,
)
from sevenfold.memory.admission import Admission, admit, admit_apart
from sevenfold.memory.commands import MemoryCommands
from sevenfold.memory.entry import shortened
from sevenfold.memory.generation import Origin, least_trusted
from sevenfold.memory.memory import KnownEntry
from sevenfold.memory.search import FittingEntry, StatementVectors, fitting, taken_up
from sevenfold.memory.statements import LastingFact
from sevenfold.memory.unseen import UnseenSessions
from sevenfold.memory.witness import Witness
from sevenfold.prompts.memory import Recalled, RememberFacts
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, read_field
from sevenfold.record.decisions import Remembered
from sevenfold.record.entries import Said
from sevenfold.record.quoting import quotation
from sevenfold.request.watch import SECONDS
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation, RunReadOnly

SOURCE = "extract_memories"
BEAT_SECONDS = 60.0
"""How often it is checked whether the conversation pauses."""
MOST_TURNS = 5
MOST_READS = 8
"""The most tool calls carried out in one turn."""
READS = ("read", "search")
"""Kinds of tools that the fork may use."""
SHOWS = (*READS, "shell")
"""Kinds of tools whose results show what is in files and in git."""
NO_TOOLS = "This is not available here, or not any more. Answer with the facts, or with <nothing/>."


class Remember:
    """Stores lasting facts in memory and recalls fitting entries."""

    name = "remember"

    def on(self, settings: Settings) -> bool:
        """Whether extraction or recall is switched on."""
        return settings.extraction or settings.memory_recall

    def settle(self, c: Conversation) -> Flow[None]:
        """Before a request, attach the entries that fit the user's newest message."""
        if c.services.memory is None:
            return
        if c.settings.extraction:
            c.state(MemoryKeeper).begin()
        if c.settings.memory_recall:
            yield from c.state(MemoryKeeper).recall()

    def after_answer(self, c: Conversation) -> None:
        """After an answer, search for facts in the background, if it is time."""
        if c.services.memory is not None and c.settings.extraction:
            c.state(MemoryKeeper).check()


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


class MemoryKeeper:
    """Recalls from memory and extracts facts for one conversation."""

    def __init__(self, c: Conversation) -> None:
        assert c.services.memory is not None
        self._c = c
        self._memory = c.services.memory
        self._session = c.transcript.place.session
        self._unseen = UnseenSessions(c.services.memory.folder, c.clock)
        self._marked = False
        """Whether it is noted outside the session that there are words to look at."""
        self._looked_at_others = False
        self._busy = False
        """Whether a look is under way."""
        self._again = False
        """Whether another turn ended during the look."""
        self._failures = 0
        self._looked: str | None = None
        """The user message for which memory was last searched."""
        self._covered: set[str] = set()
        """Records up to which the conversation was looked at, in addition to the decisions in view."""
        self._caught_up: str | None = None
        """The newest boundary before which everything was looked at."""
        self._since = self._turn_ended = c.clock.now()
        """When the conversation was last looked at, and when its last turn ended."""
        self._usd = 0.0
        """Cost of looking for facts in this session."""
        self._deferred = False
        """Whether it was reported that looks wait until the end."""
        self._rested = False
        """Whether a pause of ten minutes had its look."""
        self._leaving = self._ended = self._failed_at_end = self._hurried = self._gone = False
        """The session is about to be closed; its look at the end was made; no further one can be; its caller does not
        want to wait for it; it is closed."""
        self._stop_beat: Stop | None = None
        self._recalled: list[FittingEntry] = []
        """The entries attached to the user's newest message, until the turn ends."""
        self._compares: StatementVectors | None = None
        self._texts: list[str] = []
        """The texts of the entries last compared; some may have no vector yet."""
        self._told_news = False
        """Whether the user was told in this session what something else did to memory."""
        self._paused = ""
        """The day on which the daily budget was last reported as spent."""
        c.call_before_hiding(self.before_hiding)
        c.finish_before_closing(self)

    # -- recalling ------------------------------------------------------------------------------

    def recall(self) -> Flow[None]:
        """Attach the entries that fit the user's newest message and are not in view yet, if any."""
        items = self._c.transcript.view.items
        if not items or items[-1].record.uuid == self._looked:
            return
        prompt = users_typed(items[-1].record)
        if not prompt.strip():
            return
        self._looked = items[-1].record.uuid
        yield from self._tell_news()
        try:
            fits = yield from in_thread(partial(self._fitting, prompt))
        except SevenfoldError as error:
            self._aside(str(error))
            return
        in_view = "\n".join(_recalled(self._c))
        there = self._c.services.still_exists
        fits = [fit for fit in fits if policy.shown([fit], there) not in in_view]
        if not fits:
            return
        files = [fit.known_entry.entry.file for fit in fits]
        text = Recalled(policy.shown(fits, there)).render()
        record = self._c.transcript.attach(ATTACHMENT, {"files": files}, [blocks.text(text)])
        self._recalled = fits
        self._tell("recall", f"recalled from memory: {', '.join(map(policy.reason, fits))}", record)

    def _tell_news(self) -> Flow[None]:
        """Tell the user, at the first message of a session, what something else did to memory."""
        if self._told_news:
            return
        self._told_news = True
        try:
            for line in (yield from in_thread(self._memory.news)):
                self._aside(line)
        except SevenfoldError as error:
            self._aside(str(error))

    def _fitting(self, prompt: str) -> list[FittingEntry]:
        """The fitting entries of the project's and the user's memory."""
        user_memory = self._c.services.user_memory
        entries = [*self._memory.entries(), *(user_memory.entries() if user_memory is not None else ())]
        likeness = self._likeness() if entries else None
        if likeness is not None:
            self._texts = [entry.entry.statement for entry in entries]
            likeness.prepare(self._texts)
        return fitting(prompt, entries, self._memory.today(), likeness)

    def _likeness(self) -> StatementVectors | None:
        """The comparison by meaning, if installed and switched on; loaded on first use."""
        meaning = self._c.services.meaning
        switched_on = self._c.settings.recall_meaning
        embedder = meaning.embedder(switched_on=switched_on) if meaning is not None else None
        if embedder is not None and self._compares is None:
            self._compares = StatementVectors(embedder)
        return self._compares if embedder is not None else None

    # -- remembering ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Before a request: note that there are words to look at, and look at what other sessions left."""
        if self._c.background is None:
            return
        if not self._looked_at_others:
            self._looked_at_others = True
            self._c.run_background(others.look(self._c, self._unseen), self._others_done, "memory")
        if not self._marked and policy.worth_asking(self._span().messages):
            self._marked = True
            self._c.run_background(self._mark(), self._noted)

    def _mark(self) -> Flow[None]:
        yield from in_thread(partial(self._unseen.begin, self._session, self._c.services.process))

    def check(self) -> None:
        """After the final answer of a turn, log the turn and start a look, if it is time."""
        newest = self._c.transcript.view.items[-1]
        if newest.record.role != "assistant" or newest.record.calls or self._c.background is None:
            return
        self._turn_ended = self._c.clock.now()
        if self._stop_beat is None:
            self._stop_beat = self._c.background.every(BEAT_SECONDS, self.rest)
        self._log(newest.record)
        self._look()

    def rest(self) -> None:
        """Look at the session as if it had ended, if there was no turn for ten minutes."""
        with self._c.lock:
            waited = self._c.clock.now() - self._turn_ended
            if self._busy or self._leaving or waited < policy.IDLE_SECONDS or not self._span().messages:
                return
            if not self._rested:
                self._rested = self._start(self._rest_of_session(), free=True)
            elif self._failures == 0:
                self._start(self._rest_of_session())

    def before_hiding(self) -> None:
        """Before a compaction, look at the words it may hide; nothing waits for that."""
        span = self._span()
        if span.messages and not self._busy and not self._leaving:
            self._start(self._plain_look(span))

    def _look(self) -> None:
        """Start a look if the user said something that sounds lasting, or if words left the context unseen."""
        if self._busy:
            self._again = True
            return
        span = self._span()
        if span.wrote:
            self._cover(span.covered)
            return
        if span.hidden:
            self._start(self._rest_of_session())
        elif policy.sounds_lasting(span.messages) and breaker.interval_factor(self._failures) == 1:
            self._start(self._fork_look(span) if self._prefers_fork(span) else self._plain_look(span))

    def _start(self, flow: Flow[tuple[SearchSpan, list[Admission]]], *, free: bool = False) -> bool:
        """Run a look in the background, unless the budget is spent; ``free`` ones only keep to the spending cap."""
        if not free and not self._affords():
            flow.close()
            return False
        if not self._c.may_spend():
            flow.close()
            return False
        self._busy = True
        self._c.run_background(flow, self._done, "memory")
        return True

    def _affords(self) -> bool:
        """Whether the budgets allow a look before the end; if not, it waits, which is reported once."""
        price = self._c.profile.price(self._c.size().tokens)
        size = self._c.size().tokens
        costs = policy.cost_of_plain_call(price, policy.PLAIN_TOKENS), policy.cost_of_fork(price, size)
        expected = min(filter(None, costs), default=None)
        bill = self._c.account.usd
        if not policy.affordable(self._usd, expected, bill):
            if not self._deferred:
                self._deferred = True
                self._later(f"it would take more than {policy.USUAL_SHARE:.1%} of the bill now")
            return False
        daily_budget = self._c.settings.memory_daily_budget
        today = self._memory.today()
        spent = self._memory.spent
        if daily_budget is None or spent < daily_budget:
            return True
        if self._paused != today:
            self._paused = today
            self._later(f"${spent:.2f} of ${daily_budget:.2f} are spent today (memory_daily_budget)")
        return False

    def _later(self, why: str) -> None:
        self._c.events.aside(
            "memory", f"looking for lasting facts waits until the session ends: {why}", source=SOURCE
        )

    def _prefers_fork(self, span: SearchSpan) -> bool:
        """Whether the cache still holds the conversation, and reading it from there costs less than a plain call."""
        c = self._c
        price = c.profile.price(c.size().tokens)
        if price is None:
            return True
        warm = c.idle_seconds() < SECONDS[c.epoch.lifetimes.tail]
        plain_size = policy.PLAIN_TOKENS + sum(map(c.count, span.messages.values()))
        fork_usd = policy.cost_of_fork(price, c.size().tokens) or 0.0
        plain_usd = policy.cost_of_plain_call(price, plain_size) or 0.0
        return warm and fork_usd <= plain_usd

    # -- looking --------------------------------------------------------------------------------

    def _fork_look(self, span: SearchSpan) -> Flow[tuple[SearchSpan, list[Admission]]]:
        """Ask a fork of the conversation, which may read files first."""
        look = yield from in_thread(partial(self._prepared, span))
        answer, read = yield from self._ask(look)
        facts = read_answer(look, answer)
        ending = yield from self._endings(look, facts)
        facts = yield from self._requoted(look, facts)
        return span, (yield from self._admitted(facts, span, read, ending))

    def _plain_look(self, span: SearchSpan) -> Flow[tuple[SearchSpan, list[Admission]]]:
        """Ask in a separate small request that shows the messages, and nothing else of the conversation."""
        if not policy.worth_asking(span.messages):
            yield from in_thread(partial(self._unseen.done, self._session, span.covered))
            self._marked = False
            return span, []
        look = yield from in_thread(partial(self._prepared, span))
        answer, cost = yield from ask(self._c, look, SOURCE)
        yield from self._spent(cost)
        facts = read_answer(look, answer)
        ending: list[LastingFact] | None = None
        if others_in([item.record for item in self._c.transcript.view.items]):
            ending = yield from self._endings(look, facts)
        facts = yield from self._requoted(look, facts)
        return span, (yield from self._admitted(facts, span, ending=ending))

    def _endings(self, look: Look, facts: Sequence[LastingFact]) -> Flow[list[LastingFact]]:
        """What the user's words end, according to a call that shows these words alone."""
        ending, cost = yield from find_endings(self._c, look, facts, SOURCE)
        yield from self._spent(cost)
        if not ending and any(fact.replaces for fact in facts):
            self._aside("nothing earlier was closed: your words alone do not say what they end")
        # The call showed the user's words alone, and so does what it leads to.
        return (yield from self._requoted(look, ending))

    def _requoted(self, look: Look, facts: Sequence[LastingFact]) -> Flow[list[LastingFact]]:
        """The facts, those that misquote the user as the model quotes them when it is asked again."""
        exact, cost = yield from requote(self._c, look, facts, SOURCE)
        yield from self._spent(cost)
        return exact

    def _spent(self, cost: float | None) -> Flow[None]:
        if cost:
            self._usd += cost
            yield from in_thread(partial(self._memory.spend, cost))

    def _rest_of_session(self) -> Flow[tuple[SearchSpan, list[Admission]]]:
        """Look at all that was not looked at, in the context or not; one portion of it, if it is long."""
        span = yield from in_thread(self._unseen_span)
        return (yield from self._plain_look(span))

    def _prepared(self, span: SearchSpan) -> Look:
        return Look.at(span.messages, span.days, span.around, self._memory.entries(), self._memory.today())

    def _admitted(
        self,
        facts: list[LastingFact],
        span: SearchSpan,
        read: Sequence[Block] = (),
        ending: Sequence[LastingFact] | None = None,
    ) -> Flow[list[Admission]]:
        """Store the facts, and close what they end; with ``ending``, what those end instead."""
        if self._gone:
            raise Aborted("the session was closed")
        if len(facts) > MOST_FACTS:
            self._aside(f"more than {MOST_FACTS} facts at once: the rest of the answer was left out")
        admitted = yield from in_thread(partial(self._admit, facts[:MOST_FACTS], span, read, ending))
        yield from in_thread(partial(self._unseen.done, self._session, span.covered))
        self._marked = False
        return admitted

    def _ask(self, look: Look) -> Flow[tuple[str, Sequence[Block]]]:
        """Ask the model for facts; returns its answer, and the calls and results of what it read before."""
        asking = fork(self._c, SOURCE)
        run = self._c.read_only if policy.may_read(self._usd, self._c.account) else None
        reading = [name for name, kind in self._c.kinds.items() if kind in READS and run is not None]
        asking.user(look.instruction(in_view=True, reading=reading).render())
        rights = ReadingRights(self._c.read_only)
        done = yield from work(asking, rights, most_turns=MOST_TURNS, after_answer=self._answered)
        if done.outcome is None:
            raise ModelError(f"it kept calling tools for {done.turns} turns")
        return blocks.text_of(done.outcome.reply.answer.blocks), done.seen

    def _answered(self, outcome: Outcome) -> Flow[None]:
        yield from self._spent(outcome.cost)

    def _admit(
        self,
        facts: list[LastingFact],
        span: SearchSpan,
        read: Sequence[Block],
        ending: Sequence[LastingFact] | None,
    ) -> list[Admission]:
        evidence = witness(self._c, span, read)
        likeness = self._likeness() if facts else None
        alike = likeness.alike if likeness is not None else None
        if ending is not None:
            return admit_apart(self._memory, facts, ending, evidence, self._c.clock.now(), alike)
        alone = replace(evidence, only_users_words=True)
        return admit(self._memory, facts, alone, self._c.clock.now(), alike)

    def _done(self, outcome: tuple[SearchSpan, list[Admission]] | Exception) -> None:
        self._busy = False
        if self._gone:
            return
        if isinstance(outcome, Exception):
            self._failures += 1
            self._aside(f"nothing was remembered: {outcome}")
        else:
            span, admitted = outcome
            self._failures = 0
            if span.covered:
                self._cover(span.covered)
            self._report(admitted)
        if self._leaving:
            self._look_at_the_end()
        elif not isinstance(outcome, Exception) and (self._again or outcome[0].hidden):
            self._again = False
            self._look()

    def _report(self, admitted: Sequence[Admission]) -> None:
        if line := policy.outcome(admitted):
            self._tell("extract", line, self._memory.path)
        for admission in admitted:
            if admission.refused:
                self._aside(f"not remembered{self._what(admission)}: {admission.refused}")
            for closing in admission.closed:
                if closing.change:
                    self._tell("close", policy.closed(closing), self._memory.path)
                else:
                    earlier = shortened(closing.earlier, policy.LONGEST_SOURCE)
                    self._aside(f'"{earlier}" still counts: {closing.refused}')

    def _what(self, admission: Admission) -> str:
        """The beginning of a refused fact, for the user to see what was meant; empty if it holds a secret.

        Events go to logs and telemetry.
        """
        text = " ".join((*admission.fact.quotations, admission.fact.note)).strip()
        if not text or self._memory.refuses(text.encode(errors="replace")):
            return ""
        return f" ({quotation(text, policy.LONGEST_SOURCE)})"

    def _cover(self, record: str) -> None:
        """Record that everything up to a record was looked at."""
        self._c.transcript.decide(Remembered(covered=record))
        self._covered.add(record)
        self._since = self._c.clock.now()

    def _others_done(self, outcome: list[others.OtherLook] | Exception) -> None:
        if self._gone:
            return
        if isinstance(outcome, Exception):
            self._aside(f"what earlier sessions left was not looked at: {outcome}")
            return
        for look in outcome:
            if look.problem:
                self._aside(f"session {look.session} was not looked at: {look.problem}")
            self._report(look.admitted)

    def _noted(self, outcome: object) -> None:
        if isinstance(outcome, Exception):
            self._marked = False
            self._aside(f"it could not be noted that there are words to look at: {outcome}")

    # -- the end --------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """How long the end of the session may wait for its look."""
        return self._c.settings.memory_wait

    @property
    def busy(self) -> bool:
        """Whether there is something to wait for."""
        return self._busy and not self._hurried

    def leave(self) -> None:
        """The session is about to be closed: look at what was not looked at yet, once."""
        with self._c.lock:
            if self._leaving:
                return
            self._leaving = True
            if self._stop_beat is not None:
                self._stop_beat()
            self._look_at_the_end()

    def cost_at_end(self) -> float | None:
        """The expected cost of the look at the end, if the session ended now; None if there is nothing to look at."""
        c = self._c
        messages = self._span().messages
        if not c.settings.extraction or c.settings.memory_wait == 0 or not policy.worth_asking(messages):
            return None
        size = policy.PLAIN_TOKENS + sum(map(c.count, portion_of(self._span()).messages.values()))
        return policy.cost_of_plain_call(c.profile.price(size), size)

    def hurry(self) -> None:
        """Do not wait any longer for the look at the end."""
        self._hurried = True

    def left(self) -> None:
        """The session is closed now: what was not looked at is left to the next session of the project."""
        with self._c.lock:
            if self._gone:
                return
            self._gone = True
            unread = self._span().messages if self._c.settings.extraction else {}
            if not (unread and policy.worth_asking(unread)) and not self._busy:
                return
            count = f"{len(unread)} message{'s' * (len(unread) != 1)}"
            self._aside(f"{count} of yours not looked at yet: the next session of this project does that")
        if self._c.background is not None:
            try:
                if policy.worth_asking(unread):
                    # A look that ended after these words were said may have noted that nothing waits.
                    self._unseen.begin(self._session, "")
                else:
                    self._unseen.leave(self._session)
            except SevenfoldError as error:
                self._aside(str(error))

    def _look_at_the_end(self) -> None:
        """Start the look at the end of the session; once, whatever was spent, and again as long as budgets allow."""
        c = self._c
        if self._busy or not c.settings.extraction or c.settings.memory_wait == 0 or self._failed_at_end:
            return
        span = self._span()
        if span.wrote:
            self._cover(span.covered)
            return
        if not span.messages and not span.hidden:
            return
        first = not self._ended
        self._ended = True
        if first or (self._failures == 0 and span.messages):
            self._failed_at_end = not self._start(self._rest_of_session(), free=first)
        else:
            self._failed_at_end = True

    # -- what there is to look at -----------------------------------------------------------------

    def _span(self) -> SearchSpan:
        """The part of the view that has not been looked at yet."""
        view = self._c.transcript.view
        covered_records = self._covered | {
            decision.covered for decision in view.decisions() if isinstance(decision, Remembered)
        }
        since = list(takewhile(lambda item: item.record.uuid not in covered_records, reversed(view.items)))
        all_blocks = chain.from_iterable(item.record.blocks for item in since)
        calls = [block for block in all_blocks if block.kind == "tool_use"]
        span = span_of([item.record for item in reversed(since)], self._c.remarks)
        boundary = view.boundary
        behind = len(since) == len(view.items) and boundary is not None and boundary != self._caught_up
        covered = view.items[-1].record.uuid if view.items else ""  # after a rewind to the beginning
        return replace(span, covered=covered, wrote=self._wrote(calls), hidden=behind)

    def _wrote(self, calls: Sequence[Block]) -> bool:
        """Whether the agent itself wrote to memory in one of these calls."""
        path = self._memory.path.encode()
        kinds = self._c.kinds
        named = [call for call in calls if (path and path in call.raw) or b'"/memories' in call.raw]
        if any(kinds.get(read_field(call.raw, "name")) in ("edit", "write") for call in named):
            return True
        # A command that names the folder may only read it, so check whether anything changed there.
        newest = next(self._memory.changes(), None) if named else None
        return newest is not None and newest.by in ("agent", "outside") and newest.at >= self._since

    def _unseen_span(self) -> SearchSpan:
        """The first portion of all that has not been looked at; reads the whole log if a compaction hid some of it."""
        span = self._span()
        if not span.hidden:
            return portion_of(span)
        log = self._c.transcript.log
        items = whole(log).items
        covered_records = self._covered | {decision.covered for _, decision in log.decisions(Remembered)}
        covered_records.add(self._unseen.covered(self._session))
        portion = portion_of(span_of(records_after(items, covered_records), remarks_in(log)))
        if portion.covered == (items[-1].record.uuid if items else ""):
            self._caught_up = self._c.transcript.view.boundary
            return portion
        return replace(portion, hidden=True)

    def _log(self, answer: Said) -> None:
        """Add the finished turn to the daily log, in the background."""
        items = reversed(self._c.transcript.view.items)
        typed = (users_typed(item.record).strip() for item in items)
        prompt = next(filter(None, typed), "")
        answered = blocks.text_of(answer.blocks)
        line = policy.log_line(self._c.clock.now(), self._c.transcript.place.session, prompt, answered)
        used = [
            (fit.known_entry, taken_up(fit.known_entry.entry, prompt, answered)) for fit in self._recalled
        ]
        self._recalled = []
        place = f"{self._c.transcript.place.session}/{answer.uuid}"
        self._c.run_background(self._write_log(line, used, place), self._logged)

    def _write_log(self, line: str, used: Sequence[tuple[KnownEntry, bool]], answer: str) -> Flow[None]:
        yield from in_thread(partial(self._memory.log_request, line))
        users = self._c.services.user_memory
        for known, helped in used:
            memory = users if users is not None and known.scope == users.path else self._memory
            yield from in_thread(partial(memory.count_use, known.entry.file, helped=helped, answer=answer))
        compares = self._compares
        # `prepare` computes a few vectors at a time; entries without one are compared from the next request on.
        while compares is not None and (yield from in_thread(partial(compares.prepare, self._texts))):
            pass

    def _logged(self, error: Exception | None) -> None:
        if error is not None:
            self._aside(f"the log of the day could not be written: {error}")

    def _tell(self, mechanism: str, description: str, reference: str) -> None:
        self._c.events.tell(
            Acted(
                source=SOURCE,
                layer="remember",
                mechanism=mechanism,
                what=description,
                why="memory outlives a session",
                reference=reference,
                undoable=False,
            )
        )

    def _aside(self, reason: str) -> None:
        self._c.events.aside("remember", reason, source=SOURCE)


def cost_at_end(c: Conversation) -> float | None:
    """The expected cost of the look for lasting facts when this session ends; None if there will be none."""
    if c.services.memory is None or c.background is None:
        return None
    with c.lock:
        return c.state(MemoryKeeper).cost_at_end()


def memory_commands(c: Conversation) -> MemoryCommands | None:
    """The commands through which the model itself writes to memory; None if there is no memory."""
    return MemoryCommands(c.services.memory, partial(witness, c)) if c.services.memory is not None else None


def witness(c: Conversation, span: SearchSpan | None = None, read: Sequence[Block] = ()) -> Witness:
    """The evidence for facts from a conversation, and from what a fork of it ``read`` in addition.

    ``span`` is the part that has not been looked at before.
    """
    items = tuple(c.transcript.view.items)
    seen_blocks = [*chain.from_iterable(item.record.blocks for item in items), *read]
    kinds = _called(c, seen_blocks)
    results = (
        block for block in seen_blocks if kinds.get(block.id) in SHOWS and block.kind == "tool_result"
    )
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
        shown=(*map(blocks.words_of, results), *_recalled(c)),
    )


def _called(c: Conversation, seen_blocks: Iterable[Block]) -> dict[str, str]:
    """The tool calls among these blocks, by id, each with the kind of its tool."""
    calls = (block for block in seen_blocks if block.kind == "tool_use")
    return {call.id: c.kinds.get(read_field(call.raw, "name"), "") for call in calls}


def _least_trusted_origin(c: Conversation, kinds: Iterable[str]) -> Origin:
    """The least trusted origin of anything in a conversation, given the kinds of tools called in view."""
    records = [item.record for item in c.transcript.view.items]
    if any(record.summary for record in records):  # a summary depends on the results of earlier calls
        earlier = chain.from_iterable(record.blocks for record in c.transcript.log.answers())
        kinds = [*kinds, *_called(c, earlier).values()]
    return least_trusted(policy.least_trusted_origin(kinds), *map(policy.origin_of, records))


def _recalled(c: Conversation) -> list[str]:
    """The texts of recalled entries that are still in view."""
    recalled = (item.record for item in c.transcript.view.items if item.record.attachment == ATTACHMENT)
    return list(map(blocks.words_of, chain.from_iterable(record.blocks for record in recalled)))
