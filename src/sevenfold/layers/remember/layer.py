"""Layer 5: after a finished turn, lasting facts are stored in memory; before a request, fitting entries are recalled.

The search for facts is a fork in the background: it reads the cached prefix, adds one instruction and is never awaited.
Code decides what may be stored, and as whose words (`sevenfold.memory.admission`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from sevenfold.conversation import intake
from sevenfold.conversation.flow import Flow, in_thread
from sevenfold.conversation.fork import fork
from sevenfold.conversation.history import whole
from sevenfold.conversation.request import ToolCall, completed
from sevenfold.errors import ModelError, SevenfoldError
from sevenfold.events import Acted
from sevenfold.layers import breaker
from sevenfold.layers.remember import policy
from sevenfold.layers.remember.policy import ATTACHMENT, SearchSpan
from sevenfold.memory.admission import Admission, Witness, admit
from sevenfold.memory.commands import MemoryCommands
from sevenfold.memory.generation import Origin, least_trusted
from sevenfold.memory.memory import KnownEntry
from sevenfold.memory.search import FittingEntry, StatementVectors, fitting, taken_up
from sevenfold.memory.statements import LastingFact
from sevenfold.prompts.memory import Recalled, RememberFacts
from sevenfold.record import blocks
from sevenfold.record.authorship import typed_words, users_words
from sevenfold.record.blocks import Block, read_field
from sevenfold.record.decisions import Remembered
from sevenfold.record.entries import Said
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

SOURCE = "extract_memories"
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
        if c.services.memory is not None and c.settings.memory_recall:
            yield from c.state(MemoryKeeper).recall()

    def after_answer(self, c: Conversation) -> None:
        """After an answer, search for facts in the background, if it is time."""
        if c.services.memory is not None and c.settings.extraction:
            c.state(MemoryKeeper).check()


class MemoryKeeper:
    """Recalls from memory and extracts facts for one conversation."""

    def __init__(self, c: Conversation) -> None:
        assert c.services.memory is not None
        self._c = c
        self._memory = c.services.memory
        self._busy = False
        self._again = False
        """Whether another turn ended during the search."""
        self._failures = 0
        self._looked: str | None = None
        """The user message for which memory was last searched."""
        self._covered: set[str] = set()
        """Records up to which the conversation was searched, in addition to the decisions in view."""
        self._caught_up: str | None = None
        """The newest boundary before which all messages have been searched."""
        self._since = c.clock.now()
        """When the conversation was last searched for facts."""
        self._usd = 0.0
        """Cost of searching for facts in this session."""
        self._recalled: list[FittingEntry] = []
        """The entries attached to the user's newest message, until the turn ends."""
        self._compares: StatementVectors | None = None
        self._texts: list[str] = []
        """The texts of the entries last compared; some may have no vector yet."""
        self._told_news = False
        """Whether the user was told in this session what something else did to memory."""
        self._paused = ""
        """The day on which the daily budget was last reported as spent."""

    # -- recalling ------------------------------------------------------------------------------

    def recall(self) -> Flow[None]:
        """Attach the entries that fit the user's newest message and are not in view yet, if any."""
        items = self._c.transcript.view.items
        if not items or items[-1].said.uuid == self._looked:
            return
        words = _users_words(items[-1].said)
        if not words.strip():
            return
        self._looked = items[-1].said.uuid
        yield from self._tell_news()
        try:
            fits = yield from in_thread(partial(self._fitting, words))
        except SevenfoldError as error:
            self._aside(str(error))
            return
        in_view = "\n".join(_recalled(self._c))
        there = self._c.services.still_exists
        fits = [fit for fit in fits if policy.shown([fit], there) not in in_view]
        if not fits:
            return
        files = [fit.known.entry.file for fit in fits]
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

    def _fitting(self, words: str) -> list[FittingEntry]:
        """The fitting entries of the project's and the user's memory."""
        other = self._c.services.user_memory
        known = [*self._memory.entries(), *(other.entries() if other is not None else ())]
        likeness = self._likeness() if known else None
        if likeness is not None:
            self._texts = [one.entry.words for one in known]
            likeness.prepare(self._texts)
        return fitting(words, known, self._memory.today(), likeness)

    def _likeness(self) -> StatementVectors | None:
        """The comparison by meaning, if installed and switched on; loaded on first use."""
        given, switched_on = self._c.services.meaning, self._c.settings.recall_meaning
        embedder = given.embedder(switched_on=switched_on) if given is not None else None
        if embedder is not None and self._compares is None:
            self._compares = StatementVectors(embedder)
        return self._compares if embedder is not None else None

    # -- remembering ----------------------------------------------------------------------------

    def check(self) -> None:
        """After the final answer of a turn, log the turn and start a search for facts, if it is time."""
        newest = self._c.transcript.view.items[-1]
        if newest.said.role != "assistant" or newest.said.calls or self._c.background is None:
            return
        self._log(newest.said)
        self._look()

    def _look(self) -> None:
        """Start a search for facts if it is due and within budget; overlapping triggers are merged into one."""
        if self._busy:
            self._again = True
            return
        span = self._span()
        if span.wrote:
            self._c.transcript.decide(Remembered(covered=span.covered))
            self._since = self._c.clock.now()
            return
        pause = breaker.interval_factor(self._failures)
        behind = pause == 1 and self._share() <= policy.USUAL_SHARE and self._behind(span)
        if not behind and not policy.due(span, pause=pause, share=self._share()):
            return
        if not self._may_spend():
            return
        self._busy = True
        self._c.run_background(self._catch_up() if behind else self._extract(span), self._done, "memory")

    def _share(self) -> float:
        """The share of the session's bill spent on memory so far."""
        return policy.share_of(self._usd, self._c.account.usd)

    def _may_spend(self) -> bool:
        """Whether today's budget allows a search; if not, the search waits, which is reported once a day."""
        most, today, spent = self._c.settings.memory_daily_budget, self._memory.today(), self._memory.spent
        if most is None or spent < most or not self._c.may_spend():
            return self._c.may_spend()
        if self._paused != today:
            self._paused = today
            left = f"${spent:.2f} of ${most:.2f} are spent (memory_daily_budget)"
            self._c.events.aside(
                "memory", f"looking for lasting facts waits until tomorrow: {left}", source=SOURCE
            )
        return False

    def _extract(self, span: SearchSpan) -> Flow[tuple[SearchSpan, list[Admission]]]:
        said, read = yield from self._ask(span)
        facts = policy.read_facts(said)
        if facts is None:
            raise ModelError("the answer does not keep to the format")
        return span, (yield from in_thread(partial(self._admit, facts, span, read)))

    def _catch_up(self) -> Flow[tuple[SearchSpan, list[Admission]]]:
        """Search messages that left the context unsearched, one portion at a time, if it is due."""
        boundary = self._c.transcript.view.boundary
        span = yield from in_thread(self._earlier)
        if policy.due(span, share=self._share()):
            return (yield from self._extract(span))
        self._caught_up = boundary
        return SearchSpan({}, "", earlier=True), []

    def _ask(self, span: SearchSpan) -> Flow[tuple[str, list[Block]]]:
        """Ask the model for facts; returns its answer, and the calls and results of what it read before."""
        asked = fork(self._c, SOURCE)
        may_read = self._c.read_only is not None and policy.may_read(self._usd, self._c.account)
        reading = [name for name, kind in self._c.kinds.items() if kind in READS and may_read]
        asked.user(policy.instruction(span, reading).render())
        read: list[Block] = []
        for turn in range(1, MOST_TURNS + 1):
            outcome = yield from asked.turn()
            if outcome.cost:
                self._usd += outcome.cost
                yield from in_thread(partial(self._memory.spend, outcome.cost))
            said = completed(outcome)
            if not said.calls:
                return said.text, read
            if turn == MOST_TURNS or not self._c.may_spend():
                break
            results = yield from self._read(said.calls, last=turn == MOST_TURNS - 1)
            asked.tool_results(results)
            read += (*outcome.reply.answer.blocks, *results)
        raise ModelError(f"it kept calling tools for {turn} turns")

    def _read(self, calls: Sequence[ToolCall], *, last: bool) -> Flow[list[Block]]:
        """Carry out the fork's tool calls; calls beyond the limit, or with the answer due, are refused."""
        look = self._c.read_only
        taken = 0 if last or look is None else MOST_READS
        found = intake.results((yield from look(calls[:taken])) if look and taken else [])
        return [*found, *(blocks.result(call.id, NO_TOOLS) for call in calls[taken:])]

    def _admit(self, facts: list[LastingFact], span: SearchSpan, read: Sequence[Block]) -> list[Admission]:
        seen = witness(self._c, span.said, read)
        likeness = self._likeness() if facts else None
        alike = likeness.alike if likeness is not None else None
        return admit(self._memory, facts, seen, self._c.clock.now(), alike)

    def _done(self, came: tuple[SearchSpan, list[Admission]] | Exception) -> None:
        self._busy = False
        if isinstance(came, Exception):
            self._failures += 1
            self._aside(f"nothing was remembered: {came}")
            return
        span, admitted = came
        self._failures, self._since = 0, self._c.clock.now()
        if span.said:
            self._c.transcript.decide(Remembered(covered=span.covered))
            self._covered.add(span.covered)
        if line := policy.outcome(admitted):
            self._tell("extract", line, self._memory.path)
        for one in admitted:
            if one.refused:
                self._aside(f"not remembered: {one.refused}")
        if self._again or span.earlier:
            self._again = False
            self._look()

    def _span(self) -> SearchSpan:
        """The part of the view that has not been searched yet."""
        view = self._c.transcript.view
        known = self._covered | {made.covered for made in view.decisions() if isinstance(made, Remembered)}
        since = list(takewhile(lambda item: item.said.uuid not in known, reversed(view.items)))
        calls = [block for item in since for block in item.said.blocks if block.kind == "tool_use"]
        return SearchSpan(
            said=_words(item.said for item in reversed(since)),
            covered=view.items[-1].said.uuid if view.items else "",  # after a rewind to the beginning
            tokens=sum(map(self._c.item_tokens, since)),
            wrote=self._wrote(calls),
            whole=len(since) == len(view.items),
        )

    def _wrote(self, calls: Sequence[Block]) -> bool:
        """Whether the agent itself wrote to memory in one of these calls."""
        path, kinds = self._memory.path.encode(), self._c.kinds
        named = [call for call in calls if (path and path in call.raw) or b'"/memories' in call.raw]
        if any(kinds.get(read_field(call.raw, "name")) in ("edit", "write") for call in named):
            return True
        # A command that names the folder may only read it, so check whether anything changed there.
        newest = next(self._memory.changes(), None) if named else None
        return newest is not None and newest.by in ("agent", "outside") and newest.at >= self._since

    def _behind(self, span: SearchSpan) -> bool:
        """Whether messages may have left the context without having been searched."""
        boundary = self._c.transcript.view.boundary
        return span.whole and boundary is not None and boundary != self._caught_up

    def _earlier(self) -> SearchSpan:
        """The first portion of messages that left the context unsearched; reads the whole log."""
        log = self._c.transcript.log
        items = whole(log).items
        known = {made.covered for _, made in log.decisions(Remembered)}
        start = max((place for place, item in enumerate(items, 1) if item.said.uuid in known), default=0)
        self._covered.update(item.said.uuid for item in items[start - 1 : start])
        in_view = {item.said.uuid for item in self._c.transcript.view.items}
        left = [item for item in items[start:] if item.said.uuid not in in_view]
        words = policy.portion(_words(item.said for item in left))
        tokens = sum(map(self._c.item_tokens, left))
        return SearchSpan(words, next(reversed(words), ""), tokens, earlier=True)

    def _log(self, answer: Said) -> None:
        """Add the finished turn to the daily log, in the background."""
        items = reversed(self._c.transcript.view.items)
        asked = next((words for item in items if (words := _users_words(item.said).strip())), "")
        said = "\n".join(blocks.words_of(block) for block in answer.blocks if block.kind == "text")
        line = policy.log_line(self._c.clock.now(), self._c.transcript.place.session, asked, said)
        used = [(fit.known, taken_up(fit.known.entry, asked, said)) for fit in self._recalled]
        self._recalled = []
        self._c.run_background(self._write_log(line, used), self._logged)

    def _write_log(self, line: str, used: Sequence[tuple[KnownEntry, bool]]) -> Flow[None]:
        yield from in_thread(partial(self._memory.log_request, line))
        users = self._c.services.user_memory
        for known, helped in used:
            memory = users if users is not None and known.scope == users.path else self._memory
            yield from in_thread(partial(memory.count_use, known.entry.file, helped=helped))
        compares = self._compares
        # `prepare` computes a few vectors at a time; entries without one are compared from the next request on.
        while compares is not None and (yield from in_thread(partial(compares.prepare, self._texts))):
            pass

    def _logged(self, came: Exception | None) -> None:
        if came is not None:
            self._aside(f"the log of the day could not be written: {came}")

    def _tell(self, mechanism: str, what: str, reference: str) -> None:
        self._c.events.tell(
            Acted(
                source=SOURCE,
                layer="remember",
                mechanism=mechanism,
                what=what,
                why="memory outlives a session",
                reference=reference,
                undoable=False,
            )
        )

    def _aside(self, reason: str) -> None:
        self._c.events.aside("remember", reason, source=SOURCE)


