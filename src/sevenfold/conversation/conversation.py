"""The conversation: the one mutable object of the engine.

It records messages and tool results, prepares requests, handles answers and failures, and records decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from itertools import accumulate
from math import inf
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from sevenfold.conversation import intake, reporting, turn
from sevenfold.conversation.background import Ending, Runner
from sevenfold.conversation.brokered import BrokeredCalls
from sevenfold.conversation.elsewhere import AskedElsewhere
from sevenfold.conversation.epoch import enter
from sevenfold.conversation.epoch_state import EpochState
from sevenfold.conversation.flow import Flow, Signal
from sevenfold.conversation.gate import Gate
from sevenfold.conversation.history import LastRequest, Past, account_of, answered_at, last_request, past
from sevenfold.conversation.options import (
    RequestOptions,
    Services,
    frame_for,
    lifetimes_for,
    window_for,
)
from sevenfold.conversation.provider_edits import with_edits
from sevenfold.conversation.queries import Finder
from sevenfold.conversation.reporting import Events
from sevenfold.conversation.request import Outcome, Pending, Prepared, ToolCall, take_answer, write_request
from sevenfold.conversation.results import Read, shown_whole
from sevenfold.conversation.room import Check, ClearableResults, Limits
from sevenfold.conversation.status import Reading
from sevenfold.conversation.tasks import TaskRegistry
from sevenfold.conversation.transcript import Attachment, Transcript
from sevenfold.errors import Aborted, InputError, ModelError
from sevenfold.ports import Reply
from sevenfold.profiles import Profile
from sevenfold.record import calls
from sevenfold.record.authorship import MESSAGE_ORIGINS, MessageOrigin
from sevenfold.record.blocks import Block
from sevenfold.record.blocks import text as block_of
from sevenfold.record.decisions import Remarked, Request, Why
from sevenfold.record.gauge import Gauge, Size
from sevenfold.record.layout import Item
from sevenfold.record.log import Answer
from sevenfold.record.usage import UNEDITED, Edits, Tally, Usage
from sevenfold.record.weight import NOTHING, Estimator, Weight, measure, opening
from sevenfold.request.frame import EDITS, Body, Frame, Lifetimes, Sizes
from sevenfold.request.sources import source as rules_of
from sevenfold.settings import in_force, latch

if TYPE_CHECKING:
    from sevenfold.conversation.restore import Slot
    from sevenfold.conversation.waiting import Retries
    from sevenfold.layers.ladder import Ladder

S = TypeVar("S")

RunReadOnly = Callable[[Sequence[ToolCall]], Flow[list[Mapping[str, Any]]]]


class Conversation(AskedElsewhere):
    """A conversation between a user and a model, kept within the window. Thread-safe: calls run one at a time."""

    aside = False
    keeps_cut_off = False
    """Whether the partial answer is kept in the conversation when the user interrupts the model."""
    cut_off: Answer | None = None
    """The part kept of the last answer, if it was interrupted."""
    read_only: RunReadOnly | None = None
    """Runs a fork's read-only tool calls and refuses all others; None if no tools are available."""

    def __init__(
        self,
        transcript: Transcript,
        options: RequestOptions,
        profile: Profile,
        services: Services,
        ladder: Ladder,
        frame: Frame | None = None,
    ) -> None:
        """``frame`` replaces the frame built from the options."""
        super().__init__()
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
        """The maximum bytes and images of a request."""
        self.window = window_for(profile, self._current, options.betas)
        session = transcript.place.session
        self.cache_key = sha256(session.encode()).hexdigest()[:32]
        """Identifies the session to a provider that routes by cache key; a hash, so the name stays private."""
        self.events = Events(session, self.clock, services.listeners, source=options.source)
        self.gate = transcript.gate = Gate.of(self._current, self.events.tell, services.secrets)
        self.services = self.gate.services(services) if self.gate else services
        self._begin_work(options)
        self.finder = Finder(transcript, services.results)
        self.clearable = ClearableResults(self.kinds)
        lifetimes, against = lifetimes_for(
            options, profile, self._current, within_quota=self._within_quota()
        )
        wanted = self._gated(frame or frame_for(options, profile, self.settings))
        self._begin_epoch(wanted, lifetimes, lifetimes_asked_for=options.lifetimes == lifetimes)
        self.last_size = self.size()
        """The size as of the last ladder pass or the newest answer; layers base their offers on it."""
        self._begin_layers()
        reporting.epochs(self)
        if against:
            self.events.aside("cache", f"an hour in the cache: {against}")

    def _begin_work(self, options: RequestOptions) -> None:
        """What changes from request to request, and from task to task."""
        self.closing = Signal()
        """Happens when the session is closed: nothing waits any longer to send a request again."""
        self.diagnoses = options.diagnoses
        """Whether the provider is asked why its cache was missed."""
        self.background: Runner | None = None
        """Runs background work; None until there is a model to ask."""
        self.tasks = TaskRegistry(self.clock)
        self.reads: dict[str, Read] = {}
        """The latest full read of each file, by path."""
        self.considered = Why(0, 0, 0, "everything fits")
        self.tally = Tally()
        self.answers = self.passes = 0
        """The numbers of answers, and of passes over the ladder, since the conversation was opened."""
        self._states: dict[type[Any], Any] = {}
        self.autonomous: Callable[[], bool] = lambda: False
        """Whether the agent works without a user to answer questions."""

    def _begin_layers(self) -> None:
        """What layers and the agent leave with the conversation for others to call."""
        self._before_hiding: list[Callable[[], None]] = []
        self._after_compaction: list[Callable[[], None]] = []
        self.endings: tuple[Ending, ...] = ()
        """Work that a layer has to do before the conversation is closed."""
        slots: list[Slot] = []
        for layer in self.ladder.restores:
            slots += layer.slots(self)
        self.slots = tuple(slots)
        """The slots restored after a compaction, most important first."""

    def _begin_epoch(self, wanted: Frame, lifetimes: Lifetimes, *, lifetimes_asked_for: bool) -> None:
        log = self.transcript.log
        self._measured: tuple[Frame, Sizes] | None = None
        """The frame that was last measured, with the sizes of its parts."""
        self.resumed: LastRequest | None = last_request(log)
        """The last request of an earlier run, which this run's first request is compared with; None afterwards."""
        self.account = account_of(log)
        self.brokered = BrokeredCalls(log)
        self.own_usd = 0.0
        """The cost of the engine's own calls since the conversation was opened."""
        self.answered_at = answered_at(log)
        self.boundary_at_opening = self.boundary_at_last_answer = self.transcript.view.boundary or ""
        """Boundaries when it was opened, and at the newest answer: another one in view now was made since."""
        epoch = self.transcript.view.epoch
        frame = with_edits(self, wanted) if epoch is not None and EDITS in epoch.settings else wanted
        tail = self.resumed.tail if self.resumed else None
        self.epoch = EpochState(frame, wanted, lifetimes, Gauge.of(self.profile), tail=tail)
        """What requests depend on besides the transcript; replaced as a whole, by `set_epoch` and the methods here."""
        enter(self, lifetimes_asked_for=lifetimes_asked_for)

    def serve_agent(self, *, autonomous: Callable[[], bool], read_only: RunReadOnly) -> None:
        """Note that an agent works here: whether without a user, and how forks use its reading tools."""
        self.autonomous = autonomous
        self.read_only = read_only

    def ask_for_diagnoses(self, asks: bool) -> None:
        """Note whether the provider is to be asked why its cache was missed."""
        self.diagnoses = asks

    def keep_cut_off_answers(self) -> None:
        """From now on, keep the part that came of an answer when the user interrupts the model."""
        self.keeps_cut_off = True

    def take_cut_off(self) -> Answer | None:
        """The part kept of the last answer if it was interrupted, once."""
        partial = self.cut_off
        self.cut_off = None
        return partial

    def consider(self, why: Why) -> None:
        """Note what the layers considered for the next request."""
        self.considered = why

    def refresh(self) -> None:
        """Reread the settings, so that changed switches take effect without a restart."""
        current = self.services.settings.current()
        if current is not self._current:
            self._current = current
            self.settings = in_force(latch(self._latched, current))
            self.limits = Limits.of(self.profile, self.settings)

    def state(self, kind: Callable[[Conversation], S]) -> S:
        """Return a layer's state in this conversation, creating it on first use."""
        existing = self._states.get(kind)  # type: ignore[call-overload]  # any factory can be a key
        if existing is None:
            existing = self._states[kind] = kind(self)  # type: ignore[index]
        state: S = existing
        return state

    # -- taking in -------------------------------------------------------------------------------

    def user(
        self,
        content: intake.Content,
        *,
        key: str = "",
        origin: MessageOrigin = "typed",
        typed: str | None = None,
    ) -> str:
        """Record a user message and return its id; a message with a known ``key`` is not recorded again.

        ``origin`` says where its text comes from; ``typed`` is the part that the user typed, if others wrote the rest.
        """
        if origin not in MESSAGE_ORIGINS:
            raise InputError(f"origin must be one of {', '.join(MESSAGE_ORIGINS)}, got {origin!r}")
        key = self.gate.text(key) if self.gate and key else key
        return self._said(content, key, origin="" if origin == "typed" else origin, typed=typed)

    def note(self, text: str, *, key: str = "") -> str:
        """Record a message from the program itself, which never counts as the user's words. For ``key`` see `user`."""
        return self._said(text, key, meta=True)

    def _said(
        self,
        content: intake.Content,
        key: str,
        *,
        meta: bool = False,
        origin: str = "",
        typed: str | None = None,
    ) -> str:
        with self.lock:
            self.transcript.must_be_writable()
            if recorded := self.finder.keyed(key) if key else "":
                return recorded
            content_blocks = intake.message(content)
            return self.transcript.user(content_blocks, meta=meta, key=key, origin=origin, typed=typed)

    def attach(self, attachment: Attachment) -> str:
        """Record an attachment, which never counts as the user's words; returns its id."""
        with self.lock:
            return self.transcript.attach(
                attachment.kind, attachment.facts, attachment.blocks, role=attachment.role
            )

    def interrupted(self, partial: Answer) -> None:
        """Record an answer that was cut off; its request is no longer in flight."""
        with self.lock:
            self.transcript.model(self.transcript.distinct(partial))
            self._pending = self._in_flight = None

    def tool_results(self, results: Mapping[str, Any] | Iterable[Any]) -> list[str]:
        """Record tool results, skipping known ones; returns the ids of calls that still have no result."""
        with self.lock:
            self.transcript.must_be_writable()
            self.refresh()
            waiting = self.waiting
            fresh, orphans = calls.matched(intake.results(results), waiting)
            if strange := [block.id for block in orphans if not self.finder.answered(block.id)]:
                late = strange[0] in self.transcript.view.pending_calls
                raise intake.unexpected_result(strange[0], waiting, late=late)
            if fresh:
                # Mask before anything is cut or stored: part of a secret would not be recognised as one.
                self.ladder.admit(self, self.gated(list(fresh.values())))
            return self.waiting

    @property
    def waiting(self) -> list[str]:
        """Ids of calls without a result, except those that the request in flight reports as interrupted."""
        with self.lock:
            under_way = self._in_flight if self._in_flight and self._pending is self._in_flight[0] else None
            sent = under_way[1].messages if under_way else ()
            return intake.still_waiting(self.transcript.view.pending_calls, sent)

    def follow(self) -> None:
        """Let recall index new records in the background."""
        if self.services.recall is not None and self.settings.recall_ahead:
            self.services.recall.follow(self.transcript.written)

    def gated(self, content: Sequence[Block]) -> list[Block]:
        """The blocks ready to be recorded and sent: with secrets masked if redaction is on."""
        return self.gate.blocks(content) if self.gate else list(content)

    # -- asking ----------------------------------------------------------------------------------

    def begin_pass(self) -> None:
        """Start a pass over the ladder; raises if there is nothing new to send or the log cannot be written."""
        self.transcript.must_be_writable()
        intake.must_have_news(self.transcript.view)
        self.refresh()
        self.passes += 1

    def pending(self, check: Check, fields: Mapping[str, bytes] = {}) -> Pending:
        """Return the next request, with ``fields`` for it alone; it is recorded when it is sent."""
        with self.lock:
            boundary = self.transcript.view.boundary or ""
            why = replace(
                self.considered,
                used=check.size.tokens,
                band=check.size.band,
                threshold=self.window.threshold,
                after_compaction=boundary if boundary != self.boundary_at_last_answer else "",
            )
            self._pending = Pending(why, self.transcript.view.tip, fields)
            if self.epoch.opened:
                reporting.epochs(self)
            return self._pending

    def prepared(self, fields: Mapping[str, bytes]) -> Flow[Pending]:
        """Make the next request fit, and return it, unrecorded; may raise `ContextFull`."""
        return turn.prepare(self, fields)

    def write(self, pending: Pending) -> Prepared:
        """Build and record a request; raises `InputError` if the conversation went on since it was prepared."""
        if self.transcript.view.tip != pending.tip:
            raise InputError(
                "the conversation went on since this request was prepared; prepare another one"
            )
        prepared = write_request(self, pending)
        if self.epoch.opened:
            reporting.epochs(self)
        return prepared

    @property
    def request_out(self) -> bool:
        """Whether a request is in flight."""
        return self._in_flight is not None

    @property
    def asked(self) -> bytes:
        """The body of the request in flight; empty if there is none."""
        with self.lock:
            return self._in_flight[1].body.raw if self._in_flight else b""

    # -- the answer ------------------------------------------------------------------------------

    def answered(self, reply: Reply) -> Outcome:
        """Record the answer, then let layers start background work."""
        with self.lock:
            outcome = self.observe(reply)
            self.begin_background_work()
            return outcome

    def begin_background_work(self) -> None:
        """Let layers start what they do in the background after an answer, if they may spend anything."""
        if self.may_spend():
            for layer in self.ladder.follows:
                if layer.on(self.settings):
                    layer.after_answer(self)

    def observe(self, reply: Reply) -> Outcome:
        """Record the answer to the request in flight and return its outcome."""
        with self.lock:
            self.refresh()
            self.break_watch = self.settings.break_watch
            outcome = super().observe(reply)
            if self.epoch.opened:
                reporting.epochs(self)
            self.heard(outcome.usage)
            return outcome

    def heard(self, usage: Usage) -> None:
        """Take note that the newest answer is on record."""
        self.answers += 1
        self.boundary_at_last_answer = self.transcript.view.boundary or ""
        self.answered_at = self.transcript.view.answered_at
        self.tally = self.tally.after(usage)
        self.last_size = self._weigh()
        self.follow()

    def has_answer(self, epoch: EpochState, usd: float | None) -> None:
        """Take over what was learned from an answer that was recorded, and its cost."""
        self.epoch = epoch
        self.account = self.account.billed(usd)

    def take_answer(self, prepared: Prepared, reply: Reply) -> Outcome:
        """Record the answer to a request, bill it, and learn from the usage it reports."""
        return take_answer(self, prepared, reply)

    def refused(self, error: ModelError, retries: Retries | None) -> Flow[bool]:
        """Remedy a refusal; True if another attempt may succeed."""
        return turn.refused(self, error)

    def failed(self, error: ModelError, *, again: bool) -> None:
        """Handle the failure of the request in flight; ``again`` means that the next one may succeed."""
        with self.lock:
            super().failed(error, again=again)
            reporting.epochs(self)

    def keep_partial(self, error: ModelError) -> bool:
        """Record the part that came of an answer the user cut off, if the agent keeps it; False if it does not."""
        keeps = isinstance(error, Aborted) and self.keeps_cut_off
        partial = error.partial
        self.cut_off = partial if keeps and isinstance(partial, Answer) and not partial.blank else None
        if self.cut_off is not None:
            self.interrupted(self.cut_off)
        return self.cut_off is not None

    # -- the bill --------------------------------------------------------------------------------

    def charge(self, usd: float | None, *, own: bool = True) -> None:
        """Add the cost of a call to this session's bill; ``own`` marks a call the engine made for itself."""
        self.account = self.account.billed(usd)
        self.own_usd += (usd or 0.0) if own else 0.0

    def set_background_runner(self, runner: Runner) -> None:
        """Note that there is now a model to ask; ``runner`` runs background work unless there is a runner already."""
        if self.background is None:
            self.background = runner

    def read_files_with(
        self, read_file: Callable[[str], str], still_exists: Callable[[str], bool] | None
    ) -> None:
        """Restore files after a compaction as this function reads them, from now on."""
        self.services = replace(self.services, read_file=read_file, still_exists=still_exists)

    def run_background(
        self,
        flow: Flow[S],
        done: Callable[[S | Exception], None],
        task: str = "",
        shortfall: Callable[[S], str] | None = None,
    ) -> None:
        """Run a flow in the background, listed as a ``task`` of that kind if given; ``done`` gets result or error.

        ``shortfall`` says why nothing came of a result; it is empty if something did.
        """
        if self.background is not None:
            self.tasks.run(flow, done, task, self.background, shortfall)

    def may_spend(self) -> bool:
        """Whether the engine may make calls of its own: there is a model, and the spending cap is not reached."""
        cap = self.settings.spending_cap_usd
        return self.background is not None and (cap is None or self.own_usd < cap)

    def record_request(self, request: Request, body: Body, *, sends_to: str | None = None) -> Request:
        """Record a request with its markers, hash and number, and the cost so far; returns the record.

        ``sends_to`` is the newest record in it, if it is the conversation's own.
        """
        account = self.account
        marked = replace(
            request,
            markers=[(mark.level, mark.index, mark.block, mark.ttl) for mark in body.markers],
            sha256=body.sha256,
            number=account.requests,
            spent=account.usd,
        )
        # A broker that holds a call for a worker that may be killed finds it by its record.
        recorded = self.transcript.decide(marked, announced=not self.settings.broker)
        self.account = replace(account, requests=marked.number + 1, tip=sends_to or account.tip)
        return recorded

    # -- size ------------------------------------------------------------------------------------

    def size(self) -> Size:
        """The current size of the conversation."""
        # This is called several times between two changes of the view, so the layout caches it until it changes.
        cached = self.transcript.view.layout.sized
        unchanged = cached is not None and cached[0] == (self.epoch.gauge, self.edited)
        return cached[1] if cached and unchanged else self._weigh()

    def measure(self) -> Size:
        """The current size, which layers base their offers on from now on."""
        self.last_size = self.size()
        return self.last_size

    def take_count(self, tokens: int) -> None:
        """Take the size of the conversation as it is now from a provider that counted it, and learn from it."""
        measured = self.transcript.view.counted(tokens, self.profile.model)
        self.set_epoch(replace(self.epoch, gauge=self.epoch.gauge.observe(measured)))
        self.measure()

    def _weigh(self) -> Size:
        edits = self.edits
        edited = 0 if edits is UNEDITED else self.edited
        back = edits.cleared + edits.deleted - edited
        gauge = self.epoch.gauge
        size = gauge.size(self.transcript.view, edited=edited, back=back)
        self.transcript.view.layout.sized = (gauge, edited), size
        return size

    @property
    def edits(self) -> Edits:
        """What the provider's own edits removed from the last request."""
        anchor = self.transcript.view.layout.anchor
        return anchor.edits if anchor else UNEDITED

    @property
    def edited(self) -> int:
        """Tokens that the provider's edits will remove from the next request too; the rest reappears in it."""
        anchor = self.transcript.view.layout.anchor
        if anchor is None or anchor.edits is UNEDITED:
            return 0
        deleted = anchor.edits.deleted if self.transcript.view.deletes else 0
        return deleted + (anchor.edits.cleared if self.epoch.frame.edits else 0)

    def part_sizes(self) -> Sizes:
        """Estimated tokens up to the end of each part, by a rule that gives the same values after a resume."""
        count = Estimator.of(self.profile.tokenizer).tokens
        frame = self.epoch.frame
        if self._measured is None or self._measured[0] is not frame:
            tools = round(count(opening(*frame.tools)))
            system = (round(count(opening(section))) for section in frame.system)
            ends = tuple(accumulate(system, initial=tools))
            self._measured = frame, Sizes(tools, ends[1:], ends[-1])
        fixed = self._measured[1]
        return Sizes(fixed.tools, fixed.system, fixed.messages + round(count(self.transcript.view.weight)))

    def item_tokens(self, item: Item) -> int:
        """The estimated tokens of a record."""
        return self.tokens(item.weight)

    def count(self, text: str) -> int:
        """The estimated tokens of a text."""
        return self.tokens(measure(block_of(text)))

    def load(self, items: Sequence[Item]) -> int:
        """How much of the window records take up, in tokens; many bytes or images count as more."""
        weight = sum((item.weight for item in items), NOTHING)
        return self.limits.load(weight, sum(map(self.item_tokens, items)), self.window)

    def tokens(self, weight: Weight) -> int:
        """The estimated tokens of content with this weight."""
        return max(0, round(self.epoch.gauge.estimator.tokens(weight)))

    def idle_seconds(self) -> float:
        """Seconds since the newest answer, or since a fork last read the cache; infinite before the first answer."""
        try:
            answered = datetime.fromisoformat(self.answered_at).timestamp()
        except ValueError:
            return inf
        sent = self.epoch.watched.sent
        return self.clock.now() - max(answered, sent.at if sent else 0.0)

    # -- looking ---------------------------------------------------------------------------------

    @property
    def reading(self) -> Reading:
        """How full the window is, and what the session has cost."""
        with self.lock:
            self.refresh()
            return Reading.of(self.size(), self.window, self.limits, self.account)

    def past(self, number: int) -> Past:
        """A past request by its number, counted from 0; negative numbers count from the newest."""
        with self.lock:
            return past(self.transcript.log, number)

    def fetch(self, reference: str) -> bytes:
        """The full content of an offloaded or cleared result, by its call, path or decision."""
        with self.lock:
            return self.finder.fetch(reference)

    def remember_read(self, path: str, call: str, version: str) -> None:
        """Note that this tool call read a file in full; ``version`` identifies the state of the file."""
        with self.lock:
            self.reads[path] = Read(call, version)

    def unchanged(self, path: str, version: str) -> str | None:
        """The call whose result still shows this version of the file in full; None if it must be read again."""
        with self.lock:
            last_read = self.reads.get(path)
            # A provider that cleared results does not say which ones.
            if last_read is None or last_read.version != version or self.edited:
                return None
            return last_read.call if shown_whole(last_read.call, self.transcript.view.items) else None

    def forget_request(self) -> None:
        """Forget the request in flight, because it no longer belongs to the conversation."""
        self._pending = self._in_flight = None

    def remarked(self, call: str, remark: str) -> None:
        """Record what the user said when they refused a tool call."""
        with self.lock:
            self.transcript.decide(
                Remarked(call=call, words=self.gate.text(remark) if self.gate else remark)
            )

    @property
    def remarks(self) -> dict[str, str]:
        """What the user said when they refused tool calls, by call, as far as it is in view."""
        decisions = self.transcript.view.decisions()
        return {remark.call: remark.words for remark in decisions if isinstance(remark, Remarked)}

    def before_hiding(self) -> None:
        """Let layers look at the messages in view, because a compaction is about to hide some."""
        with self.lock:
            for look in self._before_hiding:
                look()

    def call_before_hiding(self, look: Callable[[], None]) -> None:
        """Have this called before a compaction hides messages; it must not wait."""
        self._before_hiding.append(look)

    def after_compaction(self) -> None:
        """Let layers and the agent forget what a compaction has taken from view."""
        for forget in self._after_compaction:
            forget()

    def call_after_compaction(self, forget: Callable[[], None]) -> None:
        """Have this called after each compaction, for example to forget content that is no longer in view."""
        self._after_compaction.append(forget)

    def finish_before_closing(self, ending: Ending) -> None:
        """Have this work finished before the conversation is closed."""
        self.endings = (*self.endings, ending)

    def restore(self, slots: Iterable[Slot]) -> None:
        """Restore these slots after a compaction, most important first, in place of those until now."""
        self.slots = tuple(slots)

    def close(self) -> None:
        """Close the log, so that others can write to it."""
        self.transcript.close()
