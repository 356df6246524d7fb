"""Asking the model what comes next: from the view to a request, from the answer back to the log.

An exchange keeps to one epoch: what precedes the messages is written down once, when the epoch opens, and
sent as it stands there until another one opens. Each request leaves a record from which, with its epoch and
its tip, the body can be made again byte for byte.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from math import inf

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from sevenfold.ports import Ask, Call, Clock, Reply
from sevenfold.profiles import Profile
from sevenfold.record.decisions import Epoch, Request, Why
from sevenfold.record.gauge import Gauge, Size
from sevenfold.record.usage import Usage
from sevenfold.record.weight import opening
from sevenfold.record.wire import Message
from sevenfold.request import price
from sevenfold.request.frame import Body, Frame, Marker, assemble
from sevenfold.request.plan import Lifetimes, Sizes, Tail, plan, tail_of
from sevenfold.request.sources import source as rules_of
from sevenfold.request.watch import SECONDS, Break, Forecast, Sent, Watched
from sevenfold.runtime.history import Account
from sevenfold.runtime.opening import Amendment, enter
from sevenfold.runtime.transcript import Transcript


class Prepared(Struct, frozen=True):
    """A request that is ready, and what is expected of it."""

    body: Body
    call: Call
    messages: tuple[Message, ...]
    size: Size
    forecast: Forecast
    record: Request


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
        self._tail: Tail | None = None
        self._last_answer: str | None = None
        self._billed: price.Call | None = None
        self.watched = Watched()
        self.account = Account.of(transcript.log)
        """What the session has cost so far, and in how many requests."""
        self.edited = 0
        """Tokens the provider's own edits took out of the last request."""
        entered = enter(
            transcript.view,
            frame,
            lifetimes or Lifetimes(),
            profile,
            cold=self.idle_seconds() > SECONDS[(lifetimes or Lifetimes()).tail],
        )
        self.frame, self.lifetimes = entered.frame, entered.lifetimes
        self._amendment: Amendment | None = entered.amendment
        self.gauge = Gauge.of(profile, *self.frame.tools, *self.frame.system)
        self.opened: list[Epoch] = []
        """Epochs opened and not yet told of."""
        if entered.opens:
            self.open(entered.opens, drops_thinking=entered.drops_thinking)

    def turn(self) -> Generator[Ask, Reply, Outcome]:
        """One request and its answer, both on record."""
        prepared = self.prepare()
        reply = yield Ask(prepared.call)
        return self.observe(prepared, reply)

    def idle_seconds(self) -> float:
        """How long ago the newest answer came; endless before the first."""
        came = self._transcript.view.answered_at
        try:
            return self._clock.now() - datetime.fromisoformat(came).timestamp()
        except ValueError:
            return inf

    def size(self) -> Size:
        """How large the conversation is now."""
        return self.gauge.size(self._transcript.view, edited=self.edited)

    def prepare(self, why: Why | None = None) -> Prepared:
        """The next request, written down and ready to go."""
        self._amend()
        forecast = self._look()
        if forecast.change and self._profile.thinking.bound and self._transcript.view.weight.thoughts:
            # The server would refuse reasoning that stands behind a changed part: go on without it.
            self.open(f"{forecast.change.part} changed", drops_thinking=True)
        messages = self._transcript.view.messages()
        size = self.size()
        markers = plan(
            self.frame, messages, self._profile.cache, self.sizes(size), self.lifetimes, before=self._tail
        )
        extra = self._extra()
        body = assemble(self.frame, messages, markers, extra)
        forecast = self._look(markers)
        expected = replace(why, usd=self._expected_usd(size, forecast)) if why else None
        record = self._record(body, markers, extra, expected)
        call = Call(body.raw, self.frame.betas, self._source.name)
        return Prepared(body, call, tuple(messages), size, forecast, record)

    def _expected_usd(self, size: Size, forecast: Forecast) -> float | None:
        """What the prompt should cost: what is cached is read, the rest is written."""
        price = self._profile.price(size.tokens)
        if price is None:
            return None
        read = max(0, min(self.watched.cached - forecast.tokens, size.tokens))
        written = (size.tokens - read) * price.write(SECONDS[self.lifetimes.tail])
        return (read * price.read + written) / 1e6

    def _amend(self) -> None:
        """Append what changed of system and tools since the epoch opened."""
        amendment, self._amendment = self._amendment, None
        if amendment is not None:
            self._transcript.attach("amended", {}, amendment.blocks, role="system")
            self._transcript.decide(amendment.record)

    def _look(self, markers: tuple[Marker, ...] = ()) -> Forecast:
        messages = tuple(self._transcript.view.messages())
        sending = Sent(self.frame, messages, self.lifetimes, self._clock.now(), markers)
        self.watched = self.watched.look(sending, self._profile)
        return self.watched.forecast

    def observe(self, prepared: Prepared, reply: Reply) -> Outcome:
        """Take the answer into the log, and learn from what it reports."""
        self._tail = tail_of(prepared.body.markers) or self._tail
        self._last_answer = reply.answer.id
        measured = self._transcript.model(reply.answer)
        usage = Usage.read(reply.answer.usage)
        self.edited = _edited(reply)
        if measured:
            self.gauge = self.gauge.observe(measured)
        self.watched, broken = self.watched.judge(usage, self._profile, provider=_miss_reason(reply))
        cost, uncached = price.cost(usage, self._profile), price.uncached_cost(usage, self._profile)
        self.account = self.account.billed(cost)
        return Outcome(reply, prepared, broken, cost, uncached, self._ideal(usage), usage)

    def _ideal(self, usage: Usage) -> float | None:
        call = price.Call(usage.prompt, usage.output_tokens, SECONDS[self.lifetimes.tail])
        before, self._billed = self._billed, call
        whole = price.ideal_cost([before, call] if before else [call], self._profile)
        known = price.ideal_cost([before], self._profile) if before else 0.0
        return None if whole is None or known is None else whole - known

    def reframe(self, frame: Frame, reason: str, *, lifetimes: Lifetimes | None = None) -> None:
        """Open a new epoch with other parts before the messages; the loss of the cache is announced."""
        self.frame, self.lifetimes = frame, lifetimes or self.lifetimes
        self.gauge = self.gauge.opened(*frame.tools, *frame.system)
        self.open(reason, drops_thinking=self._profile.thinking.bound)

    def numbered(self, request: Request) -> Request:
        """The request that is made next with its number, and with what was spent before it."""
        before = self.account
        self.account = replace(before, requests=before.requests + 1)
        return replace(request, number=before.requests, spent=before.usd)

    def charge(self, usd: float | None) -> None:
        """Somebody else's call is on this session's bill."""
        self.account = self.account.billed(usd)

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
        frame = self.frame
        self.announce(reason)
        epoch = self._transcript.decide(
            Epoch(
                reason=reason,
                model=frame.model,
                max_tokens=frame.max_tokens,
                system=[Raw(part) for part in frame.system],
                tools=[Raw(part) for part in frame.tools],
                settings={name: Raw(raw) for name, raw in frame.settings},
                betas=list(frame.betas),
                lifetimes={"fixed": self.lifetimes.fixed, "tail": self.lifetimes.tail},
                drops_thinking=drops_thinking,
                drops_thinking_after=after,
                drops_thinking_before=before,
            )
        )
        self.opened.append(epoch)
        return epoch

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

    def sizes(self, size: Size) -> Sizes:
        """Tokens, estimated, up to the end of each part."""
        count = self.gauge.estimator.tokens
        tools = round(count(opening(*self.frame.tools)))
        ends, running = [], tools
        for part in self.frame.system:
            running += round(count(opening(part)))
            ends.append(running)
        return Sizes(tools, tuple(ends), size.tokens)


def _edited(reply: Reply) -> int:
    """Tokens the provider's own edits took out."""
    match msgspec.json.decode(reply.context_management):
        case {"applied_edits": list() as edits}:
            return sum(edit.get("cleared_input_tokens") or 0 for edit in edits if isinstance(edit, dict))
        case _:
            return 0


def _miss_reason(reply: Reply) -> str:
    match msgspec.json.decode(reply.diagnostics):
        case {"cache_miss_reason": {"type": str() as reason}}:
            return reason
        case _:
            return ""
