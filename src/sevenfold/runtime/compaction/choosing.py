"""Which way to a summary is tried when, and what a failure leads to.

Engines are tried in order until one has a summary; the last needs no model and always has one. After three
compactions in a row for which no model had a summary, automatic ones stop asking models until one succeeds again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from sevenfold.events import SteppedAside
from sevenfold.layers import breaker
from sevenfold.layers.scope import Scope
from sevenfold.layers.summary import Draft, Failure
from sevenfold.ports import Ask
from sevenfold.profiles import Profile
from sevenfold.record.window import Window
from sevenfold.record.wire import Message
from sevenfold.request.watch import SECONDS
from sevenfold.runtime.announce import Announcer
from sevenfold.runtime.compaction import engines
from sevenfold.runtime.compaction.engines import OUTPUT_CAP, Got, Task
from sevenfold.runtime.compaction.wish import ENGINES, Engine, Left, Wish
from sevenfold.runtime.exchange import Exchange
from sevenfold.runtime.fork import Fork
from sevenfold.settings import Settings

Drafted = tuple[Got, Engine, tuple[Left, ...]]
Forks = Callable[[str, Sequence[Message], str | None], Fork]
"""Takes a fork: for whom, with which messages, and the record those end with."""
COLLAPSE = "collapse"


class Chooser:
    """Gets summaries for one session."""

    def __init__(
        self,
        exchange: Exchange,
        announcer: Announcer,
        *,
        profile: Profile,
        window: Window,
        fork: Forks,
        failures: int = 0,
        second: Profile | None = None,
    ) -> None:
        self._exchange = exchange
        self._announcer = announcer
        self._profile = profile
        self._window = window
        self._fork = fork
        self._second = second
        self.models = False
        """Whether there is anybody to ask."""
        self.failures = failures
        """Compactions in a row for which no model had a summary."""

    @property
    def resting(self) -> bool:
        """Are models no longer asked by themselves, because they failed too often?"""
        return breaker.opened(self.failures)

    def draft(self, task: Task, wish: Wish, settings: Settings) -> Generator[Ask, Any, Drafted]:
        """Ask one engine after the other until one has a summary."""
        left: list[Left] = []
        spent = Got(Failure("no_summary", "nothing was asked"))
        for engine in self.order(wish):
            if reason := self.unfit(engine, task.scope, wish, settings):
                left.append(Left(engine, reason))
                continue
            if engine == "extractive":
                break
            got = yield from self._asked(engine, task, wish, spent.gap)
            spent = spent.then(got)
            if isinstance(got.found, Draft):
                self._count(wish, succeeded=True)
                return spent, engine, tuple(left)
            left.append(Left(engine, f"{got.found.reason}: {got.found.detail}"))
            self._announcer.tell(SteppedAside(layer="compact", reason=f"{engine}: {got.found.detail}"))
        if spent.calls:
            self._count(wish, succeeded=False)
        return spent, "extractive", tuple(left)

    def order(self, wish: Wish) -> Sequence[Engine]:
        """The engines in the order in which they are tried."""
        if wish.engine is not None:
            return (wish.engine, "extractive") if wish.engine != "extractive" else ("extractive",)
        order = [engine for engine in ENGINES if engine != "notes"]
        if any(name == "context_management" for name, _ in self._exchange.frame.settings) and self.warm():
            # The provider's engine takes no edits, so it would read nothing from the cache; the fork does.
            order.remove("provider")
            order.insert(1, "provider")
        if self._second_is_cheaper():
            order.remove("plain")
            order.insert(0, "plain")
        return order

    def unfit(self, engine: Engine, divided: Scope, wish: Wish, settings: Settings) -> str:
        """Why an engine cannot be used now; empty if it can."""
        if engine == "extractive":
            return ""
        if not self.models:
            return "no client to ask was given"
        cap = settings.spending_cap_usd
        if cap is not None and self._exchange.own_usd >= cap:
            return (
                f"the engine's own calls have cost ${self._exchange.own_usd:.2f}, and may cost ${cap:.2f}"
            )
        if self.resting and wish.trigger == "auto":
            return f"no model had a summary in the last {self.failures} compactions"
        if engine == "provider":
            return self._unfit_for_provider(divided)
        if engine == "fork" and not settings.share_cache:
            return "sharing the cache is switched off"
        return ""

    def warm(self) -> bool:
        """Is what was sent last still in the cache?"""
        return self._exchange.idle_seconds() <= SECONDS[self._exchange.lifetimes.tail]

    def _unfit_for_provider(self, divided: Scope) -> str:
        if not self._profile.on_demand_compaction:
            return "the model's provider has none"
        if self._exchange.size().sent + self._window.reserve > self._window.context:
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
        if second is None or second.provider != self._profile.provider or self.warm():
            return False
        size = self._exchange.size().tokens
        here, there = self._profile.price(size), second.price(size)
        if here is None or there is None:
            return False
        ours = size * here.write(SECONDS[self._exchange.lifetimes.tail]) + OUTPUT_CAP * here.output
        return size * there.input + OUTPUT_CAP * there.output < ours

    def _asked(self, engine: Engine, task: Task, wish: Wish, over: int | None) -> Generator[Ask, Any, Got]:
        match engine:
            case "provider":
                got = yield from engines.by_provider(task)
            case "fork":
                source = COLLAPSE if wish.trigger == "collapse" else engines.SOURCE
                # A fork is on the session's bill already.
                return (yield from engines.by_fork(task, self._fork(source, task.prefix, task.upto)))
            case _:
                got = yield from self._plain(task, over)
        self._exchange.charge(got.usd)
        return got

    def _plain(self, task: Task, over: int | None) -> engines.Flow:
        """The second model if there is one, and the session's own where that has no summary either."""
        second = self._second
        if second is None or second.provider != self._profile.provider:
            return (yield from engines.by_plain_call(task, self._profile, over))
        got = yield from engines.by_plain_call(task, second, over)
        if isinstance(got.found, Draft) or second.model == self._profile.model:
            return got
        self._announcer.tell(SteppedAside(layer="compact", reason=f"{second.model}: {got.found.detail}"))
        return got.then((yield from engines.by_plain_call(task, self._profile, got.gap or over)))

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
