"""Keeping the session notes: when an update is due it is made beside the conversation, and never waited for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

from msgspec import Struct

from sevenfold.errors import ModelError, SevenfoldError
from sevenfold.events import Acted, SteppedAside
from sevenfold.layers import notes, summary
from sevenfold.layers.extract import facts as facts_of
from sevenfold.layers.notes import Notes, Since
from sevenfold.layers.scope import Scope
from sevenfold.layers.summary import Draft, Failure
from sevenfold.ports import Ask, Clock, Reply
from sevenfold.record import blocks
from sevenfold.record.decisions import Notes as NotesMark
from sevenfold.record.layout import Item
from sevenfold.record.window import Window
from sevenfold.runtime.announce import Announcer
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
    tokens: int


Work = Generator[Ask, Reply, Updated | Failure]
Runner = Callable[[Generator[Any, Any, Any], Callable[[Any], None]], None]


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
        self._before: int | None = None
        self._began: float | None = None

    # -- keeping --------------------------------------------------------------------------------

    def check(self, runner: Runner) -> None:
        """After an answer: begin an update if one is due and none is under way."""
        if self._busy() or not notes.due(self._since(), self._window):
            return
        self._began = self._clock.now()
        # Counted from the try, so that one that fails is not repeated before there is something new.
        self._before = self._exchange.size().tokens
        runner(self.update(), self._done)

    def update(self) -> Work:
        """Ask for an update of the notes as they are now."""
        view = self._transcript.view
        now = notes.read(self._file.read() or "")
        covered, size = view.tip or "", self._exchange.size().tokens
        fork = self._fork(SOURCE)
        fork.user(notes.instruction(now, self._window, self._count))
        try:
            outcome = yield from fork.turn()
        except ModelError as error:
            return Failure("api_error", str(error))
        said = "\n".join(blocks.words_of(block) for block in outcome.reply.answer.blocks)
        changed = notes.apply(now, said)
        return changed if isinstance(changed, Failure) else Updated(changed, covered, size)

    def store(self, updated: Updated) -> None:
        """Write an update down."""
        self._file.write(updated.notes.render())
        self._transcript.decide(NotesMark(covered=updated.covered))
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

    def _done(self, came: Updated | Failure | Exception) -> None:
        self._began = None
        try:
            if isinstance(came, Updated):
                self.store(came)
                return
        except SevenfoldError as error:
            came = error
        reason = came.detail if isinstance(came, Failure) else str(came)
        self._announcer.tell(SteppedAside(source=SOURCE, layer="notes", reason=reason))

    def _busy(self) -> bool:
        return self._began is not None and self._clock.now() - self._began < DEAD_SECONDS

    def _since(self) -> Since:
        view = self._transcript.view
        items = view.items
        mark = self.covered()
        place = next((n for n, item in enumerate(items) if item.said.uuid == mark), -1)
        newest = next((item for item in reversed(items) if item.said.role == "assistant"), None)
        return Since(
            tokens=self._exchange.size().tokens,
            before=self._before,
            calls=sum(len(item.said.calls) for item in items[place + 1 :]),
            resting=newest is not None and not newest.said.calls,
        )

    # -- using ----------------------------------------------------------------------------------

    def covered(self) -> str | None:
        """The newest record the notes cover; a compaction resets it."""
        for made in reversed(self._transcript.view.decisions()):
            if isinstance(made, NotesMark):
                return made.covered
        return None

    @property
    def under_way(self) -> bool:
        """Is an update being made that is worth waiting for?"""
        return self._busy()

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
        view = self._transcript.view
        items = view.items
        start = notes.keep_from(items, mark, self._window, self._tokens)
        if start is None:
            return "what the notes cover is not in view"
        while start > 0 and not (start == len(items) or view.begins_round(items[start].said.uuid)):
            start -= 1
        if not any(item.said.role == "assistant" for item in items[:start]):
            return "nothing would be summarised"
        divided = Scope(tuple(items[:start]), tuple(items[start:]), "up_to")
        said = notes.as_summary(held, self._file.path, self._window, self._count)
        if drift := self._drift(said, items):
            return f"the notes do not agree with the record: {drift}"
        kept = sum(map(self._tokens, divided.kept)) + self._count(said)
        if kept >= threshold:
            return f"with what must be kept they would have {kept:,} tokens, and the threshold is {threshold:,}"
        draft = summary.read(f"<summary>\n{said}\n</summary>")
        return (divided, draft) if isinstance(draft, Draft) else draft.detail

    def _drift(self, said: str, items: list[Item]) -> str:
        """A claim in the notes about the user that the record does not bear out; empty if there is none."""
        draft = summary.read(f"<summary>\n{said}\n</summary>")
        if isinstance(draft, Failure):
            return ""
        checked = summary.verify(draft, facts_of(items), items)
        return checked.invented[0] if checked.invented else ""
