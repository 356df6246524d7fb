"""Layer 3: running session notes, updated in the background, which serve as a summary at no cost.

Only a compaction waits for an update that is under way, and only briefly. Updates run one after another and never
overlap. One that takes too long counts as dead, and its result is discarded.
"""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.flow import Flow, Signal, Wait, drive, in_thread
from sevenfold.conversation.fork import fork
from sevenfold.conversation.layer import Offer
from sevenfold.errors import ModelError, SevenfoldError
from sevenfold.events import Acted
from sevenfold.layers import breaker
from sevenfold.layers.compact.compaction import Compacted, CompactionRequest
from sevenfold.layers.compact.compactor import AUTO, Compactor
from sevenfold.layers.compact.engines import Attempt
from sevenfold.layers.compact.offline import notes_of
from sevenfold.layers.compact.scope import Scope
from sevenfold.layers.compact.summary.draft import Draft, Failure, read_draft
from sevenfold.layers.notes import policy as notes
from sevenfold.layers.notes.policy import NotesText, Since
from sevenfold.record import blocks
from sevenfold.record.decisions import NotesMark
from sevenfold.record.layout import Item
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

SOURCE = "session_memory"
WAIT_SECONDS = 15.0
"""How long a compaction waits for an update that is under way."""
DEAD_SECONDS = 60.0
"""After this time an update counts as dead: a compaction does not wait for it, and its result is discarded."""


MOST_LEFT = 0.75
"""The largest share of the messages' tokens that may be left after a compaction with notes."""


class Notes:
    """Keeps running notes and uses them as a free summary."""

    name = "notes"

    def on(self, settings: Settings) -> bool:
        """Whether updating the notes or compacting with them is switched on."""
        return settings.notes or settings.notes_compaction

    def offer(self, c: Conversation) -> Offer | None:
        """A compaction with the notes as the summary, whenever one is due."""
        if not serves(c) or not c.state(Compactor).due():
            return None
        return Offer(enough=True, urgent=c.state(Compactor).is_urgent(c.last_size))

    def relieve(self, c: Conversation, offer: Offer) -> Flow[bool]:
        """Compact with the notes; False if they cannot serve as the summary."""
        compactor = c.state(Compactor)
        done = yield from compactor.attempt(by_notes(c, AUTO))
        if isinstance(done, str):
            return False
        yield from compactor.last_resort()
        return True

    def may_follow(self, c: Conversation) -> bool:
        """Whether the notes may serve and auto-compaction may run in this pass."""
        return serves(c) and c.state(Compactor).allowed

    def has_free_summary(self, c: Conversation, most: int) -> bool:
        """Whether the notes would serve as the summary, at no cost and with no wait."""
        keeper = keeper_of(c) if serves(c) else None
        return keeper is not None and keeper.would_serve(keeper.most_left(most))

    def after_answer(self, c: Conversation) -> None:
        """Start an update if one is due."""
        if c.services.notes is not None and c.settings.notes:
            c.state(NotesKeeper).check()


def serves(c: Conversation) -> bool:
    """Whether notes may serve as a summary in this conversation."""
    return c.services.notes is not None and c.background is not None and c.settings.notes_compaction


def keeper_of(c: Conversation) -> NotesKeeper | None:
    """The keeper of a conversation's notes; None if it has no notes."""
    return None if c.services.notes is None else c.state(NotesKeeper)


def by_notes(c: Conversation, request: CompactionRequest) -> Flow[Compacted | str | None]:
    """Compact with the notes, without a model call; None if a listener refused, a reason if they cannot serve."""
    if not serves(c):
        return "notes are switched off"
    keeper = c.state(NotesKeeper)
    compactor = c.state(Compactor)
    yield from keeper.waiting()
    limit = c.window.threshold if request.engine == "notes" else keeper.most_left(compactor.next_start_size)
    candidate = yield from keeper.serving(limit)
    done: Compacted | str | None
    if isinstance(candidate, str):
        done = candidate
    else:
        done = yield from compactor.compact_with(request, *candidate, limit)
    if isinstance(done, str):
        c.events.aside("notes", done)
    return done


class Updated(Struct, frozen=True):
    """The result of an update."""

    notes: NotesText
    covered: str
    boundary: str | None
    before: NotesText
    """The notes when the update began."""

    def after(self, answer: str) -> Updated | Failure:
        """The result with the changes in a model's answer applied; a failure if there are none to read."""
        changed = notes.apply(self.before, answer)
        return changed if isinstance(changed, Failure) else replace(self, notes=changed)

    def over(self, current: NotesText) -> NotesText:
        """The notes after the update; sections edited in the meantime keep those edits."""
        at_beginning = self.before.sections
        sections = self.notes.sections
        edited = {
            name: text for name, text in current.sections.items() if text != at_beginning.get(name, "")
        }
        return NotesText({**sections, **edited})


class Candidate(Struct, frozen=True):
    """Notes that could be the summary."""

    edition: tuple[object, ...]
    """Identifies the notes and the part they cover: a check of them stays valid while this is the same.

    Growth of the conversation does not matter: what the log mentions now, it will still mention later."""
    held: NotesText
    scope: Scope
    draft: Draft


