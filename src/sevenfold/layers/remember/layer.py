"""Layer 5: what the user said is looked at for lasting facts; before a request, fitting entries are recalled.

A look happens at the end of every session, in a pause of ten minutes, before a compaction hides words that were not
looked at, and, if something sounds lasting, right after the turn. It runs in the background and no request waits for
it: as a fork, which reads the cached prefix, or, where that is cheaper or nothing is cached, as a plain call with the
user's messages. What a session leaves, the next one of the project looks at (`sevenfold.layers.remember.others`). Code
decides what may be stored, and as whose words (`sevenfold.memory.admission`).

This module decides when to look. What there is to look at (`unread`), what it may cost (`budget`), how it is done
(`looking`), what it reports (`reports`) and recalling (`recalling`) have modules of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sevenfold.conversation.background import Stop
from sevenfold.conversation.flow import Flow
from sevenfold.errors import SevenfoldError
from sevenfold.layers import breaker
from sevenfold.layers.remember import others, policy
from sevenfold.layers.remember.budget import LookBudget
from sevenfold.layers.remember.looking import Looking, LookResult
from sevenfold.layers.remember.recalling import MemoryRecall
from sevenfold.layers.remember.reports import aside, report_admitted
from sevenfold.layers.remember.span import portion_of
from sevenfold.layers.remember.unread import UnreadWords
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

BEAT_SECONDS = 60.0
"""How often it is checked whether the conversation pauses."""


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


class MemoryKeeper:
    """Decides when one conversation is looked at for lasting facts."""

    def __init__(self, c: Conversation) -> None:
        assert c.services.memory is not None
        now = c.clock.now()
        self._c = c
        self._memory = c.services.memory
        self._unread = UnreadWords(c, self._memory, now)
        self._budget = LookBudget(c, self._memory)
        self._recall = MemoryRecall(c, self._memory)
        self._looking = Looking(c, self._memory, self._unread, self._budget, self._recall)
        self._looked_at_others = False
        """Whether this session has looked at what earlier ones left."""
        self._busy = False
        """Whether a look is under way."""
        self._again = False
        """Whether another turn ended during the look."""
        self._failures = 0
        """How many looks failed in a row."""
        self._turn_ended = now
        """When the last turn ended."""
        self._rested = False
        """Whether a pause of ten minutes had its look."""
        self._stop_beat: Stop | None = None
        """Ends the regular check for a pause; None before the first turn has ended."""
        self._leaving = False
        """Whether the session is about to be closed."""
        self._looked_at_end = False
        """Whether the look at the end was started."""
        self._no_more_at_end = False
        """Whether no further look at the end can be made."""
        self._hurried = False
        """Whether the caller does not want to wait for the look at the end."""
        self._closed = False
        """Whether the session is closed."""
        c.call_before_hiding(self.before_hiding)
        c.finish_before_closing(self)

    def recall(self) -> Flow[None]:
        """Attach the entries that fit the user's newest message and are not in view yet, if any."""
        yield from self._recall.attach()

    # -- during the session ---------------------------------------------------------------------

    def begin(self) -> None:
        """Before a request: note that there are words to look at, and look at what other sessions left."""
        if self._c.background is None:
            return
        if not self._looked_at_others:
            self._looked_at_others = True
            look = others.look(self._c, self._unread.sessions)
            self._c.run_background(look, self._others_done, "memory")
        if (note := self._unread.note_if_any()) is not None:
            self._c.run_background(note, self._noted)

    def check(self) -> None:
        """After the final answer of a turn, log the turn and start a look, if it is time."""
        newest = self._c.transcript.view.items[-1]
        if newest.record.role != "assistant" or newest.record.calls or self._c.background is None:
            return
        self._turn_ended = self._c.clock.now()
        if self._stop_beat is None:
            self._stop_beat = self._c.background.every(BEAT_SECONDS, self.rest)
        self._recall.log_turn(newest.record)
        self._look()

    def rest(self) -> None:
        """Look at the session as if it had ended, if there was no turn for ten minutes."""
        with self._c.lock:
            waited = self._c.clock.now() - self._turn_ended
            if self._busy or self._leaving or waited < policy.IDLE_SECONDS:
                return
            if not self._unread.span().messages:
                return
            if not self._rested:
                self._rested = self._start(self._looking.at_rest_of_session(), free=True)
            elif self._failures == 0:
                self._start(self._looking.at_rest_of_session())

    def before_hiding(self) -> None:
        """Before a compaction, look at the words it may hide; nothing waits for that."""
        span = self._unread.span()
        if span.messages and not self._busy and not self._leaving:
            self._start(self._looking.as_plain_call(span))

    def _look(self) -> None:
        """Start a look if the user said something that sounds lasting, or if words left the context unseen."""
        if self._busy:
            self._again = True
            return
        span = self._unread.span()
        # An agent that writes to memory itself has seen to these words.
        if span.wrote:
            self._unread.cover(span.covered)
            return
        if span.hidden:
            self._start(self._looking.at_rest_of_session())
        elif policy.sounds_lasting(span.messages) and breaker.interval_factor(self._failures) == 1:
            as_fork = self._budget.prefers_fork(span)
            self._start(self._looking.as_fork(span) if as_fork else self._looking.as_plain_call(span))

    def _start(self, look: Flow[LookResult], *, free: bool = False) -> bool:
        """Run a look in the background, unless the budget is spent; ``free`` ones only keep to the spending cap."""
        if (not free and not self._budget.allows_look()) or not self._c.may_spend():
            look.close()
            return False
        self._busy = True
        self._c.run_background(look, self._done, "memory")
        return True

    def _done(self, outcome: LookResult | Exception) -> None:
        self._busy = False
        if self._closed:
            return
        if isinstance(outcome, Exception):
            self._failures += 1
            aside(self._c, f"nothing was remembered: {outcome}")
        else:
            self._failures = 0
            if outcome.span.covered:
                self._unread.cover(outcome.span.covered)
            report_admitted(self._c, self._memory, outcome.admitted)
        if self._leaving:
            self._look_at_end()
        elif isinstance(outcome, LookResult) and (self._again or outcome.span.hidden):
            self._again = False
            self._look()

    def _others_done(self, outcome: list[others.OtherLook] | Exception) -> None:
        if self._closed:
            return
        if isinstance(outcome, Exception):
            aside(self._c, f"what earlier sessions left was not looked at: {outcome}")
            return
        for look in outcome:
            if look.problem:
                aside(self._c, f"session {look.session} was not looked at: {look.problem}")
            report_admitted(self._c, self._memory, look.admitted)

    def _noted(self, outcome: object) -> None:
        if isinstance(outcome, Exception):
            self._unread.note_failed()
            aside(self._c, f"it could not be noted that there are words to look at: {outcome}")

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
            self._look_at_end()

    def cost_at_end(self) -> float | None:
        """The expected cost of the look at the end, if the session ended now; None if there is nothing to look at."""
        c = self._c
        span = self._unread.span()
        if not self._looks_at_end or not policy.worth_asking(span.messages):
            return None
        size = policy.PLAIN_TOKENS + sum(map(c.count, portion_of(span).messages.values()))
        return policy.cost_of_plain_call(c.profile.price(size), size)

    def hurry(self) -> None:
        """Do not wait any longer for the look at the end."""
        self._hurried = True

    def left(self) -> None:
        """The session is closed now: what was not looked at is left to the next session of the project."""
        with self._c.lock:
            if self._closed:
                return
            self._closed = True
            self._looking.closed = True
            messages = self._unread.span().messages if self._c.settings.extraction else {}
            unread = policy.worth_asking(messages)
            if not unread and not self._busy:
                return
            count = f"{len(messages)} message{'s' * (len(messages) != 1)}"
            aside(
                self._c, f"{count} of yours not looked at yet: the next session of this project does that"
            )
        if self._c.background is not None:
            try:
                self._unread.note_left(unread=unread)
            except SevenfoldError as error:
                aside(self._c, str(error))

    @property
    def _looks_at_end(self) -> bool:
        return self._c.settings.extraction and self._c.settings.memory_wait != 0

    def _look_at_end(self) -> None:
        """Start the look at the end of the session; once, whatever was spent, and again as long as budgets allow."""
        if self._busy or not self._looks_at_end or self._no_more_at_end:
            return
        span = self._unread.span()
        if span.wrote:
            self._unread.cover(span.covered)
            return
        if not span.messages and not span.hidden:
            return
        first = not self._looked_at_end
        self._looked_at_end = True
        if first or (self._failures == 0 and span.messages):
            started = self._start(self._looking.at_rest_of_session(), free=first)
            self._no_more_at_end = not started
        else:
            self._no_more_at_end = True


def cost_at_end(c: Conversation) -> float | None:
    """The expected cost of the look for lasting facts when this session ends; None if there will be none."""
    if c.services.memory is None or c.background is None:
        return None
    with c.lock:
        return c.state(MemoryKeeper).cost_at_end()
