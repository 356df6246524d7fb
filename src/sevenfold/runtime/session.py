"""A session: what a user and a model say to each other, kept within the window.

The one mutable object of the engine. It takes in what is said, does what is due before each request, hands the
request out, takes the answer in, and can say at any time how full it is, what it did and why.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from threading import RLock
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.errors import (
    BodyTooLarge,
    BoundThinking,
    InputError,
    ModelError,
    PromptTooLong,
    Refused,
    ResultMissing,
)
from sevenfold.events import (
    Acted,
    Answered,
    CacheBroke,
    EpochOpened,
    Failed,
    Listener,
    Masked,
    Proposed,
    Repaired,
    Sending,
)
from sevenfold.layers import edits, redact
from sevenfold.ports import Ask, Clock, Reply, Results
from sevenfold.profiles import Profile
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, ToolResult
from sevenfold.record.decisions import Offload, Pin, Rewound, Snip, Why
from sevenfold.record.entries import Stored
from sevenfold.record.layout import Item
from sevenfold.record.log import Answer
from sevenfold.record.window import Window
from sevenfold.request.frame import Frame
from sevenfold.request.plan import Lifetimes
from sevenfold.request.sections import SystemPrompt
from sevenfold.request.watch import SECONDS
from sevenfold.runtime import following, history, intake, undoing
from sevenfold.runtime.announce import Announcer
from sevenfold.runtime.exchange import Exchange, Outcome, Prepared
from sevenfold.runtime.fork import Fork
from sevenfold.runtime.gate import Gate
from sevenfold.runtime.history import Past
from sevenfold.runtime.pins import pinned
from sevenfold.runtime.reads import Reads
from sevenfold.runtime.transcript import Transcript
from sevenfold.runtime.upkeep import Upkeep
from sevenfold.settings import Settings, Source, in_force, latch

REPEATS = 2
"""How often one request is made again, changed, before its error is shown."""


class Wanted(Struct, frozen=True):
    """What a caller wants to precede the messages."""

    model: str
    max_tokens: int
    system: SystemPrompt | tuple[bytes, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    kinds: Mapping[str, str] = {}
    """What kind of tool each is: read, shell, search, web, edit or write; any other is never cleared."""
    fields: Mapping[str, Any] = {}
    """Other fields of the request, such as ``thinking``."""
    betas: tuple[str, ...] = ()
    lifetimes: Lifetimes = Lifetimes()


class Reading(Struct, frozen=True, kw_only=True):
    """How full the window is, and what the session has cost."""

    seen: int
    """Tokens the model sees…"""
    sent: int
    """…and tokens sent, before the provider's own edits."""
    low: int
    high: int
    """The truth is expected between these, 19 times out of 20."""
    context: int
    effective: int
    threshold: int
    warning: int
    blocking: int
    percent_left: int
    above_warning: bool
    above_auto_compact: bool
    at_blocking: bool
    wire: int
    wire_limit: int | None
    images: int
    images_limit: int | None
    requests: int
    usd: float | None
    """What the session has cost so far; None where a price is unknown."""


