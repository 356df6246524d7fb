"""A session: what a user and a model say to each other, kept within the window.

The one mutable object of the engine. It takes in what is said, does what is due before each request, hands the
request out, takes the answer in, and can say at any time how full it is, what it did and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import RLock
from typing import Any

from sevenfold.conversation import history, intake
from sevenfold.conversation import news as saying
from sevenfold.conversation import undo as undoing
from sevenfold.conversation.announcer import Announcer
from sevenfold.conversation.due import Turn
from sevenfold.conversation.edits import Decider
from sevenfold.conversation.exchange import Exchange, Outcome, Prepared
from sevenfold.conversation.flow import Ask, Flow
from sevenfold.conversation.follower import Follower
from sevenfold.conversation.fork import Fork
from sevenfold.conversation.history import Past
from sevenfold.conversation.options import (
    Wanted,
    against_long_lifetime,
    frame_for,
    lifetimes_for,
    window_for,
)
from sevenfold.conversation.queries import Finder
from sevenfold.conversation.reads import Reads
from sevenfold.conversation.recovery import mend
from sevenfold.conversation.request_events import Telling
from sevenfold.conversation.status import Reading, reading
from sevenfold.conversation.transcript import Beside, Transcript
from sevenfold.errors import BodyTooLarge, InputError, ModelError, PromptTooLong, Refused
from sevenfold.events import Listener, Masked, Proposed, SteppedAside
from sevenfold.layers.clear.upkeep import Upkeep
from sevenfold.layers.offload.gate import Gate
from sevenfold.ports import Clock, Reply, Results
from sevenfold.profiles import Profile
from sevenfold.record import calls, redact
from sevenfold.record.blocks import Block
from sevenfold.record.log import Answer
from sevenfold.record.wire import Message
from sevenfold.request.plan import Lifetimes
from sevenfold.settings import Settings, Source, in_force, latch

__all__ = ["Reading", "Session", "Turn", "Wanted"]

REPEATS = 2
"""How often one request is made again, changed, before its error is shown."""


class Session:
    """The engine's side of a conversation. Safe to use from several threads, one call at a time."""

    def __init__(
        self,
        transcript: Transcript,
        wanted: Wanted,
        profile: Profile,
        *,
        results: Results,
        clock: Clock,
        settings: Source,
        listeners: Iterable[Listener] = (),
    ) -> None:
        self.transcript = transcript
        self.profile = profile
        self._clock = clock
        self._source = settings
        self._opened = self._current = settings.current()
        self._in_force = in_force(self._opened)
        self._results = results
        self.lock = RLock()
        self._due: Turn | None = None
        self._out: Turn | None = None
        self.kinds = {**{str(tool.get("name", "")): "" for tool in wanted.tools}, **wanted.kinds}
        self.announcer = Announcer(transcript.place.session, clock, listeners, source=wanted.source)
        self.window = window_for(profile, self._opened, wanted.betas)
        self.exchange = Exchange(
            transcript,
            frame_for(wanted, profile, self.window, self._in_force, self.kinds),
            profile,
            clock=clock,
            lifetimes=lifetimes_for(wanted, profile, self._opened),
            source=wanted.source,
        )
        self.reads = Reads()
        self._telling = Telling(self.announcer, self.exchange, profile, clock)
        self._finder = Finder(transcript, results)
        self._follower = Follower(
            transcript,
            self.exchange,
            self._finder,
            masks=self._opened.redaction == "gate",
            user=lambda words: transcript.user(self._masked(words)),
            results=self.tool_results,
            rewind=self.rewind,
        )
        self._decider = Decider(transcript, self.exchange, profile, self.announcer, self._finder)
        self._gate = gate = Gate(transcript, results, self.announcer)
        self.upkeep = Upkeep(
            transcript,
            self.exchange,
            gate,
            self.announcer,
            profile=profile,
            window=self.window,
            kinds=self.kinds,
        )
        self._telling.epochs()
        against = against_long_lifetime(wanted.source, profile, self._opened)
        if against and wanted.lifetimes not in (None, Lifetimes()):
            self.announcer.tell(SteppedAside(layer="cache", reason=f"an hour in the cache: {against}"))

    # -- what is said ----------------------------------------------------------------------------

    def user(self, content: intake.Content, *, key: str = "") -> str:
        """Take in what the user says; said again under the same key, it is not recorded again."""
        with self.lock:
            self.transcript.must_be_writable()
            if key and (known := self._finder.keyed(key)):
                return known
            return self.transcript.user(self._masked(intake.message(content)), key=key)

    def note(self, text: str) -> str:
        """Take in something the program itself has to say; it is never taken for the user's words."""
        with self.lock:
            self.transcript.must_be_writable()
            return self.transcript.user(self._masked(intake.message(text)), meta=True)

    def attach(self, beside: Beside) -> str:
        """Take in what the program puts beside the user's words; it is never taken for them."""
        with self.lock:
            masked = self._masked(beside.blocks)
            return self.transcript.attach(beside.kind, beside.facts, masked, role=beside.role)

    def interrupted(self, partial: Answer) -> None:
        """Take in what a model had said when it was stopped."""
        with self.lock:
            self.transcript.model(self.transcript.distinct(partial))
            self._due = self._out = None

    def tool_results(self, given: Mapping[str, Any] | Iterable[Any]) -> list[str]:
        """Take in what tools answered; a result that is there already is not recorded again.

        Returns the calls that still wait for a result.
        """
        with self.lock:
            self.transcript.must_be_writable()
            waiting = self.waiting
            fresh, others = calls.matched(intake.results(given), waiting)
            if strange := [block.id for block in others if not self._finder.answered(block.id)]:
                late = strange[0] in self.transcript.view.pending_calls
                raise saying.nobody_waits(strange[0], waiting, late=late)
            if fresh:
                self.upkeep.stock.follow(self.transcript.view)
                masked = self._masked(list(fresh.values()))
                self._gate.admit(masked, self.upkeep.stock.tool_of, self.upkeep.budget(self.settings))
            return self.waiting

    @property
    def waiting(self) -> list[str]:
        """Calls that wait for a result; no longer those that the request under way says were interrupted."""
        with self.lock:
            under_way = self._out if self._due is self._out else None
            sent = under_way.prepared.messages if under_way else ()
            return saying.still_waiting(self.transcript.view.pending_calls, sent)

    def adopt(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Take in a conversation from elsewhere, once, before anything was said here."""
        with self.lock:
            self._follower.adopt(messages)
            self._telling.epochs()

    def sync(self, messages: Iterable[Mapping[str, Any]]) -> int:
        """Follow a list kept elsewhere; returns how many of its messages are new."""
        with self.lock:
            new = self._follower.sync(messages)
            self._telling.epochs()
            return new

    # -- asking ----------------------------------------------------------------------------------

    def prepare(self) -> Turn:
        """Do what is due, and get the next request ready; raises `ContextFull` when it cannot fit."""
        with self.lock:
            self.transcript.must_be_writable()
            self.something_to_say()
            why = self.upkeep.run(self.settings)
            self._telling.epochs()
            self._due = Turn(self, why)
            return self._due

    @property
    def asked(self) -> bytes:
        """The request that was looked at last and has no answer yet; empty if there is none."""
        with self.lock:
            return self._out.prepared.body.raw if self._out else b""

    def observe(self, reply: Reply) -> Outcome:
        """Take in the answer to the request that was looked at last."""
        with self.lock:
            if self._out is None:
                raise InputError(
                    "no request is under way; prepare one, send it, then give its answer here"
                    if self._due is None
                    else "the request that was prepared was never looked at, so this cannot be its answer"
                )
            prepared = self._out.prepared
            outcome = self.exchange.observe(prepared, reply)
            self._due = self._out = None
            self._telling.break_watch = self.settings.break_watch
            self._telling.answered(outcome)
            self._telling.epochs()
            return outcome

    def failed(self, error: ModelError) -> bool:
        """Take in that a request failed; True if the next `prepare` gives one that may succeed."""
        with self.lock:
            request = self._out.prepared.record.id if self._out else ""
            again = self._out is not None and self._mend(error)
            self._due = None
            if again:
                self._out = None
            self._telling.failed(error, request, again=again)
            self._telling.epochs()
            return again

    def turn(self) -> Flow[Outcome]:
        """One request and its answer; errors that can be mended are withheld and the request made again."""
        for attempt in range(REPEATS + 1):
            call = self.prepare().prepared.call
            try:
                reply = yield from Ask(call)
            except ModelError as error:
                if not self.failed(error) or attempt == REPEATS:
                    raise
            else:
                return self.observe(reply)
        raise AssertionError("unreachable")

    def fork(self, source: str, shared: Sequence[Message] | None = None, upto: str | None = None) -> Fork:
        """A conversation of its own that begins with this one's bytes and leaves no trace in it.

        ``shared`` are the messages it begins with, if those are not all that are in view; ``upto`` is the record
        they end with, if they are the beginning of it.
        """
        with self.lock:
            self.upkeep.settle(self.settings)
            return Fork(
                self.exchange,
                self.transcript,
                self.profile,
                self._clock,
                source,
                shared,
                masked=self._masked,
                telling=self._telling,
                upto=upto,
            )

    # -- looking ---------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings in force now."""
        now = self._source.current()
        if now is not self._current:
            self._current = now
            self._in_force = in_force(latch(self._opened, now))
        return self._in_force

    @property
    def gauge(self) -> Reading:
        """How full the window is, and what the session has cost."""
        with self.lock:
            return reading(self.exchange, self.window, self.upkeep.limits(self.settings))

    def past(self, number: int) -> Past:
        """A request that was made, by its number from 0, or from the end with negative numbers."""
        with self.lock:
            return history.past(self.transcript.log, number)

    def fetch(self, reference: str) -> bytes:
        """The whole of a result that was offloaded or cleared, by its call, its path or its decision."""
        with self.lock:
            return self._finder.fetch(reference)

    def dry_run(self) -> list[Proposed]:
        """What the next `prepare` would do, without doing it."""
        with self.lock:
            return [self.announcer.stamped(one) for one in self.upkeep.dry_run(self.settings)]

    def remember_read(self, path: str, call: str, version: str) -> None:
        """A tool has read a file in full in this call; ``version`` tells one state of the file from another."""
        with self.lock:
            self.reads = self.reads.remember(path, call, version)

    def unchanged(self, path: str, version: str) -> str | None:
        """The call whose result still shows this very file, whole; None: it must be read again."""
        with self.lock:
            if self.exchange.edited:
                # The provider has cleared results, and does not say which.
                return None
            return self.reads.unchanged(path, version, self.transcript.view)

    # -- deciding --------------------------------------------------------------------------------

    def undo(self, reference: str = "") -> str:
        """Take back what a layer did last, or the decision named."""
        with self.lock:
            name = undoing.undo(self.transcript, self.exchange, self.profile, self.window, reference)
            self._telling.epochs()
            return name

    def redo(self, reference: str = "") -> str:
        """Make a decision again that was taken back."""
        with self.lock:
            name = undoing.redo(self.transcript, self.exchange, self.profile, reference)
            self._telling.epochs()
            return name

    def pin(self, record: str) -> None:
        """Keep a record word for word, whatever the layers do."""
        with self.lock:
            self._decider.pin(record, self.window.budget(self.settings.pins_tokens))

    def unpin(self, record: str) -> None:
        """Let a pinned record go again."""
        with self.lock:
            self._decider.unpin(record)

    def snip(self, first: str, last: str) -> str:
        """Take whole rounds out of sight, from one record to another; returns the decision's name."""
        with self.lock:
            if not self.settings.snip:
                raise Refused("snipping is switched off (setting snip)")
            name = self._decider.snip(first, last)
            self._telling.epochs()
            return name

    def rewind(self, record: str | None) -> None:
        """Go on from an earlier record, or from the start; what came after stays in the transcript."""
        with self.lock:
            self._decider.rewind(record)
            self._due = self._out = None
            self._telling.epochs()

    def listen(self, listener: Listener) -> None:
        """Tell this listener too what happens from now on."""
        self.announcer.listen(listener)

    def close(self) -> None:
        """Let others write."""
        self.transcript.close()

    def tell_epochs(self) -> None:
        """Tell of epochs that were opened from outside."""
        self._telling.epochs()

    # -- inside ----------------------------------------------------------------------------------

    def materialise(self, turn: Turn) -> Prepared:
        """Put a request together that is due, and write it down."""
        with self.lock:
            prepared = self.exchange.prepare(turn.why)
            self._out = turn
            self._telling.epochs()
            self._telling.sending(prepared)
            return prepared

    def _mend(self, error: ModelError) -> bool:
        match error:
            case PromptTooLong():
                return self.upkeep.relieve(self.settings, error.gap or self.window.effective // 5)
            case BodyTooLarge():
                return self.upkeep.relieve(self.settings, self.window.effective // 5)
            case _:
                return mend(error, self.transcript, self.exchange, self.announcer)

    def something_to_say(self) -> None:
        """Raise if the next request would hold nothing that the model has not heard or said."""
        saying.must_have_news(self.transcript.view)

    def _masked(self, given: Sequence[Block]) -> list[Block]:
        if self._opened.redaction != "gate":
            return list(given)
        masked = redact.mask_blocks(given)
        if masked.findings:
            kinds = tuple(sorted({finding.kind for finding in masked.findings}))
            self.announcer.tell(Masked(kinds=kinds, count=len(masked.findings)))
        return masked.blocks
