"""A compaction from beginning to end.

Everything that may fail or wait comes first: hooks, models, checks. Then comes one write, which counts as a whole or
not at all; aborted before it, the conversation is exactly as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from threading import RLock
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.errors import Refused
from sevenfold.events import SteppedAside
from sevenfold.layers import breaker, fidelity, scope, summary
from sevenfold.layers.extract import facts as facts_of
from sevenfold.layers.extract.facts import Facts, Kind
from sevenfold.layers.fidelity import Probe, Score
from sevenfold.layers.scope import Scope
from sevenfold.layers.summary import Checked, Draft, Failure, Summary
from sevenfold.ports import Ask, Recall
from sevenfold.profiles import Profile
from sevenfold.prompts.compact import Continued
from sevenfold.prompts.restored import HookContext, RecordedFacts
from sevenfold.record import blocks
from sevenfold.record.decisions import Carry, CompactMetadata, Segment
from sevenfold.record.layout import Item
from sevenfold.record.weight import measure
from sevenfold.record.window import Window
from sevenfold.record.wire import Message
from sevenfold.request.plan import plan
from sevenfold.request.watch import SECONDS
from sevenfold.runtime.announce import Announcer
from sevenfold.runtime.compaction import engines, restore
from sevenfold.runtime.compaction.engines import Got, Task
from sevenfold.runtime.compaction.restore import Moment, Slot
from sevenfold.runtime.compaction.telling import Teller
from sevenfold.runtime.compaction.wish import ENGINES, Compacted, Engine, Left, Wish
from sevenfold.runtime.drive import Fire
from sevenfold.runtime.exchange import Exchange
from sevenfold.runtime.fork import Fork
from sevenfold.runtime.hooks.outcomes import Outcome as HookOutcome
from sevenfold.runtime.pins import pinned
from sevenfold.runtime.transcript import Beside, Transcript
from sevenfold.settings import Settings

SHARE = 0.2
"""Of what is summarised, the most a summary may be."""
LEAST_SUMMARY = 1_500
AFTER_SHARE = 0.5
"""Of the threshold, the most the conversation may fill afterwards; what is restored is trimmed to that."""
REPAIR_TOKENS = 1_000
"""For facts the check found missing."""

Flow = Generator[Ask | Fire, Any, Compacted | None]
HITS = 10
"""A fact is within reach if its record is among so many hits."""


class Stamp(Struct, frozen=True):
    """What a summary was made from; if that has changed, the summary is of no use."""

    tip: str | None
    boundary: str | None
    epoch: str


class Compactor:
    """Compacts one session."""

    def __init__(
        self,
        transcript: Transcript,
        exchange: Exchange,
        announcer: Announcer,
        *,
        profile: Profile,
        window: Window,
        kinds: Mapping[str, Kind],
        fork: Callable[[str, Sequence[Message]], Fork],
        lock: RLock,
        recall: Recall | None,
        transcript_path: str = "",
        fallback: Profile | None = None,
    ) -> None:
        self._transcript = transcript
        self._exchange = exchange
        self._announcer = announcer
        self._profile = profile
        self._window = window
        self._kinds = kinds
        self._fork = fork
        self._lock = lock
        self._recall = recall
        self.models = False
        """Whether there is anybody to ask."""
        self._path = transcript_path
        self._teller = Teller(announcer, transcript.place, transcript_path)
        self._fallback = fallback
        self.slots: list[Slot] = []
        self.failures = transcript.view.carry.breaker if transcript.view.carry else 0
        self.status = ""
        self.turns_since = -1
        """Requests since the last compaction; -1 before the first."""
        self.last: Compacted | None = None

    # -- the whole ------------------------------------------------------------------------------

    def run(self, wish: Wish, settings: Settings) -> Flow:
        """Compact; returns what was done, or None when a hook or a listener refused."""
        if not settings.compaction:
            raise Refused("compaction is switched off (setting compaction)")
        self.status = "compacting"
        try:
            return (yield from self._run(wish, settings))
        finally:
            self.status = ""

    def _run(self, wish: Wish, settings: Settings) -> Flow:
        divided = self.scope(wish, settings)
        stamp = self.stamp()
        self._teller.progress("hooks_start", "PreCompact")
        hooks: HookOutcome = yield Fire(self._teller.pre_compact(wish))
        if hooks.blocked is not None:
            self._announcer.tell(SteppedAside(layer="compact", reason=f"a hook refused: {hooks.blocked}"))
            return None
        if not self._teller.may(wish, divided, self._exchange.size().tokens):
            return None
        self._teller.progress("compact_start")
        task = self.task(divided, wish, "\n\n".join(hooks.instructions))
        got, engine, left = yield from self.draft(task, wish, settings)
        context: HookOutcome = yield Fire(self._teller.session_start())
        done = self.finish(wish, divided, stamp, got, engine, left, settings, list(context.context))
        self._teller.progress("compact_end")
        yield Fire(self._teller.post_compact(wish, done))
        return done

    # -- before ---------------------------------------------------------------------------------

    def scope(self, wish: Wish, settings: Settings) -> Scope:
        """What is summarised and what is kept."""
        view = self._transcript.view
        match wish:
            case Wish(trigger="reactive"):
                return scope.older(view, 2)
            case Wish(span="from", record=record):
                return scope.following(view, record)
            case Wish(span="up_to", record=record):
                return scope.preceding(view, record)
            case _:
                return scope.whole(view, self._window.budget(settings.keep_recent_tokens), self.tokens)

    def stamp(self) -> Stamp:
        """What the conversation is now."""
        view = self._transcript.view
        return Stamp(view.tip, view.boundary, view.epoch.id if view.epoch else "")

    def task(self, divided: Scope, wish: Wish, hooks: str) -> Task:
        """What the engines are given."""
        whole = divided.span == "from" or not divided.kept
        prefix = self._transcript.view.messages() if whole else scope.messages(divided.hidden)
        markers = plan(
            self._exchange.frame,
            prefix,
            self._profile.cache,
            self._exchange.sizes(),
            self._exchange.lifetimes,
            shared=len(prefix),
        )
        return Task(
            scope=divided,
            profile=self._profile,
            frame=self._exchange.frame,
            prefix=tuple(prefix),
            markers=markers,
            user=wish.instructions,
            hooks=hooks,
            room=self._window.effective,
            tokens=self._exchange.gauge.estimator.tokens,
        )

    def tokens(self, item: Item) -> int:
        """About how many tokens a record has."""
        return max(0, round(self._exchange.gauge.estimator.tokens(item.weight)))

    def count(self, text: str) -> int:
        """About how many tokens a text has."""
        return max(0, round(self._exchange.gauge.estimator.tokens(measure(blocks.text(text)))))

    # -- the summary ----------------------------------------------------------------------------

    def draft(
        self, task: Task, wish: Wish, settings: Settings
    ) -> Generator[Ask, Any, tuple[Got, Engine, tuple[Left, ...]]]:
        """Ask one engine after the other until one has a summary; the last needs no model."""
        left: list[Left] = []
        spent = Got(Failure("no_summary", "nothing was asked"))
        for engine in self._order(wish):
            reason = self._unfit(engine, task, settings)
            if reason:
                left.append(Left(engine, reason))
                continue
            if engine == "extractive":
                return spent, engine, tuple(left)
            got = yield from self._ask(engine, task)
            spent = spent.then(got)
            self.failures = breaker.after(self.failures, succeeded=isinstance(got.found, Draft))
            if isinstance(got.found, Draft):
                return spent, engine, tuple(left)
            left.append(Left(engine, f"{got.found.reason}: {got.found.detail}"))
            self._announcer.tell(SteppedAside(layer="compact", reason=f"{engine}: {got.found.detail}"))
        return spent, "extractive", tuple(left)

    def _order(self, wish: Wish) -> Sequence[Engine]:
        if wish.engine is not None:
            return (wish.engine, "extractive") if wish.engine != "extractive" else ("extractive",)
        order = [engine for engine in ENGINES if engine != "notes"]
        if any(name == "context_management" for name, _ in self._exchange.frame.settings) and self._warm():
            # The provider's engine takes no edits, so it would read nothing from the cache; the fork does.
            order.remove("provider")
            order.insert(1, "provider")
        return order

    def _warm(self) -> bool:
        return self._exchange.idle_seconds() <= SECONDS[self._exchange.lifetimes.tail]

    def _unfit(self, engine: Engine, task: Task, settings: Settings) -> str:
        """Why an engine cannot be used now; empty if it can."""
        if engine == "extractive":
            return ""
        if not self.models:
            return "no client to ask was given"
        if breaker.opened(self.failures):
            return f"the last {self.failures} summaries by a model failed"
        size = self._exchange.size()
        if engine == "provider":
            if not self._profile.on_demand_compaction:
                return "the model's provider has none"
            if size.sent + self._window.reserve > self._window.context:
                return "the conversation is too long for it"
            if task.scope.span == "from":
                return "it summarises from the start only"
            if self._unanswered(task.scope):
                return "a call in it has no result"
        if engine == "fork" and not settings.share_cache:
            return "sharing the cache is switched off"
        return ""

    def _ask(self, engine: Engine, task: Task) -> engines.Flow:
        match engine:
            case "provider":
                return engines.by_provider(task)
            case "fork":
                return engines.by_fork(task, self._fork(engines.SOURCE, task.prefix))
            case _:
                return engines.by_plain_call(task, self._fallback or self._profile)

    # -- after ----------------------------------------------------------------------------------

    def finish(
        self,
        wish: Wish,
        divided: Scope,
        stamp: Stamp,
        got: Got,
        engine: Engine,
        left: tuple[Left, ...],
        settings: Settings,
        context: Sequence[str] = (),
    ) -> Compacted:
        """Check the summary, restore what is needed, and write it all down at once."""
        facts = facts_of(divided.hidden, self._kinds)
        budget = self._summary_budget(divided, settings)
        text, checked = self._text(got, facts, divided, budget)
        with self._lock:
            if self.stamp() != stamp:
                raise Refused("the conversation went on while it was being compacted; compact again")
            if self._recall is not None:
                self._recall.catch_up()
            before = self._exchange.size().tokens
            summed, score = self._gated(text, divided, signed=got.signed is not None)
            beside, restored, missed = self._beside(divided, facts, got, context, summed.text, budget)
            boundary = self._write(wish, divided, summed.text, got, beside, before)
            self._exchange.compacted()
        after = self._exchange.size()
        done = Compacted(
            boundary=boundary,
            trigger=wish.trigger,
            engine=engine,
            left=left,
            tokens_before=before,
            tokens_after=after.tokens,
            summarised=len(divided.hidden),
            kept=len(divided.kept),
            summary=summed.text,
            score=score,
            invented=checked.invented if checked else (),
            cut=(*summed.left_out, *missed),
            restored=tuple(restored),
            usage=got.usage,
            usd=got.usd,
            calls=got.calls,
            fires_again=after.high >= self._window.threshold,
        )
        self._exchange.charge(got.usd if engine != "fork" else 0.0)
        self._teller.done(done, self.turns_since, self._window.threshold)
        self.turns_since, self.last = 0, done
        return done

    def _text(self, got: Got, facts: Facts, divided: Scope, budget: int) -> tuple[Summary, Checked | None]:
        if isinstance(got.found, Failure):
            made = summary.extractive(
                divided.hidden, budget, self.count, kinds=self._kinds, span=divided.span
            )
            return made, None
        checked = summary.verify(got.found, facts, divided.hidden)
        return summary.combine(checked.draft, facts, budget, self.count, span=divided.span), checked

    def _gated(self, text: Summary, divided: Scope, *, signed: bool) -> tuple[Summary, Score]:
        """The summary with what the independent check found missing, and the score after that."""
        wanted = fidelity.probes(divided.hidden, goes_on=bool(divided.kept))
        kept = fidelity.texts(divided.kept)
        score = fidelity.judge(wanted, [text.text, *kept], self._reachable)
        if score.lost and not signed:
            block = fidelity.repair(score.lost, self._window.budget(REPAIR_TOKENS), self.count)
            text = replace(text, text=f"{text.text}\n\n{block}")
            score = fidelity.judge(wanted, [text.text, *kept], self._reachable)
        return text, score

    def _reachable(self, probe: Probe) -> bool:
        if self._recall is None:
            return False
        return probe.found_among(self._recall.found(probe.text, probe.sought, HITS))

    def _beside(
        self, divided: Scope, facts: Facts, got: Got, context: Sequence[str], text: str, budget: int
    ) -> tuple[list[Beside], list[str], list[str]]:
        moment = Moment(divided.kept, self.count)
        gauge = self._exchange.gauge
        fixed = round(gauge.estimator.tokens(gauge.opening)) + sum(map(self.tokens, divided.kept))
        room = max(0, int(self._window.threshold * AFTER_SHARE) - fixed - self.count(text))
        given, missed = restore.restore(self.slots, moment, room)
        beside = [one for _, restored in given for one in restored.beside]
        if got.signed is not None:
            # The provider's block cannot be added to, so what the record shows comes behind it.
            facts_text = summary.sections(facts, budget, self.count, span=divided.span).text
            beside.insert(0, Beside("facts", (blocks.text(RecordedFacts(facts_text).render()),)))
        if context:
            told = HookContext("\n\n".join(context)).render()
            beside.append(
                Beside("hook_additional_context", (blocks.text(told),), {"hookEvent": "SessionStart"})
            )
        return beside, [name for name, _ in given], missed

    def _write(
        self, wish: Wish, divided: Scope, text: str, got: Got, beside: Sequence[Beside], before: int
    ) -> str:
        script = self._transcript
        boundary, anchor = script.new_id(), script.new_id()
        segment = None
        if divided.kept:
            ends = divided.kept[0].said.uuid, divided.kept[-1].said.uuid
            segment = Segment(ends[0], boundary if divided.side == "before" else anchor, ends[1])
        about = CompactMetadata(
            trigger="manual" if wish.trigger == "manual" else "auto",
            pre_tokens=before,
            messages_summarized=len(divided.hidden),
            user_context=wish.note or None,
            preserved_segment=segment,
        )
        said = Continued.of(
            text,
            transcript=self._path or None,
            kept=divided.side,
            auto=wish.trigger != "manual",
            autonomous=wish.autonomous,
        ).render()
        drops = self._profile.thinking.bound and divided.side == "after" and got.signed is None
        epoch = self._exchange.next_epoch(
            "compact",
            drops_thinking=drops,
            keeps_frame=divided.side == "before",
            betas=[self._profile.betas.on_demand_compaction] if got.signed else [],
        )
        carry = Carry(boundary=boundary, pins=sorted(pinned(self._transcript)), breaker=self.failures)
        return script.compact(
            about,
            [blocks.text(said)],
            boundary=boundary,
            anchor=anchor,
            beside=beside,
            epoch=epoch,
            signed=got.signed,
            carry=carry,
        )

    # -- small things ---------------------------------------------------------------------------

    def _summary_budget(self, divided: Scope, settings: Settings) -> int:
        share = int(sum(map(self.tokens, divided.hidden)) * SHARE)
        least = self._window.budget(LEAST_SUMMARY)
        return max(least, min(share, self._window.budget(settings.summary_tokens)))

    def _unanswered(self, divided: Scope) -> bool:
        calls = {call for item in divided.hidden for call in item.said.calls}
        return not calls <= {call for item in divided.hidden for call in item.said.answers}
