"""A session with the layers that ask a model: notes and compaction.

What may have to wait is a flow: `preparing` a request, `mending` after a failure, `compacting`, a whole `turn`. Each
yields what it needs; who drives it decides whether that blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, cast

from sevenfold.errors import BodyTooLarge, ModelError, PromptTooLong, Refused
from sevenfold.events import SteppedAside
from sevenfold.layers.extract.facts import Kind
from sevenfold.ports import Ask, Clock, Recall, Reply
from sevenfold.profiles import Profile, find
from sevenfold.runtime import undoing
from sevenfold.runtime.compaction import undoing as uncompact
from sevenfold.runtime.compaction.ahead import Ahead, Runner
from sevenfold.runtime.compaction.engines import Got
from sevenfold.runtime.compaction.flow import Compactor
from sevenfold.runtime.compaction.restore import FilesSlot, PinsSlot
from sevenfold.runtime.compaction.wish import Compacted, Wish
from sevenfold.runtime.exchange import Outcome
from sevenfold.runtime.notes import NotesFile, NotesKeeper
from sevenfold.runtime.pins import pinned_items
from sevenfold.runtime.session import REPEATS, Session, Turn

Flow = Generator[Any, Any, Any]


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
        transcript_path: str = "",
    ) -> None:
        self.session = session
        self._runner: Runner | None = None
        settings = session.settings
        fallback: Profile | None = find(settings.summary_model) if settings.summary_model else None
        self.compactor = Compactor(
            session.transcript,
            session.exchange,
            session.announcer,
            profile=session.profile,
            window=session.window,
            kinds=cast(Mapping[str, Kind], {name: kind for name, kind in session.kinds.items() if kind}),
            fork=session.fork,
            lock=session.lock,
            recall=recall,
            transcript_path=transcript_path,
            fallback=fallback,
        )
        self.compactor.slots.append(PinsSlot(lambda: pinned_items(session.transcript)))
        if read_file is not None:
            self.compactor.slots.append(FilesSlot(self._recent_files, read_file))
        self.ahead: Ahead | None = None
        self.notes = (
            NotesKeeper(
                session.transcript,
                session.exchange,
                session.announcer,
                notes,
                window=session.window,
                clock=clock,
                fork=session.fork,
                count=self.compactor.count,
                tokens=self.compactor.tokens,
            )
            if notes is not None
            else None
        )
        session.upkeep.compacts = settings.auto_compact
        self._reacted = False

    def may_ask(self, runner: Runner) -> None:
        """There is somebody to ask from now on; ``runner`` does work beside the session."""
        if self._runner is None:
            self._runner = runner
            self.compactor.models = True
            self.ahead = Ahead(self.compactor, self.session.announcer, runner)

    # -- flows ----------------------------------------------------------------------------------

    def preparing(self) -> Flow:
        """Get the next request ready, compacting first if the conversation is at the threshold."""
        session = self.session
        settings = session.settings
        session.transcript.must_be_writable()
        session.something_to_say()
        session.upkeep.settle(settings)
        if self.ahead is not None and settings.background_compaction:
            self.ahead.swap(session.transcript.view.items, settings)
        if settings.auto_compact and session.upkeep.plan(settings).chosen == "compact":
            yield from self._auto(Wish(trigger="auto"))
        return session.prepare()

    def turn(self) -> Flow:
        """One request and its answer; errors that can be mended are withheld and the request made again."""
        for attempt in range(REPEATS + 1):
            turn: Turn = yield from self.preparing()
            try:
                reply: Reply = yield Ask(turn.prepared.call)
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
        if not too_big or self._reacted or not self.session.settings.reactive:
            return False
        self._reacted = True
        return (yield from self._auto(Wish(trigger="reactive"))) is not None

    def compacting(self, wish: Wish) -> Flow:
        """Compact because somebody asked for it; notes serve as the summary unless more is asked for."""
        settings = self.session.settings
        if wish.engine in (None, "notes") and not wish.instructions and wish.span == "whole":
            done = self._by_notes(wish)
            if done is not None:
                return done
        return (yield from self.compactor.run(wish, settings))

    def undo(self, reference: str = "") -> str:
        """Take back what a layer did last, or the decision named, a compaction included."""
        session = self.session
        with session.lock:
            view = session.transcript.view
            newest = (
                not reference and view.boundary is not None and not undoing.standing(session.transcript)
            )
            if newest or (reference and reference == view.boundary):
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
        outcome = self.session.observe(reply)
        self._reacted = False
        if self.compactor.turns_since >= 0:
            self.compactor.turns_since += 1
        self._beside()
        return outcome

    # -- inside ---------------------------------------------------------------------------------

    def _auto(self, wish: Wish) -> Flow:
        """Compact because it is due; a failure is told and leaves everything as it was."""
        settings = self.session.settings
        try:
            done = self._by_notes(wish) if wish.trigger == "auto" else None
            return done or (yield from self.compactor.run(wish, settings))
        except Refused as error:
            self.session.announcer.tell(SteppedAside(layer="compact", reason=str(error)))
            return None

    def _by_notes(self, wish: Wish) -> Compacted | None:
        """The notes as the summary, with no model asked; None if they cannot serve."""
        settings = self.session.settings
        if self.notes is None or self._runner is None or not settings.notes_compaction:
            return None
        served = self.notes.serve(self.session.window.threshold)
        if isinstance(served, str):
            self.session.announcer.tell(SteppedAside(layer="notes", reason=served))
            return None
        divided, draft = served
        stamp = self.compactor.stamp()
        return self.compactor.finish(wish, divided, stamp, Got(draft), "notes", (), settings)

    def _beside(self) -> None:
        settings = self.session.settings
        if self._runner is None:
            return
        if self.notes is not None and settings.notes:
            self.notes.check(self._runner)
        size, window = self.session.exchange.size(), self.session.window
        if self.ahead is None or not settings.background_compaction or self.ahead.busy:
            return
        if size.high >= settings.background_share * window.threshold:
            self.ahead.begin(self.session.transcript.view.items, settings)

    def _recent_files(self) -> list[str]:
        return list(reversed(self.session.reads.files))
