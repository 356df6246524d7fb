"""Which way to a summary is tried when, and what a failure leads to.

Engines are tried in order until one has a summary; the last needs no model and always has one. After three
compactions in a row for which no model had a summary, automatic ones stop asking models until one succeeds again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sevenfold.conversation.announcer import Announcer
from sevenfold.conversation.exchange import Exchange
from sevenfold.conversation.flow import Flow
from sevenfold.conversation.fork import Fork
from sevenfold.conversation.limits import Limits
from sevenfold.events import SteppedAside
from sevenfold.layers import breaker
from sevenfold.layers.compact import engines
from sevenfold.layers.compact.bills import Bills
from sevenfold.layers.compact.engines import OUTPUT_CAP, Got, Task
from sevenfold.layers.compact.request import Engine, Left, Wish
from sevenfold.layers.compact.scope import Scope
from sevenfold.layers.compact.summary import Draft, Failure
from sevenfold.profiles import Profile
from sevenfold.record.gauge import Size
from sevenfold.record.weight import NOTHING
from sevenfold.record.window import Window
from sevenfold.record.wire import Message
from sevenfold.request.watch import SECONDS
from sevenfold.settings import Settings

Drafted = tuple[Got, Engine, tuple[Left, ...]]
Forks = Callable[[str, Sequence[Message], str | None], Fork]
"""Takes a fork: for whom, with which messages, and the record those end with."""
COLLAPSE = "collapse"
NOBODY = "no client to ask was given"


class Chooser:
    """Gets summaries for one session."""

    def __init__(
        self,
        exchange: Exchange,
        announcer: Announcer,
        bills: Bills,
        *,
        profile: Profile,
        window: Window,
        fork: Forks,
        failures: int = 0,
        second: Profile | None = None,
    ) -> None:
        self._exchange = exchange
        self._announcer = announcer
        self._bills = bills
        self._profile = profile
        self._window = window
        self._fork = fork
        self._second = second
        self.models = False
        """Whether there is anybody to ask."""
        self._said_nobody = False
        self.failures = failures
        """Compactions in a row for which no model had a summary."""

    @property
    def resting(self) -> bool:
        """Are models no longer asked by themselves, because they failed too often?"""
        return breaker.opened(self.failures)

    def draft(self, task: Task, wish: Wish, settings: Settings) -> Flow[Drafted]:
        """Ask one engine after the other until one has a summary."""
        left: list[Left] = []
        spent = Got(Failure("no_summary", "nothing was asked"))
        for engine in self.order(wish, settings):
            if reason := self.unfit(engine, task.scope, wish, settings, task.hooks):
                left.append(Left(engine, reason))
                continue
            if engine == "extractive":
                break
            got = yield from self._asked(engine, task, wish, spent.gap)
            spent = spent.then(got)
            if got.succeeded:
                self._count(wish, succeeded=True)
                return spent, engine, tuple(left)
            assert isinstance(got.found, Failure)
            left.append(Left(engine, f"{got.found.reason}: {got.found.detail}"))
            self._announcer.tell(
                SteppedAside(source=engines.SOURCE, layer="compact", reason=f"{engine}: {got.found.detail}")
            )
        if spent.calls:
            self._count(wish, succeeded=False)
        if left and not self.models:
            self._say_nobody_is_asked()
        return spent, "extractive", tuple(left)

    def _say_nobody_is_asked(self) -> None:
        """Once in a session: who left the client out by mistake would wonder about the summaries."""
        if not self._said_nobody:
            self._said_nobody = True
            reason = (
                f"{NOBODY}, so code makes the summary and there are no notes; pass client=… to the session"
            )
            self._announcer.tell(SteppedAside(source=engines.SOURCE, layer="compact", reason=reason))

    def order(self, wish: Wish, settings: Settings) -> Sequence[Engine]:
        """The engines in the order in which they are tried: the wish's, the settings' or the profile's."""
        if wish.engine is not None:
            return (wish.engine, "extractive") if wish.engine != "extractive" else ("extractive",)
        if settings.compact_engines:
            return (*dict.fromkeys(settings.compact_engines), "extractive")
        order: list[Engine] = [*self._profile.engines, "extractive"]
        edits = any(name == "context_management" for name, _ in self._exchange.frame.settings)
        if edits and self.warm() and order[:2] == ["provider", "fork"]:
            # The provider's engine takes no edits, so it would read nothing from the cache; the fork does.
            order[:2] = ["fork", "provider"]
        if self._second_is_cheaper():
            order.sort(key=lambda engine: engine != "plain")
        return order

    def unfit(self, engine: Engine, divided: Scope, wish: Wish, settings: Settings, hooks: str = "") -> str:
        """Why an engine cannot be used now; empty if it can. ``hooks`` is what hooks want of the summary."""
        if engine == "extractive":
            return ""
        if not self.models:
            return NOBODY
        cap = settings.spending_cap_usd
        if cap is not None and self._exchange.own_usd >= cap:
            return (
                f"the engine's own calls have cost ${self._exchange.own_usd:.2f}, and may cost ${cap:.2f}"
            )
        if self.resting and wish.trigger == "auto":
            return f"no model had a summary in the last {self.failures} compactions"
        if engine in ("provider", "fork") and self._too_heavy(divided, settings):
            return "what it would have to read has more bytes or pictures than a request may have"
        if engine == "provider":
            return self._unfit_for_provider(divided, steered=bool(wish.instructions or hooks))
        if engine == "fork" and not settings.share_cache:
            return "sharing the cache is switched off"
        return ""

    def _too_heavy(self, divided: Scope, settings: Settings) -> bool:
        read = sum((item.weight for item in (*divided.front, *divided.hidden)), NOTHING)
        limits = Limits.of(self._profile, settings)
        return limits.passed(read.wire, read.images + read.documents)

    def due(self, size: Size, settings: Settings) -> bool:
        """Is a compaction due at this size?"""
        heavy = Limits.of(self._profile, settings).passed(size.wire, size.images)
        return heavy or size.high >= self._window.threshold or self.presses(size, settings)

    def presses(self, size: Size, settings: Settings) -> bool:
        """Is the provider the first to be asked, and so much sent that it could soon not summarise it any more?"""
        if not self.models or self.resting or not self._profile.on_demand_compaction:
            return False
        first = self.order(Wish(trigger="auto"), settings)[0]
        most = size.sent + size.band
        return first == "provider" and most >= self._window.context - self._window.reserve

    def warm(self) -> bool:
        """Is what was sent last still in the cache?"""
        return self._exchange.idle_seconds() <= SECONDS[self._exchange.lifetimes.tail]

    def _unfit_for_provider(self, divided: Scope, *, steered: bool) -> str:
        if not self._profile.on_demand_compaction:
            return "the model's provider has none"
        if steered and not self._profile.compaction_instructions:
            return "it takes no instructions"
        kept = sum(self._exchange.gauge.estimator.tokens(item.weight) for item in divided.kept)
        if self._exchange.size().sent - kept + self._window.reserve > self._window.context:
            return "the conversation is too long for it"
        if divided.span in ("from", "range"):
            return "it summarises from the start only"
        calls = {call for item in divided.hidden for call in item.said.calls}
        if not calls <= {call for item in divided.hidden for call in item.said.answers}:
            return "a call in it has no result"
        return ""

    def _second_is_cheaper(self) -> bool:
        """With a cold cache the whole prompt is paid for whoever summarises: is the second model cheaper then?"""
        second = self._second
        if second is None or self.warm():
            return False
        size = self._exchange.size().tokens
        here, there = self._profile.price(size), second.price(size)
        if here is None or there is None:
            return False
        ours = size * here.write(SECONDS[self._exchange.lifetimes.tail]) + OUTPUT_CAP * here.output
        return size * there.input + OUTPUT_CAP * there.output < ours

    def _asked(self, engine: Engine, task: Task, wish: Wish, over: int | None) -> engines.Asking:
        match engine:
            case "provider":
                return (yield from self._bills.of(engines.by_provider(task), self._profile))
            case "fork":
                source = COLLAPSE if wish.trigger == "collapse" else engines.SOURCE
                # A fork is on the session's bill already.
                return (yield from engines.by_fork(task, self._fork(source, task.prefix, task.upto)))
            case _:
                return (yield from self._plain(task, over))

    def _plain(self, task: Task, over: int | None) -> engines.Asking:
        """The second model if there is one, and the session's own where that has no summary either."""
        own, second = self._profile, self._second
        if second is None:
            return (yield from self._bills.of(engines.by_plain_call(task, own, over), own))
        got = yield from self._bills.of(engines.by_plain_call(task, second, over), second)
        if isinstance(got.found, Draft) or second.model == own.model:
            return got
        self._announcer.tell(
            SteppedAside(
                source=engines.SOURCE, layer="compact", reason=f"{second.model}: {got.found.detail}"
            )
        )
        again = engines.by_plain_call(task, own, got.gap or over)
        return got.then((yield from self._bills.of(again, own)))

    def _count(self, wish: Wish, *, succeeded: bool) -> None:
        """A manual compaction shows its errors itself, and they do not count; its success does."""
        if wish.trigger == "manual" and not succeeded:
            return
        was, self.failures = self.resting, breaker.after(self.failures, succeeded=succeeded)
        if self.resting and not was:
            reason = (
                f"no model had a summary in the last {self.failures} compactions: until one has again, automatic "
                "ones use the notes, or extract by code alone; /compact asks a model all the same"
            )
            self._announcer.tell(SteppedAside(layer="breaker", reason=reason))
