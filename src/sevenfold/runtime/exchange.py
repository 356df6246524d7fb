"""Asking the model what comes next: from the view to a request, from the answer back to the log.

An exchange keeps to one epoch: what precedes the messages is written down once, when the epoch opens, and
sent as it stands there until another one opens. Each request leaves a record from which, with its epoch and
its tip, the body can be made again byte for byte.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from sevenfold.ports import Ask, Call, Clock, Reply
from sevenfold.profiles import Profile
from sevenfold.record.blocks import THINKING
from sevenfold.record.decisions import Epoch, Request
from sevenfold.record.gauge import Gauge, Size
from sevenfold.record.usage import Usage
from sevenfold.record.weight import opening
from sevenfold.record.wire import Message
from sevenfold.request import price
from sevenfold.request.frame import Body, Frame, Marker, assemble
from sevenfold.request.plan import Lifetimes, Sizes, Tail, plan, tail_of
from sevenfold.request.sources import source as rules_of
from sevenfold.request.watch import SECONDS, Break, Forecast, Sent, Watched
from sevenfold.runtime.transcript import Transcript


class Prepared(Struct, frozen=True):
    """A request that is ready, and what is expected of it."""

    body: Body
    call: Call
    messages: tuple[Message, ...]
    size: Size
    forecast: Forecast


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
        self.frame, self.lifetimes = self._enter(frame, lifetimes or Lifetimes())
        self.gauge = Gauge.of(profile, *self.frame.tools, *self.frame.system)

    def turn(self) -> Generator[Ask, Reply, Outcome]:
        """One request and its answer, both on record."""
        prepared = self.prepare()
        reply = yield Ask(prepared.call)
        return self.observe(prepared, reply)

    def prepare(self) -> Prepared:
        """The next request, written down and ready to go."""
        forecast = self._look()
        if forecast.change and self._profile.thinking.bound and self._thinks():
            # The server would refuse reasoning that stands behind a changed part: go on without it.
            self._open(f"{forecast.change.part} changed", drops_thinking=True)
        messages = self._transcript.view.messages()
        size = self.gauge.size(self._transcript.view)
        markers = plan(
            self.frame, messages, self._profile.cache, self._sizes(size), self.lifetimes, before=self._tail
        )
        extra = self._extra()
        body = assemble(self.frame, messages, markers, extra)
        forecast = self._look(markers)
        self._record(body, markers, extra)
        call = Call(body.raw, self.frame.betas, self._source.name)
        return Prepared(body, call, tuple(messages), size, forecast)

    def _look(self, markers: tuple[Marker, ...] = ()) -> Forecast:
        messages = tuple(self._transcript.view.messages())
        sending = Sent(self.frame, messages, self.lifetimes, self._clock.now(), markers)
        self.watched = self.watched.look(sending, self._profile)
        return self.watched.forecast

    def _thinks(self) -> bool:
        return any(
            part.kind in THINKING for message in self._transcript.view.messages() for part in message.parts
        )

    def observe(self, prepared: Prepared, reply: Reply) -> Outcome:
        """Take the answer into the log, and learn from what it reports."""
        self._tail = tail_of(prepared.body.markers) or self._tail
        self._last_answer = reply.answer.id
        measured = self._transcript.model(reply.answer)
        usage = Usage.read(reply.answer.usage)
        if measured:
            self.gauge = self.gauge.observe(measured)
        self.watched, broken = self.watched.judge(usage, self._profile, provider=_miss_reason(reply))
        cost, uncached = price.cost(usage, self._profile), price.uncached_cost(usage, self._profile)
        return Outcome(reply, prepared, broken, cost, uncached, self._ideal(usage))

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
        self.watched = self.watched.announce(reason)
        self._billed = None
        self._open(reason, drops_thinking=self._profile.thinking.bound)

    def _enter(self, frame: Frame, lifetimes: Lifetimes) -> tuple[Frame, Lifetimes]:
        """The stored epoch's parts if there is one: a resumed session sends the bytes it sent before."""
        epoch = self._transcript.view.epoch
        if epoch is not None and epoch.model == frame.model:
            return frame_of(epoch), Lifetimes(**epoch.lifetimes)
        self.frame, self.lifetimes = frame, lifetimes
        self._open("start" if epoch is None else "model", drops_thinking=epoch is not None)
        return frame, lifetimes

    def _open(self, reason: str, *, drops_thinking: bool) -> None:
        frame = self.frame
        self._transcript.decide(
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
            )
        )

    def _record(self, body: Body, markers: Sequence[Marker], extra: Mapping[str, bytes]) -> None:
        view = self._transcript.view
        self._transcript.decide(
            Request(
                epoch=view.epoch.id if view.epoch else "",
                tip=view.tip,
                source=self._source.name,
                markers=[(mark.level, mark.index, mark.block, mark.ttl) for mark in markers],
                parameters={name: Raw(raw) for name, raw in extra.items()},
                sha256=body.sha256,
            )
        )

    def _extra(self) -> dict[str, bytes]:
        if not self._diagnoses:
            return {}
        return {"diagnostics": msgspec.json.encode({"previous_message_id": self._last_answer})}

    def _sizes(self, size: Size) -> Sizes:
        """Tokens, estimated, up to the end of each part."""
        count = self.gauge.estimator.tokens
        tools = round(count(opening(*self.frame.tools)))
        ends, running = [], tools
        for part in self.frame.system:
            running += round(count(opening(part)))
            ends.append(running)
        return Sizes(tools, tuple(ends), size.tokens)


def frame_of(epoch: Epoch) -> Frame:
    """The parts before the messages as an epoch's record holds them."""
    return Frame(
        epoch.model,
        epoch.max_tokens,
        tuple(bytes(part) for part in epoch.system),
        tuple(bytes(part) for part in epoch.tools),
        tuple((name, bytes(raw)) for name, raw in epoch.settings.items()),
        tuple(epoch.betas),
    )


def rebuild(epoch: Epoch, request: Request, messages: Sequence[Message]) -> Body:
    """A request as it was sent, from its records and the messages of the view at its tip."""
    markers = [Marker(*mark) for mark in request.markers]
    extra = {name: bytes(raw) for name, raw in request.parameters.items()}
    return assemble(frame_of(epoch), messages, markers, extra)


def _miss_reason(reply: Reply) -> str:
    match msgspec.json.decode(reply.diagnostics):
        case {"cache_miss_reason": {"type": str() as reason}}:
            return reason
        case _:
            return ""