class Turn:
    """A request that is due. It is put together, and written down, when somebody looks at it."""

    def __init__(self, session: Session, why: Why) -> None:
        self._session = session
        self._tip = session.transcript.view.tip
        self._prepared: Prepared | None = None
        self.why = why

    @property
    def prepared(self) -> Prepared:
        """The request, on record."""
        if self._prepared is None:
            if self._session.transcript.view.tip != self._tip:
                raise InputError(
                    "the conversation went on since this request was prepared; prepare another one"
                )
            self._prepared = self._session._materialise(self)
        return self._prepared


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
        self._lock = RLock()
        self._turn: Turn | None = None
        self._asked_at = 0.0
        self.kinds = {**{str(tool.get("name", "")): "" for tool in wanted.tools}, **wanted.kinds}
        self.announcer = Announcer(transcript.place.session, clock, listeners)
        self.window = _window(profile, self._opened)
        self.exchange = Exchange(
            transcript,
            _frame(wanted, profile, self.window, self._in_force, self.kinds),
            profile,
            clock=clock,
            lifetimes=_lifetimes(wanted.lifetimes, profile, self._opened),
        )
        self.reads = Reads()
        gate = Gate(transcript, results, self.announcer)
        self._gate = gate
        self.upkeep = Upkeep(
            transcript,
            self.exchange,
            gate,
            self.announcer,
            profile=profile,
            window=self.window,
            kinds=self.kinds,
        )
        self._tell_epochs()

    # -- what is said ----------------------------------------------------------------------------

    def user(self, content: intake.Content, *, key: str = "") -> str:
        """Take in what the user says; said again under the same key, it is not recorded again."""
        with self._lock:
            if key and (known := self._keyed(key)):
                return known
            return self.transcript.user(self._masked(intake.message(content)), key=key)

    def tool_results(self, given: Mapping[str, Any] | Iterable[Any]) -> list[str]:
        """Take in what tools answered; a result that is there already is not recorded again.

        Returns the calls that still wait for a result.
        """
        with self._lock:
            found = intake.results(given)
            waiting = self.transcript.view.pending_calls
            if strange := [
                block.id for block in found if block.id not in waiting and not self._answered(block.id)
            ]:
                raise InputError(
                    f"no call {strange[0]!r} waits for a result; those that do: {', '.join(waiting) or 'none'}"
                )
            fresh = {block.id: block for block in found if block.id in waiting}
            if fresh:
                self.upkeep.stock.follow(self.transcript.view)
                masked = self._masked(list(fresh.values()))
                self._gate.admit(masked, self.upkeep.stock.tool_of, self.upkeep.budget(self.settings))
            return self.transcript.view.pending_calls

    def adopt(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Take in a conversation from elsewhere, once, before anything was said here."""
        with self._lock:
            if len(self.transcript.view):
                raise Refused(
                    "messages are taken in once, into an empty session; use sync() to follow a list"
                )
            self._take_in(following.read(messages))

    def sync(self, messages: Iterable[Mapping[str, Any]]) -> int:
        """Follow a list kept elsewhere; returns how many of its messages are new."""
        with self._lock:
            given, view = following.read(messages), self.transcript.view
            if view.boundary is not None:
                raise Refused(
                    "this session was compacted, so a list of all its messages cannot be compared with it any more; "
                    "give only what is new, with user() and tool_results()"
                )
            records, known = following.common(view.items, given)
            if records < len(view):
                kept = view.items_from(records - 1)[0].said.uuid if records else None
                self.rewind(kept)
            self._take_in(given[known:])
            return len(given) - known

    def _take_in(self, given: Sequence[following.Given]) -> None:
        for number, message in enumerate(given):
            if message.role == "assistant":
                answer_id = following.answer_id(message, number)
                self.transcript.model(Answer(answer_id, self.exchange.frame.model, message.blocks))
                continue
            waiting = self.transcript.view.pending_calls
            results = following.results_in(message)
            if fitting := [block for block in results if block.id in waiting]:
                self.tool_results(fitting)
            if words := following.words_in(message):
                self.transcript.user(self._masked(words))
        if any(message.thinks for message in given):
            # Reasoning from elsewhere is bound to what preceded it there.
            self.exchange.open("imported", drops_thinking=True)
            self._tell_epochs()

    # -- asking ----------------------------------------------------------------------------------

    def prepare(self) -> Turn:
        """Do what is due, and get the next request ready; raises `ContextFull` when it cannot fit."""
        with self._lock:
            self._something_to_say()
            why = self.upkeep.run(self.settings)
            self._tell_epochs()
            self._turn = Turn(self, why)
            return self._turn

    def observe(self, reply: Reply) -> Outcome:
        """Take in the answer to the request that was prepared last."""
        with self._lock:
            if self._turn is None:
                raise InputError("no request is under way; prepare one, send it, then give its answer here")
            turn, self._turn = self._turn, None
            outcome = self.exchange.observe(turn.prepared, reply)
            self._tell_answer(outcome)
            return outcome

    def failed(self, error: ModelError) -> bool:
        """Take in that a request failed; True if the next `prepare` gives one that may succeed."""
        with self._lock:
            again = self._turn is not None and self._mend(error)
            self.announcer.tell(
                Failed(
                    request=self._turn._prepared.record.id if self._turn and self._turn._prepared else "",
                    model=self.exchange.frame.model,
                    provider=self.profile.provider,
                    error=type(error).__name__,
                    reason=str(error),
                    again=again,
                )
            )
            self._tell_epochs()
            return again

    def turn(self) -> Generator[Ask, Reply, Outcome]:
        """One request and its answer; errors that can be mended are withheld and the request made again."""
        for attempt in range(REPEATS + 1):
            call = self.prepare().prepared.call
            try:
                reply = yield Ask(call)
            except ModelError as error:
                if not self.failed(error) or attempt == REPEATS:
                    raise
            else:
                return self.observe(reply)
        raise AssertionError("unreachable")

    def fork(self, source: str) -> Fork:
        """A conversation of its own that begins with this one's bytes and leaves no trace in it."""
        with self._lock:
            self.upkeep.settle(self.settings)
            return Fork(self.exchange, self.transcript, self.profile, self._clock, source)

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
        with self._lock:
            size, window = self.exchange.size(), self.window
            status = window.status(size.tokens, band=size.band)
            return Reading(
                seen=size.tokens,
                sent=size.sent,
                low=size.low,
                high=size.high,
                context=window.context,
                effective=window.effective,
                threshold=window.threshold,
                warning=window.warning,
                blocking=window.blocking,
                percent_left=status.percent_left,
                above_warning=status.above_warning,
                above_auto_compact=status.above_auto_compact,
                at_blocking=status.at_blocking,
                wire=size.wire,
                wire_limit=self.profile.body_bytes,
                images=size.images,
                images_limit=self.profile.images,
                requests=self.exchange.account.requests,
                usd=self.exchange.account.usd,
            )

    def past(self, number: int) -> Past:
        """A request that was made, by its number from 0, or from the end with negative numbers."""
        with self._lock:
            return history.past(self.transcript.log, number)

    def fetch(self, reference: str) -> bytes:
        """The whole of a result that was offloaded or cleared, by its call, its path or its decision."""
        with self._lock:
            stored = self._stored(reference)
            if isinstance(stored, Stored) and stored.path:
                return self._results.fetch(stored.path)
            call = stored if isinstance(stored, str) else reference
            block = self._result(call)
            if block is None:
                raise ResultMissing(f"there is no result for {reference!r} in this session")
            body = block.body()
            content = body.content if isinstance(body, ToolResult) else None
            if isinstance(content, list):
                words = all(blocks.read(bytes(part)).kind == "text" for part in content)
                return blocks.words_of(block).encode() if words else _list(content)
            return (content or "").encode()

    def dry_run(self) -> list[Proposed]:
        """What the next `prepare` would do, without doing it."""
        with self._lock:
            stamp = {"session": self.transcript.place.session, "at": self._clock.now()}
            return [replace(one, **stamp) for one in self.upkeep.dry_run(self.settings)]

    def remember_read(self, path: str, call: str, version: str) -> None:
        """A tool has read a file in full in this call; ``version`` tells one state of the file from another."""
        with self._lock:
            self.reads = self.reads.remember(path, call, version)

    def unchanged(self, path: str, version: str) -> str | None:
        """The call whose result still shows this very file, whole; None: it must be read again."""
        with self._lock:
            if self.exchange.edited:
                # The provider has cleared results, and does not say which.
                return None
            return self.reads.unchanged(path, version, self.transcript.view)

    # -- deciding --------------------------------------------------------------------------------

    def undo(self, reference: str = "") -> str:
        """Take back what a layer did last, or the decision named."""
        with self._lock:
            name = undoing.undo(self.transcript, self.exchange, self.profile, self.window, reference)
            self._tell_epochs()
            return name

    def redo(self, reference: str = "") -> str:
        """Make a decision again that was taken back."""
        with self._lock:
            name = undoing.redo(self.transcript, self.exchange, self.profile, reference)
            self._tell_epochs()
            return name

    def pin(self, record: str) -> None:
        """Keep a record word for word, whatever the layers do."""
        with self._lock:
            item = self._in_view(record)
            items = [one for one in self.transcript.view.items if one.said.uuid in pinned(self.transcript)]
            count = self.exchange.gauge.estimator.tokens
            used = sum(round(count(one.weight)) for one in items if one is not item)
            budget = self.window.budget(self.settings.pins_tokens)
            if used + round(count(item.weight)) > budget:
                raise Refused(
                    f"this record has about {round(count(item.weight)):,} tokens, {used:,} are pinned already, and the "
                    f"budget for pins is {budget:,} (pins_tokens); unpin another one, or raise the budget"
                )
            self.transcript.decide(Pin(record=record))

    def unpin(self, record: str) -> None:
        """Let a pinned record go again."""
        with self._lock:
            if record not in pinned(self.transcript):
                raise Refused(f"{record} is not pinned")
            self.transcript.decide(Pin(record=record, off=True))

    def snip(self, first: str, last: str) -> str:
        """Take whole rounds out of sight, from one record to another; returns the decision's name."""
        with self._lock:
            if not self.settings.snip:
                raise Refused("snipping is switched off (setting snip)")
            span = self._span(first, last)
            before = self.exchange.size().tokens
            tokens = round(
                self.exchange.gauge.estimator.tokens(sum((i.weight for i in span[1:]), span[0].weight))
            )
            what = f"remove {len(span)} records"
            proposed = Proposed(
                layer="snip", mechanism="span", what=what, why="asked for", items=len(span), tokens=tokens
            )
            if not self.announcer.may(proposed):
                raise Refused("a listener refused the snip")
            if self.profile.thinking.bound and self.transcript.view.weight.thoughts:
                self.exchange.open(undoing.CLEARED, drops_thinking=True)
            else:
                self.exchange.announce("snip")
            made = self.transcript.decide(Snip(first=first, last=last))
            self._tell_epochs()
            self.announcer.tell(
                Acted(
                    layer="snip",
                    mechanism="span",
                    what=what,
                    why="asked for",
                    items=len(span),
                    tokens_before=before,
                    tokens_after=self.exchange.size().tokens,
                    reference=made.id,
                )
            )
            return made.id

    def rewind(self, record: str | None) -> None:
        """Go on from an earlier record, or from the start; what came after stays in the transcript."""
        with self._lock:
            self.exchange.announce("rewound")
            self.transcript.decide(Rewound(to=record))
            self._turn = None

    def listen(self, listener: Listener) -> None:
        """Tell this listener too what happens from now on."""
        self.announcer.listen(listener)

    def close(self) -> None:
        """Let others write."""
        self.transcript.close()

    # -- inside ----------------------------------------------------------------------------------

    def _materialise(self, turn: Turn) -> Prepared:
        with self._lock:
            prepared = self.exchange.prepare(turn.why)
            self._asked_at = self._clock.now()
            self._tell_epochs()
            for repair in dict.fromkeys(self._repairs(prepared)):
                self.announcer.tell(repair)
            change = prepared.forecast.change
            self.announcer.tell(
                Sending(
                    request=prepared.record.id,
                    model=self.exchange.frame.model,
                    provider=self.profile.provider,
                    epoch=prepared.record.epoch,
                    tokens=prepared.size.tokens,
                    body_bytes=len(prepared.body.raw),
                    max_tokens=self.exchange.frame.max_tokens,
                    lost=prepared.forecast.tokens,
                    lost_because=prepared.forecast.announced or (change.part if change else ""),
                )
            )
            return prepared

    def _repairs(self, prepared: Prepared) -> list[Repaired]:
        """What is mended in the newest messages; the older ones were told of when they were new."""
        return [
            Repaired(what=repair.what, where=repair.where)
            for message in prepared.messages[-2:]
            for repair in message.repairs
        ]

    def _mend(self, error: ModelError) -> bool:
        match error:
            case BoundThinking():
                self.exchange.open("the provider refused the reasoning", drops_thinking=True)
                return True
            case PromptTooLong():
                return self.upkeep.relieve(self.settings, error.gap or self.window.effective // 5)
            case BodyTooLarge():
                return self.upkeep.relieve(self.settings, self.window.effective // 5)
            case _:
                return False

    def _something_to_say(self) -> None:
        view = self.transcript.view
        waiting = view.pending_calls
        newest = view.items_from(len(view) - 1)[-1:] if len(view) else []
        if not newest:
            raise InputError("there is nothing to send yet: say something with user() first")
        if newest[0].said.role == "assistant":
            need = f"tool_results() for {', '.join(waiting)}" if waiting else "user()"
            raise InputError(f"the model spoke last, so there is nothing new to send: call {need} first")
        if waiting and newest[0].said.answers:
            raise InputError(
                f"calls still wait for results: {', '.join(waiting)}; give them with tool_results() first"
            )

    def _masked(self, given: Sequence[Block]) -> list[Block]:
        if self._opened.redaction != "gate":
            return list(given)
        masked = redact.mask_blocks(given)
        if masked.findings:
            kinds = tuple(sorted({finding.kind for finding in masked.findings}))
            self.announcer.tell(Masked(kinds=kinds, count=len(masked.findings)))
        return masked.blocks

    def _keyed(self, key: str) -> str:
        for item in reversed(self.transcript.view.items):
            if item.said.key == key:
                return item.said.uuid
        return history.keyed(self.transcript.log, key) if self.transcript.view.boundary else ""

    def _answered(self, call: str) -> bool:
        return any(call in item.said.answers for item in self.transcript.view.items)

    def _in_view(self, record: str) -> Item:
        item = self.transcript.view.item(record)
        if item is None:
            raise Refused(f"{record} is not a record in view")
        return item

    def _span(self, first: str, last: str) -> list[Item]:
        view = self.transcript.view
        items = view.items
        places = [
            next((n for n, item in enumerate(items) if item.said.uuid == end), -1) for end in (first, last)
        ]
        if -1 in places or places[0] > places[1]:
            raise Refused(f"{first} to {last} is no span of records in view")
        after = items[places[1] + 1] if places[1] + 1 < len(items) else None
        if not view.begins_round(first) or (after is not None and not view.begins_round(after.said.uuid)):
            raise Refused("a span must hold whole rounds: an answer together with all its results")
        if after is None:
            raise Refused("the newest round cannot be removed: rewind to before it instead")
        span = items[places[0] : places[1] + 1]
        if held := pinned(self.transcript) & {item.said.uuid for item in span}:
            raise Refused(f"{sorted(held)[0]} in that span is pinned; unpin it first")
        return span

    def _stored(self, reference: str) -> Stored | str | None:
        """Where the whole of a result is: on disk, or under the call it answers."""
        for made in self.transcript.view.decisions():
            if isinstance(made, Offload) and reference in (made.id, made.path, made.tool_use_id):
                return Stored(made.path, made.size, made.sha256) if made.path else made.tool_use_id
        for item in self.transcript.view.items:
            for call, place in item.said.stored.items():
                if reference in (call, place.path):
                    return place
        return history.stored(self.transcript.log, reference)

    def _result(self, call: str) -> Block | None:
        for item in self.transcript.view.items:
            if call in item.said.answers:
                return next(block for block in item.said.blocks if block.id == call)
        return history.result(self.transcript.log, call)

    def _tell_epochs(self) -> None:
        opened, self.exchange.opened = self.exchange.opened, []
        for epoch in opened:
            self.announcer.tell(
                EpochOpened(
                    reason=epoch.reason,
                    epoch=epoch.id,
                    drops_thinking=epoch.drops_thinking,
                    usd=self._rewrite_usd(),
                )
            )

    def _rewrite_usd(self) -> float | None:
        tokens = self.exchange.size().tokens
        price = self.profile.price(tokens)
        lifetime = SECONDS[self.exchange.lifetimes.tail]
        return None if price is None else tokens * price.write(lifetime) / 1e6

    def _tell_answer(self, outcome: Outcome) -> None:
        usage, answer = outcome.usage, outcome.reply.answer
        self.announcer.tell(
            Answered(
                request=outcome.prepared.record.id,
                model=answer.model,
                provider=self.profile.provider,
                response=answer.id,
                stop_reason=answer.stop_reason or "",
                input_tokens=usage.input_tokens,
                cache_read_tokens=usage.cache_read_input_tokens,
                cache_write_tokens=usage.cache_creation_input_tokens,
                output_tokens=usage.output_tokens,
                estimated=outcome.prepared.size.tokens,
                usd=outcome.cost,
                uncached_usd=outcome.uncached_cost,
                ideal_usd=outcome.ideal_cost,
                seconds=self._clock.now() - self._asked_at,
                cleared_by_provider=self.exchange.edited,
            )
        )
        if outcome.broken is not None and self.settings.break_watch:
            broken = outcome.broken
            self.announcer.tell(
                CacheBroke(
                    cause=broken.cause,
                    part=broken.part,
                    tokens=broken.tokens,
                    usd=broken.usd,
                    elapsed=broken.elapsed,
                    expected=broken.expected,
                    diff=broken.diff,
                )
            )


def _window(profile: Profile, settings: Settings) -> Window:
    return Window.of(
        profile,
        override=settings.context_window,
        cap=settings.compact_window,
        percent=settings.compact_percent,
        blocking=settings.blocking_limit,
        auto_compact=settings.auto_compact,
    )


def _frame(
    wanted: Wanted, profile: Profile, window: Window, settings: Settings, kinds: Mapping[str, str]
) -> Frame:
    fields = dict(wanted.fields)
    needed = list[str | None](wanted.betas)
    managed = edits.wanted(profile, window, settings, kinds)
    if managed and "context_management" not in fields:
        fields["context_management"] = managed
        needed.append(profile.betas.edits)
    if profile.tool_changes and wanted.tools:
        needed += [profile.betas.tool_changes, profile.betas.inline_tools]
    return Frame.of(
        wanted.model,
        wanted.max_tokens,
        system=wanted.system,
        tools=[dict(tool) for tool in wanted.tools],
        betas=[beta for beta in needed if beta],
        **fields,
    )


def _lifetimes(wanted: Lifetimes, profile: Profile, settings: Settings) -> Lifetimes:
    long = settings.long_lifetime and any(seconds >= 3600 for seconds in profile.cache.lifetimes)
    return wanted if long else Lifetimes()


def _list(parts: Sequence[Any]) -> bytes:
    return b"[" + b",".join(bytes(part) for part in parts) + b"]"