def memory_commands(c: Conversation) -> MemoryCommands | None:
    """The commands through which the model itself writes to memory; None if there is no memory."""
    return MemoryCommands(c.services.memory, partial(witness, c)) if c.services.memory is not None else None


def witness(c: Conversation, new: Mapping[str, str] = {}, read: Sequence[Block] = ()) -> Witness:
    """The evidence for facts from a conversation, and from what a fork of it ``read`` in addition.

    ``new`` are the user's words, by record, that have not been searched before.
    """
    items = tuple(c.transcript.view.items)
    found = [*(block for item in items for block in item.said.blocks), *read]
    kinds = _called(c, found)
    results = (block for block in found if kinds.get(block.id) in SHOWS and block.kind == "tool_result")
    # If a model repeats text from the instruction, that is not a fact.
    given = (RememberFacts("").render(), *(blocks.words_of(blocks.read(block)) for block in c.frame.system))
    return Witness(
        said={**new, **_words(item.said for item in items)},
        days={item.said.uuid: day for item in items if (day := policy.day_of(item.said.timestamp))},
        new=frozenset(new),
        session=c.transcript.place.session,
        least=_least(c, kinds.values()),
        given=given,
        shown=(*map(blocks.words_of, results), *_recalled(c)),
    )


def _called(c: Conversation, found: Iterable[Block]) -> dict[str, str]:
    """The tool calls among these blocks, by id, each with the kind of its tool."""
    calls = (block for block in found if block.kind == "tool_use")
    return {call.id: c.kinds.get(read_field(call.raw, "name"), "") for call in calls}


def _least(c: Conversation, kinds: Iterable[str]) -> Origin:
    """The least trusted origin of anything in a conversation, given the kinds of tools called in view."""
    records = [item.said for item in c.transcript.view.items]
    if any(said.summary for said in records):  # a summary depends on the results of earlier calls
        earlier = (block for said in c.transcript.log.answers() for block in said.blocks)
        kinds = [*kinds, *_called(c, earlier).values()]
    return least_trusted(policy.least_trusted_origin(kinds), *map(policy.origin_of, records))


def _recalled(c: Conversation) -> list[str]:
    """The texts of recalled entries that are still in view."""
    shown = (item.said for item in c.transcript.view.items if item.said.attachment == ATTACHMENT)
    return [blocks.words_of(block) for said in shown for block in said.blocks]


def _users_words(said: Said) -> str:
    # The user's words in tool results do not count, as a tool could imitate them.
    return "" if said.attachment else users_words(said)


def _words(records: Iterable[Said]) -> dict[str, str]:
    """What the user typed in these records, by record; what they pasted may be anyone's words."""
    found = {said.uuid: typed_words(said) for said in records if not said.attachment}
    return {record: words for record, words in found.items() if words.strip()}
