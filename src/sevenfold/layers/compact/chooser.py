"""Which way to a summary is tried when, and what a failure leads to.

Engines are tried in order until one has a summary; the last needs no model and always has one. After three
compactions in a row for which no model had a summary, automatic ones stop asking models until one succeeds again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sevenfold.conversation.flow import Signal, Wait
from sevenfold.conversation.fork import fork
from sevenfold.events import SteppedAside
from sevenfold.layers import breaker
from sevenfold.layers.compact import engines
from sevenfold.layers.compact.engines import OUTPUT_CAP, Got
from sevenfold.layers.compact.request import CompactionRequest, EngineName, Left
from sevenfold.layers.compact.summary.draft import Draft, Failure
from sevenfold.record.weight import NOTHING
from sevenfold.request.watch import SECONDS

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.layers.compact.engines import SummaryTask
    from sevenfold.layers.compact.scope import Scope

COLLAPSE = "collapse"
NOBODY = "no client to ask was given"


class EngineChooser:
    """Gets summaries for one conversation."""

    def __init__(self, c: Conversation) -> None:
        self._c = c
        self._second = c.profile.companion(c.settings.summary_model)
        self._reported = False
        carry = c.transcript.view.carry
        self.failures = carry.breaker if carry else 0
        """Compactions in a row for which no model had a summary."""

    @property
    def models(self) -> bool:
        """Is there a model to ask?"""
        return self._c.background is not None

    @property
    def resting(self) -> bool:
        """Are models no longer asked by themselves, because they failed too often?"""
        return breaker.opened(self.failures)

    def draft(self, task: SummaryTask, request: CompactionRequest) -> engines.Asking:
        """Ask one engine after the other until one has a summary."""
        left: list[Left] = []
        spent = Got(Failure("no_summary", "nothing was asked"))
        for engine in self.order(request):
            if reason := self.unfit(engine, task.scope, request, task.hooks):
                left.append(Left(engine, reason))
                continue
            if engine == "extractive":
                break
            got = yield from self._asked(engine, task, request, spent)
            spent = spent.then(got)
            if got.succeeded:
                self._count(request, succeeded=True)
                return replace(spent, engine=engine, left=tuple(left))
            assert isinstance(got.found, Failure)
            left.append(Left(engine, f"{got.found.reason}: {got.found.detail}"))
            self._step_aside(f"{engine}: {got.found.detail}")
        if spent.calls:
            self._count(request, succeeded=False)
        if left and not self.models:
            self._report_no_client()
        return replace(spent, left=tuple(left))

    def _report_no_client(self) -> None:
        """Once in a session: who left the client out by mistake would wonder about the summaries."""
        if not self._reported:
            self._reported = True
            self._step_aside(
                f"{NOBODY}, so code makes the summary and there are no notes; pass client=… to the session"
            )

    def order(self, request: CompactionRequest) -> Sequence[EngineName]:
        """The engines in the order in which they are tried: the request's, the settings' or the profile's."""
        if request.engine is not None:
            return (request.engine, "extractive") if request.engine != "extractive" else ("extractive",)
        if self._c.settings.compact_engines:
            return (*dict.fromkeys(self._c.settings.compact_engines), "extractive")
        order: list[EngineName] = [*self._c.profile.engines, "extractive"]
        if self._c.frame.edits is not None and self.warm() and order[:2] == ["provider", "fork"]:
            # The provider's engine takes no edits, so it would read nothing from the cache; the fork does.
            order[:2] = ["fork", "provider"]
        if self._second_is_cheaper():
            order.sort(key=lambda engine: engine != "plain")
        return order

    def unfit(self, engine: EngineName, divided: Scope, request: CompactionRequest, hooks: str = "") -> str:
        """Why an engine cannot be used now; empty if it can. ``hooks`` is what hooks want of the summary."""
        if engine == "extractive":
            return ""
        if not self.models:
            return NOBODY
        cap = self._c.settings.spending_cap_usd
        if cap is not None and self._c.own_usd >= cap:
            return f"the engine's own calls have cost ${self._c.own_usd:.2f}, and may cost ${cap:.2f}"
        if self.resting and request.trigger == "auto":
            return f"no model had a summary in the last {self.failures} compactions"
        if engine in ("provider", "fork") and self._too_heavy(divided):
            return "what it would have to read has more bytes or pictures than a request may have"
        if engine == "provider":
            return self._unfit_for_provider(divided, steered=bool(request.instructions or hooks))
        if engine == "fork" and not self._c.settings.share_cache:
            return "sharing the cache is switched off"
        return ""

    def _too_heavy(self, divided: Scope) -> bool:
        read = sum((item.weight for item in (*divided.front, *divided.hidden)), NOTHING)
        limits = self._c.limits
        return limits.passed(read.wire, read.images + read.documents)

    def prefers_provider(self) -> bool:
        """Is the provider the first that would be asked for a summary?"""
        if not self.models or self.resting or not self._c.profile.on_demand_compaction:
            return False
        return self.order(CompactionRequest(trigger="auto"))[0] == "provider"

    def warm(self) -> bool:
        """Is what was sent last still in the cache?"""
        return self._c.idle_seconds() <= SECONDS[self._c.lifetimes.tail]

    def _unfit_for_provider(self, divided: Scope, *, steered: bool) -> str:
        if not self._c.profile.on_demand_compaction:
            return "the model's provider has none"
        answers = (item.said.usage for item in reversed(self._c.transcript.view.items) if item.said.usage)
        if (newest := next(answers, None)) is not None and newest.free:
            return "the offline model has none"
        if steered and not self._c.profile.compaction_instructions:
            return "it takes no instructions"
        kept = sum(self._c.gauge.estimator.tokens(item.weight) for item in divided.kept)
        if self._c.size().sent - kept + self._c.window.reserve > self._c.window.context:
            return "the conversation is too long for it"
        if divided.span in ("from", "range"):
            return "it summarises from the start only"
        calls = {call for item in divided.hidden for call in item.said.calls}
        if not calls <= {call for item in divided.hidden for call in item.said.answers}:
            return "a call in it has no result"
        return ""

    def _second_is_cheaper(self) -> bool:
        """With a cold cache every model pays for the whole prompt: is the second model cheaper then?"""
        second = self._second
        if second is None or self.warm():
            return False
        size = self._c.size().tokens
        here, there = self._c.profile.price(size), second.price(size)
        if here is None or there is None:
            return False
        ours = size * here.write(SECONDS[self._c.lifetimes.tail]) + OUTPUT_CAP * here.output
        return size * there.input + OUTPUT_CAP * there.output < ours

    def _asked(
        self, engine: EngineName, task: SummaryTask, request: CompactionRequest, before: Got
    ) -> engines.Asking:
        if before.busy:
            yield from Wait(Signal(), breaker.FIRST_PAUSE)
        match engine:
            case "provider":
                return (yield from engines.by_provider(task))
            case "fork":
                source = COLLAPSE if request.trigger == "collapse" else engines.SOURCE
                return (yield from engines.by_fork(task, partial(fork, self._c, source)))
            case _:
                return (yield from self._plain(task, before.gap))

    def _plain(self, task: SummaryTask, over: int | None) -> engines.Asking:
        """The second model if there is one, and the session's own where that has no summary either."""
        own, second = self._c.profile, self._second
        if second is None:
            return (yield from engines.by_plain_call(task, own, over))
        got = yield from engines.by_plain_call(task, second, over)
        if isinstance(got.found, Draft) or second.model == own.model:
            return got
        self._step_aside(f"{second.model}: {got.found.detail}")
        return got.then((yield from engines.by_plain_call(task, own, got.gap or over)))

    def _step_aside(self, reason: str) -> None:
        self._c.events.tell(SteppedAside(source=engines.SOURCE, layer="compact", reason=reason))

    def _count(self, request: CompactionRequest, *, succeeded: bool) -> None:
        """A manual compaction shows its errors itself, and they do not count; its success does."""
        if request.trigger == "manual" and not succeeded:
            return
        was, self.failures = self.resting, breaker.after(self.failures, succeeded=succeeded)
        if self.resting and not was:
            reason = (
                f"no model had a summary in the last {self.failures} compactions: until one has again, automatic "
                "ones use the notes, or extract by code alone; /compact asks a model all the same"
            )
            self._c.events.tell(SteppedAside(layer="breaker", reason=reason))
