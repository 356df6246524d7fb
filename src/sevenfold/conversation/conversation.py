"""The conversation: the one mutable object of the engine.

It takes in messages and results, makes the next request, takes in the answer or the failure, and records decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from math import inf
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from sevenfold.conversation import events, intake
from sevenfold.conversation.background import Runner
from sevenfold.conversation.epoch import enter, epoch_record, frame_of
from sevenfold.conversation.events import Events
from sevenfold.conversation.flow import Flow
from sevenfold.conversation.gate import Gate
from sevenfold.conversation.history import LastRequest, Past, account_of, answered_at, last_request, past
from sevenfold.conversation.options import RequestOptions, Services, frame_for, lifetimes_for, window_for
from sevenfold.conversation.provider_edits import asking
from sevenfold.conversation.queries import Finder
from sevenfold.conversation.request import Outcome, Pending, Prepared, ToolCall, take_answer, write_request
from sevenfold.conversation.results import Read, shown_whole
from sevenfold.conversation.room import Check, Limits, Stock
from sevenfold.conversation.status import Reading
from sevenfold.conversation.tasks import TaskRegistry
from sevenfold.conversation.transcript import Attachment, Transcript
from sevenfold.errors import Aborted, InputError, ModelError, Refused
from sevenfold.ports import Reply
from sevenfold.profiles import Profile
from sevenfold.record import calls
from sevenfold.record.blocks import Block
from sevenfold.record.blocks import text as block_of
from sevenfold.record.decisions import Epoch, Why
from sevenfold.record.gauge import Gauge, Size
from sevenfold.record.layout import Item
from sevenfold.record.log import Answer
from sevenfold.record.usage import UNEDITED, BilledCall, Edits, Tally
from sevenfold.record.weight import NOTHING, Weight, measure
from sevenfold.request.frame import EDITS, Frame, Lifetimes, Sizes, Tail
from sevenfold.request.sources import source as rules_of
from sevenfold.request.watch import Watched
from sevenfold.settings import in_force, latch

if TYPE_CHECKING:
    from sevenfold.conversation.restore import Slot
    from sevenfold.layers.ladder import Ladder

S = TypeVar("S")
UNDER_WAY = (
    "another request of this session is under way, and a conversation has one next answer: wait for that one, or ask "
    "in a fork()"
)
_DECIDED = (
    "frame", "wanted", "amended", "lifetimes", "gauge", "watched", "billed",
    "tail", "opened", "new_fork", "vouched",
)  # fmt: skip
"""What decisions change besides the transcript; each value is replaced and never changed in place."""


class Conversation:
    """What a user and a model say to each other, kept within the window. Thread-safe, one call at a time."""

    gauge: Gauge
    """Estimates how large the conversation is, and learns from what answers report."""
    keeps_cut_off = False
    """Whether the beginning of an answer the user interrupts becomes part of the conversation."""
    cut_off: Answer | None = None
    """What was kept of the last answer, if it was interrupted."""
    read_only: Callable[[Sequence[ToolCall]], Flow[list[Mapping[str, Any]]]] | None = None
    """Carries out the calls of a fork that only reads, and refuses all others; None: no tool is at hand."""

    def __init__(
        self,
        transcript: Transcript,
        options: RequestOptions,
        profile: Profile,
        services: Services,
        ladder: Ladder,
        frame: Frame | None = None,
    ) -> None:
        """``frame`` replaces what the options would put before the messages."""
        self.lock = RLock()
        self.transcript = transcript
        self.profile = profile
        self.clock = services.clock
        self.ladder = ladder
        self.source = rules_of(options.source)
        self.kinds = {**{str(tool.get("name", "")): "" for tool in options.tools}, **options.kinds}
        self._current = self._latched = services.settings.current()
        self.settings = in_force(self._current)
        """The settings in force, as of the last `refresh`."""
        self.limits = Limits.of(profile, self.settings)
        """The most bytes and pictures a request may have."""
        self.window = window_for(profile, self._current, options.betas)
        session = transcript.place.session
        self.cache_key = sha256(session.encode()).hexdigest()[:32]
        """Names the session to a provider that has many caches, without giving its name away."""
        self.events = Events(session, self.clock, services.listeners, source=options.source)
        self.gate = transcript.gate = Gate.of(self._current, self.events.tell, services.secrets)
        self.services = self.gate.services(services) if self.gate else services
        self.asked_at: dict[str, float] = {}
        """When each request that is under way went out."""
        self.break_watch = True
        self.background: Runner | None = None
        """Runs background work; None while there is no model to ask."""
        self.tasks = TaskRegistry(self.clock)
        self.finder = Finder(transcript, services.results)
        self.stock = Stock(self.kinds)
        self.reads: dict[str, Read] = {}
        """The newest full reading of each file, by its path."""
        self.considered = Why(0, 0, 0, "everything fits")
        self.tally = Tally()
        self.answers = self.passes = 0
        """Answers, and passes over the ladder, since it was opened."""
        self._states: dict[type[Any], Any] = {}
        self._asking = False
        self._due: Pending | None = None
        self._out: tuple[Pending, Prepared] | None = None
        self.autonomous: Callable[[], bool] = lambda: False
        """Does the work go on with no user to answer questions?"""
        self.lifetimes, against = lifetimes_for(options, profile, self._current)
        self._begin_epoch(self._gated(frame or frame_for(options, profile, self.settings)), options)
        self.seen = self.size()
        """The size when the ladder last looked, or after the newest answer; layers make their offers on it."""
        self.cleanups: list[Callable[[], None]] = []
        """Called after a compaction, to forget what is no longer in view."""
        self.slots: list[Slot] = [slot for layer in ladder.restores for slot in layer.slots(self)]
        """What comes back after a compaction, the most important first."""
        events.epochs(self)
        if against:
            self.events.aside("cache", f"an hour in the cache: {against}")

    def _begin_epoch(self, frame: Frame, options: RequestOptions) -> None:
        log = self.transcript.log
        self.billed: BilledCall | None = None
        self.watched = Watched()
        self.resumed: LastRequest | None = last_request(log)
        """The newest request of an earlier run: what the first of this one is compared with. None once it was."""
        self.tail: Tail | None = self.resumed.tail if self.resumed else None
        """Where the last answered request had its last cache marker; None if the messages are others now."""
        self.account = account_of(log)
        self.own_usd = 0.0
        """What the engine's own calls have cost since it was opened."""
        self.opened: tuple[Epoch, ...] = ()
        """Epochs not yet reported."""
        self.wanted = frame
        """What is to precede the messages as soon as it can be changed at no loss."""
        self.amended: object = None
        self.measured: tuple[Frame, Sizes] | None = None
        """What precedes the messages, and how large its parts are."""
        self.vouched = False
        """Is what changed before reasoning in view what that reasoning was produced after?"""
        self.new_fork = False
        """Does it begin with another one's messages, and has it no answer of its own yet?"""
        self.answered_at = answered_at(log)
        self.boundary_then = self.transcript.view.boundary or ""
        """The compaction the view began with when the newest answer came; another one now was made since."""
        epoch = self.transcript.view.epoch
        self.frame = asking(self, frame) if epoch is not None and EDITS in epoch.settings else frame
        enter(self, asked=options.lifetimes == self.lifetimes)

    def refresh(self) -> None:
        """Read the settings again: switches take effect from here on, without a restart."""
        now = self.services.settings.current()
        if now is not self._current:
            self._current = now
            self.settings = in_force(latch(self._latched, now))
            self.limits = Limits.of(self.profile, self.settings)

    def state(self, kind: Callable[[Conversation], S]) -> S:
        """The state a layer keeps in this conversation; made when it is first asked for."""
        found = self._states.get(kind)  # type: ignore[call-overload]  # any factory can be a key
        if found is None:
            found = self._states[kind] = kind(self)  # type: ignore[index]
        state: S = found
        return state

    # -- taking in -------------------------------------------------------------------------------

    def user(self, content: intake.Content, *, key: str = "") -> str:
        """Take in what the user says; the same key again is not recorded again."""
        return self._said(content, self.gate.text(key) if self.gate and key else key)

    def note(self, text: str, *, key: str = "") -> str:
        """Take in a message from the program itself; it never counts as the user's words. See `user` for ``key``."""
        return self._said(text, key, meta=True)

    def _said(self, content: intake.Content, key: str, *, meta: bool = False) -> str:
        with self.lock:
            self.transcript.must_be_writable()
            known = self.finder.keyed(key) if key else ""
            return known or self.transcript.user(intake.message(content), meta=meta, key=key)

    def attach(self, given: Attachment) -> str:
        """Take in an attachment; it never counts as the user's words."""
        with self.lock:
            return self.transcript.attach(given.kind, given.facts, given.blocks, role=given.role)

    def interrupted(self, partial: Answer) -> None:
        """Take in an answer that was cut off."""
        with self.lock:
            self.transcript.model(self.transcript.distinct(partial))
            self._due = self._out = None

    def tool_results(self, given: Mapping[str, Any] | Iterable[Any]) -> list[str]:
        """Take in tool results; one that is known is not recorded again. Returns calls still without a result."""
        with self.lock:
            self.transcript.must_be_writable()
            self.refresh()
            waiting = self.waiting
            fresh, others = calls.matched(intake.results(given), waiting)
            if strange := [block.id for block in others if not self.finder.answered(block.id)]:
                late = strange[0] in self.transcript.view.pending_calls
                raise intake.unexpected_result(strange[0], waiting, late=late)
            if fresh:
                # Before any of it is cut or stored: a part of a secret would not be known for one.
                self.ladder.admit(self, self.gated(list(fresh.values())))
            return self.waiting

    @property
    def waiting(self) -> list[str]:
        """Calls without a result; not those that the request under way reports as interrupted."""
        with self.lock:
            under_way = self._out if self._out and self._due is self._out[0] else None
            sent = under_way[1].messages if under_way else ()
            return intake.still_waiting(self.transcript.view.pending_calls, sent)

    def follow(self) -> None:
        """Let recall index what is new, in the background."""
        if self.services.recall is not None and self.settings.recall_ahead:
            self.services.recall.follow(self.transcript.written)

    def gated(self, given: Sequence[Block]) -> list[Block]:
        """The blocks as they may be recorded and sent: without secrets, if these are masked."""
        return self.gate.blocks(given) if self.gate else list(given)

    # -- asking ----------------------------------------------------------------------------------

    @contextmanager
    def asking(self) -> Iterator[None]:
        """One request at a time."""
        if self._asking:
            raise Refused(UNDER_WAY)
        self._asking = True
        try:
            yield
        finally:
            self._asking = False

    def begin_pass(self) -> None:
        """Before the ladder is climbed: raise if there is nothing to send, or nowhere to write."""
        self.transcript.must_be_writable()
        intake.must_have_news(self.transcript.view)
        self.refresh()
        self.passes += 1

    def pending(self, check: Check, fields: Mapping[str, bytes] = {}) -> Pending:
        """The next request, with ``fields`` of its own; it is written when it is sent."""
        with self.lock:
            boundary = self.transcript.view.boundary or ""
            why = replace(
                self.considered,
                used=check.size.tokens,
                band=check.size.band,
                threshold=self.window.threshold,
                after_compaction=boundary if boundary != self.boundary_then else "",
            )
            self._due = Pending(why, self.transcript.view.tip, fields)
            events.epochs(self)
            return self._due

    def send(self, pending: Pending) -> Prepared:
        """Write the request down, ready to go out; a second time, the same one."""
        with self.lock:
            if self._out is not None and self._out[0] is pending:
                return self._out[1]
            if self.transcript.view.tip != pending.tip:
                raise InputError(
                    "the conversation went on since this request was prepared; prepare another one"
                )
            prepared = write_request(self, pending)
            self._out = pending, prepared
            events.epochs(self)
            events.sending(self, prepared)
            return prepared

    @property
    def request_out(self) -> bool:
        """Is a request under way?"""
        return self._out is not None

    @property
    def asked(self) -> bytes:
        """The body of the request under way; empty if there is none."""
        with self.lock:
            return self._out[1].body.raw if self._out else b""

    # -- the answer ------------------------------------------------------------------------------

    def observe(self, reply: Reply) -> Outcome:
        """Take in the answer to the request under way."""
        with self.lock:
            if self._out is None:
                raise InputError(
                    "no request is under way; prepare one, send it, then give its answer here"
                    if self._due is None
                    else "the request that was prepared was never looked at, so this cannot be its answer"
                )
            outcome = take_answer(self, self._out[1], reply)
            self._due = self._out = None
            self.refresh()
            self.break_watch = self.settings.break_watch
            events.answered(self, outcome)
            events.epochs(self)
            self.answers += 1
            self.boundary_then = self.transcript.view.boundary or ""
            self.tally = self.tally.after(outcome.usage)
            self.seen = self._weigh()
            self.follow()
            return outcome

    def failed(self, error: ModelError, *, again: bool) -> None:
        """Take in that the request under way failed; ``again``: the next one may succeed."""
        with self.lock:
            request = self._out[1].record.id if self._out else ""
            self._due = None
            if again:
                self._out = None
            keeps, partial = isinstance(error, Aborted) and self.keeps_cut_off, error.partial
            self.cut_off = partial if keeps and isinstance(partial, Answer) and not partial.blank else None
            if self.cut_off is not None:
                self.interrupted(self.cut_off)
            events.failed(self, error, request, again=again, kept=self.cut_off is not None)
            events.epochs(self)

    # -- the epoch -------------------------------------------------------------------------------

    def want(self, frame: Frame) -> None:
        """Let this precede the messages as soon as it can be changed at no loss."""
        self.wanted = self._gated(frame)

    def _gated(self, frame: Frame) -> Frame:
        return self.gate.frame(frame) if self.gate else frame

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is decided in here counts whole or not at all, in the log and in this object."""
        with self.lock:
            before = {name: getattr(self, name) for name in _DECIDED}
            try:
                with self.transcript.together():
                    yield
            except BaseException:
                for name, value in before.items():
                    setattr(self, name, value)
                raise

    def reframe(self, frame: Frame, reason: str, *, lifetimes: Lifetimes | None = None) -> None:
        """Open a new epoch with other parts before the messages."""
        self.frame, self.lifetimes = frame, lifetimes or self.lifetimes
        self.wanted, self.amended = frame, None
        self.gauge = self.gauge.opened(*frame.tools, *frame.system)
        self.open_epoch(reason, drops_thinking=self.profile.thinking.bound, announced=False)

    def return_to(self, epoch: Epoch) -> None:
        """Send again what preceded the messages in an earlier epoch of the same model."""
        then = frame_of(epoch)
        if then.model == self.frame.model:
            self.frame = replace(then, max_tokens=self.frame.max_tokens)
            self.gauge = self.gauge.opened(*self.frame.tools, *self.frame.system)

    def announce(self, reason: str) -> None:
        """A decision is about to shorten what was sent: the loss of cache that follows is expected."""
        self.watched = self.watched.announce(reason)
        self.billed = None

    def open_epoch(
        self,
        reason: str,
        *,
        drops_thinking: bool = False,
        after: str | None = None,
        before: str | None = None,
        announced: bool = True,
    ) -> Epoch:
        """Open an epoch; reasoning is dropped if asked for, except up to ``after`` and from ``before`` on.

        ``announced`` is False for what a caller changed: then the cache watch names the part that differs.
        """
        if announced:
            self.announce(reason)
        self.billed = None
        made = epoch_record(self.frame, self.lifetimes, reason, drops_thinking)
        made = replace(made, drops_thinking_after=after, drops_thinking_before=before)
        epoch = self.transcript.decide(made)
        self.opened += (epoch,)
        self.vouched = self.vouched or after is not None
        return epoch

    def compacted(self) -> None:
        """A compaction is on record: go on with the epoch it opened."""
        epoch = self.transcript.view.epoch
        if epoch is None:
            return
        self.announce("compact")
        self.frame = frame_of(epoch)
        self.gauge = self.gauge.opened(*self.frame.tools, *self.frame.system)
        self.tail = None
        self.opened += (epoch,)
        self.vouched = True

    # -- the bill --------------------------------------------------------------------------------

    def charge(self, usd: float | None, *, own: bool = True) -> None:
        """Put a call on this session's bill; ``own``: one the engine made for itself."""
        self.account = self.account.billed(usd)
        self.own_usd += (usd or 0.0) if own else 0.0

    def may_ask(self, runner: Runner) -> None:
        """From now on there is a model to ask; ``runner`` does background work."""
        if self.background is None:
            self.background = runner

    def run_aside(self, flow: Flow[S], done: Callable[[S | Exception], None], task: str = "") -> None:
        """Run a flow in the background, as a ``task`` of this kind if given; ``done`` gets its result, or its error."""
        if self.background is not None:
            self.tasks.run(flow, done, task, self.background)

    def may_spend(self) -> bool:
        """May the engine make calls of its own?"""
        cap = self.settings.spending_cap_usd
        return self.background is not None and (cap is None or self.own_usd < cap)

    # -- size ------------------------------------------------------------------------------------

    def size(self) -> Size:
        """How large the conversation is now."""
        # Asked several times between two changes of the view: the layout remembers until it changes.
        known = self.transcript.view.layout.sized
        same = known is not None and known[0] == (self.gauge, self.edited)
        return known[1] if known and same else self._weigh()

    def _weigh(self) -> Size:
        edits, edited = self.edits, self.edited
        back = edits.cleared + edits.deleted - edited
        size = self.gauge.size(self.transcript.view, edited=edited, back=back)
        self.transcript.view.layout.sized = (self.gauge, edited), size
        return size

    @property
    def edits(self) -> Edits:
        """What the provider's own edits took out of the last request."""
        anchor = self.transcript.view.layout.anchor
        return anchor.edits if anchor else UNEDITED

    @property
    def edited(self) -> int:
        """Tokens that they will take out of the next one too; the rest of what they took out is back then."""
        if (edits := self.edits) is UNEDITED:
            return 0
        deleted = edits.deleted if self.transcript.view.deletes else 0
        return deleted + (edits.cleared if self.frame.edits else 0)

    def item_tokens(self, item: Item) -> int:
        """Tokens of a record."""
        return self.tokens(item.weight)

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return self.tokens(measure(block_of(text)))

    def load(self, items: Sequence[Item]) -> int:
        """What records take of the window, in tokens; pictures have few of them, and many bytes."""
        weight = sum((item.weight for item in items), NOTHING)
        return self.limits.load(weight, sum(map(self.item_tokens, items)), self.window)

    def tokens(self, weight: Weight) -> int:
        """Tokens of something with this weight."""
        return max(0, round(self.gauge.estimator.tokens(weight)))

    def idle_seconds(self) -> float:
        """Seconds since the newest answer, or since a fork last read the cache; infinite before the first answer."""
        try:
            answered = datetime.fromisoformat(self.answered_at).timestamp()
        except ValueError:
            return inf
        return self.clock.now() - max(answered, self.watched.sent.at if self.watched.sent else 0.0)

    # -- looking ---------------------------------------------------------------------------------

    @property
    def reading(self) -> Reading:
        """How full the window is, and what the session has cost."""
        with self.lock:
            self.refresh()
            return Reading.of(self.size(), self.window, self.limits, self.account)

    def past(self, number: int) -> Past:
        """A request that was made, by its number from 0, or from the newest with negative numbers."""
        with self.lock:
            return past(self.transcript.log, number)

    def fetch(self, reference: str) -> bytes:
        """The whole of a result that was offloaded or cleared, by its call, its path or its decision."""
        with self.lock:
            return self.finder.fetch(reference)

    def remember_read(self, path: str, call: str, version: str) -> None:
        """A tool has read a file in full in this call; ``version`` tells one state of the file from another."""
        with self.lock:
            self.reads[path] = Read(call, version)

    def unchanged(self, path: str, version: str) -> str | None:
        """The call whose result still shows this very file, whole; None: it must be read again."""
        with self.lock:
            known = self.reads.get(path)
            # A provider that has cleared results does not say which.
            if known is None or known.version != version or self.edited:
                return None
            return known.call if shown_whole(known.call, self.transcript.view.items) else None

    def forget_request(self) -> None:
        """The request under way no longer belongs to the conversation."""
        self._due = self._out = None

    def close(self) -> None:
        """Let others write."""
        self.transcript.close()
