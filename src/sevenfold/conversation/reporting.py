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
from sevenfold.record.usage import Usage
from sevenfold.record.wire import Repair
from sevenfold.request.watch import SECONDS

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.request import Outcome, Prepared
    from sevenfold.conversation.turn import Exchange

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


def _alike(proposed: Proposed, outcome: type[Event]) -> dict[str, Any]:
    """The fields that a proposal shares with the event that reports its outcome."""
    return {name: getattr(proposed, name) for name in outcome.__struct_fields__ if hasattr(proposed, name)}


def epochs(c: Conversation) -> None:
    """Report the epochs opened since this was last called."""
    for epoch in c.take_opened():
        tokens = c.size().tokens
        price = c.profile.price(tokens)
        rewrite = None if price is None else tokens * price.write(SECONDS[c.epoch.lifetimes.tail]) / 1e6
        c.events.tell(
            EpochOpened(
                reason=epoch.reason, epoch=epoch.id, drops_thinking=epoch.drops_thinking, usd=rewrite
            )
        )


def sending(exchange: Exchange, prepared: Prepared) -> None:
    """Report a recorded request that is about to be sent."""
    source = exchange.source.name
    tell = exchange.events.tell
    reported = set[Repair]()
    # Repairs in older messages were reported when those were new.
    for message in prepared.messages[-2:]:
        for repair in message.repairs:
            if repair not in reported:
                reported.add(repair)
                tell(Repaired(source=source, what=repair.kind, where=repair.subject))
    frame = exchange.epoch.frame
    forecast = prepared.forecast
    change = forecast.change
    tell(
        Sending(
            source=source,
            request=prepared.record.id,
            model=frame.model,
            provider=exchange.profile.provider,
            epoch=prepared.record.epoch,
            tokens=prepared.size.tokens,
            body_bytes=len(prepared.body.raw),
            max_tokens=frame.with_fields(prepared.record.parameters).max_tokens,
            lost=forecast.tokens,
            lost_because=forecast.announced or (change.words if change else ""),
            lost_usd=forecast.usd if forecast.tokens else None,
            lost_diff=change.diff() if change and not forecast.announced else "",
            after_compaction=prepared.after_compaction,
        )
    )


def answered(exchange: Exchange, outcome: Outcome, seconds: float) -> None:
    """Report an answer that took this long, and the cache break it reveals, if any."""
    answer = outcome.reply.answer
    request = outcome.prepared.record.id
    # What a summary of the provider's own cost is not in the totals that it reports.
    usage = outcome.usage.billed if exchange.aside else outcome.usage
    exchange.events.tell(
        Answered(
            source=exchange.source.name,
            request=request,
            model=answer.model,
            provider=exchange.profile.provider,
            response=answer.id,
            stop_reason=answer.stop_reason or "",
            **usage.counts,
            estimated=outcome.prepared.size.tokens,
            usd=outcome.cost,
            uncached_usd=outcome.uncached_cost,
            ideal_usd=outcome.ideal_cost,
            seconds=seconds,
            cleared_by_provider=exchange.edited,
            after_compaction=outcome.prepared.after_compaction,
        )
    )
    if outcome.broken is not None and exchange.break_watch:
        exchange.events.tell(replace(outcome.broken, source=exchange.source.name))


def failed(exchange: Exchange, error: ModelError, request: str, usage: Usage, *, again: bool) -> None:
    """Report a request that got no complete answer; ``usage`` is what was billed for the part that came."""
    profile = exchange.profile
    exchange.events.tell(
        Failed(
            source=exchange.source.name,
            request=request,
            model=exchange.epoch.frame.model,
            provider=profile.provider,
            error=type(error).__name__,
            reason=str(error),
            again=again,
            **usage.counts,
            usd=usage.cost(profile) if usage.total else 0.0,
            uncached_usd=usage.uncached_cost(profile) if usage.total else 0.0,
        )
    )
