"""A fork: a conversation that begins with a session's own bytes and goes its own way.

It sends what the session sends, system, tools, settings and messages, so that it reads the session's cache; its
own messages come behind, and a fork of one turn does not write them to the cache. Nothing of it enters the
conversation it was taken from; its requests are on record with what they added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Raw

from sevenfold.conversation import intake
from sevenfold.conversation.exchange import Exchange, Outcome, Prepared
from sevenfold.conversation.flow import Ask, Flow
from sevenfold.conversation.request_events import Telling
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import InputError, ModelError
from sevenfold.ports import Call, Clock, Reply
from sevenfold.profiles import Profile
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import Billed, Request
from sevenfold.record.usage import Usage
from sevenfold.record.wire import Message
from sevenfold.request import price
from sevenfold.request.frame import Body, assemble
from sevenfold.request.plan import plan
from sevenfold.request.sources import source as rules_of
from sevenfold.request.watch import Sent

UNDER_WAY = "[The result of this call is not known here: it is still under way in the main conversation]"


class Fork:
    """What a session was when it was forked, and what was said since on this side."""

    def __init__(
        self,
        exchange: Exchange,
        transcript: Transcript,
        profile: Profile,
        clock: Clock,
        source: str,
        shared: Sequence[Message] | None = None,
        *,
        masked: Callable[[Sequence[Block]], list[Block]] = list,
        telling: Telling | None = None,
        upto: str | None = None,
    ) -> None:
        self._exchange = exchange
        self._transcript = transcript
        self._profile = profile
        self._clock = clock
        self._source = rules_of(source)
        self._frame = exchange.frame
        self._lifetimes = exchange.lifetimes
        self._epoch = transcript.view.epoch.id if transcript.view.epoch else ""
        now = tuple(transcript.view.messages())
        self._shared = now if shared is None else tuple(shared)
        begins_in_view = self._shared == now or upto is not None
        self._tip = transcript.view.tip if begins_in_view else None
        """Where it was taken; None if it begins with other messages than those in view."""
        self._upto = upto if self._shared != now else None
        self._masked = masked
        self._telling = telling
        self._size = exchange.size()
        self._own: list[Message] = []
        self._watched = exchange.watched
        """The cache of what it sends: the session's prefix at first, and its own tail if it writes one."""
        self._prepared: Prepared | None = None

    def user(self, content: intake.Content) -> None:
        """Say something on this side only."""
        self._add("user", self._masked(intake.message(content)))

    def tool_results(self, given: Mapping[str, Any] | Iterable[Any]) -> None:
        """Answer the fork's own calls."""
        self._add("user", self._masked(intake.results(given)))

    def prepare(self) -> Prepared:
        """The fork's next request, on record."""
        if not self._own:
            raise InputError("a fork has nothing to ask before something was said in it")
        messages = (*self._shared, *self._own)
        shared = None if self._source.writes_tail else len(self._shared)
        markers = plan(
            self._frame,
            messages,
            self._profile.cache,
            self._exchange.sizes(),
            self._lifetimes,
            before=self._exchange.tail,
            shared=shared,
        )
        body = assemble(self._frame, messages, markers)
        sending = Sent(self._frame, messages, self._lifetimes, self._clock.now(), markers)
        self._watched = self._watched.look(sending, self._profile)
        record = self._record(body)
        call = Call(body.raw, self._frame.betas, self._source.name)
        self._prepared = Prepared(body, call, messages, self._size, self._watched.forecast, record)
        if self._telling is not None:
            self._telling.sending(self._prepared, self._source.name)
        return self._prepared

    def observe(self, reply: Reply) -> Outcome:
        """Take in the fork's answer."""
        if self._prepared is None:
            raise InputError("no request of this fork is under way")
        prepared, self._prepared = self._prepared, None
        self._add("assistant", reply.answer.blocks)
        usage = Usage.read(reply.answer.usage)
        before = self._watched
        self._watched, broken = before.judge(usage, self._profile, keeps=self._source.writes_tail)
        if broken is None:
            self._exchange.refreshed(before)
        cost = price.cost(usage, self._profile)
        self._exchange.charge(cost)
        self._transcript.decide(
            Billed(request=prepared.record.id, model=reply.answer.model, usage=reply.answer.usage)
        )
        uncached = price.uncached_cost(usage, self._profile)
        outcome = Outcome(reply, prepared, broken, cost, uncached, cost, usage)
        if self._telling is not None:
            self._telling.answered(outcome, self._source.name)
        return outcome

    def turn(self) -> Flow[Outcome]:
        """One request of the fork and its answer."""
        prepared = self.prepare()
        try:
            reply = yield from Ask(prepared.call)
        except ModelError as error:
            if self._telling is not None:
                self._telling.failed(error, prepared.record.id, source=self._source.name)
            raise
        return self.observe(reply)

    def _add(self, role: str, said: Sequence[Block]) -> None:
        if not said:
            return
        if not self._own:
            said = (*self._unanswered(said), *said)
        before = self._own[-1] if self._own else None
        if before is not None and before.role == role:
            said = (*before.parts, *said)
            self._own.pop()
        raw = b'{"role":"' + role.encode() + b'","content":[' + b",".join(part.raw for part in said) + b"]}"
        self._own.append(Message(role, tuple(said), raw))

    def _unanswered(self, said: Sequence[Block]) -> list[Block]:
        """The same line as a result for every call that was under way when the fork was taken."""
        newest = self._shared[-1] if self._shared else None
        if newest is None or newest.role != "assistant":
            return []
        given = {block.id for block in said if block.kind == "tool_result"}
        calls = [part.id for part in newest.parts if part.kind == "tool_use" and part.id not in given]
        return [blocks.result(call, UNDER_WAY) for call in calls]

    def _record(self, body: Body) -> Request:
        own = self._own if self._tip is not None else [*self._shared, *self._own]
        made = Request(
            epoch=self._epoch,
            tip=self._tip,
            source=self._source.name,
            markers=[(mark.level, mark.index, mark.block, mark.ttl) for mark in body.markers],
            sha256=body.sha256,
            appended=[Raw(message.raw) for message in own],
            upto=self._upto,
        )
        return self._transcript.decide(self._exchange.numbered(made))
