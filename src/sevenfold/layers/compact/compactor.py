"""A compaction from beginning to end.

Everything that may fail or wait comes first: hooks, model calls, checks. Then comes a single atomic write. If the
compaction is aborted before that, the conversation is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from sevenfold.conversation import edits, reporting
from sevenfold.conversation.flow import Fire, Flow, drive
from sevenfold.conversation.hooks import HookInput, HookOutcome, PostCompact, PreCompact, SessionStart
from sevenfold.conversation.room import overloaded
from sevenfold.conversation.status import Health
from sevenfold.errors import Aborted, Refused, SevenfoldError
from sevenfold.events import Compacting, Proposed
from sevenfold.layers.breaker import Progress
from sevenfold.layers.compact import check, scope, user_record, writer
from sevenfold.layers.compact.check import Verdict
from sevenfold.layers.compact.compaction import (
    Compacted,
    CompactionRequest,
    EngineName,
    Preview,
)
from sevenfold.layers.compact.engines import SOURCE, Attempt, EngineChooser
from sevenfold.layers.compact.recogniser import Recogniser, by_word_lists
from sevenfold.layers.compact.scope import Scope
from sevenfold.layers.compact.summary.draft import Draft, Failure
from sevenfold.layers.compact.task import SummaryTask
from sevenfold.layers.compact.user_record import Pool, Shown
from sevenfold.layers.compact.writer import AFTER_SHARE, Result
from sevenfold.record.authorship import is_users
from sevenfold.record.coverage import Coverage
from sevenfold.record.decisions import Commit, Fold, Why
from sevenfold.record.gauge import Size

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

AUTO = CompactionRequest(trigger="auto")
ROUNDS_KEPT = 2
"""How many of the newest rounds stay after a request was refused as too long, if they are small enough."""
TRIES = 3
"""How often a summary is written shorter so that the compaction leaves little enough."""
KEEP_ALIVE_SECONDS = 30.0

Stamp: TypeAlias = tuple[str | None, str | None, str]
"""The tip, boundary and epoch from which a summary was made; if any of them changes, the summary is stale."""


class Compactor:
    """Compacts one conversation."""

    def __init__(self, c: Conversation) -> None:
        self._c = c
        self.chooser = EngineChooser(c)
        self.status = ""
        self.recognise: Recogniser = by_word_lists
        """What orders the user's words beyond their budget; replaced by `recogniser.nothing` to measure without it."""
        self.last: Compacted | None = None
        self._made: int | None = None
        """Number of compactions in the session; None until they are counted."""
        self._refused: tuple[str, int] | None = None
        """When a hook last refused an automatic compaction: the record of the user's newest words, and the pass."""
        self._progress = Progress()
        self._allowed: tuple[int, bool] = (-1, False)
        self._due: tuple[tuple[int, Size, Why] | None, bool] = (None, False)
        """Whether a compaction is due, after the pass, the size and the considerations for which that was decided."""
        self._reacted_after = -1

    # -- when -----------------------------------------------------------------------------------

    @property
    def allowed(self) -> bool:
        """Whether auto-compaction may run in this pass."""
        if self._allowed[0] != self._c.passes:
            self._allowed = self._c.passes, self.may_run(self._c.size())
        return self._allowed[1]

    def may_run(self, size: Size) -> bool:
        """Whether auto-compaction may run at this size."""
        c = self._c
        if not c.settings.auto_compact or not c.source.compacts:
            return False
        if size.high >= c.window.blocking or overloaded(c, size):
            return True
        if self._refused is not None and self._refused[0] == self._newest_words():
            # A hook's refusal holds until the user says something; otherwise it would be asked at every tool call.
            return False
        if edits.compaction_undone(c):
            # A user who undid a compaction wants the conversation left alone for as long as it fits.
            return False
        rests = self._progress.rests(c.window, size.tokens)
        c.events.rests("compact", rests)
        return not rests

    def is_urgent(self, size: Size) -> bool:
        """Whether the provider's engine comes first and the conversation will soon be too long for it."""
        full = size.sent + size.band >= self._c.window.context - self._c.window.reserve
        return full and self.chooser.prefers_provider()

    def due(self) -> bool:
        """Whether auto-compaction is due, in case clearing is not enough."""
        c = self._c
        moment = (c.passes, c.last_size, c.considered)
        # Both the notes and this layer ask in every pass.
        if self._due[0] != moment:
            self._due = (
                moment,
                (self._full(c.last_size) or c.considered.chosen == "compact") and self.allowed,
            )
        return self._due[1]

    def _full(self, size: Size) -> bool:
        """Whether a compaction is due at this size; an excess of bytes or images in unsent messages does not count."""
        return size.high >= self._c.window.threshold or self.is_urgent(size) or overloaded(self._c, size)

    @property
    def next_start_size(self) -> int:
        """The size at which the next compaction starts, ahead of need or not: each compaction should end below it."""
        settings = self._c.settings
        share = settings.background_share if settings.background_compaction else 1.0
        return int(share * self._c.window.threshold)

    def attempt(self, flow: Flow[Compacted | str | None]) -> Flow[Compacted | str | None]:
        """Run an automatic compaction; a failure is reported, changes nothing and returns None."""
        try:
            done = yield from flow
            if isinstance(done, Compacted):
                self.record_progress(done)
                return done if done.made else None
            return done
        except Aborted:
            raise
        except SevenfoldError as error:
            self._c.events.aside("compact", str(error), error=error)
            return None

    def last_resort(self) -> Flow[None]:
        """If the conversation is still over the blocking limit, compact again with the extractive engine."""
        refused = self._refused is not None and self._refused[1] == self._c.passes
        if not refused and self._c.size().high >= self._c.window.blocking:
            yield from self.attempt(self.run(replace(AUTO, engine="extractive")))

    def react(self) -> Flow[bool]:
        """Compact after a request was refused as too long, at most once per answer; True if it succeeded."""
        if self._reacted_after == self._c.answers:
            return False
        self._reacted_after = self._c.answers
        return (yield from self.attempt(self.run(CompactionRequest(trigger="reactive")))) is not None

    def record_progress(self, done: Compacted | None) -> Compacted | None:
        """Record how much a compaction freed, report the epochs it opened, and return ``done``."""
        if done is not None and not done.made:
            self._progress = self._progress.after(self._c.account.requests, 0, done.tokens_before)
        elif done is not None:
            by_seen = done.tokens_before >= self._c.window.threshold
            freed = (done.tokens_before if by_seen else done.sent_before) - done.tokens_after
            self._progress = self._progress.after(self._c.account.requests, freed, done.tokens_after)
            reporting.epochs(self._c)
        return done

    @property
    def health(self) -> Health:
        """Figures about the conversation's compactions and its cache."""
        c = self._c
        last = self.last
        with c.lock:
            turns = writer.place_in_chain(
                c.transcript.view, "", c.window.threshold, c.source.name
            ).turns_since
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
        """Number of compactions in the session, including those of earlier runs."""
        if self._made is None:
            log = self._c.transcript.log
            committed = {decision.boundary for _, decision in log.decisions(Commit)}
            whole = {
                entry.uuid for _, entry in log.boundaries() if not entry.own or entry.uuid in committed
            }
            self._made = len(whole) + len({decision.id for _, decision in log.decisions(Fold)})
        return self._made

    def _newest_words(self) -> str:
        """The id of the newest record in view with the user's words; empty if there is none."""
        items = reversed(self._c.transcript.view.layout.items)
        return next((item.record.uuid for item in items if is_users(item.record)), "")

    # -- running --------------------------------------------------------------------------------

    def run(self, request: CompactionRequest) -> Flow[Compacted | None]:
        """Compact; returns what was done, or None if a hook or a listener refused."""
        self.must_be_on()
        with self._working():
            with self._c.lock:
                divided = self.scope(request)
                stamp = self.stamp()
                self._c.before_hiding()
            hooks = yield from self.ask_hooks(request)
            if hooks is None:
                return None
            pool = yield from user_record.gather(self._c, divided)
            shown = self.shown_unnamed(pool)
            if not self.ask_listeners(request, divided, shown):
                return None
            self._progressed("compact_start")
            with self._c.lock:
                task = SummaryTask(self._c, divided, request, pool, "\n\n".join(hooks.instructions))
            if self.is_hopeless(request, divided, shown):
                attempt = Attempt(Failure("no_summary", "no summary is small enough"))
            else:
                attempt = yield from self.chooser.draft(task)
            done = yield from self._written(request, divided, attempt, pool, stamp)
            assert isinstance(done, Compacted)
            if not done.made and request.trigger != "manual":
                self._c.events.aside("compact", done.line)
            return done

    def compact_with(
        self,
        request: CompactionRequest,
        divided: Scope,
        attempt: Attempt,
        most_tokens: int | None = None,
        *,
        agreed: bool = False,
    ) -> Flow[Compacted | str | None]:
        """Compact with an existing summary, without asking a model or the PreCompact hooks.

        Returns None if a listener refused, a reason if ``most_tokens`` or more remain. ``agreed``: ask no listener.
        """
        c = self._c
        self.must_be_on()
        with self._working():
            stamp = self.stamp()
            pool = yield from user_record.gather(c, divided)
            if not agreed:
                if not self.ask_listeners(request, divided, self.shown_unnamed(pool)):
                    return None
                self._progressed("compact_start")
            if attempt.engine == "notes":
                with c.lock:
                    task = SummaryTask(c, divided, request, pool)
                attempt = yield from self.chooser.name_lasting(task, attempt)
            c.before_hiding()
            done = yield from self._written(request, divided, attempt, pool, stamp, most_tokens)
            return done if isinstance(done, str) or done.made else done.reason

    def ask_hooks(self, request: CompactionRequest) -> Flow[HookOutcome | None]:
        """Ask the PreCompact hooks; None if one of them refuses."""
        hooks = yield from self._fire(
            PreCompact, trigger=request.started_by, custom_instructions=request.instructions
        )
        if hooks.blocked is None:
            return hooks
        if request.started_by == "auto":
            self._refused = self._newest_words(), self._c.passes
        self._c.events.aside("compact", f"a hook refused: {hooks.blocked}")
        return None

    def shown_unnamed(self, pool: Pool) -> Shown:
        """What would be shown of the user's messages if no model named what lasts."""
        return user_record.choose(self._c, pool, (), self.recognise)

    def ask_listeners(self, request: CompactionRequest, divided: Scope, shown: Shown | None = None) -> bool:
        """Propose the compaction, with its cost, to the listeners; False if one refuses."""
        predicted = self._preview(request, divided, shown)
        return self._c.events.may(
            Proposed(
                layer="compact",
                mechanism=divided.span,
                what=f"summarise {len(divided.hidden)} records and keep {len(divided.kept)}",
                why=request.trigger,
                items=len(divided.hidden),
                tokens=max(0, predicted.tokens_before - predicted.tokens_after),
                usd=predicted.usd,
                targets=tuple(item.record.uuid for item in divided.hidden),
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

    def is_hopeless(self, request: CompactionRequest, divided: Scope, shown: Shown) -> bool:
        """Whether even the shortest summary would leave too much, so that no model needs to be asked."""
        with self._c.lock:
            return writer.room_left(self._c, request, divided, shown) < writer.LEAST_TEXT

    def _written(
        self,
        request: CompactionRequest,
        divided: Scope,
        attempt: Attempt,
        pool: Pool,
        stamp: Stamp,
        most_tokens: int | None = None,
    ) -> Flow[Compacted | str]:
        """Complete the summary and write the compaction in one go, if it leaves little enough of what it replaces.

        If it would leave too much, the summary's lists give way first, then restored files; a result that says so is
        returned if neither is enough, and a reason if ``most_tokens`` or more would be left. Raises `Refused` if the
        conversation has changed since ``stamp``.
        """
        c = self._c
        with c.lock:
            shown = user_record.choose(c, pool, attempt.lasting, self.recognise, attempt.offered)
            room_left = writer.room_left(c, request, divided, shown)
            room = writer.room(c, divided)
            if attempt.engine == "notes" and isinstance(attempt.outcome, Draft):
                # Notes have their own size limits and are not cut any further.
                room += c.count(attempt.outcome.text)
        result = Result(request, divided, attempt, Verdict("", Coverage()), shown, pool.passing)
        if room_left < writer.LEAST_TEXT:
            return writer.not_made(c, result, writer.most_after(c, divided) + writer.LEAST_TEXT - room_left)
        if divided.span != "range":
            started = yield from self._fire(SessionStart, source="compact")
            result = replace(result, context=started.context)
        for _ in range(TRIES):
            verdict = yield from check.check(c, attempt, divided, pool, shown, min(room, room_left))
            result = replace(result, verdict=verdict)
            with c.lock:
                if self.stamp() != stamp:
                    raise Refused("the conversation went on while it was being compacted; compact again")
                planned = writer.plan(c, result)
                highest_after = writer.at_most(c, divided, planned.texts)
                if most_tokens is not None and highest_after >= most_tokens:
                    wanted = f"and fewer than {most_tokens:,} are wanted"
                    return f"with what the record adds {highest_after:,} tokens would be left, {wanted}"
                over = planned.tokens_after - writer.most_after(c, divided) + 1
                if over <= 0:
                    done = writer.write(c, result, planned, self.chooser.failures)
                    done = replace(done, fires_again=self._full(c.size()))
            if over <= 0:
                return (yield from self._finished(result, done))
            room_left = min(room_left, c.count(verdict.text)) - over
            if room_left < writer.LEAST_TEXT:
                break
        return writer.not_made(c, result, planned.tokens_after)

    def _finished(self, result: Result, done: Compacted) -> Flow[Compacted]:
        """Report a compaction that was written, and run the hooks that follow it."""
        failures = self.chooser.failures
        writer.report(self._c, done, failures)
        self.last = done
        self._refused = None
        self._made = None if self._made is None else self._made + 1
        # The compaction is already written, so an abort here must not make it look failed.
        with suppress(Aborted):
            yield from self._fire(
                PostCompact, trigger=result.request.started_by, compact_summary=done.summary
            )
        return done

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Show the status "compacting" inside this block, and report a keep-alive at regular intervals."""
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

    def _fire(self, event: type[HookInput], **fields: Any) -> Flow[HookOutcome]:
        """Run the hooks of an event, and report their messages and failures."""
        name = event.__name__
        transcript_place = self._c.transcript.place
        path = self._c.services.path
        self._progressed("hooks_start", name)
        hook_input = event(
            session_id=transcript_place.session, transcript_path=path, cwd=transcript_place.cwd, **fields
        )
        outcome = yield from Fire(hook_input)
        for text in outcome.messages:
            self._progressed("hook_message", name, text)
        for failure in outcome.failures:
            self._c.events.aside("hooks", f"{name}, {failure.hook}: {failure.problem}")
        return outcome

    def scope(self, request: CompactionRequest) -> Scope:
        """How a request divides the conversation: what is summarised and what is kept."""
        c = self._c
        view = self._c.transcript.view
        match request:
            case CompactionRequest(trigger="reactive"):
                most_tokens = int(c.window.threshold * AFTER_SHARE)
                return scope.older(view, ROUNDS_KEPT, most_tokens, lambda item: c.load((item,)))
            case CompactionRequest(span="from" | "up_to" as span, record=record):
                return scope.around(view, record, span)
            case CompactionRequest(span="range", record=record, until=until):
                return scope.between(view, record, until)
            case _:
                return scope.whole(view, c.window.budget(c.settings.keep_recent_tokens), c.item_tokens)

    def stamp(self) -> Stamp:
        """The current tip, boundary and epoch."""
        view = self._c.transcript.view
        return view.tip, view.boundary, view.epoch.id if view.epoch else ""

    def basis(self, divided: Scope) -> tuple[object, ...]:
        """What a summary of this part depends on: it does not change when messages are added after the part."""
        return (*self.stamp()[1:], *(item.record.uuid for item in divided.hidden))

    def _preview(self, request: CompactionRequest, divided: Scope, shown: Shown | None = None) -> Preview:
        chooser = self.chooser
        if shown is None:
            shown = self.shown_unnamed(drive(user_record.gather(self._c, divided), None))
        fit = (engine for engine in chooser.order(request) if not chooser.unfit(engine, divided, request))
        engine: EngineName = next(fit, "extractive")
        return writer.preview(self._c, request, divided, engine, shown, warm=chooser.warm())
