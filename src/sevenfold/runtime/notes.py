"""Keeping the session notes: when an update is due it is made beside the conversation, and never waited for.

But for a compaction, which may wait a little for one that is under way. Updates follow each other and never
overlap; one that takes too long is taken for dead, and what comes of it after all is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol

import msgspec
from msgspec import Struct

from sevenfold.errors import ModelError, SevenfoldError
from sevenfold.events import Acted, SteppedAside
from sevenfold.layers import notes, summary
from sevenfold.layers.extract import facts as facts_of
from sevenfold.layers.notes import Notes, Since
from sevenfold.layers.scope import Scope
from sevenfold.layers.summary import Draft, Failure
from sevenfold.ports import Ask, Clock, Reply
from sevenfold.record import blocks, entries
from sevenfold.record.decisions import Notes as NotesMark
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item
from sevenfold.record.window import Window
from sevenfold.runtime.announce import Announcer
from sevenfold.runtime.background import Runner
from sevenfold.runtime.drive import Signal, Wait
from sevenfold.runtime.exchange import Exchange
from sevenfold.runtime.fork import Fork
from sevenfold.runtime.transcript import Transcript

SOURCE = "session_memory"
WAIT_SECONDS = 15.0
"""How long a compaction waits for an update that is under way…"""
DEAD_SECONDS = 60.0
"""…unless it has been under way for so long that nobody believes in it any more."""


class NotesFile(Protocol):
    """Where the notes are kept."""

    path: str

    def read(self) -> str | None:
        """Their text, or None if there are none yet."""
        ...

    def write(self, text: str) -> None:
        """Replace them as a whole."""
        ...


class Updated(Struct, frozen=True):
    """What came of an update."""

    notes: Notes
    covered: str
    boundary: str | None


class Job:
    """An update that is being made."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.over = Signal()


Work = Generator[Ask, Reply, Updated | Failure]


