"""Asking the model what comes next: from the view to a request, from the answer back to the log.

An exchange keeps to one epoch: what precedes the messages is written down once, when the epoch opens, and
sent as it stands there until another one opens. Each request leaves a record from which, with its epoch and
its tip, the body can be made again byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import inf

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from sevenfold.conversation import provider_edits as edited
from sevenfold.conversation.amend import tell_changes, withdraw_changes
from sevenfold.conversation.epoch import ADOPTED, Entry, enter, frame_of, learned, sizes
from sevenfold.conversation.flow import Ask, Flow
from sevenfold.conversation.history import Account, answered_at, last_tail
from sevenfold.conversation.transcript import Transcript
from sevenfold.ports import Call, Clock, Reply
from sevenfold.profiles import Profile
from sevenfold.record.blocks import THINKING, read_field, read_fields
from sevenfold.record.decisions import Epoch, Request, Rewound, Why
from sevenfold.record.gauge import Size
from sevenfold.record.layout import Item, Measured
from sevenfold.record.tokens import Estimator
from sevenfold.record.usage import Usage
from sevenfold.record.weight import opening
from sevenfold.record.wire import Message
from sevenfold.request import price
from sevenfold.request.frame import Body, Frame, Marker, assemble
from sevenfold.request.plan import Lifetimes, Sizes, Tail, plan, tail_of
from sevenfold.request.sources import source as rules_of
from sevenfold.request.watch import SECONDS, Break, Forecast, Sent, Watched


class Prepared(Struct, frozen=True):
    """A request that is ready, and what is expected of it."""

    body: Body
    call: Call
    messages: tuple[Message, ...]
    size: Size
    forecast: Forecast
    record: Request
    last: str | None = None
    """The newest record in view when it was made…"""
    version: tuple[int, int] = (0, 0)
    """…and the view's version."""


class Outcome(Struct, frozen=True):
    """A request that was answered, and what it cost."""

    reply: Reply
    prepared: Prepared
    broken: Break | None
    cost: float | None
    uncached_cost: float | None
    """What it would have cost with nothing cached…"""
    ideal_cost: float | None
    """…and with every token of the request before it read from the cache."""
    usage: Usage


