"""One turn: settle new content, make the conversation fit, ask the model, record the answer. Read this file first.

Whatever asks a model is an `Exchange`: a conversation, a fork of it that is thrown away, or a plain call on its behalf.
They differ in what they send and what they record of it; `turn` is the one flow that asks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING

from sevenfold.conversation import reporting
from sevenfold.conversation.counting import have_counted, leaves_open
from sevenfold.conversation.epoch import recover
from sevenfold.conversation.flow import Ask, Flow
from sevenfold.conversation.layer import TooFull
from sevenfold.conversation.request import Outcome, Pending, Prepared
from sevenfold.conversation.room import check as check_room
from sevenfold.conversation.room import explain
from sevenfold.errors import ContextFull, InputError, ModelError, Refused
from sevenfold.ports import Clock, Reply
from sevenfold.profiles import Profile
from sevenfold.record.decisions import Billed
from sevenfold.record.log import Answer
from sevenfold.record.usage import Usage
from sevenfold.request.sources import QuerySource
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.epoch_state import EpochState
    from sevenfold.conversation.reporting import Events
    from sevenfold.conversation.transcript import Transcript
    from sevenfold.conversation.waiting import Retries

REPEATS = 2
"""How many times a refused request is retried, with changes, before its error is raised."""
UNDER_WAY = (
    "another request of this session is under way, and a conversation has one next answer: wait for that one, or ask "
    "in a fork()"
)


class Exchange(ABC):
    """What asks a model: it prepares a request, records it, and takes in the answer and the bill."""

    aside = True
    """Whether its calls are the engine's own work: billed under its source, and limited by the spending cap."""
    break_watch = True
    """Whether a cache break that an answer reveals is reported."""
    lock: RLock
    profile: Profile
    clock: Clock
    source: QuerySource
    events: Events
    transcript: Transcript
    """Where its requests and bills are recorded."""
    epoch: EpochState
    """What its requests depend on besides the messages; replaced as a whole, by `set_epoch`."""
    settings: Settings
    cache_key: str = ""
    """Identifies the session to a provider that routes by cache key."""

    def __init__(self) -> None:
        self._asking = False
        self._pending: Pending | None = None
        self._in_flight: tuple[Pending, Prepared] | None = None
        self._sent_at = 0.0
        """When the request in flight was sent."""

    # -- what each kind does in its own way --------------------------------------------------------

    @abstractmethod
    def prepared(self, fields: Mapping[str, bytes]) -> Flow[Pending]:
        """Make the next request fit, and return it, unrecorded."""

    @abstractmethod
    def write(self, pending: Pending) -> Prepared:
        """Build and record a request."""

    @abstractmethod
    def take_answer(self, prepared: Prepared, reply: Reply) -> Outcome:
        """Record the answer to a request, bill it, and learn from the usage it reports."""

    @abstractmethod
    def refused(self, error: ModelError, retries: Retries | None) -> Flow[bool]:
        """Report a failure, and do about it what can be done; True if another attempt may succeed."""

    @abstractmethod
    def charge(self, usd: float | None, *, own: bool = True) -> None:
        """Add the cost of a call to the session's bill; ``own`` marks a call the engine made for itself."""

    @property
    @abstractmethod
    def edited(self) -> int:
        """Tokens that the provider's edits remove from what is sent."""

    # -- what all of them do alike -----------------------------------------------------------------

    def set_epoch(self, epoch: EpochState) -> None:
        """Replace the state of the epoch as a whole."""
        self.epoch = epoch

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Hold the right to make a request; raises `Refused` if another one is in flight."""
        if self._asking:
            raise Refused(UNDER_WAY)
        self._asking = True
        try:
            yield
        finally:
            self._asking = False

    def send(self, pending: Pending) -> Prepared:
        """Record the request and return it ready to send; calling this again returns the same one."""
        with self.lock:
            if self._in_flight is not None and self._in_flight[0] is pending:
                return self._in_flight[1]
            prepared = self.write(pending)
            self._in_flight = pending, prepared
            self._sent_at = self.clock.now()
            reporting.sending(self, prepared)
            return prepared

    def observe(self, reply: Reply) -> Outcome:
        """Take in the answer to the request in flight, and return its outcome."""
        with self.lock:
            if self._in_flight is None:
                raise InputError(
                    "no request is under way; prepare one, send it, then give its answer here"
                    if self._pending is None
                    else "the request that was prepared was never looked at, so this cannot be its answer"
                )
            outcome = self.take_answer(self._in_flight[1], reply)
            self._pending = self._in_flight = None
            reporting.answered(self, outcome, self.clock.now() - self._sent_at)
            return outcome

    def answered(self, reply: Reply) -> Outcome:
        """Take in the answer at the end of a turn."""
        return self.observe(reply)

    def failed(self, error: ModelError, *, again: bool) -> None:
        """Handle the failure of the request in flight; ``again`` means that the next one may succeed."""
        with self.lock:
            request = self._in_flight[1].record.id if self._in_flight else ""
            self._pending = None
            if again:
                self._in_flight = None
            recorded = self.keep_partial(error)
            usage = self._bill_partial(error, request, recorded=recorded)
            reporting.failed(self, error, request, usage, again=again)

    def keep_partial(self, error: ModelError) -> bool:
        """Record the part of an answer that came before it failed, if it is kept; False if it is not."""
        return False

    def _bill_partial(self, error: ModelError, request: str, *, recorded: bool) -> Usage:
        """Bill what the provider reported of an answer that failed; an answer on record needs no billing record."""
        partial = error.partial
        usage = Usage.read(partial.usage) if isinstance(partial, Answer) else Usage()
        if isinstance(partial, Answer) and usage.total:
            self.charge(usage.cost(self.profile), own=self.aside)
            if not recorded:
                billed = Billed(
                    request=request, model=partial.model, usage=partial.usage, source=self.source.name
                )
                self.transcript.decide(billed)
        return usage if usage.total else Usage()


def turn(
    exchange: Exchange, fields: Mapping[str, bytes] = {}, retries: Retries | None = None
) -> Flow[Outcome]:
    """Ask the model and return its answer; if a refusal can be remedied, retry instead of raising the error.

    ``fields`` apply to this request only. ``retries`` are those after temporary failures, if it makes any itself.
    """
    with exchange.asking():
        for attempt in range(REPEATS + 1):
            pending = yield from exchange.prepared(fields)
            try:
                reply = yield from Ask(exchange.send(pending).call)
            except ModelError as error:
                if not (yield from exchange.refused(error, retries)) or attempt == REPEATS:
                    raise
            else:
                return exchange.answered(reply)
    raise AssertionError("unreachable")


# -- the turn of a conversation ---------------------------------------------------------------------


def prepare(c: Conversation, fields: Mapping[str, bytes] = {}) -> Flow[Pending]:
    """Settle new content, make it all fit, and return the next request, unrecorded; may raise `ContextFull`."""
    c.begin_pass()
    for layer in c.ladder.settles:
        if layer.on(c.settings):
            yield from layer.settle(c)
    if leaves_open(c):
        yield from have_counted(c, fields)
    yield from make_room(c)
    check = check_room(c, c.last_size)
    if check.verdict == "blocked" and leaves_open(c):
        # What the layers changed may have left the first count behind.
        yield from have_counted(c, fields)
        check = check_room(c, c.last_size)
    for _ in range(len(c.ladder.layers)):
        # A layer that has made a little room may leave it to a costlier one to make enough.
        if check.verdict != "blocked" or not (yield from c.ladder.refused(c, TooFull(check))):
            break
        check = check_room(c, c.measure())
    if check.verdict == "blocked":
        raise ContextFull(explain(c, check))
    return c.pending(check, fields)


def make_room(c: Conversation) -> Flow[None]:
    """Let layers act until none has an offer.

    This terminates: after a layer has acted, only cheaper ones are asked, and one that declined is not asked again.
    """
    below = c.ladder.top
    declined = frozenset[int]()
    while True:
        c.ladder.freeze(c)
        step = c.ladder.choose(c, below=below, without=declined)
        if step is None:
            return
        if (yield from step.layer.relieve(c, step.offer)):
            below = step.rung
        else:
            declined |= {step.rung}


def refused(c: Conversation, error: ModelError) -> Flow[bool]:
    """Remedy a refusal: leave out what the provider refused, else ask the ladder. True if a retry may succeed."""
    with c.lock:
        again = c.request_out and recover(c, error)
    if not again:
        again = yield from c.ladder.refused(c, error)
    c.failed(error, again=again)
    return again