class NotesKeeper:
    """Looks after one session's notes."""

    def __init__(
        self,
        transcript: Transcript,
        exchange: Exchange,
        announcer: Announcer,
        file: NotesFile,
        *,
        window: Window,
        clock: Clock,
        fork: Callable[[str], Fork],
        count: Callable[[str], int],
        tokens: Callable[[Item], int],
    ) -> None:
        self._transcript = transcript
        self._exchange = exchange
        self._announcer = announcer
        self._file = file
        self._window = window
        self._clock = clock
        self._fork = fork
        self._count = count
        self._tokens = tokens
        self._tried: str | None = None
        """Where the conversation stood at the last try: one that fails is not repeated until there is more."""
        self._job: Job | None = None

    # -- keeping --------------------------------------------------------------------------------

    def check(self, runner: Runner) -> None:
        """After an answer: begin an update if one is due and none is under way."""
        if self._alive() is not None or not notes.due(self._since(), self._window):
            return
        job = self._job = Job(self._clock.now())
        self._tried = self._transcript.view.tip
        runner(self.update(), lambda came: self._done(job, came))

    def update(self) -> Work:
        """Ask for an update of the notes as they are now."""
        view = self._transcript.view
        now = notes.read(self._file.read() or "")
        covered, boundary = view.tip or "", view.boundary
        fork = self._fork(SOURCE)
        fork.user(notes.instruction(now, self._window, self._count))
        try:
            outcome = yield from fork.turn()
        except ModelError as error:
            return Failure("api_error", str(error))
        said = "\n".join(blocks.words_of(block) for block in outcome.reply.answer.blocks)
        changed = notes.apply(now, said)
        return changed if isinstance(changed, Failure) else Updated(changed, covered, boundary)

    def store(self, updated: Updated) -> None:
        """Write an update down; the mark only counts as long as the conversation is not compacted."""
        self._file.write(updated.notes.render())
        self._transcript.decide(NotesMark(covered=updated.covered, boundary=updated.boundary))
        self._announcer.tell(
            Acted(
                source=SOURCE,
                layer="notes",
                mechanism="update",
                what="session notes brought up to date",
                why="the conversation has grown",
                reference=self._file.path,
                undoable=False,
            )
        )

    def waiting(self) -> Generator[Wait, bool, None]:
        """Wait for an update that is under way, if there is one worth waiting for."""
        job = self._alive()
        if job is not None and not (yield Wait(job.over, WAIT_SECONDS)):
            self._aside(
                f"an update was not done after {WAIT_SECONDS:.0f} seconds: the notes are used as they are"
            )

    def _done(self, job: Job, came: Updated | Failure | Exception) -> None:
        try:
            if self._alive() is not job:
                self._aside("an update came too late and was thrown away")
            elif isinstance(came, Updated):
                self.store(came)
            else:
                self._aside(came.detail if isinstance(came, Failure) else str(came))
        except SevenfoldError as error:
            self._aside(str(error))
        finally:
            if self._job is job:
                self._job = None
            job.over.happen()

    def _aside(self, reason: str) -> None:
        self._announcer.tell(SteppedAside(source=SOURCE, layer="notes", reason=reason))

    def _alive(self) -> Job | None:
        job = self._job
        return job if job is not None and self._clock.now() - job.began < DEAD_SECONDS else None

    def _since(self) -> Since:
        view = self._transcript.view
        items = view.items
        known = {self.covered(), self._tried} - {None}
        place = max((n for n, item in enumerate(items) if item.said.uuid in known), default=None)
        first = place is None and view.boundary is None
        if place is None:
            # What a compaction brought along was there before: the conversation grows from there on.
            begun = (n for n, item in enumerate(items) if item.said.summary or item.said.attachment)
            place = max(begun, default=-1) if view.boundary else -1
        newest = next((item for item in reversed(items) if item.said.role == "assistant"), None)
        since = items[place + 1 :]
        return Since(
            grown=self._exchange.size().tokens if first else sum(map(self._tokens, since)),
            first=first,
            calls=sum(len(item.said.calls) for item in since),
            resting=newest is not None and not newest.said.calls,
        )

    # -- using ----------------------------------------------------------------------------------

    def covered(self) -> str | None:
        """The newest record the notes cover; a compaction resets it."""
        view = self._transcript.view
        for made in reversed(view.decisions()):
            if isinstance(made, NotesMark):
                return made.covered if made.boundary == view.boundary else None
        return None

    def serve(self, threshold: int) -> tuple[Scope, Draft] | str:
        """The notes as a summary of what they cover, with what is to be kept; or why they cannot serve."""
        text, mark = self._file.read(), self.covered()
        if text is None:
            return "there are no notes"
        held = notes.read(text)
        if held.empty:
            return "the notes are still empty"
        if mark is None:
            return "nobody knows what the notes cover"
        divided = self._divided(mark)
        if isinstance(divided, str):
            return divided
        said = notes.as_summary(held, self._file.path, self._window, self._count)
        draft = summary.read(f"<summary>\n{said}\n</summary>")
        if isinstance(draft, Failure):
            return draft.detail
        if drift := self._drift(held, draft):
            return f"the notes do not agree with the record: {drift}"
        kept = self._fixed() + sum(map(self._tokens, divided.kept)) + self._count(said)
        if kept >= threshold:
            return f"with what must be kept they would have {kept:,} tokens, and the threshold is {threshold:,}"
        return divided, draft

    def _divided(self, mark: str) -> Scope | str:
        view = self._transcript.view
        items = view.items
        start = notes.keep_from(items, mark, self._window, self._tokens)
        if start is None:
            return "what the notes cover is not in view"
        while start > 0 and not (start == len(items) or view.begins_round(items[start].said.uuid)):
            start -= 1
        if not any(item.said.role == "assistant" for item in items[:start]):
            return "nothing would be summarised"
        return Scope(tuple(items[:start]), tuple(items[start:]), "up_to")

    def _fixed(self) -> int:
        gauge = self._exchange.gauge
        return round(gauge.estimator.tokens(gauge.opening))

    def _drift(self, held: Notes, draft: Draft) -> str:
        """Something in the notes that the record does not bear out; empty if there is nothing.

        That is a claim about the user's words that has no source, or a name nobody ever mentioned.
        """
        items = self._transcript.view.items
        checked = summary.verify(draft, facts_of(items), items)
        if checked.invented:
            return checked.invented[0]
        strange = (name for name in notes.names(held) if not self._mentioned(name))
        return next((f"no record mentions {name}" for name in strange), "")

    def _mentioned(self, name: str) -> bool:
        """Does anything that was said hold this name, or the last part of it?"""
        needle = msgspec.json.encode(name.rstrip("/").replace("\\", "/").rpartition("/")[2])[1:-1]
        for offset in self._transcript.log.holding(needle):
            for _, line in self._transcript.log.read(offset):
                if isinstance(entries.read(line), Said):
                    return True
                break
        return False