class Exchange:
    """The main thread's requests and answers."""

    def __init__(
        self,
        transcript: Transcript,
        frame: Frame,
        profile: Profile,
        *,
        clock: Clock,
        lifetimes: Lifetimes | None = None,
        source: str = "main",
        diagnoses: bool = False,
    ) -> None:
        self._transcript = transcript
        self._profile = profile
        self._clock = clock
        self._source = rules_of(source)
        self._diagnoses = diagnoses
        self._last_answer: str | None = None
        self._billed: price.Call | None = None
        self.watched = Watched()
        """The cache of this conversation; forks that write a tail watch over that themselves."""
        self.tail: Tail | None = last_tail(transcript.log)
        """Where the last request that was answered had its last marker."""
        self.account = Account.of(transcript.log)
        """What the session has cost so far, and in how many requests."""
        self.own_usd = 0.0
        """What the engine's own calls have cost since the session was opened."""
        self._cleared_uses = 0
        self.edited = 0
        """Tokens the provider's own edits took out of the last request."""
        self.opened: list[Epoch] = []
        """Epochs opened and not yet told of."""
        self.wanted = frame
        """What is to precede the messages once it can be changed at no loss."""
        self._looked_at: object = None
        self._vouched = False
        self._answered_at = answered_at(transcript.log)
        entered = self._enter(frame, lifetimes or Lifetimes())
        self.frame, self.lifetimes = entered.frame, entered.lifetimes
        self.gauge = learned(profile, transcript.told, *self.frame.tools, *self.frame.system)
        if entered.opens == ADOPTED:
            self.gauge = replace(self.gauge, overhead=None)
        if entered.opens and not transcript.read_only:
            self.open(entered.opens, drops_thinking=entered.drops_thinking)
            if entered.anew:
                withdraw_changes(transcript)

    def _enter(self, frame: Frame, lifetimes: Lifetimes) -> Entry:
        view = self._transcript.view
        kept = Lifetimes(**view.epoch.lifetimes) if view.epoch else lifetimes
        cold = self.idle_seconds() > SECONDS[kept.tail]
        return enter(view, frame, lifetimes, self._profile, cold=cold)

    def turn(self) -> Flow[Outcome]:
        """One request and its answer, both on record."""
        prepared = self.prepare()
        reply = yield from Ask(prepared.call)
        return self.observe(prepared, reply)

    def idle_seconds(self) -> float:
        """How long ago the newest answer came; endless before the first."""
        try:
            return self._clock.now() - datetime.fromisoformat(self._answered_at).timestamp()
        except ValueError:
            return inf

    def size(self) -> Size:
        """How large the conversation is now."""
        return self.gauge.size(self._transcript.view, edited=self.edited)

    def prepare(self, why: Why | None = None) -> Prepared:
        """The next request, written down and ready to go."""
        self._amend()
        self._mind_reasoning(self._look())
        view = self._transcript.view
        messages, size = view.messages(), self.size()
        markers = plan(
            self.frame,
            messages,
            self._profile.cache,
            self.sizes(),
            self.lifetimes,
            before=self.tail,
            edge=edited.edge(self.frame, messages, self._cleared_uses),
        )
        extra = self._extra()
        body = assemble(self.frame, messages, markers, extra)
        forecast = self._look(markers)
        expected = replace(why, usd=self._expected_usd(size, forecast)) if why else None
        newest = view.items_from(len(view) - 1)[-1:] if len(view) else []
        return Prepared(
            body,
            Call(body.raw, self.frame.betas, self._source.name),
            tuple(messages),
            size,
            forecast,
            self._record(body, markers, extra, expected),
            newest[0].said.uuid if newest else None,
            view.version,
        )

    def _mind_reasoning(self, forecast: Forecast) -> None:
        """Reasoning that stands behind a changed part would be refused: go on without it.

        Unless whoever made the change has seen to it that what is left is valid.
        """
        thinks = self._profile.thinking.bound and self._transcript.view.weight.thoughts
        if forecast.change and thinks and not self._vouched:
            self.open(f"{forecast.change.part} changed", drops_thinking=True)

    def vouch(self) -> None:
        """What changed in front of reasoning in view is what that reasoning was produced behind."""
        self._vouched = True

    def _expected_usd(self, size: Size, forecast: Forecast) -> float | None:
        """What the prompt should cost: what is cached is read, the rest is written."""
        price = self._profile.price(size.tokens)
        if price is None:
            return None
        read = max(0, min(self.watched.cached - forecast.tokens, size.tokens))
        written = (size.tokens - read) * price.write(SECONDS[self.lifetimes.tail])
        return (read * price.read + written) / 1e6

    def _amend(self) -> None:
        """Append what system and tools are now, if the model does not know it from what is in view."""
        view = self._transcript.view
        looking_at = view, view.version, self.wanted
        if looking_at == self._looked_at:
            return
        self._looked_at = looking_at
        cold = self.idle_seconds() > SECONDS[self.lifetimes.tail]
        if not tell_changes(self._transcript, self.frame, self.wanted, self._profile, cold=cold):
            self.reframe(self.wanted, "system or tools")
            withdraw_changes(self._transcript)

    def _look(self, markers: tuple[Marker, ...] = ()) -> Forecast:
        messages = tuple(self._transcript.view.messages())
        sending = Sent(self.frame, messages, self.lifetimes, self._clock.now(), markers)
        self.watched = self.watched.look(sending, self._profile)
        return self.watched.forecast

    def observe(self, prepared: Prepared, reply: Reply) -> Outcome:
        """Take the answer into the log, and learn from what it reports."""
        reply = replace(reply, answer=self._transcript.distinct(reply.answer))
        self.tail = tail_of(prepared.body.markers) or self.tail
        self._last_answer = reply.answer.id
        measured = self._answer(prepared, reply)
        usage = Usage.read(reply.answer.usage)
        moved, self.edited = edited.taken_out(reply) != self.edited, edited.taken_out(reply)
        self._cleared_uses = edited.cleared_uses(reply)
        if moved and not self.watched.announced:
            self.watched = self.watched.announce("provider edits")
        elif measured and not moved:
            # With other edits than last time, what the prompt grew by says nothing about what was added.
            self.gauge = self.gauge.observe(measured)
        self.watched, broken = self.watched.judge(usage, self._profile, provider=_miss_reason(reply))
        cost, uncached = price.cost(usage, self._profile), price.uncached_cost(usage, self._profile)
        self.account = self.account.billed(cost)
        self._vouched, self._answered_at = False, self._transcript.view.answered_at
        return Outcome(reply, prepared, broken, cost, uncached, self._ideal(usage), usage)

    def _answer(self, prepared: Prepared, reply: Reply) -> Measured | None:
        """Record the answer behind what it answers: what was said meanwhile comes after it."""
        transcript = self._transcript
        late = _behind(transcript.view.items, prepared.last)
        if not late:
            measured = transcript.model(reply.answer)
        else:
            self.announce("said meanwhile")
            transcript.decide(Rewound(to=prepared.last))
            measured = transcript.model(reply.answer)
            for item in late:
                transcript.again(item.said)
        thinks = any(block.kind in THINKING for block in reply.answer.blocks)
        if thinks and self._profile.thinking.bound and transcript.view.version != prepared.version:
            now = transcript.view.messages()[: len(prepared.messages)]
            if tuple(now) != prepared.messages:
                self.open("changed while the model answered", drops_thinking=True)
        return measured

    def _ideal(self, usage: Usage) -> float | None:
        call = price.Call(usage.prompt, usage.output_tokens, SECONDS[self.lifetimes.tail])
        before, self._billed = self._billed, call
        whole = price.ideal_cost([before, call] if before else [call], self._profile)
        known = price.ideal_cost([before], self._profile) if before else 0.0
        return None if whole is None or known is None else whole - known

    def reframe(self, frame: Frame, reason: str, *, lifetimes: Lifetimes | None = None) -> None:
        """Open a new epoch with other parts before the messages; the loss of the cache is announced."""
        self.frame, self.lifetimes = frame, lifetimes or self.lifetimes
        self.wanted, self._looked_at = frame, None
        self.gauge = self.gauge.opened(*frame.tools, *frame.system)
        self.open(reason, drops_thinking=self._profile.thinking.bound)

    def numbered(self, request: Request) -> Request:
        """The request that is made next with its number, and with what was spent before it."""
        before = self.account
        self.account = replace(before, requests=before.requests + 1)
        return replace(request, number=before.requests, spent=before.usd)

    def charge(self, usd: float | None) -> None:
        """A call of the engine's own is on this session's bill."""
        self.account = self.account.billed(usd)
        self.own_usd += usd or 0.0

    def refreshed(self, fork: Watched) -> None:
        """A fork has read what this exchange keeps in the cache, so it lives longer."""
        sent, read = self.watched.sent, fork.pending
        if sent is not None and sent is fork.sent and read is not None:
            self.watched = replace(self.watched, sent=replace(sent, at=read.at))

    def announce(self, reason: str) -> None:
        """A decision is about to shorten what was sent: the loss of cache that follows is expected."""
        self.watched = self.watched.announce(reason)
        self._billed = None

    def open(
        self,
        reason: str,
        *,
        drops_thinking: bool = False,
        after: str | None = None,
        before: str | None = None,
    ) -> Epoch:
        """Open an epoch; reasoning is left out if asked for, but for that up to ``after`` and from ``before`` on."""
        self.announce(reason)
        made = _epoch(self.frame, self.lifetimes, reason, drops_thinking)
        epoch = self._transcript.decide(
            replace(made, drops_thinking_after=after, drops_thinking_before=before)
        )
        self.opened.append(epoch)
        if after is not None:
            self.vouch()
        return epoch

    def system_after_compaction(self, *, keeps_frame: bool) -> str:
        """The words of the system prompt in the epoch that a compaction made now would open."""
        frame = self.frame if keeps_frame else self.wanted
        return "\n\n".join(read_field(part, "text") for part in frame.system)

    def next_epoch(
        self, reason: str, *, drops_thinking: bool, keeps_frame: bool, betas: Iterable[str | None] = ()
    ) -> Epoch:
        """The epoch that a compaction opens; it is written, and takes effect, together with it."""
        frame = self.frame if keeps_frame else self.wanted
        needed = {*frame.betas, *(beta for beta in betas if beta)}
        return _epoch(replace(frame, betas=tuple(sorted(needed))), self.lifetimes, reason, drops_thinking)

    def compacted(self) -> None:
        """A compaction is on record: go on with the epoch it opened."""
        epoch = self._transcript.view.epoch
        if epoch is None:
            return
        self.announce("compact")
        self.frame = frame_of(epoch)
        self.gauge = self.gauge.opened(*self.frame.tools, *self.frame.system)
        self.forget_tail()
        self.edited = self._cleared_uses = 0
        self.opened.append(epoch)
        self.vouch()

    def forget_tail(self) -> None:
        """The messages are others now: where the last marker stood says nothing any more."""
        self.tail = None

    def _record(
        self, body: Body, markers: Sequence[Marker], extra: Mapping[str, bytes], why: Why | None
    ) -> Request:
        view = self._transcript.view
        made = Request(
            epoch=view.epoch.id if view.epoch else "",
            tip=view.tip,
            source=self._source.name,
            markers=[(mark.level, mark.index, mark.block, mark.ttl) for mark in markers],
            parameters={name: Raw(raw) for name, raw in extra.items()},
            sha256=body.sha256,
            why=why,
        )
        record = self._transcript.decide(self.numbered(made))
        self.account = replace(self.account, tip=view.tip)
        return record

    def _extra(self) -> dict[str, bytes]:
        if not self._diagnoses:
            return {}
        return {"diagnostics": msgspec.json.encode({"previous_message_id": self._last_answer})}

    def sizes(self) -> Sizes:
        """Tokens up to the end of each part, by a rule that is the same before and after a resume."""
        count = Estimator.of(self._profile.tokenizer).tokens
        tools = round(count(opening(*self.frame.tools)))
        ends, running = [], tools
        for part in self.frame.system:
            running += round(count(opening(part)))
            ends.append(running)
        return Sizes(tools, tuple(ends), running + round(count(self._transcript.view.weight)))


def _epoch(frame: Frame, lifetimes: Lifetimes, reason: str, drops_thinking: bool) -> Epoch:
    return Epoch(
        reason=reason,
        model=frame.model,
        max_tokens=frame.max_tokens,
        system=[Raw(part) for part in frame.system],
        sections=sizes(frame),
        tools=[Raw(part) for part in frame.tools],
        settings={name: Raw(raw) for name, raw in frame.settings},
        betas=list(frame.betas),
        lifetimes={"fixed": lifetimes.fixed, "tail": lifetimes.tail},
        drops_thinking=drops_thinking,
    )


def _behind(items: Sequence[Item], last: str | None) -> Sequence[Item]:
    """What was said after the record ``last``."""
    for back, item in enumerate(reversed(items)):
        if item.said.uuid == last:
            return items[len(items) - back :]
    return ()


def _miss_reason(reply: Reply) -> str:
    match read_fields(reply.diagnostics):
        case {"cache_miss_reason": {"type": str() as reason}}:
            return reason
        case _:
            return ""
