"""The app in the terminal: a few lines at the bottom that change, and above them everything that is settled.

It does not take the screen over, so what was said can be scrolled, searched and copied like anything else. The agent
works in a thread; this one draws, listens to the keyboard, and never waits. Nor does it wait for the chat to be opened:
one can type before everything is loaded.

The parts of the inline app, one above the other: what is under way, a question, the input, the status line.

The terminal the app draws on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, DummyCompleter, DynamicCompleter, ThreadedCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition, FilterOrBool, has_completions, is_done
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.layout import (
    AnyContainer,
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.styles import BaseStyle, Style
from prompt_toolkit.widgets import SearchToolbar
from rich.console import RenderableType
from rich.text import Text

from sevenfold.cli.chat.keyboard import Momentum, Pastes, TypedHistory, bindings
from sevenfold.cli.chat.questions import Asking, Picked, Question, drawn
from sevenfold.cli.chat.screen import Job, Paper, Signs, no_more_interrupts

if TYPE_CHECKING:
    from sevenfold.cli.chat.chat import Chat
    from sevenfold.cli.chat.driver import Driver


# -- inline


TICK = 0.25
AGAIN = 2.0
"""Seconds in which a second Ctrl-C leaves."""
_ROOM_BELOW = 10
"""Rows that are kept for questions, the input and the status line."""


class Inline:
    """The screen of a chat, and its keyboard."""

    def __init__(
        self,
        paper: Paper,
        signs: Signs,
        *,
        history: Path | None,
        output: Output,
        keyboard: Input | None = None,
    ) -> None:
        self.signs = signs
        self._paper = paper
        self._output = output
        self._shown: deque[str] = deque()
        self._early: deque[str] = deque()
        """What was sent before the chat was open."""
        self._asked: deque[tuple[Question, Future[Picked | None]]] = deque()
        self._asking: Asking | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._driver: Driver | None = None
        self._opening = Job(self._over)
        self._pressed = float("-inf")
        self._hint = ""
        self._moment: tuple[object, ...] = ()
        self._lines = ""
        self._momentum = Momentum()
        self.pastes = Pastes()
        self.parts: Parts = make(
            signs,
            history,
            live=self._live,
            question=self._question,
            status=self._status,
            asked=Condition(lambda: self._asking is not None),
            writing=Condition(lambda: self._asking is not None and self._asking.writing),
        )
        self._app: Application[None] = Application(
            layout=self.parts.layout,
            key_bindings=bindings(self),
            output=output,
            input=keyboard,
            mouse_support=False,
            min_redraw_interval=0.03,
            style=self.parts.style,
        )
        self.parts.typed.on_text_insert += self._noted
        self._app.ttimeoutlen = 0.1
        self._app.timeoutlen = 0.3

    # -- a screen --------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Cells in a line."""
        return self._output.get_size().columns

    def show(self, *shown: RenderableType) -> None:
        """Print for good, above what changes."""
        self._shown.append(self._paper.ansi(*shown, width=self.width))
        self._call(self._print)

    def ask(self, question: Question) -> Picked | None:
        """Wait for the user's choice; None if there was none."""
        waiting: Future[Picked | None] = Future()
        self._asked.append((question, waiting))
        self._call(self._next_question)
        return waiting.result()

    def changed(self) -> None:
        """Draw again soon."""
        if self._driver is not None and self._driver.chat.leaving:
            self._call(self.leave)
        self._app.invalidate()

    def suggest(self, words: str) -> None:
        """Put words where the user types."""
        self._call(lambda: self.parts.type(self.pastes.taken(words)))

    # -- running ---------------------------------------------------------------------------------

    def run(self, opening: Callable[[], Chat], prompt: str = "") -> Chat | None:
        """Open a chat and show it until the user leaves; returns it, closed. Raises what went wrong inside."""
        try:
            asyncio.run(self._run(opening, prompt))
        except KeyboardInterrupt:
            # Pressed once more while the app was ending.
            pass
        finally:
            no_more_interrupts()
            self._loop = None
            self._dismiss()
            self._opening.wait()
            if self._driver is not None:
                self._driver.close()
            self._print()
        return self._driver.chat if self._driver else None

    async def _run(self, opening: Callable[[], Chat], prompt: str) -> None:
        self._loop = asyncio.get_running_loop()
        if sys.platform != "win32":
            for one in (signal.SIGTERM, signal.SIGHUP):
                self._loop.add_signal_handler(one, self.leave)
        if prompt:
            self._early.append(prompt)
        ticking = asyncio.ensure_future(self._tick())
        self._loop.call_soon(self._opening.begin, lambda: self._open(opening))
        try:
            await self._app.run_async()
        finally:
            ticking.cancel()

    def _open(self, opening: Callable[[], Chat]) -> None:
        """In a thread, because loading takes longer than drawing."""
        chat = opening()
        from sevenfold.cli.chat.driver import Completions, Driver

        self._driver = Driver(chat, self._over)
        self.parts.complete_with(ThreadedCompleter(Completions(chat.start.folder)))
        self._call(self._send_early)

    def _send_early(self) -> None:
        while self._early and self._driver is not None:
            self._driver.submit(self._early.popleft())
        self._app.invalidate()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            if self._hint or (self._driver is not None and self._driver.moves):
                if time.monotonic() - self._pressed > AGAIN:
                    self._hint = ""
                self._app.invalidate()

    # -- what keys do ----------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Is something under way?"""
        return self._driver is not None and self._driver.busy

    @property
    def stopping(self) -> bool:
        """Was it told to stop, and has not yet?"""
        return self._driver is not None and self._driver.chat.live.stopping

    @property
    def asking(self) -> Asking | None:
        """The question the user is looking at."""
        return self._asking

    def meant_for_the_draft(self, words: str) -> bool:
        """Was the user in the middle of a word when the question came? Then what is typed goes where it was meant."""
        if not self._momentum.carries(time.monotonic()):
            return False
        self.parts.typed.insert_text(words if words.isprintable() else "")
        return True

    @property
    def driver(self) -> Driver | None:
        """What drives the chat, once it is open."""
        return self._driver

    def submit(self, text: str) -> None:
        """What was typed is meant."""
        if text.strip():
            self._early.append(text)
            self._send_early()

    def interrupt(self) -> None:
        """Stop what is under way, and whatever is being asked."""
        if self._driver is not None:
            self._driver.interrupt()
        self._dismiss()

    def pressed_twice(self) -> bool:
        """Was Ctrl-C pressed a moment ago?"""
        before, self._pressed = self._pressed, time.monotonic()
        if self._pressed - before <= AGAIN:
            return True
        self._hint = "Ctrl-C again leaves"
        self._app.invalidate()
        return False

    def leave(self) -> None:
        """End the app; what is under way is stopped."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    def moved(self, asking: Asking | Picked) -> None:
        """The user has come further with a question."""
        if isinstance(asking, Picked):
            self.answer(asking)
            return
        self._asking = asking
        self.parts.focus(writing=asking.writing)
        self._app.invalidate()

    def answer(self, picked: Picked | None) -> None:
        """The question in front is answered, or will not be."""
        if self._asking is None:
            return
        self._asking = None
        _, waiting = self._asked.popleft()
        self.parts.focus(writing=False)
        waiting.set_result(picked)
        self._next_question()

    # -- inside ----------------------------------------------------------------------------------

    def _call(self, work: Callable[[], Any]) -> None:
        """Have something done by the thread that draws; at once where there is none any more."""
        loop = self._loop
        if loop is None or loop.is_closed():
            work()
        else:
            loop.call_soon_threadsafe(work)

    def _print(self) -> None:
        if not self._shown:
            return
        drawing = self._app.is_running
        if drawing:
            self._app.renderer.erase(leave_alternate_screen=False)
        while self._shown:
            self._output.write_raw(self._shown.popleft())
        self._output.flush()
        if drawing:
            self._app.invalidate()

    def _over(self, error: BaseException | None) -> None:
        def told() -> None:
            if error is not None and self._app.is_running and not self._app.is_done:
                self._app.exit(exception=error)
            self._app.invalidate()

        self._call(told)

    def _dismiss(self) -> None:
        """No question will be answered any more."""
        self._asking = None
        while self._asked:
            self._asked.popleft()[1].set_result(None)
        self.parts.focus(writing=False)

    def _next_question(self) -> None:
        if self._loop is None:
            self._dismiss()
        elif self._asking is None and self._asked:
            self._momentum.asked(time.monotonic(), self.parts.typed.text)
            self.moved(Asking.begin(self._asked[0][0]))

    def _noted(self, _: object) -> None:
        self._momentum.typed(time.monotonic())

    def _live(self) -> str:
        driver, size = self._driver, self._output.get_size()
        if driver is None:
            return ""
        moment = (driver.chat.live, int(time.monotonic() / TICK), size)
        if moment != self._moment:
            # Drawn more often than it changes, and Markdown is not cheap.
            shown = driver.live(size.columns)
            lines = [] if shown is None else self._ansi(shown).split("\n")
            self._moment, self._lines = moment, "\n".join(lines[-max(3, size.rows - _ROOM_BELOW) :])
        return self._lines

    def _question(self) -> str:
        return self._ansi(drawn(self._asking, self.signs, self.width)) if self._asking else ""

    def _status(self) -> str:
        if self._hint:
            return self._ansi(Text(self._hint, style="yellow"))
        if self._driver is None:
            return self._ansi(Text("opening", style="dim"))
        return self._ansi(self._driver.status(self.width))

    def _ansi(self, shown: RenderableType) -> str:
        return self._paper.ansi(shown, width=self.width).rstrip("\n")


# -- layout


MOST_ROWS = 10
"""Rows the input grows to."""
_STYLE = {
    "prompt": "bold ansicyan",
    "completion-menu": "noreverse bg:default",
    "completion-menu.completion": "noreverse bg:default",
    "completion-menu.completion.current": "reverse",
    "completion-menu.meta.completion": "noreverse bg:default",
    "completion-menu.meta.completion.current": "reverse",
    "scrollbar.background": "bg:default",
    "scrollbar.button": "reverse",
}


class Parts:
    """What can be typed into and looked at."""

    def __init__(self, layout: Layout, typed: Buffer, answer: Buffer, completer: list[Completer]) -> None:
        self.layout = layout
        self.typed = typed
        """Where messages are written…"""
        self.remark = answer
        """…and answers to questions."""
        self.style: BaseStyle = Style.from_dict(_STYLE)
        self._completer = completer

    def complete_with(self, completer: Completer) -> None:
        """Complete what is typed with this one."""
        self._completer[:] = [completer]

    def type(self, words: str) -> None:
        """Put words into the input, in front of what is there."""
        rest = self.typed.text
        self.typed.text = f"{words}\n{rest}" if rest.strip() else words
        self.typed.cursor_position = len(self.typed.text)

    def focus(self, *, writing: bool) -> None:
        """Let the keyboard write an answer, or a message."""
        self.remark.reset()
        self.layout.focus(self.remark if writing else self.typed)


def make(
    signs: Signs,
    history: Path | None,
    *,
    live: Callable[[], str],
    question: Callable[[], str],
    status: Callable[[], str],
    asked: Condition,
    writing: Condition,
) -> Parts:
    """Put the parts together."""
    completer: list[Completer] = [DummyCompleter()]
    typed = Buffer(
        multiline=True,
        history=TypedHistory(history) if history else InMemoryHistory(),
        completer=DynamicCompleter(lambda: completer[0]),
        complete_while_typing=True,
        enable_history_search=False,
        name="typed",
    )
    answer = Buffer(multiline=False, name="answer")
    search = SearchToolbar()
    rows: list[AnyContainer] = [
        _text(live),
        ConditionalContainer(_text(question), asked),
        ConditionalContainer(_input(answer, signs, None), writing),
        ConditionalContainer(_input(typed, signs, search), ~asked),
        ConditionalContainer(CompletionsMenu(max_height=8), has_completions & ~asked),
        search,
        ConditionalContainer(_text(status, height=1), ~is_done),
    ]
    return Parts(Layout(HSplit(rows), focused_element=typed), typed, answer, completer)


def _text(words: Callable[[], str], height: int | None = None) -> ConditionalContainer:
    """Words that change; where there are none they take no room, and none are left when the app ends."""

    def shown() -> AnyFormattedText:
        return ANSI(words())

    window = Window(FormattedTextControl(shown), dont_extend_height=True, wrap_lines=False, height=height)
    there: FilterOrBool = Condition(lambda: bool(words()))
    return ConditionalContainer(ConditionalContainer(window, there), ~is_done)


def _input(buffer: Buffer, signs: Signs, search: SearchToolbar | None) -> ConditionalContainer:
    control = BufferControl(
        buffer,
        input_processors=[BeforeInput(f"{signs.prompt} ", style="class:prompt")],
        search_buffer_control=search.control if search else None,
    )
    window = Window(
        control, height=Dimension(min=1, max=MOST_ROWS), dont_extend_height=True, wrap_lines=True
    )
    return ConditionalContainer(window, ~is_done)


# -- output


def terminal() -> Output:
    """Standard output, as a terminal that is never asked where its cursor is.

    The answer to that question would come in through the keyboard, late over slow lines, and be seen as typed.
    """
    if sys.platform == "win32":
        return create_output(sys.stdout)
    from prompt_toolkit.output.vt100 import Vt100_Output

    depth = ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None
    return Vt100_Output(
        sys.stdout, _size, term=os.environ.get("TERM"), default_color_depth=depth, enable_cpr=False
    )


def _size() -> Size:
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        columns, rows = 80, 24
    return Size(rows=rows or 24, columns=columns or 80)
