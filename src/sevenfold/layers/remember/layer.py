"""Layer 5: after a finished request, what is worth it becomes memory; before one, what fits comes back.

Looking for facts is a fork in the background: it reads the cached prefix, adds one instruction and is never waited for.
What it may store, and as whose words, is decided by code (`sevenfold.memory.admission`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sevenfold.conversation.flow import Flow, in_thread
from sevenfold.conversation.fork import fork
from sevenfold.errors import ModelError, SevenfoldError
from sevenfold.events import Acted, SteppedAside
from sevenfold.layers import breaker
from sevenfold.layers.remember import policy
from sevenfold.layers.remember.policy import Stretch
from sevenfold.memory.admission import Admission, LastingFact, Witness, admit
from sevenfold.memory.entry import shortened
from sevenfold.memory.memory import KnownEntry
from sevenfold.memory.search import fitting
from sevenfold.prompts.memory import Recalled, RememberFacts
from sevenfold.record import blocks
from sevenfold.record.authorship import users_words
from sevenfold.record.blocks import read_field
from sevenfold.record.decisions import Remembered
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

SOURCE = "extract_memories"
ATTACHMENT = "recalled_memory"
MOST_TURNS = 5
NO_TOOLS = "Tools are not available here. Answer with the facts, or with <nothing/>."


class Remember:
    """Lasting memory."""

    name = "remember"

    def on(self, settings: Settings) -> bool:
        """Extracting and recalling each have a switch."""
        return settings.extraction or settings.memory_recall

    def settle(self, c: Conversation) -> Flow[None]:
        """Before a request: put what fits the user's newest words behind them."""
        if c.services.memory is not None and c.settings.memory_recall:
            yield from c.state(MemoryKeeper).recall()

    def after_answer(self, c: Conversation) -> None:
        """After a finished request: look for facts in the background, if it is time."""
        if c.services.memory is not None and c.settings.extraction:
            c.state(MemoryKeeper).check()


class MemoryKeeper:
    """Looks after memory for one conversation."""

    def __init__(self, c: Conversation) -> None:
        assert c.services.memory is not None
        self._c = c
        self._memory = c.services.memory
        self._busy = False
        self._again = False
        """Whether another request was finished meanwhile."""
        self._failures = 0
        self._looked: str | None = None
        """The user's newest message, once entries were looked for."""
        self._recalled: set[str] = set()

    @property
    def busy(self) -> bool:
        """Are facts being looked for?"""
        return self._busy

    # -- recalling ------------------------------------------------------------------------------

    def recall(self) -> Flow[None]:
        """Attach the entries that fit the user's newest words; nothing if none does."""
        newest = self._c.transcript.view.items[-1] if self._c.transcript.view.items else None
        if newest is None or newest.said.uuid == self._looked:
            return
        words = _users_words(newest.said)
        if not words.strip():
            return
        self._looked = newest.said.uuid
        try:
            known = yield from in_thread(self._known)
        except SevenfoldError as error:
            self._aside(str(error))
            return
        fresh = [one for one in known if one.entry.file not in self._recalled]
        fits = fitting(words, fresh, self._memory.today())
        if not fits:
            return
        text = Recalled(policy.shown(fits, self._c.services.there)).render()
        files = [fit.known.entry.file for fit in fits]
        self._recalled.update(files)
        record = self._c.transcript.attach(ATTACHMENT, {"files": files}, [blocks.text(text)])
        self._memory.count_use(files)
        self._tell("recall", f"recalled from memory: {', '.join(map(policy.reason, fits))}", record)

    def _known(self) -> list[KnownEntry]:
        """The entries of the project, and of the user."""
        other = self._c.services.user_memory
        return [*self._memory.entries(), *(other.entries() if other is not None else ())]

    # -- remembering ----------------------------------------------------------------------------

    def check(self) -> None:
        """After an answer: begin to look for facts, if it is time; overlapping triggers become one."""
        newest = self._c.transcript.view.items[-1]
        if newest.said.role != "assistant" or newest.said.calls:
            return
        if self._busy:
            self._again = True
            return
        span = self._span()
        if not policy.due(span, pause=breaker.pause(self._failures)):
            return
        self._busy = True
        covered = newest.said.uuid
        self._c.run_aside(self._extract(span), lambda came: self._done(covered, came), "memory")

    def _extract(self, span: Stretch) -> Flow[list[Admission]]:
        said = yield from self._ask(span)
        facts = policy.read_facts(said)
        if facts is None:
            raise ModelError("the answer does not keep to the format")
        return (yield from in_thread(partial(self._admit, facts, span)))

    def _ask(self, span: Stretch) -> Flow[str]:
        """The model's answer; calls it makes instead are refused, a few times."""
        asked = fork(self._c, SOURCE)
        first = next(iter(span.said.values()), "")
        asked.user(RememberFacts(shortened(first, 120)).render())
        for _ in range(MOST_TURNS):
            outcome = yield from asked.turn()
            answer = outcome.reply.answer.blocks
            calls = [block.id for block in answer if block.kind == "tool_use"]
            if not calls:
                return "\n".join(blocks.words_of(block) for block in answer)
            asked.tool_results([blocks.result(call, NO_TOOLS) for call in calls])
        raise ModelError(f"it kept calling tools for {MOST_TURNS} turns")

    def _admit(self, facts: list[LastingFact], span: Stretch) -> list[Admission]:
        c = self._c
        # What the instruction itself says is no fact, should a model repeat it.
        given = (
            RememberFacts("").render(),
            *(blocks.words_of(blocks.read(block)) for block in c.frame.system),
        )
        items = tuple(c.transcript.view.items)
        said = {item.said.uuid: words for item in items if (words := _users_words(item.said))}
        calls = (block for item in items for block in item.said.blocks if block.kind == "tool_use")
        kinds = frozenset(c.kinds.get(read_field(call.raw, "name"), "") for call in calls)
        seen = Witness(said, frozenset(span.said), c.transcript.place.session, policy.least(kinds), given)
        return admit(self._memory, facts, seen, c.clock.now())

    def _done(self, covered: str, came: list[Admission] | Exception) -> None:
        self._busy = False
        if isinstance(came, Exception):
            self._failures = breaker.after(self._failures, succeeded=False)
            self._aside(f"nothing was remembered: {came}")
            return
        self._failures = 0
        self._c.transcript.decide(Remembered(covered=covered))
        if line := policy.outcome(came):
            self._tell("extract", line, self._memory.path)
        for one in came:
            if one.refused:
                self._aside(f"not remembered: {one.refused}")
        if self._again:
            self._again = False
            self.check()

    def _span(self) -> Stretch:
        """What happened since memory was last looked after."""
        view, known = self._c.transcript.view, self._covered()
        since: list[Item] = []
        for item in reversed(view.items):
            if item.said.uuid == known:
                break
            since.append(item)
        said = {
            item.said.uuid: words for item in reversed(since) if (words := _users_words(item.said)).strip()
        }
        calls = [block for item in since for block in item.said.blocks if block.kind == "tool_use"]
        path = self._memory.path.encode()
        wrote = bool(path) and any(path in call.raw for call in calls)
        tokens = sum(map(self._c.item_tokens, since))
        return Stretch(said, tokens, wrote=wrote)

    def _covered(self) -> str | None:
        """The newest record that was looked at."""
        for made in reversed(self._c.transcript.view.decisions()):
            if isinstance(made, Remembered):
                return made.covered
        return None

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
        self._c.events.tell(SteppedAside(source=SOURCE, layer="remember", reason=reason))


def _users_words(said: Said) -> str:
    return "" if said.attachment else users_words(said)
