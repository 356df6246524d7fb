"""A session with the layers that ask a model: notes and compaction.

What may have to wait is a flow: `preparing` a request, `mending` after a failure, `compacting`, a whole `turn`. Each
yields what it needs; who drives it decides whether that blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from sevenfold.conversation import undo_compaction as uncompact
from sevenfold.conversation.background import Runner
from sevenfold.conversation.exchange import Outcome
from sevenfold.conversation.flow import Ask
from sevenfold.conversation.fork import Fork
from sevenfold.conversation.limits import Pass, Progress
from sevenfold.conversation.pins import pinned_items
from sevenfold.conversation.session import REPEATS, Session, Turn
from sevenfold.errors import (
    Aborted,
    BodyTooLarge,
    ContextFull,
    ModelError,
    PromptTooLong,
    Refused,
    SevenfoldError,
)
from sevenfold.events import SteppedAside
from sevenfold.layers.compact import collapse
from sevenfold.layers.compact import writer as writing
from sevenfold.layers.compact.ahead import Ahead
from sevenfold.layers.compact.extract.facts import Kind
from sevenfold.layers.compact.flow import Compactor, must_be_on
from sevenfold.layers.compact.health import Health, Tally
from sevenfold.layers.compact.request import Compacted, Preview, Wish
from sevenfold.layers.compact.slots import FilesSlot, PinsSlot, Seen
from sevenfold.layers.notes.keeper import NotesFile, NotesKeeper
from sevenfold.ports import Clock, Recall, Reply
from sevenfold.record.wire import Message
from sevenfold.request.sources import source as rules_of

Flow = Generator[Any, Any, Any]
AUTO = Wish(trigger="auto")
LAST = Wish(trigger="auto", engine="extractive")
UNDER_WAY = (
    "another request of this session is under way, and a conversation has one next answer: wait for that one, or ask "
    "beside it with fork()"
)
FRESH = 0.1
"""Of the threshold, how much must have been said since a compaction before another is prepared ahead of need."""
OTHER_FILES = 25
"""Of the files read, how many of the newest may be asked for to be restored."""


class Engine:
    """A session that compacts itself."""

    def __init__(
        self,
        session: Session,
        *,
        clock: Clock,
        recall: Recall | None = None,
        notes: NotesFile | None = None,
        read_file: Callable[[str], str] | None = None,
        may_read: Callable[[str], bool] = lambda path: True,
        transcript_path: str = "",
        source: str = "main",
    ) -> None:
        self.session = session
        self._source = rules_of(source)
        self._runner: Runner | None = None
        self._recall = recall
        settings = session.settings
        second = session.profile.companion(settings.summary_model)
        self.compactor = Compactor(
            session.transcript,
            session.exchange,
            session.announcer,
            profile=session.profile,
            window=session.window,
            kinds=cast(Mapping[str, Kind], {name: kind for name, kind in session.kinds.items() if kind}),
            fork=self._fork,
            lock=session.lock,
            recall=recall,
            transcript_path=transcript_path,
            second=second,
            source=source,
        )
        self.compactor.slots.append(PinsSlot(lambda: pinned_items(session.transcript)))
        self._own_files = {transcript_path, notes.path if notes else ""} - {""}
        if read_file is not None:
            files = FilesSlot(
                self._recent_files, read_file, may_read=may_read, own=self._own_files.__contains__
            )
            self.compactor.slots.append(files)
        self.ahead: Ahead | None = None
        self.notes = self._keeper(notes, clock) if notes is not None else None
        self._progress = Progress()
        self._tally = Tally()
        self._reacted = self._asking = False
        self._flagged = self._first_after()

    def _keeper(self, file: NotesFile, clock: Clock) -> NotesKeeper:
        session = self.session
        return NotesKeeper(
            session.transcript,
            session.exchange,
            session.announcer,
            file,
            window=session.window,
            clock=clock,
            fork=session.fork,
            count=self.compactor.count,
            tokens=self.compactor.tokens,
            load=lambda items: self.compactor.load(items, session.settings),
        )

    def may_ask(self, runner: Runner) -> None:
        """There is somebody to ask from now on; ``runner`` does work beside the session."""
        if self._runner is None:
            self._runner = self.compactor.runner = runner
            self.compactor.chooser.models = True
            self.ahead = Ahead(self.compactor, self.session.announcer, runner)

    # -- flows ----------------------------------------------------------------------------------

    def preparing(self) -> Flow:
        """Get the next request ready, compacting first if the conversation is at the threshold."""
        session, settings = self.session, self.session.settings
        session.transcript.must_be_writable()
        session.something_to_say()
        session.upkeep.settle(settings)
        compacts = self._compacts()
        session.upkeep.compacts = compacts
        if self.ahead is not None and settings.background_compaction:
            yield from self.ahead.swapping(session.transcript.view.items, settings)
        if compacts and self._due():
            yield from self._auto(AUTO)
            if session.exchange.size().high >= session.window.blocking:
                # What was kept beside the summary is too much by itself.
                yield from self._auto(LAST)
        if settings.collapse and self._source.compacts:
            yield from self._collapsing()
        turn: Turn = session.prepare()
        if (boundary := self._first_after()) != self._flagged:
            turn.why = replace(turn.why, after_compaction=boundary)
        return turn

    def turn(self) -> Flow:
        """One request and its answer; errors that can be mended are withheld and the request made again."""
        if self._asking:
            raise Refused(UNDER_WAY)
        self._asking = True
        try:
            return (yield from self._asked())
        finally:
            self._asking = False

    def _asked(self) -> Flow:
        for attempt in range(REPEATS + 1):
            turn: Turn = yield from self.preparing()
            try:
                reply: Reply = yield from Ask(turn.prepared.call)
            except ModelError as error:
                if not (yield from self.mending(error)) or attempt == REPEATS:
                    raise
            else:
                return self.observe(reply)
        raise AssertionError("unreachable")

    def mending(self, error: ModelError) -> Flow:
        """Take in that a request failed; True if the next one may succeed."""
        too_big = isinstance(error, PromptTooLong | BodyTooLarge)
        if self.session.failed(error):
            return True
        if not too_big or self._reacted or not self.session.settings.reactive or not self._source.compacts:
            return False
        self._reacted = True
        return (yield from self._auto(Wish(trigger="reactive"))) is not None

    def compacting(self, wish: Wish) -> Flow:
        """Compact because somebody asked for it; notes serve as the summary unless more is asked for."""
        settings = self.session.settings
        must_be_on(settings)
        if wish.engine in (None, "notes") and not wish.instructions and wish.span == "whole":
            self.compactor.scope(wish, settings)
            done = yield from self._by_notes(wish)
            if isinstance(done, Compacted) or done is None:
                return self._passed(done)
            if wish.engine == "notes":
                raise Refused(f"the notes cannot serve as a summary: {done}")
        return self._passed((yield from self.compactor.run(wish, settings)))

    # -- at once --------------------------------------------------------------------------------

    def preview(self, wish: Wish) -> Preview:
        """What a compaction would do, and what that would cost, without doing it."""
        return self.compactor.preview(wish, self.session.settings)

    def undo(self, reference: str = "") -> str:
        """Take back what a layer did last, or the decision named, a compaction included."""
        session = self.session
        with session.lock:
            boundary = session.transcript.view.boundary
            if boundary and (reference or uncompact.newest(session.transcript)) == boundary:
                name = uncompact.undo(session.transcript, session.exchange, session.profile, session.window)
                session.tell_epochs()
                return name
            return session.undo(reference)

    def redo(self, reference: str = "") -> str:
        """Make a decision again that was taken back, a compaction included."""
        session = self.session
        with session.lock:
            name = uncompact.newest_undone(session.transcript)
            if name and reference in ("", name):
                uncompact.redo(session.transcript, session.exchange, session.profile, name)
                session.tell_epochs()
                return name
            return session.redo(reference)

    def observe(self, reply: Reply) -> Outcome:
        """Take in an answer, and begin what may be done beside the conversation now."""
        with self.session.lock:
            outcome = self.session.observe(reply)
            self._reacted = False
            self._flagged = self._first_after()
            self._tally = self._tally.after(outcome.usage)
            self.follow()
            self._beside()
            return outcome

    def follow(self) -> None:
        """Have recall take in what is new, beside the conversation."""
        if self._recall is not None and self.session.settings.recall_ahead:
            self._recall.follow(self.session.transcript.written)

    @property
    def taken_back(self) -> bool:
        """Was the last compaction undone? Then there is none by itself while the conversation fits."""
        return uncompact.stands_undone(self.session.transcript)

    @property
    def beside(self) -> tuple[str, ...]:
        """What goes on beside the conversation now, in words."""
        notes = ("notes",) if self.notes is not None and self.notes.busy else ()
        summary = ("summary ahead",) if self.ahead is not None and self.ahead.making else ()
        return notes + summary

    @property
    def health(self) -> Health:
        """How the session is doing with its window."""
        compactor, session = self.compactor, self.session
        with session.lock:
            chain = writing.chain(session.transcript.view, "", session.window.threshold, self._source.name)
            last, turns = compactor.last, chain.turns_since
            grown = session.exchange.size().tokens - last.tokens_after if last else 0
            return Health(
                status=compactor.status,
                compactions=compactor.made,
                turns_since=turns,
                refill=grown / turns if last and turns > 0 else None,
                failures=compactor.chooser.failures,
                breaker_open=compactor.chooser.resting,
                cached_share=self._tally.share,
            )

    # -- inside ---------------------------------------------------------------------------------

    def _due(self) -> bool:
        """Is the conversation at the threshold, or too heavy to be sent, and would clearing not be enough?"""
        session, size, window = self.session, self.session.exchange.size(), self.session.window
        if self.compactor.chooser.presses(size, session.settings):
            return True
        if size.high < window.threshold and not session.upkeep.overloaded(session.settings):
            return False
        plan = session.upkeep.plan(session.settings)
        return plan.chosen != "clear" or size.high - plan.tokens >= window.threshold

    def _compacts(self) -> bool:
        """May the conversation be compacted by itself now?"""
        session = self.session
        if not session.settings.auto_compact or not self._source.compacts:
            return False
        size = session.exchange.size()
        if size.high >= session.window.blocking or session.upkeep.overloaded(session.settings):
            return True
        if self.taken_back:
            # Whoever took a compaction back wants the conversation as it is, as long as it fits.
            return False
        rests = self._progress.rests("compact", session.window, size.tokens)
        session.announcer.rests("compact", rests)
        return not rests

    def _auto(self, wish: Wish) -> Flow:
        """Compact because it is due; a failure is told and leaves everything as it was."""
        settings = self.session.settings
        try:
            done = (yield from self._by_notes(wish)) if wish == AUTO else ""
            if isinstance(done, str):
                done = yield from self.compactor.run(wish, settings)
            return self._passed(done)
        except Aborted:
            raise
        except SevenfoldError as error:
            reason, kind = str(error), type(error).__name__
            self.session.announcer.tell(SteppedAside(layer="compact", reason=reason, error=kind))
            return None

    def _by_notes(self, wish: Wish) -> Generator[Any, Any, Compacted | str | None]:
        """The notes as the summary, with no model asked; None if that was refused, a text if they cannot serve."""
        settings = self.session.settings
        if self.notes is None or self._runner is None or not settings.notes_compaction:
            return "notes are switched off"
        yield from self.notes.waiting()
        most = self.session.window.threshold if wish.engine == "notes" else self._next_begins
        served = yield from self.notes.serving(most)
        if isinstance(served, str):
            done: Compacted | str | None = served
        else:
            done = yield from self.compactor.served(wish, *served, settings, most)
        if isinstance(done, str):
            self.session.announcer.tell(SteppedAside(layer="notes", reason=done))
        return done

    def _collapsing(self) -> Flow:
        """Fold finished spans while the conversation is too full."""
        session, window = self.session, self.session.window
        for _ in range(collapse.MOST):
            if not collapse.due(session.exchange.size().high, window):
                return
            wish = collapse.next_span(session.transcript.view, window, self.compactor.tokens)
            if wish is None or (yield from self._auto(wish)) is None:
                break
        if collapse.blocked(size := session.exchange.size().high, window):
            raise ContextFull(
                f"the conversation has about {size:,} tokens and nothing is left that could be folded; collapse "
                f"stops sending at {int(collapse.BLOCKS * window.effective):,}: compact it, or snip rounds"
            )

    def _passed(self, done: Compacted | None) -> Compacted | None:
        """Keep in mind what a compaction achieved."""
        if done is not None:
            by_seen = done.tokens_before >= self.session.window.threshold
            freed = (done.tokens_before if by_seen else done.sent_before) - done.tokens_after
            requests = self.session.exchange.account.requests
            self._progress = self._progress.after(Pass("compact", requests, freed, done.tokens_after))
            self.session.tell_epochs()
        return done

    def _beside(self) -> None:
        settings = self.session.settings
        cap = settings.spending_cap_usd
        if self._runner is None or (cap is not None and self.session.exchange.own_usd >= cap):
            return
        if self.notes is not None and settings.notes:
            self.notes.check(self._runner)
        size, last = self.session.exchange.size(), self.compactor.last
        if self.ahead is None or not settings.background_compaction or self.ahead.busy:
            return
        if size.high < self._next_begins or self.compactor.chooser.resting:
            return
        if last is not None and size.tokens < last.tokens_after + FRESH * self.session.window.threshold:
            return
        if self._compacts() and not self._notes_would_serve(self._runner):
            self.ahead.begin(self.session.transcript.view.items, settings)

    def _notes_would_serve(self, runner: Runner) -> bool:
        """Then nothing need be prepared: they cost no call, and nobody waits."""
        if self.notes is None or not self.session.settings.notes_compaction:
            return False
        return self.notes.would_serve(self._next_begins, runner)

    @property
    def _next_begins(self) -> int:
        """The size at which a compaction is begun, ahead of need or not: one should end below it."""
        settings = self.session.settings
        share = settings.background_share if settings.background_compaction else 1.0
        return int(share * self.session.window.threshold)

    def _first_after(self) -> str:
        """The compaction the view begins with."""
        return self.session.transcript.view.boundary or ""

    def _fork(self, source: str, shared: Sequence[Message], upto: str | None) -> Fork:
        return self.session.fork(source, shared, upto)

    def _recent_files(self) -> list[Seen]:
        reads = self.session.reads.files
        return [Seen(path, read.call) for path, read in reversed(reads.items())][:OTHER_FILES]
