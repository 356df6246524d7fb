"""Events of a conversation: listeners are notified of what happens, and asked first where they may veto."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from sevenfold.errors import ModelError
from sevenfold.events import (
    Acted,
    Answered,
    EpochOpened,
    Event,
    Failed,
    Listener,
    Proposed,
    Repaired,
    Sending,
    SteppedAside,
    Veto,
    Vetoed,
)
from sevenfold.ports import Clock
from sevenfold.profiles import Profile
from sevenfold.record.decisions import Billed
from sevenfold.record.log import Answer
from sevenfold.record.usage import Usage
from sevenfold.record.wire import Repair
from sevenfold.request.watch import SECONDS

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.request import Outcome, Prepared

_log = logging.getLogger(__name__)
E = TypeVar("E", bound=Event)
MAIN = "main"


class Events:
    """Stamps events and passes them to every listener, in the order they subscribed."""

    def __init__(
        self, session: str, clock: Clock, listeners: Iterable[Listener] = (), *, source: str = MAIN
    ) -> None:
        self._session = session
        self._clock = clock
        self._source = source
        self._listeners = list(listeners)
        self._resting: dict[str, str] = {}
        self.problems: list[Exception] = []
        """The last errors raised by listeners; they never reach the conversation."""

    def listen(self, listener: Listener) -> None:
        """Add a listener."""
        self._listeners.append(listener)

    def tell(self, event: Event) -> None:
        """Send an event to all listeners."""
        if self._listeners:
            self._ask(event)

    def aside(
        self, layer: str, reason: str, *, source: str = MAIN, error: BaseException | None = None
    ) -> None:
        """Report that a part of the engine could not do its work, and why; the conversation continues without it."""
        kind = "" if error is None else type(error).__name__
        self.tell(SteppedAside(source=source, layer=layer, reason=reason, error=kind))

    def rests(self, layer: str, reason: str) -> None:
        """Note why a layer pauses, or with an empty reason that it no longer does; reports each new reason once."""
        if reason and reason != self._resting.get(layer):
            self.aside(layer, reason)
        self._resting[layer] = reason

    def may(self, proposed: Proposed) -> bool:
        """Ask every listener for consent; False if one vetoed, and the first veto is reported to all."""
        reason = self._ask(proposed)
        if reason is None:
            return True
        self.tell(Vetoed(reason=reason, **_alike(proposed, Vetoed)))
        return False

    def acted(
        self, done: Proposed, before: int, after: int, reference: str = "", *, undoable: bool = False
    ) -> None:
        """Report that a proposal was carried out, with the tokens before and after."""
        sizes: dict[str, Any] = {"tokens_before": before, "tokens_after": after}
        self.tell(Acted(**_alike(done, Acted), **sizes, reference=reference, undoable=undoable))

    def stamped(self, event: E) -> E:
        """The event with session, time and, if the conversation is not the main thread, its query source."""
        source = self._source if event.source == MAIN else event.source
        return replace(event, session=self._session, at=self._clock.now(), source=source)

    def _ask(self, event: Event) -> str | None:
        stamped = self.stamped(event)
        reason = None
        for listener in self._listeners:
            try:
                answer = listener(stamped)
            except Exception as error:  # noqa: BLE001 (a listener's error must not stop the conversation)
                self.problems = [*self.problems[-9:], error]
                _log.warning("a listener failed on %s: %r", type(stamped).__name__, error)
                continue
            if reason is None and isinstance(answer, Veto):
                reason = answer.reason
        return reason


def _alike(proposed: Proposed, told: type[Event]) -> dict[str, Any]:
    """The fields that a proposal shares with the event that reports its outcome."""
    return {name: getattr(proposed, name) for name in told.__struct_fields__ if hasattr(proposed, name)}


def epochs(c: Conversation) -> None:
    """Report the epochs opened since this was last called."""
    for epoch in c.take_opened() if c.epoch.opened else ():
        tokens = c.size().tokens
        price = c.profile.price(tokens)
        rewrite = None if price is None else tokens * price.write(SECONDS[c.epoch.lifetimes.tail]) / 1e6
        c.events.tell(
            EpochOpened(
                reason=epoch.reason, epoch=epoch.id, drops_thinking=epoch.drops_thinking, usd=rewrite
            )
        )


def sending(c: Conversation, prepared: Prepared, source: str = MAIN) -> None:
    """Report a recorded request that is about to be sent."""
    c.asked_at[prepared.record.id] = c.clock.now()
    told = set[Repair]()
    # Repairs in older messages were reported when those were new.
    for message in prepared.messages[-2:]:
        for one in message.repairs:
            if one not in told:
                told.add(one)
                c.events.tell(Repaired(source=source, what=one.what, where=one.where))
    forecast = prepared.forecast
    change = forecast.change
    c.events.tell(
        Sending(
            source=source,
            request=prepared.record.id,
            model=c.epoch.frame.model,
            provider=c.profile.provider,
            epoch=prepared.record.epoch,
            tokens=prepared.size.tokens,
            body_bytes=len(prepared.body.raw),
            max_tokens=c.epoch.frame.with_fields(prepared.record.parameters).max_tokens,
            lost=forecast.tokens,
            lost_because=forecast.announced or (change.words if change else ""),
            lost_usd=forecast.usd if forecast.tokens else None,
            lost_diff=change.diff() if change and not forecast.announced else "",
            after_compaction=prepared.after_compaction,
        )
    )


def answered(c: Conversation, outcome: Outcome, source: str = MAIN) -> None:
    """Report an answer, and the cache break it reveals, if any."""
    usage, answer, request = outcome.usage, outcome.reply.answer, outcome.prepared.record.id
    now = c.clock.now()
    c.events.tell(
        Answered(
            source=source,
            request=request,
            model=answer.model,
            provider=c.profile.provider,
            response=answer.id,
            stop_reason=answer.stop_reason or "",
            **usage.counts,
            estimated=outcome.prepared.size.tokens,
            usd=outcome.cost,
            uncached_usd=outcome.uncached_cost,
            ideal_usd=outcome.ideal_cost,
            seconds=now - c.asked_at.pop(request, now),
            cleared_by_provider=c.edited,
            after_compaction=outcome.prepared.after_compaction,
        )
    )
    if outcome.broken is not None and c.break_watch:
        c.events.tell(replace(outcome.broken, source=source))


def failed(
    c: Conversation,
    error: ModelError,
    request: str,
    *,
    again: bool = False,
    kept: bool = False,
    source: str = MAIN,
    model: Profile | None = None,
) -> None:
    """Report a request that got no complete answer, and bill the usage the provider had reported.

    ``kept``: the partial answer is recorded with its usage, so no separate billing record is needed.
    """
    c.asked_at.pop(request, None)
    profile, partial = model or c.profile, error.partial
    usage = Usage()
    usd: float | None = 0.0
    uncached: float | None = 0.0
    if isinstance(partial, Answer) and (read := Usage.read(partial.usage)).total:
        usage, usd, uncached = read, read.cost(profile), read.uncached_cost(profile)
        c.charge(usd, own=source != MAIN)
        if not kept:
            asker = c.source.name if source == MAIN else source
            made = Billed(request=request, model=partial.model, usage=partial.usage, source=asker)
            c.transcript.decide(made)
    c.events.tell(
        Failed(
            source=source,
            request=request,
            model=model.model if model else c.epoch.frame.model,
            provider=profile.provider,
            error=type(error).__name__,
            reason=str(error),
            again=again,
            **usage.counts,
            usd=usd,
            uncached_usd=uncached,
        )
    )
