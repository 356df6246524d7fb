"""A compaction from beginning to end.

Everything that may fail or wait comes first: hooks, models, checks. Then comes one write, which counts as a whole or
not at all; aborted before it, the conversation is exactly as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import RLock
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.announcer import Announcer
from sevenfold.conversation.background import Runner
from sevenfold.conversation.exchange import Exchange
from sevenfold.conversation.flow import Fire, in_thread
from sevenfold.conversation.hooks import HookOutcome
from sevenfold.conversation.limits import Limits
from sevenfold.conversation.pins import pinned_items
from sevenfold.conversation.transcript import Beside, Transcript
from sevenfold.errors import Aborted, Refused
from sevenfold.events import SteppedAside
from sevenfold.layers.compact import scope
from sevenfold.layers.compact import slots as restore
from sevenfold.layers.compact import writer as writing
from sevenfold.layers.compact.bills import Bills
from sevenfold.layers.compact.check import Checker, Verdict, folded
from sevenfold.layers.compact.chooser import Chooser, Drafted, Forks
from sevenfold.layers.compact.engines import Got, Task
from sevenfold.layers.compact.extract.facts import Kind
from sevenfold.layers.compact.forecast import Forecaster
from sevenfold.layers.compact.request import Compacted, Preview, Wish
from sevenfold.layers.compact.scope import Scope
from sevenfold.layers.compact.slots import Moment, Slot
from sevenfold.layers.compact.summary import Draft
from sevenfold.layers.compact.teller import Teller
from sevenfold.layers.compact.writer import Result, Writer
from sevenfold.ports import Recall
from sevenfold.profiles import Profile
from sevenfold.prompts.context import RecordedFacts
from sevenfold.record import blocks
from sevenfold.record.layout import Item
from sevenfold.record.weight import NOTHING, measure
from sevenfold.record.window import Window
from sevenfold.request.plan import plan
from sevenfold.settings import Settings

AFTER_SHARE = 0.5
"""Of the threshold, the most the conversation may fill afterwards; what is restored is trimmed to that."""
ROUNDS_KEPT = 2
"""The newest rounds that stay when a request was refused as too long, if they are small enough."""
KEEP_ALIVE_SECONDS = 30.0

Flow = Generator[Any, Any, Any]


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
        fork: Forks,
        lock: RLock,
        recall: Recall | None,
        transcript_path: str = "",
        second: Profile | None = None,
        source: str = "main",
    ) -> None:
        self._transcript = transcript
        self._exchange = exchange
        self._announcer = announcer
        self._profile = profile
        self._window = window
        self._lock = lock
        self._source = source
        carry = transcript.view.carry
        self.chooser = Chooser(
            exchange,
            announcer,
            Bills(transcript, exchange, announcer),
            profile=profile,
            window=window,
            fork=fork,
            failures=carry.breaker if carry else 0,
            second=second,
        )
        self._checker = Checker(announcer, kinds=kinds, window=window, count=self.count, recall=recall)
        self.writer = Writer(transcript, exchange, profile, transcript_path)
        self._forecaster = Forecaster(exchange, profile)
        self._teller = Teller(announcer, transcript.place, transcript_path)
        self.slots: list[Slot] = []
        """What comes back behind a summary, in the order in which it is given up last."""
        self.cleanups: list[Callable[[], None]] = []
        """What is to be forgotten once the conversation begins anew."""
        self.runner: Runner | None = None
        """Does what goes on beside a compaction."""
        self.status = ""
        self.last: Compacted | None = None
        self.made = 0
        """Compactions since the session was opened."""

    # -- the whole ------------------------------------------------------------------------------

    def run(self, wish: Wish, settings: Settings) -> Flow:
        """Compact; returns what was done, or None when a hook or a listener refused."""
        must_be_on(settings)
        with self._working():
            with self._lock:
                divided, stamp = self.scope(wish, settings), self.stamp()
            hooks = yield from self.asking(wish)
            if hooks is None or not self.may(wish, divided, settings):
                return None
            self._teller.progress("compact_start")
            with self._lock:
                task = self.task(divided, wish, "\n\n".join(hooks.instructions))
            drafted = yield from self.chooser.draft(task, wish, settings)
            return (yield from self._ending(wish, divided, stamp, drafted, settings))

    def served(self, wish: Wish, divided: Scope, draft: Draft, settings: Settings, most: int) -> Flow:
        """Compact with a summary that is there already; nobody is asked, and no hook steers it.

        Returns why not, where ``most`` tokens or more would be left of the conversation.
        """
        must_be_on(settings)
        with self._working():
            if not self.may(wish, divided, settings):
                return None
            self._teller.progress("compact_start")
            drafted: Drafted = (Got(draft), "notes", ())
            return (yield from self._ending(wish, divided, self.stamp(), drafted, settings, most))

    def prepared(self, wish: Wish, divided: Scope, drafted: Drafted, settings: Settings) -> Flow:
        """Compact with a summary that was made beforehand."""
        with self._working():
            return (yield from self._ending(wish, divided, self.stamp(), drafted, settings))

    def asking(self, wish: Wish) -> Generator[Any, Any, HookOutcome | None]:
        """Ask the hooks; None if one of them refuses."""
        self._teller.progress("hooks_start", "PreCompact")
        hooks = yield from Fire(self._teller.pre_compact(wish))
        if hooks.blocked is not None:
            self._announcer.tell(SteppedAside(layer="compact", reason=f"a hook refused: {hooks.blocked}"))
            return None
        return hooks

    def may(self, wish: Wish, divided: Scope, settings: Settings) -> bool:
        """Ask the listeners, who are shown what it would cost."""
        return self._teller.may(wish, divided, self._preview(wish, divided, settings))

    def preview(self, wish: Wish, settings: Settings) -> Preview:
        """What a compaction would do, without doing it."""
        must_be_on(settings)
        with self._lock:
            return self._preview(wish, self.scope(wish, settings), settings)

    def _ending(
        self,
        wish: Wish,
        divided: Scope,
        stamp: Stamp,
        drafted: Drafted,
        settings: Settings,
        most: int | None = None,
    ) -> Flow:
        yield from self._checker.catch_up()
        checking = partial(
            self._checker.checked, drafted[0], divided, self._budget(divided, drafted, settings)
        )
        verdict = yield from in_thread(partial(checking, folded(self._transcript.view)))
        if most is not None:
            left = self._forecaster.at_most(divided, self.writer.said(wish, divided, verdict.text))
            if left >= most:
                return f"with what the record adds up to {left:,} tokens would be left; the next is due at {most:,}"
        context: tuple[str, ...] = ()
        if divided.span != "range":
            self._teller.progress("hooks_start", "SessionStart")
            told: HookOutcome = yield from Fire(self._teller.session_start())
            context = told.context
        done = self._finish(wish, divided, stamp, drafted, verdict, settings, context)
        self._teller.progress("hooks_start", "PostCompact")
        # Stopped now, it is done all the same.
        with suppress(Aborted):
            yield from Fire(self._teller.post_compact(wish, done))
        return done

    @contextmanager
    def _working(self) -> Iterator[None]:
        """While this lasts the status says so, and a sign of life is given now and then."""
        stop = None
        if self.runner is not None:
            stop = self.runner.every(KEEP_ALIVE_SECONDS, lambda: self._teller.progress("keep_alive"))
        self.status = "compacting"
        try:
            yield
        finally:
            self.status = ""
            if stop is not None:
                stop()
            self._teller.progress("compact_end")

    # -- before ---------------------------------------------------------------------------------

    def scope(self, wish: Wish, settings: Settings) -> Scope:
        """What is summarised and what is kept."""
        view = self._transcript.view
        match wish:
            case Wish(trigger="reactive"):
                most = int(self._window.threshold * AFTER_SHARE)
                return scope.older(view, ROUNDS_KEPT, most, lambda item: self.load((item,), settings))
            case Wish(span="from", record=record):
                return scope.following(view, record)
            case Wish(span="up_to", record=record):
                return scope.preceding(view, record)
            case Wish(span="range", record=record, until=until):
                return scope.between(view, record, until)
            case _:
                return scope.whole(view, self._window.budget(settings.keep_recent_tokens), self.tokens)

    def stamp(self) -> Stamp:
        """What the conversation is now."""
        view = self._transcript.view
        return Stamp(view.tip, view.boundary, view.epoch.id if view.epoch else "")

    def task(self, divided: Scope, wish: Wish, hooks: str) -> Task:
        """What the engines are given."""
        whole = divided.span == "from" or not divided.kept
        shown = (*divided.front, *divided.hidden)
        prefix = self._transcript.view.messages() if whole else scope.messages(shown)
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
            upto=None if whole else shown[-1].said.uuid,
            restored=restore.kinds(self.slots),
        )

    def tokens(self, item: Item) -> int:
        """About how many tokens a record has."""
        return max(0, round(self._exchange.gauge.estimator.tokens(item.weight)))

    def load(self, items: Sequence[Item], settings: Settings) -> int:
        """What records take of the window, in tokens; pictures have few of them, and many bytes."""
        weight = sum((item.weight for item in items), NOTHING)
        return Limits.of(self._profile, settings).load(weight, sum(map(self.tokens, items)), self._window)

    def count(self, text: str) -> int:
        """About how many tokens a text has."""
        return max(0, round(self._exchange.gauge.estimator.tokens(measure(blocks.text(text)))))

    def _preview(self, wish: Wish, divided: Scope, settings: Settings) -> Preview:
        order = self.chooser.order(wish, settings)
        fit = (engine for engine in order if not self.chooser.unfit(engine, divided, wish, settings))
        budget = self._forecaster.room(divided, self._window, settings)
        around, warm = self.count(self.writer.said(wish, divided, "")), self.chooser.warm()
        return self._forecaster.preview(divided, next(fit, "extractive"), budget, around=around, warm=warm)

    # -- after ----------------------------------------------------------------------------------

    def _finish(
        self,
        wish: Wish,
        divided: Scope,
        stamp: Stamp,
        drafted: Drafted,
        verdict: Verdict,
        settings: Settings,
        context: Sequence[str],
    ) -> Compacted:
        """Restore what is needed, and write it all down at once."""
        got, engine, left = drafted
        with self._lock:
            if self.stamp() != stamp:
                raise Refused("the conversation went on while it was being compacted; compact again")
            before, view = self._exchange.size(), self._transcript.view
            chain = writing.chain(view, self._transcript.new_id(), self._window.threshold, self._source)
            result = Result(
                wish=wish,
                divided=divided,
                got=got,
                engine=engine,
                verdict=verdict,
                chain=chain,
                before=before.tokens,
                failures=self.chooser.failures,
            )
            boundary, restored, missed = self._write(result, context)
            after = self._exchange.size()
        done = Compacted(
            boundary=boundary,
            trigger=wish.trigger,
            engine=engine,
            left=left,
            tokens_before=before.tokens,
            sent_before=before.sent,
            tokens_after=after.tokens,
            summarised=len(divided.hidden),
            kept=len(divided.kept),
            summary=verdict.text,
            score=verdict.score,
            chain=chain,
            invented=verdict.invented,
            cut=(*verdict.left_out, *missed),
            restored=restored,
            usage=got.usage.billed if got.usage else None,
            usd=got.usd,
            calls=got.calls,
            retries=got.retries,
            fires_again=self.chooser.due(after, settings),
        )
        self._teller.done(done, self.chooser.failures)
        self.last, self.made = done, self.made + 1
        return done

    def _write(self, result: Result, context: Sequence[str]) -> tuple[str, tuple[str, ...], list[str]]:
        """One write; returns what it is called, what was restored, and what was not."""
        divided, verdict = result.divided, result.verdict
        if divided.span == "range":
            pins = self._pins_in(divided)
            if pins:
                verdict = replace(verdict, text="\n\n".join([verdict.text, *pins]))
            return self.writer.fold(replace(result, verdict=verdict)), ("pins",) if pins else (), []
        said = self.writer.said(result.wish, divided, verdict.text)
        fixed = self._forecaster.after(divided, self.count(said))
        beside, restored, missed = self._beside(divided, verdict, context, fixed)
        added = sum(self.count(blocks.words_of(block)) for one in beside for block in one.blocks)
        boundary = self.writer.compaction(replace(result, beside=beside, after=fixed + added))
        for forget in self.cleanups:
            forget()
        return boundary, tuple(restored), missed

    def _beside(
        self, divided: Scope, verdict: Verdict, context: Sequence[str], fixed: int
    ) -> tuple[list[Beside], list[str], list[str]]:
        stays = divided.side == "before"
        front = partial(self._exchange.system_after_compaction, keeps_frame=stays)
        moment = Moment(
            divided.kept, self.count, budget=self._window.budget, front=front, keeps_front=stays
        )
        room = max(0, int(self._window.threshold * AFTER_SHARE) - fixed)
        given, missed = restore.restore(self.slots, moment, room)
        beside = [one for _, restored in given for one in restored.beside]
        if verdict.behind:
            beside.insert(0, Beside("facts", (blocks.text(RecordedFacts(verdict.behind).render()),)))
        if context:
            beside.append(restore.from_hooks(context))
        return beside, [name for name, _ in given], missed

    # -- small things ---------------------------------------------------------------------------

    def _budget(self, divided: Scope, drafted: Drafted, settings: Settings) -> int:
        """The most the summary may have that was drafted."""
        (got, engine, _), budget = drafted, self._forecaster.room(divided, self._window, settings)
        if engine == "notes" and isinstance(got.found, Draft):
            # Notes have limits of their own, and are not cut any further.
            return budget + self.count(got.found.text)
        return budget

    def _pins_in(self, divided: Scope) -> list[str]:
        hidden = {item.said.uuid for item in divided.hidden}
        pins = (item for item in pinned_items(self._transcript) if item.said.uuid in hidden)
        return [text for item in pins if (text := restore.pinned_text(item))]


def must_be_on(settings: Settings) -> None:
    """Raise if nothing may be compacted."""
    if not settings.compaction:
        raise Refused("compaction is switched off (setting compaction)")
