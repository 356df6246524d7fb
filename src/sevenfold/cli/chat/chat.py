"""A chat without its screen: the agent, its current activity, and the lines that can be opened again.

The drawing thread calls only methods that never block, such as `interrupt` and `queue`, and reads `live` and `status`.
Turns and commands run in worker threads. Only a question to the user waits for the screen.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from rich.console import RenderableType
from rich.text import Text

from sevenfold.agent import agent_events as events
from sevenfold.agent.agent_events import AgentEvent
from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.suggestion import Suggestion
from sevenfold.agent.tools.context import Abort, Question
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.cli.chat import consent, lines
from sevenfold.cli.chat.kept_rules import keep_rules
from sevenfold.cli.chat.lines import Activity, LineSpec
from sevenfold.cli.chat.markdown import MarkdownStream, render_markdown
from sevenfold.cli.chat.menu import Menu, MenuAnswer
from sevenfold.cli.chat.pages import pairs
from sevenfold.cli.chat.reports import STYLES, Level, Spending, event_line, wait_line
from sevenfold.cli.chat.screen import Screen
from sevenfold.cli.chat.status import StatusLine
from sevenfold.cli.text import clean, one_line, plural, whole_seconds, wording
from sevenfold.conversation.edits import compaction_undone, is_compaction
from sevenfold.conversation.request import ToolCall
from sevenfold.errors import Aborted, Refused, SevenfoldError
from sevenfold.events import Acted, Answered, Compacting, Event, Sending, Veto, Waiting
from sevenfold.layers.compact.compactor import Compactor
from sevenfold.layers.idle import Idleness
from sevenfold.ports import Piece
from sevenfold.record.authorship import UserPrompt

if TYPE_CHECKING:
    from sevenfold.agent.agent import Agent
    from sevenfold.cli.chat.start import ChatOptions

MOST_FOLDED = 500
ANSWER_DROPPED = (
    "the answer above broke off and is asked for again: the model does not see what is shown of it"
)
AWAY_SECONDS = 15.0
"""A user who has not sent or answered anything for longer than this may be looking elsewhere."""


class FoldedLines:
    """Lines of this run that were printed in short form; `/show` with a line's number prints its full content."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, Callable[[], RenderableType]]] = deque(maxlen=MOST_FOLDED)
        self._number = 0

    def add(self, whole: Callable[[], RenderableType]) -> int:
        """Keep the full content of a line; returns the line's number."""
        self._number += 1
        self._kept.append((self._number, whole))
        return self._number

    def open(self, number: int | None = None) -> RenderableType:
        """The full content of a line, by default of the last one; raises `Refused` if there is no such line."""
        if not self._kept:
            raise Refused("There is nothing to show yet.")
        for kept_number, whole in reversed(self._kept):
            if number in (None, kept_number):
                return whole()
        first = self._kept[0][0]
        raise Refused(f"There is no [{number}]; lines [{first}] to [{self._number}] can be opened.")