def _shortfall(outcome: Updated | Failure) -> str:
    """Why no notes came of an update; empty if there are some."""
    return f"no notes came of it: {outcome.detail}" if isinstance(outcome, Failure) else ""


class NotesKeeper:
    """Updates one session's notes and turns them into a summary."""

    def __init__(self, c: Conversation) -> None:
        self._c = c
        assert c.services.notes is not None
        self._file = c.services.notes
        self._tried: tuple[str | None, str | None] = (None, None)
        """The tip and the boundary at the last try: a failed update is not repeated until the conversation grows."""
        self._failures = 0
        self._job: tuple[float, Signal] | None = None
        """The update under way: when it began, and the signal for its end."""
        self._is_checking_log = False
        self._log_check: tuple[tuple[object, ...], str] = ((), "")
        """The edition last checked against the log, and the mismatch found; empty if there was none."""

    # -- updating -------------------------------------------------------------------------------

    def check(self) -> None:
        """After an answer, start an update if one is due and none is under way."""
        view = self._c.transcript.view
        if self._c.last_size.tokens < self._c.window.budget(min(notes.FIRST_AT, notes.GROWTH)):
            return
        # After a compaction there is new work to note, so one try is worth it despite earlier failures.
        pause = breaker.interval_factor(self._failures) if view.boundary == self._tried[1] else 1
        if self._alive() is not None or not notes.due(self._since(), self._c.window, pause):
            return
        job = self._job = self._c.clock.now(), Signal()
        self._tried = view.tip, view.boundary
        self._c.run_background(self.update(), lambda outcome: self._done(job, outcome), "notes", _shortfall)

    def update(self) -> Flow[Updated | Failure]:
        """Ask a model, in a fork, to update the current notes."""
        begun = self._begun()
        asking = fork(self._c, SOURCE)
        asking.user(notes.instruction(begun.before, self._c.window, self._c.count))
        try:
            outcome = yield from asking.turn()
        except ModelError as error:
            return Failure("api_error", str(error))
        return begun.after("\n".join(map(blocks.words_of, outcome.reply.answer.blocks)))

    def extract(self) -> Updated | Failure:
        """Make an update without a model call, from the facts that code finds in the view."""
        return self._begun().after(notes_of(self._c.transcript.view.items))

    def _begun(self) -> Updated:
        view = self._c.transcript.view
        current = self._now()
        return Updated(current, view.tip or "", view.boundary, current)

    def _now(self) -> NotesText:
        """The current notes."""
        return notes.read(self._file.read() or "")

    def store(self, updated: Updated) -> None:
        """Write an update and a mark of what it covers; the mark is valid until the next compaction."""
        merged = updated.over(self._now())
        self._file.write(merged.render())
        self._c.transcript.label("ai-title", merged.sections.get(notes.TITLE, ""))
        self._c.transcript.decide(NotesMark(covered=updated.covered, boundary=updated.boundary))
        self._c.events.tell(
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

    def waiting(self) -> Flow[None]:
        """Wait a while for an update that is under way, unless it counts as dead."""
        job = self._alive()
        if job is not None and not (yield from Wait(job[1], WAIT_SECONDS)):
            self._aside(
                f"an update was not done after {WAIT_SECONDS:.0f} seconds: the notes are used as they are"
            )

    def _done(self, job: tuple[float, Signal], outcome: Updated | Failure | Exception) -> None:
        try:
            if self._alive() is not job:
                self._aside("an update came too late and was thrown away")
            elif isinstance(outcome, Updated):
                self.store(outcome)
                self._failures = 0
            else:
                self._failed(outcome.detail if isinstance(outcome, Failure) else str(outcome))
        except SevenfoldError as error:
            self._failed(str(error))
        finally:
            if self._job is job:
                self._job = None
            job[1].happen()

    def _failed(self, reason: str) -> None:
        self._aside(reason)
        self._failures += 1
        if self._failures == breaker.FAILURES:
            message = (
                f"the session notes could not be brought up to date {self._failures} times in a row ({reason}): they "
                "are tried again after a compaction, and else more and more rarely; the setting notes stops them"
            )
            self._c.events.aside("breaker", message, source=SOURCE)

    def _aside(self, reason: str) -> None:
        self._c.events.aside("notes", reason, source=SOURCE)

    def _alive(self) -> tuple[float, Signal] | None:
        alive = self._job is not None and self._c.clock.now() - self._job[0] < DEAD_SECONDS
        return self._job if alive else None

    def _since(self) -> Since:
        """What happened since the last update, found by searching the view from its end."""
        view = self._c.transcript.view
        already_counted = {self.covered(), self._tried[0]} - {None}

        def fresh(item: Item) -> bool:
            # A summary or attachment that a compaction added is not new content: growth is counted from there.
            return item.record.uuid not in already_counted and not view.added_by(item.record.uuid)

        since = list(takewhile(fresh, reversed(view.items)))
        first = len(since) == len(view.items) and view.boundary is None
        newest = next((item for item in since if item.record.role == "assistant"), None)
        return Since(
            grown=self._c.size().tokens if first else sum(map(self._c.item_tokens, since)),
            first=first,
            calls=sum(len(item.record.calls) for item in since),
            resting=newest is not None and not newest.record.calls,
        )

    # -- using ----------------------------------------------------------------------------------

    def covered(self) -> str | None:
        """The newest record that the notes cover; None if unknown, as after a compaction."""
        view = self._c.transcript.view
        for decision in reversed(view.decisions()):
            if isinstance(decision, NotesMark):
                return decision.covered if decision.boundary == view.boundary else None
        return None

    def most_left(self, limit: int) -> int:
        """The size below which notes must bring the conversation: ``limit``, and a quarter of the messages must go.

        If they free less, another compaction follows soon, and the next engine does better.
        """
        fixed = self._fixed()
        return min(limit, fixed + int(MOST_LEFT * (self._c.size().high - fixed)))

    def too_little(self) -> str:
        """Why even notes that cover everything could not serve as the summary; empty if they could."""
        divided = self._divided(self._c.transcript.view.tip or "")
        return divided if isinstance(divided, str) else ""

    def serve(self, limit: int) -> tuple[Scope, Attempt] | str:
        """The notes as a summary, with the division of the conversation; or the reason why they cannot serve.

        They serve only if the conversation then has fewer than ``limit`` tokens.
        """
        return drive(self.serving(limit), None)

    def serving(self, limit: int) -> Flow[tuple[Scope, Attempt] | str]:
        """Like `serve`, as a flow: the caller is not blocked while the log is searched."""
        while True:
            candidate = self._candidate(limit)
            if isinstance(candidate, str):
                return candidate
            edition, drift = self._log_check
            if edition != candidate.edition:
                yield from self._check_against_log(candidate)
            elif drift:
                return f"the notes do not agree with the record: {drift}"
            else:
                return candidate.scope, Attempt(candidate.draft, "notes")

    def would_serve(self, limit: int) -> bool:
        """Whether they would serve, as far as is known; unchecked notes count as fit, and a background check starts."""
        candidate = self._candidate(limit)
        if isinstance(candidate, str):
            return False
        if self._log_check[0] == candidate.edition:
            return not self._log_check[1]
        if not self._is_checking_log:
            self._is_checking_log = True
            self._c.run_background(self._check_against_log(candidate), self._finish_log_check)
        return True

    def _check_against_log(self, candidate: Candidate) -> Flow[None]:
        drift = yield from in_thread(partial(self._drift, candidate))
        self._log_check = candidate.edition, drift

    def _finish_log_check(self, error: Exception | None) -> None:
        self._is_checking_log = False
        if error is not None:
            self._aside(str(error))

    def _candidate(self, limit: int) -> Candidate | str:
        """The notes with what they would replace, not yet checked against the log; or why they cannot serve."""
        text = self._file.read()
        mark = self.covered()
        view = self._c.transcript.view
        if text is None:
            return "there are no notes"
        held = notes.read(text)
        if held.empty:
            return "the notes are still empty"
        if mark is None:
            return "it is not known which records the notes cover"
        divided = self._divided(mark)
        if isinstance(divided, str):
            return divided
        summary = notes.as_summary(held, self._file.path, self._c.window, self._c.count)
        # In the format of a model's answer to the request for a summary.
        draft = read_draft(f"<summary>\n{summary}\n</summary>")
        if isinstance(draft, Failure):
            return draft.detail
        remaining = self._fixed() + self._c.load(divided.kept) + self._c.count(summary)
        if remaining >= limit:
            return f"with what must be kept {remaining:,} tokens would be left, and fewer than {limit:,} are wanted"
        return Candidate((text, mark, view.boundary, view.version), held, divided, draft)

    def _divided(self, mark: str) -> Scope | str:
        view = self._c.transcript.view
        items = view.items
        start = notes.keep_from(items, mark, self._c.window, self._c.item_tokens)
        if start is None:
            return "what the notes cover is not in view"
        while start > 0 and not (start == len(items) or view.begins_round(items[start].record.uuid)):
            start -= 1
        if not any(item.record.role == "assistant" for item in items[:start]):
            minimum = (
                f"{self._c.window.budget(notes.KEEP_TOKENS):,} tokens and {notes.KEEP_MESSAGES} messages"
            )
            return f"behind notes at least {minimum} stay word for word, and there is hardly more than that"
        return Scope(tuple(items[:start]), tuple(items[start:]), "up_to")

    def _fixed(self) -> int:
        gauge = self._c.epoch.gauge
        return round(gauge.estimator.tokens(gauge.opening))

    def _drift(self, candidate: Candidate) -> str:
        """The first mismatch: a name in the notes that no record mentions; empty if there is none.

        Unsupported claims about the user are marked when the notes serve, as in any summary.
        """
        log = self._c.transcript.log
        for name in notes.names(candidate.held):
            # Its last part is enough, as records may contain other paths to the same file.
            if not log.mentions(name.rstrip("/").replace("\\", "/").rpartition("/")[2]):
                return f"no record mentions {name}"
        return ""
