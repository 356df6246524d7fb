"""Layer 6: at most once a day, after enough sessions, memory is consolidated in the background.

A fork is shown the entries and may explore with the confined commands of `sevenfold.layers.dream.reader`; then it names
entries that are duplicates or contradict each other, and days whose dates can be written out. Code decides what to do
with them (`sevenfold.memory.consolidation`), in one change that can be undone. Only one process dreams at a time. A
dream can be stopped at any time; then nothing of it remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.flow import Flow, in_thread
from sevenfold.conversation.fork import fork
from sevenfold.conversation.request import Outcome, ToolCall, completed
from sevenfold.conversation.tasks import STATES, Task
from sevenfold.conversation.tool_loop import work
from sevenfold.errors import Aborted, ModelError, Refused, SevenfoldError
from sevenfold.events import Acted, Dreaming
from sevenfold.layers.dream.reader import COMMANDS, MemoryReader
from sevenfold.memory.consolidation import Consolidation, Proposal, dream, read_proposal
from sevenfold.memory.entry import shortened
from sevenfold.memory.index import day_of_entry
from sevenfold.memory.memory import KnownEntry
from sevenfold.prompts.memory import DreamEntries
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

SOURCE = "dream"
DAY = 24 * 3600.0
BETWEEN_SCANS = 600.0
"""Seconds between two looks at how many sessions there were."""
SESSIONS = 5
"""How many other sessions must have been modified since the last dream."""
LEAST_ENTRIES = 4
"""The fewest entries worth consolidating."""
MOST_TURNS = 12
STOPPED = "it was stopped"
LAST_TURN = "\n\nThis was the last look: answer now, with the tags alone."

Phase = Literal["orient", "gather", "consolidate", "prune"]
"""Reading the list of entries; searching logs and transcripts; merging and closing entries; done writing."""
State = Literal["running", "completed", "failed", "killed"]

MOST_TURNS_KEPT = 30


class DreamTurn(Struct, frozen=True):
    """One answer of the model."""

    text: str
    commands: tuple[str, ...] = ()
    """The commands it wanted to run."""


class DreamTask(Struct, frozen=True):
    """The state of a dream that is under way or has ended."""

    began: float
    """Seconds since 1970."""
    phase: Phase = "orient"
    state: State = "running"
    turns: tuple[DreamTurn, ...] = ()
    """The last 30 turns, newest last."""
    turn_count: int = 0
    tool_uses: int = 0
    paths: tuple[str, ...] = ()
    """The files it wrote or removed."""
    done: tuple[str, ...] = ()
    """Descriptions of what it did."""
    proposed: tuple[str, ...] = ()
    """Entries that a later one seems to contradict: what only the user can decide."""
    refused: tuple[str, ...] = ()
    """Suggestions that were not followed, and why."""
    reason: str = ""
    """Why it failed."""

    @property
    def stage(self) -> Literal["starting", "updating"]:
        """Either "starting", until files have been written, or "updating"."""
        return "updating" if self.paths else "starting"

    def after(self, turn: DreamTurn) -> DreamTask:
        """The task with one more turn."""
        return replace(
            self,
            phase="gather" if turn.commands else self.phase,
            turns=(*self.turns, turn)[-MOST_TURNS_KEPT:],
            turn_count=self.turn_count + 1,
            tool_uses=self.tool_uses + len(turn.commands),
        )


class Dream:
    """Consolidates memory in the background."""

    name = "dream"

    def on(self, settings: Settings) -> bool:
        """Whether dreaming is switched on."""
        return settings.dream

    def after_answer(self, c: Conversation) -> None:
        """After an answer in the main thread, dream in the background, if it is time."""
        if c.services.memory is not None and c.source.name == "main":
            c.state(Dreamer).check()


class MemoryRights:
    """A dream may use the shell, with a few commands that only read memory and transcripts."""

    def __init__(self, reader: MemoryReader, kinds: Mapping[str, str]) -> None:
        """``kinds`` are the kinds of the tools by their names."""
        self._reader = reader
        self._kinds = kinds

    def carry_out(self, calls: Sequence[ToolCall], *, last: bool) -> Flow[list[Block]]:
        """Carry out the commands; the last results say that the answer is due."""
        ending = LAST_TURN if last else ""
        return (yield from in_thread(partial(self._results, calls, ending)))

    def _results(self, calls: Sequence[ToolCall], ending: str) -> list[Block]:
        results = []
        for call in calls:
            try:
                if self._kinds.get(call.name) != "shell":
                    raise Refused(
                        f"This tool is not available here; the shell is, with {', '.join(COMMANDS)}."
                    )
                output = self._reader.run(_command(call))
            except SevenfoldError as error:
                results.append(blocks.result(call.id, f"{error}{ending}", is_error=True))
            else:
                results.append(blocks.result(call.id, f"{output}{ending}"))
        return results


class Dreamer:
    """Decides when a conversation dreams, and runs the dream; a `sevenfold.conversation.tasks.TaskSource`."""

    def __init__(self, c: Conversation) -> None:
        assert c.services.memory is not None
        self._c = c
        self._memory = c.services.memory
        self._lock = self._memory.folder.dream_lock()
        self._reader = MemoryReader(self._memory.folder, c.services.store)
        self._scanned = float("-inf")
        self._busy = False
        self.task: DreamTask | None = None
        """The dream under way, or the last one; None if there was none."""
        c.tasks.sources.append(self)

    def check(self) -> None:
        """Start a dream if all conditions are met; the cheapest are checked first."""
        newest = self._c.transcript.view.items[-1]
        if self._busy or newest.record.role != "assistant" or newest.record.calls:
            return
        time = self._c.clock.now()
        last_dream = self._lock.last() or 0.0
        # A time in the future was written before the clock was set back, so it is ignored.
        if 0 <= time - last_dream < DAY or 0 <= time - self._scanned < BETWEEN_SCANS:
            return
        self._scanned = time
        if self._sessions_since(last_dream if last_dream <= time else 0.0) < SESSIONS:
            return
        if not self._c.may_spend() or not self._memory.affords(self._c.settings.memory_daily_budget):
            return
        self._busy = True
        self._c.run_background(self._dream(), self._done)

    def tasks(self) -> Iterator[Task]:
        """The dream under way, or the last one, as a task."""
        if (task := self.task) is not None:
            progress = f"dream: {task.phase}" if task.state == "running" else task.reason
            yield Task("dream", "dream", "dream", STATES[task.state], task.began, progress)

    def kill(self, task: str = "dream") -> bool:
        """Stop the dream under way and undo what it wrote; False if there is none."""
        with self._c.lock:
            if self.task is None or self.task.state != "running":
                return False
            self._show(replace(self.task, state="killed"))
            return True

    def _sessions_since(self, since: float) -> int:
        """How many other sessions were modified since a time; no more are counted than make a dream due."""
        store = self._c.services.store
        this_session = self._c.transcript.place.session
        # One more than are needed, because this session is usually the newest.
        sessions = store.sessions(since=since, limit=SESSIONS + 1) if store is not None else ()
        return sum(session.modified > since and session.name != this_session for session in sessions)

    # -- the dream -----------------------------------------------------------------------------------

    def _dream(self) -> Flow[Consolidation | None]:
        entries = yield from in_thread(self._memory.entries)
        take = partial(self._lock.take, self._c.clock.now())
        if len(entries) < LEAST_ENTRIES or not (yield from in_thread(take)):
            return None
        self.task = DreamTask(self._c.clock.now())
        self._show(self.task)
        try:
            proposal = yield from self._ask(entries)
            self._show(replace(self.task, phase="consolidate"))
            outcome = yield from in_thread(
                partial(dream, self._memory, proposal, self._goes_on, self._c.services.still_exists)
            )
            if self.task.state == "killed":
                if outcome.change:
                    self._memory.undo(outcome.change)
                raise Aborted(STOPPED)
            self._show(replace(self.task, phase="prune", paths=tuple(outcome.edits)))
        except BaseException:
            self._lock.fail()
            raise
        self._lock.finish(self._c.clock.now())
        return outcome

    def _ask(self, entries: list[KnownEntry]) -> Flow[Proposal | None]:
        """Ask a model for suggestions; None if it ignores the format or never finishes, so that rules alone decide."""
        dreaming = fork(self._c, SOURCE)
        lines: list[str] = []
        for known_entry in entries:
            origin = "the user" if known_entry.stamp.trusted else "unconfirmed"
            text = shortened(known_entry.entry.statement, 300)
            lines.append(f"- {known_entry.entry.name} ({origin}, {day_of_entry(known_entry)}): {text}")
        shell = next((name for name, kind in self._c.kinds.items() if kind == "shell"), None)
        dreaming.user(
            DreamEntries("\n".join(lines), shell, ", ".join(COMMANDS) if shell else None).render()
        )
        rights = MemoryRights(self._reader, self._c.kinds)
        done = yield from work(dreaming, rights, most_turns=MOST_TURNS, after_answer=self._answered)
        return None if done.outcome is None else read_proposal(_words(done.outcome), entries)

    def _answered(self, outcome: Outcome) -> Flow[None]:
        """Show what the model wants to look at next; raises `Aborted` if the dream must not continue."""
        if outcome.cost:
            yield from in_thread(partial(self._memory.spend, outcome.cost))
        assert self.task is not None
        commands = tuple(map(_command, completed(outcome).calls))
        self._show(self.task.after(DreamTurn(_words(outcome), commands)))
        if not (yield from in_thread(self._goes_on)):
            raise Aborted(STOPPED)

    def _goes_on(self) -> bool:
        """Whether the dream may continue: it was not stopped, and no other process has taken the lock."""
        running = self.task is not None and self.task.state == "running"
        return running and self._lock.beat(self._c.clock.now())

    # -- reporting -----------------------------------------------------------------------------------

    def _show(self, task: DreamTask) -> None:
        self.task = task
        self._c.events.tell(
            Dreaming(
                source=SOURCE,
                phase=task.phase,
                state=task.state,
                stage=task.stage,
                turns=task.turn_count,
                tool_uses=task.tool_uses,
                paths=task.paths,
                reason=task.reason,
            )
        )

    def _done(self, outcome: Consolidation | Exception | None) -> None:
        self._busy = False
        if isinstance(outcome, Exception):
            if self.task is not None and self.task.state == "killed":
                return
            reason = (
                str(outcome) if isinstance(outcome, ModelError) else f"{type(outcome).__name__}: {outcome}"
            )
            if self.task is not None and self.task.state == "running":
                self._show(replace(self.task, state="failed", reason=reason))
            self._c.events.aside("dream", f"memory was not tidied: {reason}", source=SOURCE)
            return
        if self.task is None or outcome is None:
            return
        self._show(
            replace(
                self.task,
                state="completed",
                done=outcome.done,
                refused=outcome.refused,
                proposed=outcome.proposed,
            )
        )
        if outcome.proposed:
            self._tell("propose", f"dream: {'; '.join(outcome.proposed)}", len(outcome.proposed))
        if outcome.done:
            self._tell("dream", f"dream: {'; '.join(outcome.done)}", len(outcome.edits))

    def _tell(self, mechanism: str, description: str, items: int) -> None:
        self._c.events.tell(
            Acted(
                source=SOURCE,
                layer="dream",
                mechanism=mechanism,
                what=description,
                why="a day and five sessions since the last",
                items=items,
                reference=self._memory.path,
                undoable=False,
            )
        )


def _words(outcome: Outcome) -> str:
    return "\n".join(map(blocks.words_of, outcome.reply.answer.blocks))


def _command(call: ToolCall) -> str:
    """The command line of a call, or the tool's name if it has none."""
    line = call.input.get("command") if isinstance(call.input, Mapping) else None
    return line if isinstance(line, str) else call.name
