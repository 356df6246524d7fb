"""A chat: the agent, what is under way, and what was shown; everything but the screen itself.

The screen's thread calls `interrupt` and `queue` and reads `live` and `status`; all else is called from the one thread
that works. Nothing here waits for the screen but a question to the user.

Lines with more behind them: each has a number, and `/show` opens it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace
from rich.console import RenderableType
from rich.text import Text

from sevenfold.agent.agent import Agent
from sevenfold.agent.events import (
    AgentEvent,
    Ended,
    Happened,
    Mentioned,
    Notice,
    ToolBegan,
    ToolEnded,
    ToolProgress,
)
from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.loop import Finished
from sevenfold.agent.tools import context
from sevenfold.agent.tools.context import Abort
from sevenfold.cli.chat import consent as asking
from sevenfold.cli.chat import lines as calls
from sevenfold.cli.chat import pages
from sevenfold.cli.chat.lines import STYLES, Level, Live, told
from sevenfold.cli.chat.markdown import Stream, rendered
from sevenfold.cli.chat.questions import Question
from sevenfold.cli.chat.screen import Screen
from sevenfold.cli.chat.start import Start
from sevenfold.cli.chat.status import Ledger, Status
from sevenfold.cli.text import clean, one_line, plural
from sevenfold.conversation.edits import compaction_undone
from sevenfold.errors import Aborted, Refused, SevenfoldError
from sevenfold.events import Acted, Answered, Compacting, Event, Sending, Veto
from sevenfold.layers.compact.compactor import Compactor
from sevenfold.layers.ladder import background_work
from sevenfold.ports import Piece

# -- chat


ENDS: dict[str, tuple[Level, str]] = {
    "interrupted": ("warning", "interrupted; say what it should do instead"),
    "max_turns": ("warning", "stopped: the most turns allowed were made (--max-turns)"),
    "budget": ("warning", "stopped: the budget is spent (--max-usd)"),
    "refused": ("warning", "the model refused to answer"),
    "blocked": ("warning", "a hook refused this message"),
    "cut": ("warning", "the answer was cut off: it reached the most tokens an answer may have"),
}


class Opens(Protocol):
    """Opens an agent for a chat."""

    def __call__(self, start: Start, chat: Chat) -> Agent:
        """The agent; raises `UserError` if it cannot be had."""
        ...


class Chat:
    """One conversation at a time."""

    def __init__(self, screen: Screen, opens: Opens, start: Start) -> None:
        self.screen = screen
        self.start = start
        self.live = Live()
        self.ledger = Ledger()
        self.folds = Folds()
        self.leaving = False
        self._opens = opens
        self._stream = Stream()
        self._streaming = False
        self._thought = ""
        self._waited: dict[str, float] = {}
        self.agent = opens(start, self)
        self.status = self._read_status()

    # -- the conversation ------------------------------------------------------------------------

    def turn(self, prompt: str) -> Finished | None:
        """Say something and show what comes of it; None if it came to no end of its own."""
        finished = self._run(prompt)
        while finished is not None and finished.end == "interrupted" and self.agent.waiting:
            # Whoever interrupts with something queued wants that to be heard at last.
            finished = self._run("")
        if left := len(self.agent.waiting):
            self.say(
                "warning", f"{plural(left, 'queued message')} not heard yet; it will be with your next one"
            )
        return finished

    def _run(self, prompt: str) -> Finished | None:
        self._begin("working")
        finished = None
        try:
            for event in self.agent.stream(prompt):
                self.heard(event)
                if isinstance(event, Ended):
                    finished = event.finished
        except SevenfoldError as error:
            self.flush()
            self.say("error", str(error))
        finally:
            self._finish()
        return finished

    def working(self, doing: str, work: Callable[[], None]) -> None:
        """Do something that takes its time and is no turn, and can be interrupted; what goes wrong is shown."""
        self._begin(doing, streaming=False)
        try:
            work()
        except Aborted:
            self.say("warning", f"{doing} was interrupted; everything is as it was")
        except SevenfoldError as error:
            self.say("error", str(error))
        finally:
            self._finish()

    def queue(self, text: str) -> None:
        """Say something while the agent works."""
        self.agent.queue(text)
        self.live = replace(self.live, queued=(*self.live.queued, text))
        self.screen.changed()

    def interrupt(self) -> None:
        """Stop the turn."""
        self.live = replace(self.live, stopping=True)
        self.agent.interrupt()
        self.screen.changed()

    def switch(self, start: Start) -> None:
        """Go on with another session, or with this one under another model."""
        self.close()
        before, self.start = self.start, start
        if start.name != before.name:
            self.ledger = Ledger()
        try:
            self.agent = self._opens(start, self)
        except SevenfoldError:
            self.start = before
            self.agent = self._opens(before, self)
            raise
        finally:
            self.update()

    def close(self) -> None:
        """Write everything out, and let go of connections."""
        self.agent.close()
        if (client := self.agent.assembly.options.get("client")) is not None:
            client.close()

    # -- what happens ----------------------------------------------------------------------------

    def heard(self, event: AgentEvent) -> None:
        """Take in one event of the agent, and show it."""
        match event:
            case Piece(kind="text", words=words):
                self._fold_thinking()
                self._print(self._stream.feed(words))
                self.live = replace(self.live, pending=self._stream.pending, preparing="")
            case Piece(kind="thinking", words=words):
                self._thought += words
                self.live = self.live.thought(words)
            case Piece(kind="tool", words=name):
                self.flush()
                self.live = replace(self.live, preparing=name)
            case ToolBegan(call=call):
                self.flush()
                self.live = self.live.began(call, time.monotonic())
            case ToolProgress(call=call, text=text):
                self.live = self.live.progress(call, text)
            case ToolEnded():
                self._tool_ended(event)
            case Happened(event=happened):
                self.told(happened)
            case Mentioned():
                self._mentioned(event)
            case Notice(text=text):
                self.flush()
                self.say("note", text)
            case Ended(finished=finished):
                self.flush()
                self._ended(finished)
            case _:
                return
        self.screen.changed()

    def listen(self, event: Event) -> Veto | None:
        """A listener of the session: for what happens while no turn is under way."""
        if not self._streaming:
            self.told(event)
        return None

    def told(self, event: Event) -> None:
        """Show what the engine tells, if it concerns the user."""
        self.ledger = self.ledger.heard(event)
        if isinstance(event, Sending) and event.source == "main":
            self._heard_queue()
        if isinstance(event, Answered) and event.source == "main":
            self.flush()
        if isinstance(event, Answered | Acted):
            self.update()
        if isinstance(event, Compacting):
            self.live = replace(self.live, stage=self._stage(event))
            self.screen.changed()
        line = told(event)
        if line is None:
            return
        self.flush()
        number = self.folds.add(lambda: pages.details(line.detail)) if line.detail else 0
        self.say(line.level, line.line, number)

    def say(self, level: Level, words: str, number: int = 0) -> None:
        """One line of the app's own; its sign says what its colour says."""
        signs = self.screen.signs
        sign = {"layer": signs.layer, "note": signs.note, "warning": signs.warning, "error": signs.error}[
            level
        ]
        prefix = {"warning": "warning: ", "error": "error: "}.get(level, "")
        behind = f" [{number}]" if number else ""
        self.screen.show(Text(f"{sign} {prefix}{clean(words)}{behind}", style=STYLES[level]))

    def flush(self) -> None:
        """Print what was held back of the answer."""
        self._fold_thinking()
        self._print(self._stream.end())
        self.live = replace(self.live, pending="", preparing="")

    def update(self) -> None:
        """Read the gauge anew."""
        self.status = self._read_status()
        self.screen.changed()

    # -- questions, asked from the agent's threads ----------------------------------------------

    def consent(self, asked: Asked) -> Consented:
        """May a call be carried out? A plan that is ready asks in the same way."""
        if asked.call.name == asking.PLAN_READY:
            return self._approve(str(asked.call.input.get("plan", "")))
        self.screen.show(*asking.shown_before(asked))
        began = time.monotonic()
        picked = self.screen.ask(asking.permission(asked, str(self.start.folder)))
        self._waited[asked.call.id] = time.monotonic() - began
        return asking.consented(asked, picked)

    def answer(self, questions: Sequence[context.Question], abort: Abort) -> Sequence[str] | None:
        """The user's answers to the model's questions."""
        answers = []
        for one in questions:
            picked = self.screen.ask(asking.from_model(one))
            if picked is None or abort.is_set():
                return None
            answers.append(asking.answer(one, picked))
            self.screen.show(
                Text(f"  {one_line(one.question)} {self.screen.signs.arrow} {clean(answers[-1])}")
            )
        return answers

    def _approve(self, plan: str) -> Consented:
        self.screen.show(Text("The plan", style="bold"), rendered(plan))
        grants = self.agent.grants
        picked = self.screen.ask(asking.plan(grants.after_planning))
        consented, grants.after_planning = asking.approved(grants.after_planning, picked)
        return consented

    def ask(self, question: Question) -> int:
        """Which of the choices; -1 for none."""
        picked = self.screen.ask(question)
        return -1 if picked is None else picked.place

    # -- inside ----------------------------------------------------------------------------------

    def _begin(self, doing: str, *, streaming: bool = True) -> None:
        self._streaming = streaming
        self._stream, self._thought = Stream(), ""
        self.live = Live(doing=doing, since=time.monotonic(), queued=self.agent.waiting)
        self.screen.changed()

    def _finish(self) -> None:
        self._streaming = False
        self._heard_queue()
        self.live = Live()
        self.update()

    def _heard_queue(self) -> None:
        waiting = self.agent.waiting
        for text in self.live.queued:
            if text not in waiting:
                self.screen.show(Text(f"{self.screen.signs.prompt} {clean(text)}", style="bold"))
        self.live = replace(self.live, queued=tuple(waiting))

    def _print(self, words: str) -> None:
        if words.strip():
            self.screen.show(rendered(words), Text())

    def _fold_thinking(self) -> None:
        thought, self._thought = self._thought, ""
        if thought.strip():
            number = self.folds.add(lambda: Text(clean(thought), style="dim italic"))
            first = one_line(thought, max(20, self.screen.width - 20), self.screen.signs.cut)
            self.screen.show(Text(f"{self.screen.signs.note} thought: {first} [{number}]", style="dim"))
        if self.live.thinking:
            self.live = replace(self.live, thinking="")

    def _tool_ended(self, event: ToolEnded) -> None:
        call, output = event.call, event.output
        # The time the user took to decide is not the tool's.
        waited = self._waited.pop(call.id, None)
        seconds = max(0.0, event.seconds - (waited or 0.0))
        number = self.folds.add(lambda: calls.in_full(call, output, seconds))
        line = calls.ended(
            call,
            output,
            seconds,
            number=number,
            signs=self.screen.signs,
            width=self.screen.width,
            folder=str(self.start.folder),
            seen=waited is not None,
        )
        self.live = self.live.ended(call)
        self.screen.show(line)
        self.update()

    def _mentioned(self, event: Mentioned) -> None:
        path, output = one_line(event.path, 200), event.output
        if output.is_error:
            why = one_line(calls.text_of(output), 400).replace(f"{self.start.folder}/", "")
            self.say("warning", f"@{path} was not read: {why}")
            return
        number = self.folds.add(lambda: Text(clean(calls.text_of(output)), overflow="fold"))
        self.say("note", f"{'listed' if event.folder else 'read'} {path} ({calls.seen(event)})", number)

    def _ended(self, finished: Finished) -> None:
        if finished.end in ENDS:
            level, words = ENDS[finished.end]
            self.say(level, f"{words}: {finished.detail}" if finished.detail else words)

    def _read_status(self) -> Status:
        session = self.agent.session
        return Status(
            model=session.conversation.profile.model,
            mode=self.agent.grants.mode,
            offline=self.start.offline,
            gauge=session.gauge,
            compacts=session.conversation.settings.auto_compact,
            taken_back=compaction_undone(session.conversation),
            cached=self.ledger.cached,
        )

    def _stage(self, event: Compacting) -> str:
        """How far the compaction is that the user waits for; one that is made ready beside has none."""
        if not self.agent.session.conversation.state(Compactor).status:
            return ""
        return f"compacting: {event.hook} hooks" if event.hook else "compacting: making the summary"

    def background(self) -> tuple[str, ...]:
        """What runs beside the conversation: commands, and the engine's own work."""
        processes = self.agent.assembly.state.processes
        running = [one.command for one in processes.tasks() if one.state == "running"]
        beside = background_work(self.agent.session.conversation)
        return (*(one_line(command, 40) for command in running), *beside)


# -- folds


MOST_KEPT = 500


class Folded(Struct, frozen=True):
    """One line's other side."""

    number: int
    whole: Callable[[], RenderableType]


class Folds:
    """The lines of this run that can be opened."""

    def __init__(self) -> None:
        self._kept: deque[Folded] = deque(maxlen=MOST_KEPT)
        self._number = 0

    def add(self, whole: Callable[[], RenderableType]) -> int:
        """Keep what is behind a line; returns its number."""
        self._number += 1
        self._kept.append(Folded(self._number, whole))
        return self._number

    def open(self, number: int | None = None) -> RenderableType:
        """What is behind a line, or behind the last one."""
        if not self._kept:
            raise Refused("There is nothing to show yet.")
        if number is None:
            return self._kept[-1].whole()
        for one in self._kept:
            if one.number == number:
                return one.whole()
        raise Refused(
            f"There is no [{number}]; the last is [{self._number}], the first {self._kept[0].number}."
        )
