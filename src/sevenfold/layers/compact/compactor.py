"""A compaction from beginning to end.

Everything that may fail or wait comes first: hooks, models, checks. Then comes one write, which counts as a whole or
not at all; aborted before it, the conversation is exactly as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation import edits, events
from sevenfold.conversation.flow import Fire, Flow, in_thread
from sevenfold.conversation.hooks import HookInput, HookOutcome, PostCompact, PreCompact, SessionStart
from sevenfold.conversation.room import overloaded
from sevenfold.conversation.status import Health
from sevenfold.errors import Aborted, Refused, SevenfoldError
from sevenfold.events import Compacting, Proposed, SteppedAside
from sevenfold.layers.breaker import Pass, Progress
from sevenfold.layers.compact import forecast, scope, writer
from sevenfold.layers.compact.check import Checker
from sevenfold.layers.compact.engines import SOURCE, EngineChooser, Got, SummaryTask
from sevenfold.layers.compact.request import Compacted, CompactionRequest, Preview
from sevenfold.layers.compact.scope import Scope
from sevenfold.layers.compact.summary.draft import Draft
from sevenfold.layers.compact.writer import AFTER_SHARE, Result
from sevenfold.record.authorship import is_users
from sevenfold.record.decisions import Commit, Fold
from sevenfold.record.gauge import Size

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

AUTO = CompactionRequest(trigger="auto")
LAST = CompactionRequest(trigger="auto", engine="extractive")
REACTIVE = CompactionRequest(trigger="reactive")
ROUNDS_KEPT = 2
"""The newest rounds that stay when a request was refused as too long, if they are small enough."""
KEEP_ALIVE_SECONDS = 30.0

R = TypeVar("R")


class Stamp(Struct, frozen=True):
    """What a summary was made from; if that has changed, the summary is of no use."""

    tip: str | None
    boundary: str | None
    epoch: str


class Compactor:
    """Compacts one conversation."""

    def __init__(self, c: Conversation) -> None:
        self._c = c
        self.chooser = EngineChooser(c)
        self._checker = Checker(c)
        self.status = ""
        self.last: Compacted | None = None
        self._made: int | None = None
        """Compactions of the session, once they were counted."""
        self._refused: tuple[str, int] | None = None
        """The user's newest words, and the pass, when a hook last refused an automatic compaction."""
        self._progress = Progress()
        self._allowed: tuple[int, bool] = (-1, False)
        self._reacted_after = -1

    # -- when -----------------------------------------------------------------------------------

    @property
    def allowed(self) -> bool:
        """May the conversation be compacted by itself in this pass?"""
        if self._allowed[0] != self._c.passes:
            self._allowed = self._c.passes, self.may_run(self._c.size())
        return self._allowed[1]

    def may_run(self, size: Size) -> bool:
        """May the conversation be compacted by itself at this size?"""
        c = self._c
        if not c.settings.auto_compact or not c.source.compacts:
            return False
        if size.high >= c.window.blocking or overloaded(c, size):
            return True
        if self._refused is not None and self._refused[0] == self._newest_words():
            # What a hook said holds until something is new; in a run of tool calls it would be asked at each of them.
            return False
        if edits.compaction_undone(c):
            # A user who took a compaction back wants the conversation as it is, as long as it fits.
            return False
        rests = self._progress.rests("compact", c.window, size.tokens)
        c.events.rests("compact", rests)
        return not rests

    def presses(self, size: Size) -> bool:
        """Is the provider the first to be asked, and so much sent that it could soon not summarise it any more?"""
        full = size.sent + size.band >= self._c.window.context - self._c.window.reserve
        return full and self.chooser.prefers_provider()

    def due(self) -> bool:
        """Should the conversation be compacted by itself, if clearing is not enough?"""
        c = self._c
        full = c.seen.high >= c.window.threshold or self.presses(c.seen) or overloaded(c, c.seen)
        return (full or c.considered.chosen == "compact") and self.allowed

    def _fires_again(self, after: Size) -> bool:
        """Is a compaction due again at the size that one left?"""
        heavy = self._c.limits.passed(after.wire, after.images)
        return heavy or after.high >= self._c.window.threshold or self.presses(after)

    @property
    def next_begins(self) -> int:
        """The size at which a compaction begins, ahead of need or not: one should end below it."""
        settings = self._c.settings
        share = settings.background_share if settings.background_compaction else 1.0
        return int(share * self._c.window.threshold)

    def attempt(self, flow: Flow[Compacted | R | None]) -> Flow[Compacted | R | None]:
        """Compact because it is due; a failure is reported and leaves everything as it was."""
        try:
            done = yield from flow
            if isinstance(done, Compacted):
                self.passed(done)
            return done
        except Aborted:
            raise
        except SevenfoldError as error:
            reason, kind = str(error), type(error).__name__
            self._c.events.tell(SteppedAside(layer="compact", reason=reason, error=kind))
            return None

    def last_resort(self) -> Flow[None]:
        """If what was kept with the summary is too much by itself, code makes a smaller one."""
        refused = self._refused is not None and self._refused[1] == self._c.passes
        if not refused and self._c.size().high >= self._c.window.blocking:
            yield from self.attempt(self.run(LAST))

    def react(self) -> Flow[bool]:
        """A request was refused as too long: compact, once for each answer."""
        if self._reacted_after == self._c.answers:
            return False
        self._reacted_after = self._c.answers
        return (yield from self.attempt(self.run(REACTIVE))) is not None

    def passed(self, done: Compacted | None) -> Compacted | None:
        """Remember what a compaction achieved."""
        if done is not None:
            by_seen = done.tokens_before >= self._c.window.threshold
            freed = (done.tokens_before if by_seen else done.sent_before) - done.tokens_after
            made = Pass("compact", self._c.account.requests, freed, done.tokens_after)
            self._progress = self._progress.after(made)
            events.epochs(self._c)
        return done

    @property
    def health(self) -> Health:
        """How the conversation is doing with its window."""
        c = self._c
        with c.lock:
            chain = writer.chain(c.transcript.view, "", c.window.threshold, c.source.name)
            last, turns = self.last, chain.turns_since
            grown = c.size().tokens - last.tokens_after if last else 0
            return Health(
                status=self.status,
                compactions=self._count_made(),
                turns_since=turns,
                refill=grown / turns if last and turns > 0 else None,
                failures=self.chooser.failures,
                breaker_open=self.chooser.resting,
                cached_share=c.tally.share,
            )

    def _count_made(self) -> int:
        """Compactions of the session, those of earlier runs included."""
        if self._made is None:
            log = self._c.transcript.log
            committed = {made.boundary for _, made in log.decisions(Commit)}
            whole = {one.uuid for _, one in log.boundaries() if not one.own or one.uuid in committed}
            self._made = len(whole) + len({made.id for _, made in log.decisions(Fold)})
        return self._made

    def _newest_words(self) -> str:
        """The record of the user's newest words in view; empty if there is none."""
        items = reversed(self._c.transcript.view.layout.items)
        return next((item.said.uuid for item in items if is_users(item.said)), "")

    # -- the whole ------------------------------------------------------------------------------

    def run(self, request: CompactionRequest) -> Flow[Compacted | None]:
        """Compact; returns what was done, or None when a hook or a listener refused."""
        self.must_be_on()
        with self._working():
            with self._c.lock:
                divided, stamp = self.scope(request), self.stamp()
            hooks = yield from self.ask_hooks(request)
            if hooks is None or not self.may(request, divided):
                return None
            self._progressed("compact_start")
            with self._c.lock:
                task = SummaryTask(self._c, divided, request, "\n\n".join(hooks.instructions))
            got = yield from self.chooser.draft(task, request)
            done = yield from self._end(request, divided, stamp, got)
            return done if isinstance(done, Compacted) else None

    def served(
        self, request: CompactionRequest, divided: Scope, draft: Draft, most: int
    ) -> Flow[Compacted | str | None]:
        """Compact with a summary that is there already; no model is asked, and no hook steers it.

        Returns why not, where ``most`` tokens or more would be left of the conversation.
        """
        self.must_be_on()
        with self._working():
            if not self.may(request, divided):
                return None
            self._progressed("compact_start")
            return (yield from self._end(request, divided, self.stamp(), Got(draft, "notes"), most))

    def prepared(self, request: CompactionRequest, divided: Scope, got: Got) -> Flow[Compacted | str]:
        """Compact with a summary that was made beforehand."""
        with self._working():
            return (yield from self._end(request, divided, self.stamp(), got))

    def ask_hooks(self, request: CompactionRequest) -> Flow[HookOutcome | None]:
        """Ask the PreCompact hooks; None if one of them refuses."""
        instructions, trigger = request.instructions, _trigger(request)
        hooks = yield from self._fire(
            PreCompact(**self._common(), trigger=trigger, custom_instructions=instructions)
        )
        if hooks.blocked is not None:
            if trigger == "auto":
                self._refused = self._newest_words(), self._c.passes
            self._c.events.tell(SteppedAside(layer="compact", reason=f"a hook refused: {hooks.blocked}"))
            return None
        return hooks

    def may(self, request: CompactionRequest, divided: Scope) -> bool:
        """Ask the listeners, who see what it would cost."""
        seen = self._preview(request, divided)
        return self._c.events.may(
            Proposed(
                layer="compact",
                mechanism=divided.span,
                what=f"summarise {len(divided.hidden)} records and keep {len(divided.kept)}",
                why=request.trigger,
                items=len(divided.hidden),
                tokens=max(0, seen.tokens_before - seen.tokens_after),
                usd=seen.usd,
                targets=tuple(item.said.uuid for item in divided.hidden),
            )
        )

    def preview(self, request: CompactionRequest) -> Preview:
        """What a compaction would do, without doing it."""
        with self._c.lock:
            self._c.refresh()
            self.must_be_on()
            return self._preview(request, self.scope(request))

    def must_be_on(self) -> None:
        """Raise if compaction is switched off."""
        if not self._c.settings.compaction:
            raise Refused("compaction is switched off (setting compaction)")

    def _end(
        self,
        request: CompactionRequest,
        divided: Scope,
        stamp: Stamp,
        got: Got,
        most: int | None = None,
    ) -> Flow[Compacted | str]:
        c = self._c
        yield from self._checker.catch_up()
        check = partial(self._checker.checked, got, divided, self._budget(divided, got))
        folds = {made.id for made in c.transcript.view.decisions() if isinstance(made, Fold)}
        verdict = yield from in_thread(partial(check, folds))
        if most is not None:
            left = forecast.at_most(c, divided, writer.said(c, request, divided, verdict.text))
            if left >= most:
                return f"with what the record adds {left:,} tokens would be left, and fewer than {most:,} are wanted"
        context: tuple[str, ...] = ()
        if divided.span != "range":
            started = yield from self._fire(SessionStart(**self._common(), source="compact"))
            context = started.context
        failures = self.chooser.failures
        done = self._finish(Result(request, divided, got, verdict, context, failures), stamp)
        # Stopped now, it is done all the same.
        with suppress(Aborted):
            trigger = _trigger(request)
            after = PostCompact(**self._common(), trigger=trigger, compact_summary=done.summary)
            yield from self._fire(after)
        return done

    @contextmanager
    def _working(self) -> Iterator[None]:
        """While this lasts the status says so, and a sign of life is reported now and then."""
        stop = None
        if self._c.background is not None:
            stop = self._c.background.every(KEEP_ALIVE_SECONDS, lambda: self._progressed("keep_alive"))
        self.status = "compacting"
        try:
            yield
        finally:
            self.status = ""
            if stop is not None:
                stop()
            self._progressed("compact_end")

    def _progressed(self, stage: str, hook: str = "", text: str = "") -> None:
        self._c.events.tell(Compacting(source=SOURCE, stage=stage, hook=hook, text=text))

    def _fire(self, event: HookInput) -> Flow[HookOutcome]:
        """Run hooks, and report what they have to say and which of them failed."""
        name = type(event).__name__
        self._progressed("hooks_start", name)
        outcome = yield from Fire(event)
        for text in outcome.messages:
            self._progressed("hook_message", name, text)
        for failure in outcome.failures:
            reason = f"{name}, {failure.hook}: {failure.problem}"
            self._c.events.tell(SteppedAside(layer="hooks", reason=reason))
        return outcome

    def _common(self) -> dict[str, str]:
        """What every hook receives."""
        place = self._c.transcript.place
        path = self._c.services.path
        return {"session_id": place.session, "transcript_path": path, "cwd": place.cwd}

    # -- before ---------------------------------------------------------------------------------

    def scope(self, request: CompactionRequest) -> Scope:
        """What is summarised and what is kept."""
        c, view = self._c, self._c.transcript.view
        match request:
            case CompactionRequest(trigger="reactive"):
                most = int(c.window.threshold * AFTER_SHARE)
                return scope.older(view, ROUNDS_KEPT, most, lambda item: c.load((item,)))
            case CompactionRequest(span="from" | "up_to" as span, record=record):
                return scope.around(view, record, span)
            case CompactionRequest(span="range", record=record, until=until):
                return scope.between(view, record, until)
            case _:
                return scope.whole(view, c.window.budget(c.settings.keep_recent_tokens), c.item_tokens)

    def stamp(self) -> Stamp:
        """What the conversation is now."""
        view = self._c.transcript.view
        return Stamp(view.tip, view.boundary, view.epoch.id if view.epoch else "")

    def _preview(self, request: CompactionRequest, divided: Scope) -> Preview:
        c, chooser = self._c, self.chooser
        fit = (engine for engine in chooser.order(request) if not chooser.unfit(engine, divided, request))
        budget = forecast.room(c, divided)
        around, warm = c.count(writer.said(c, request, divided, "")), chooser.warm()
        return forecast.preview(c, divided, next(fit, "extractive"), budget, around=around, warm=warm)

    # -- after ----------------------------------------------------------------------------------

    def _finish(self, result: Result, stamp: Stamp) -> Compacted:
        """Restore what is needed, and write it all down at once."""
        c = self._c
        with c.lock:
            if self.stamp() != stamp:
                raise Refused("the conversation went on while it was being compacted; compact again")
            done = writer.write(c, result)
            done = replace(done, fires_again=self._fires_again(c.size()))
        writer.report(c, done, self.chooser.failures)
        self.last, self._refused = done, None
        self._made = None if self._made is None else self._made + 1
        return done

    def _budget(self, divided: Scope, got: Got) -> int:
        """The most the drafted summary may have."""
        budget = forecast.room(self._c, divided)
        if got.engine == "notes" and isinstance(got.found, Draft):
            # Notes have limits of their own, and are not cut any further.
            return budget + self._c.count(got.found.text)
        return budget


def _trigger(request: CompactionRequest) -> Literal["manual", "auto"]:
    return "manual" if request.trigger == "manual" else "auto"
