"""What a session tells of its requests: that one goes out, what came back, what it cost, what the cache lost."""

from __future__ import annotations

from sevenfold.conversation.events import MAIN, Announcer
from sevenfold.conversation.exchange import Exchange, Outcome, Prepared
from sevenfold.errors import ModelError
from sevenfold.events import Answered, CacheBroke, EpochOpened, Failed, Repaired, Sending
from sevenfold.ports import Clock
from sevenfold.profiles import Profile
from sevenfold.request.watch import SECONDS, Break


class Telling:
    """Puts what an exchange does into events."""

    def __init__(self, announcer: Announcer, exchange: Exchange, profile: Profile, clock: Clock) -> None:
        self._announcer = announcer
        self._exchange = exchange
        self._profile = profile
        self._clock = clock
        self._asked: dict[str, float] = {}
        self.break_watch = True
        """Whether losses of the cache are told of."""

    def epochs(self) -> None:
        """Epochs opened since this was last called."""
        opened, self._exchange.opened = self._exchange.opened, []
        for epoch in opened:
            self._announcer.tell(
                EpochOpened(
                    reason=epoch.reason,
                    epoch=epoch.id,
                    drops_thinking=epoch.drops_thinking,
                    usd=self._rewrite_usd(),
                )
            )

    def sending(self, prepared: Prepared, source: str = MAIN) -> None:
        """A request is complete and on record."""
        self._asked[prepared.record.id] = self._clock.now()
        for repair in dict.fromkeys(_repairs(prepared, source)):
            self._announcer.tell(repair)
        change = prepared.forecast.change
        self._announcer.tell(
            Sending(
                source=source,
                request=prepared.record.id,
                model=self._exchange.frame.model,
                provider=self._profile.provider,
                epoch=prepared.record.epoch,
                tokens=prepared.size.tokens,
                body_bytes=len(prepared.body.raw),
                max_tokens=self._exchange.frame.max_tokens,
                lost=prepared.forecast.tokens,
                lost_because=prepared.forecast.announced or (change.part if change else ""),
                after_compaction=_compaction_before(prepared),
            )
        )

    def answered(self, outcome: Outcome, source: str = MAIN) -> None:
        """An answer came."""
        usage, answer, request = outcome.usage, outcome.reply.answer, outcome.prepared.record.id
        now = self._clock.now()
        self._announcer.tell(
            Answered(
                source=source,
                request=request,
                model=answer.model,
                provider=self._profile.provider,
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
                seconds=now - self._asked.pop(request, now),
                cleared_by_provider=self._exchange.edited,
                after_compaction=_compaction_before(outcome.prepared),
            )
        )
        if outcome.broken is not None and self.break_watch:
            self._broke(outcome.broken, source)

    def failed(self, error: ModelError, request: str, *, again: bool = False, source: str = MAIN) -> None:
        """No answer came."""
        self._asked.pop(request, None)
        self._announcer.tell(
            Failed(
                source=source,
                request=request,
                model=self._exchange.frame.model,
                provider=self._profile.provider,
                error=type(error).__name__,
                reason=str(error),
                again=again,
            )
        )

    def _broke(self, broken: Break, source: str) -> None:
        self._announcer.tell(
            CacheBroke(
                source=source,
                cause=broken.cause,
                part=broken.part,
                tokens=broken.tokens,
                usd=broken.usd,
                elapsed=broken.elapsed,
                expected=broken.expected,
                diff=broken.diff,
            )
        )

    def _rewrite_usd(self) -> float | None:
        tokens = self._exchange.size().tokens
        price = self._profile.price(tokens)
        lifetime = SECONDS[self._exchange.lifetimes.tail]
        return None if price is None else tokens * price.write(lifetime) / 1e6


def _repairs(prepared: Prepared, source: str) -> list[Repaired]:
    """What is mended in the newest messages; the older ones were told of when they were new."""
    return [
        Repaired(source=source, what=repair.what, where=repair.where)
        for message in prepared.messages[-2:]
        for repair in message.repairs
    ]


def _compaction_before(prepared: Prepared) -> str:
    return prepared.record.why.after_compaction if prepared.record.why else ""