class Chat:
    """One conversation at a time, with the agent that ``open_agent`` opens for it."""

    def __init__(
        self, screen: Screen, open_agent: Callable[[ChatOptions, Chat], Agent], options: ChatOptions
    ) -> None:
        self.screen = screen
        self.options = options
        self.live = Activity()
        self.spent = Spending()
        self.folded = FoldedLines()
        self.leaving = False
        self._open_agent = open_agent
        self._stream = MarkdownStream()
        self._in_turn = False
        self._thought = ""
        self._answer_shown = False
        """Whether a part of the answer that is arriving was printed."""
        self._waiting_since: float | None = None
        """When the provider stopped answering; None if it answers."""
        self._waited: dict[str, float] = {}
        """Seconds the user took to decide, by tool call id."""
        self._descriptions: dict[str, str] = {}
        """What the layers did in this run, in words, by decision id."""
        self._acted_at = time.monotonic()
        """When the user last sent something or answered."""
        self._paused = 0.0
        self._asked_at: float | None = None
        self.agent = open_agent(options, self)
        self.update()

    # -- the conversation ------------------------------------------------------------------------

    def turn(self, prompt: str | UserPrompt) -> None:
        """Send a message and show the answer."""
        self._acted_at = time.monotonic()
        end = self._run(prompt)
        while end in ("interrupted", "done") and self.agent.waiting:
            # A user who interrupts with a message queued wants the model to read it now; and a message that was queued
            # while the last answer ended came too late for its turn.
            end = self._run("")
        if end != "interrupted":
            self._notify("done")
        if end == "done":
            self.suggestion.begin()
        if left := len(self.agent.waiting):
            self.say("warning", f"{plural(left, 'queued message')} will be sent with your next one")

    def _run(self, prompt: str | UserPrompt) -> str:
        """Run a turn and show its events; returns how it ended, empty after an error."""
        end = ""
        with self._activity("working", turn=True):
            self.suggestion.forget()
            try:
                for event in self.agent.stream(prompt):
                    self._handle(event)
                    if isinstance(event, events.Ended):
                        end = event.finished.end
            except SevenfoldError as error:
                self._flush()
                self.say("error", str(error))
        return end

    @property
    def suggestion(self) -> Suggestion:
        """The suggestion for the user's next message."""
        return self.agent.session.conversation.state(Suggestion)

    def run_interruptible(self, doing: str, work: Callable[[], None]) -> None:
        """Run long work that is not a turn and that the user can interrupt; show its errors."""
        with self._activity(doing, turn=False):
            try:
                work()
            except Aborted:
                self.say("warning", f"{doing} was interrupted; nothing has changed")
            except SevenfoldError as error:
                self.say("error", str(error))

    def run_for_user(self, command: str) -> None:
        """Run a command line the user typed and show its output; the model sees both with the next message."""
        output = self.agent.run_command(command)
        self.screen.show(self.drawn_call(ToolCall("", "Shell", {"command": command}), output))
        self.agent.note_command(command, output)
        self.update()

    def output_of(self, command: str) -> str:
        """The output of a command line in a custom command; it needs permission, as the agent's own commands do."""
        return self.agent.run_command(command, asked=True).text

    def queue(self, prompt: UserPrompt) -> None:
        """Queue a message for the agent while it works."""
        self.agent.queue(prompt)
        self.live = replace(self.live, queued=(*self.live.queued, prompt.text))
        self.screen.changed()

    def unqueue(self, place: int = -1) -> UserPrompt | None:
        """Take a queued message back, by default the last; None if there is none."""
        prompt = self.agent.unqueue(place)
        self.live = replace(self.live, queued=self.agent.waiting)
        self.screen.changed()
        return prompt

    def send_first(self, place: int) -> bool:
        """Move a queued message to the front; returns whether there is one."""
        prompt = self.agent.unqueue(place)
        if prompt is not None:
            self.agent.queue(prompt, first=True)
        self.live = replace(self.live, queued=self.agent.waiting)
        self.screen.changed()
        return prompt is not None

    def interrupt(self) -> None:
        """Interrupt the turn or command that is running."""
        self.live = replace(self.live, stopping=True)
        self.agent.interrupt()
        self.screen.changed()

    def switch(self, options: ChatOptions) -> None:
        """Continue with another session or model; if that fails, reopen the current one and raise the error."""
        self.close()
        before = self.options
        self.options = options
        if options.name != before.name:
            self.spent = Spending()
        try:
            self.agent = self._open_agent(options, self)
        except SevenfoldError:
            self.options = before
            self.agent = self._open_agent(before, self)
            raise
        finally:
            self.update()

    def close(self) -> None:
        """Close the agent and its client."""
        self.agent.close()
        if (client := self.agent.assembly.options.get("client")) is not None:
            client.close()

    # -- events ----------------------------------------------------------------------------------

    def _handle(self, event: AgentEvent) -> None:
        """Update the activity after an event of the agent, and show the event."""
        if isinstance(event, Piece):
            self.live = replace(self.live, heard=self.clock())
        match event:
            case Piece(kind="text", words=words):
                self._fold_thinking()
                self._print(self._stream.feed(words))
                self.live = replace(self.live, pending=self._stream.pending, preparing="")
            case Piece(kind="thinking", words=words):
                self._thought += words
                self.live = self.live.thought(words)
            case Piece(kind="tool", words=name):
                self._flush()
                self.live = replace(self.live, preparing=name)
            case events.ToolBegan(call=call):
                self._flush()
                self.live = replace(self.live.began(call, self.clock()), heard=None)
            case events.ToolProgress(call=call, text=text):
                self.live = self.live.progress(call, text)
            case events.ToolEnded():
                self._tool_ended(event)
            case events.Happened(event=happened):
                self._show_event(happened)
            case events.Mentioned():
                self._mentioned(event)
            case events.Notice(text=text):
                self._flush()
                self.say("note", text)
            case events.Ended(finished=finished):
                self._flush()
                if why := wording("ends").get(finished.end):
                    self.say("warning", f"{why}: {finished.detail}" if finished.detail else why)
            case _:
                return
        self.screen.changed()

    def listen(self, event: Event) -> Veto | None:
        """Show an event of the session that happens outside a turn; during a turn, `_handle` gets it."""
        if not self._in_turn:
            self._show_event(event)
        return None

    def _show_event(self, event: Event) -> None:
        """Count an event of the engine, update the activity, and show the event if it concerns the user."""
        self.spent = self.spent.add(event)
        if isinstance(event, Acted) and event.reference:
            self._descriptions[event.reference] = event.what
        if isinstance(event, Sending) and event.source == "main":
            self._show_queued()
        if isinstance(event, Sending) and event.source == "main":
            self.live = replace(self.live, heard=self.clock())
        if isinstance(event, Sending) and self.live.waiting is not None:
            self.live = replace(self.live, waiting=None)
            self.screen.changed()
        if isinstance(event, Waiting):
            self._wait(event)
        if isinstance(event, Answered) and event.source == "main":
            if event.stop_reason != "max_tokens":
                # An answer that reached its limit is continued, and shown as one.
                self._flush()
            self._answer_shown = False
            self.live = replace(self.live, heard=None)
            self._end_wait(event.at)
        if isinstance(event, Answered | Acted):
            self.update()
        if isinstance(event, Compacting):
            # A background compaction has no status, because the user does not wait for it.
            waits = self.agent.session.conversation.state(Compactor).status
            what = f"{event.hook} hooks" if event.hook else "writing the summary"
            self.live = replace(self.live, stage=f"compacting: {what}" if waits else "")
            self.screen.changed()
        line = event_line(event)
        if line is None:
            return
        self._flush()
        details = [(name, clean(value), "") for name, value in line.detail]
        self.say(line.level, line.line, self.folded.add(lambda: pairs(details)) if details else 0)

    def _wait(self, wait: Waiting) -> None:
        """Show a pause the user waits for; what was shown of the answer that broke off is taken back in words."""
        if wait.source != "main" and not self.agent.session.conversation.state(Compactor).status:
            return
        if wait.source == "main":
            if self._answer_shown:
                self.say("note", ANSWER_DROPPED)
            self._answer_shown = False
            self._stream = MarkdownStream()
            self._thought = ""
            self._waiting_since = self._waiting_since or wait.at
            self.live = replace(self.live, pending="", preparing="", thinking="")
        until = self.clock() + wait.seconds
        self.live = replace(self.live, waiting=wait, waits_until=until, heard=None)
        if not self.screen.redraws:
            self.say("warning", wait_line(wait, wait.seconds, self.screen.signs.dot))
        self.screen.changed()

    def _end_wait(self, at: float) -> None:
        """Say how long the provider was waited for, once it has answered."""
        since = self._waiting_since
        self._waiting_since = None
        if since is not None:
            self.say("note", f"the provider answers again, after {whole_seconds(at - since)}")

    def describe_decision(self, decision: str) -> str:
        """What a decision did, in words."""
        compacted = is_compaction(self.agent.session.conversation, decision)
        return self._descriptions.get(decision) or ("a compaction" if compacted else f"decision {decision}")

    def say(self, level: Level, words: str, number: int = 0) -> None:
        """Show a message of the app itself; its sign says the same as its colour, for terminals without colour."""
        sign = getattr(self.screen.signs, level)
        prefix = f"{level}: " if level in ("warning", "error") else ""
        suffix = f" [{number}]" if number else ""
        self.screen.show(Text(f"{sign} {prefix}{clean(words)}{suffix}", style=STYLES[level]))

    def _flush(self) -> None:
        """Print the part of the answer, and of the thinking, that was held back."""
        self._fold_thinking()
        self._print(self._stream.end())
        self.live = replace(self.live, pending="", preparing="")

    def update(self) -> None:
        """Rebuild the status line from the session, and redraw."""
        session = self.agent.session
        last = session.conversation.state(Compactor).last
        sandbox = self.agent.assembly.state.processes.sandbox
        confined = sandbox.state if sandbox is not None else None
        self.status = StatusLine(
            sandbox=confined.label if confined else "",
            sandbox_weak=confined is not None and confined.weak,
            model=session.conversation.profile.model,
            mode=self.agent.grants.mode,
            offline=self.options.offline,
            gauge=session.gauge,
            compacts=session.conversation.settings.auto_compact,
            compaction_undone=compaction_undone(session.conversation),
            lasting_left_out=last.words.lasting_left_out if last else 0,
            cached=self.spent.cached,
        )
        self.screen.changed()

    # -- questions, asked from the agent's threads ----------------------------------------------

    def consent(self, question: Asked) -> Consented:
        """Ask for permission to carry out a call, or for approval of a plan."""
        self.agent.assembly.reporter.wait_until_handled()  # or the question would appear before what led to it
        if question.call.name == consent.PLAN_READY:
            plan = str(question.call.input.get("plan", ""))
            grants = self.agent.grants
            self.screen.show(Text("The plan", style="bold"), render_markdown(plan))
            menu = consent.plan_menu(grants.after_planning)
            answer = self._ask(menu)
            grants.after_planning = menu.chosen(answer) or grants.after_planning
            return Consented(bool(menu.chosen(answer)), remark=answer.words if answer else "")
        folder = self.options.folder
        self.screen.show(*consent.preview(question, str(folder), self.screen.signs))
        began = time.monotonic()
        menu = consent.permission_menu(question, str(folder))
        answer = self._ask(menu)
        self._waited[question.call.id] = time.monotonic() - began
        grant = menu.chosen(answer)
        if grant == "for good":
            try:
                keep_rules(folder, *question.decision.would_allow)
            except SevenfoldError as error:
                self.say("warning", f"this holds for the session only: {error}")
        remark = answer.words if answer else ""
        return Consented(grant is not None, always=grant in ("always", "for good"), remark=remark)

    def answer(self, questions: Sequence[Question], abort: Abort) -> Sequence[str] | None:
        """Ask the model's questions; returns the user's answers, or None if the user cancels or the turn is aborted."""
        self.agent.assembly.reporter.wait_until_handled()
        answers = []
        for question in questions:
            answer = self._ask(consent.model_menu(question))
            if answer is None or abort.is_set():
                return None
            answers.append(consent.read_model_answer(question, answer))
            arrow = self.screen.signs.arrow
            self.screen.show(Text(f"  {one_line(question.question)} {arrow} {clean(answers[-1])}"))
        return answers

    def _ask(self, menu: Menu) -> MenuAnswer | None:
        """Ask on the agent's behalf, with `clock` stopped meanwhile; a user who cancels interrupts the turn."""
        self._notify("waiting for your answer")
        self._asked_at = time.monotonic()
        answer = self.screen.ask(replace(menu, escape="Esc interrupts") if self._in_turn else menu)
        self._acted_at = time.monotonic()
        self._paused += time.monotonic() - self._asked_at
        self._asked_at = None
        if answer is None and self._in_turn:
            self.interrupt()
        return answer

    def _notify(self, what: str) -> None:
        """Notify the user, if they have not done anything for a while and the setting allows it."""
        how = self.agent.session.conversation.settings.notify
        if how != "off" and time.monotonic() - self._acted_at > AWAY_SECONDS:
            self.screen.notify(f"{what}: {self.options.folder.name}", how)

    def clock(self) -> float:
        """A monotonic time in seconds that stops while the agent waits for the user."""
        return (self._asked_at or time.monotonic()) - self._paused

    def ask(self, menu: Menu) -> Any:
        """Show a menu; returns the value of the item the user chooses, None if they choose none."""
        return menu.chosen(self.screen.ask(menu))

    # -- internals -------------------------------------------------------------------------------

    @contextmanager
    def _activity(self, doing: str, *, turn: bool) -> Iterator[None]:
        self._in_turn = turn
        self._answer_shown = False
        self._waiting_since = None
        self._stream = MarkdownStream()
        self._thought = ""
        self.live = Activity(doing=doing, since=self.clock(), queued=self.agent.waiting)
        self.screen.changed()
        try:
            yield
        finally:
            self._in_turn = False
            self._show_queued()
            self.live = Activity()
            self.update()

    def _show_queued(self) -> None:
        """Print the queued messages that have been sent."""
        waiting = self.agent.waiting
        for text in self.live.queued:
            if text not in waiting:
                self.screen.show(Text(f"{self.screen.signs.prompt} {clean(text)}", style="bold"))
        self.live = replace(self.live, queued=tuple(waiting))

    def _print(self, words: str) -> None:
        if words.strip():
            self._answer_shown = True
            self.screen.show(render_markdown(words), Text())

    def _fold_thinking(self) -> None:
        thought = self._thought
        self._thought = ""
        if thought.strip():
            number = self.folded.add(lambda: Text(clean(thought), style="dim italic"))
            first = one_line(thought, max(20, self.screen.width - 20), self.screen.signs.cut)
            self.screen.show(Text(f"{self.screen.signs.note} thought: {first} [{number}]", style="dim"))
        self.live = replace(self.live, thinking="")

    def _tool_ended(self, event: events.ToolEnded) -> None:
        call = event.call
        output = event.output
        # The time the user took to decide does not count as the tool's.
        waited = self._waited.pop(call.id, None)
        seconds = max(0.0, event.seconds - (waited or 0.0))
        self.live = self.live.ended(call)
        self.screen.show(self.drawn_call(call, output, seconds, seen=waited is not None))
        self.update()

    @property
    def line_spec(self) -> LineSpec:
        """The signs, width and folder that lines are drawn with."""
        return LineSpec(self.screen.signs, self.screen.width, str(self.options.folder))

    def drawn_call(
        self, call: ToolCall, output: ToolOutput, seconds: float = 0.0, *, seen: bool = False
    ) -> RenderableType:
        """A call with the first lines of its result; `/show` opens the rest. With ``seen``, its diff is left out."""
        number = self.folded.add(partial(lines.full_call, call, output, seconds))
        return lines.result_lines(call, output, seconds, self.line_spec, number=number, seen=seen)

    def _mentioned(self, event: events.Mentioned) -> None:
        path = one_line(event.path, 200)
        output = event.output
        if output.is_error:
            why = one_line(output.text, 400).replace(f"{self.options.folder}/", "")
            self.say("warning", f"@{path} was not read: {why}")
            return
        number = self.folded.add(lambda: Text(clean(output.text), overflow="fold"))
        did = "listed" if event.folder else "read"
        self.say("note", f"{did} {path} ({lines.mention_size(event)})", number)

    def idle_in(self) -> float | None:
        """Seconds until `idle` should be called; None if it should not be called in this pause."""
        conversation = self.agent.session.conversation
        idleness = conversation.state(Idleness)
        # The chat decides about pauses: it may compact as well.
        idleness.led = conversation.settings.idle_compaction
        return idleness.due_in() if idleness.led else None

    def idle(self) -> None:
        """Keep the cache alive, or compact before it expires, if that is likely to save money; tell the user."""
        try:
            done = self.agent.session.idle()
        except SevenfoldError as error:
            self.say("warning", str(error))
            return
        if done.chosen != "nothing":
            self.say("note", f"{done.why}; the setting idle_compaction stops this")
        self.update()

    def background(self) -> tuple[str, ...]:
        """The background tasks that are running: agents, commands, and the engine's own work."""
        return tuple(one_line(task.progress or task.name, 40) for task in self.agent.session.tasks.running)
