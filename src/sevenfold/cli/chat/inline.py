"""The app for most terminals: a few lines at the bottom are redrawn, and everything final is printed above them.

It does not take over the screen, so the conversation can be scrolled, searched and copied like any other output. The
agent works in another thread; this one draws, reads the keyboard, and never blocks, not even while the chat opens: the
user can type before everything is loaded.
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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, DummyCompleter, DynamicCompleter, ThreadedCompleter
from prompt_toolkit.filters import Condition, has_completions, is_done
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.layout import AnyContainer, ConditionalContainer, Dimension, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import AfterInput, BeforeInput
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar
from rich.console import RenderableType
from rich.text import Text

from sevenfold.cli.chat import screen
from sevenfold.cli.chat.keyboard import InputHistory, Pastes, TypingGuard, bindings
from sevenfold.cli.chat.menu import Menu, MenuAnswer, MenuState
from sevenfold.cli.chat.reflow import ReflowingApplication, reflow_of
from sevenfold.cli.chat.screen import Renderer, Signs, Worker
from sevenfold.cli.text import clean
from sevenfold.record.authorship import UserPrompt

if TYPE_CHECKING:
    from sevenfold.cli.chat.chat import Chat
    from sevenfold.cli.chat.driver import Driver

TICK = 0.25
AGAIN = 2.0
"""Seconds within which a second Ctrl-C ends the app."""
MOST_ROWS = 10
"""Rows to which the input may grow."""
_ROOM_BELOW = 10
"""Rows kept for menus, the input and the status line."""
_STYLE = {
    "prompt": "bold ansicyan",
    "suggested": "italic ansibrightblack",
    "completion-menu": "noreverse bg:default",
    "completion-menu.completion": "noreverse bg:default",
    "completion-menu.completion.current": "reverse",
    "completion-menu.meta.completion": "noreverse bg:default",
    "completion-menu.meta.completion.current": "reverse",
    "scrollbar.background": "bg:default",
    "scrollbar.button": "reverse",
}


class InlineScreen:
    """The screen of a chat, and its keyboard."""

    redraws = True

    def __init__(
        self,
        renderer: Renderer,
        signs: Signs,
        *,
        history: Path | None,
        output: Output,
        keyboard: Input | None = None,
    ) -> None:
        self.signs = signs
        self._renderer = renderer
        self._output = output
        self._shown: deque[str] = deque()
        self._early: deque[UserPrompt] = deque()
        """Messages and commands that were sent before the chat was open."""
        self._questions: deque[tuple[Menu, Future[MenuAnswer | None]]] = deque()
        self.asking: MenuState | None = None
        """The menu on the screen; None if there is none."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._driver: Driver | None = None
        self._opening = Worker(self._on_done)
        self._paging: asyncio.Future[None] | None = None
        self._pressed = float("-inf")
        self._hint = ""
        self._drawn: tuple[object, str] = (None, "")
        self._guard = TypingGuard()
        self._completer: Completer = DummyCompleter()
        self.pastes = Pastes()
        self.typed = Buffer(
            multiline=True,
            history=InputHistory(history) if history else InMemoryHistory(),
            completer=DynamicCompleter(lambda: self._completer),
            complete_while_typing=True,
            name="typed",
        )
        self.typed.on_text_insert += lambda _: self._guard.typed(time.monotonic())
        self.typed.on_text_changed += lambda buffer: self.pastes.changed(buffer.text)
        self.remark = Buffer(multiline=False, name="remark")
        self.layout = Layout(self._rows(), focused_element=self.typed)
        self._app = ReflowingApplication(
            layout=self.layout,
            key_bindings=bindings(self),
            output=output,
            input=keyboard,
            mouse_support=False,
            min_redraw_interval=0.03,
            style=Style.from_dict(_STYLE),
        )
        self._app.reflow = reflow_of(os.environ)
        self._app.ttimeoutlen = 0.1
        self._app.timeoutlen = 0.3

    @property
    def suggested(self) -> str:
        """The suggested next message, shown while the input is empty and nothing runs; empty if there is none."""
        if self._driver is None or self.busy or self.typed.text:
            return ""
        return clean(self._driver.chat.suggestion.text)

    def _rows(self) -> HSplit:
        """The rows of the app: the activity, a menu, the input, completions, search, and the status line."""
        asked = Condition(lambda: self.asking is not None)
        writing = Condition(lambda: self.asking is not None and self.asking.writing)
        search = SearchToolbar()
        rows: list[AnyContainer] = [
            _text(self._live),
            ConditionalContainer(_text(self._question), asked),
            ConditionalContainer(self._input(self.remark, None), writing),
            ConditionalContainer(self._input(self.typed, search), ~asked),
            ConditionalContainer(CompletionsMenu(max_height=8), has_completions & ~asked),
            search,
            _text(self._status, height=1),
        ]
        return HSplit(rows)

    def _input(self, buffer: Buffer, search: SearchToolbar | None) -> ConditionalContainer:
        before = BeforeInput(f"{self.signs.prompt} ", style="class:prompt")
        after = AfterInput(lambda: self.suggested if buffer is self.typed else "", style="class:suggested")
        found = search.control if search else None
        control = BufferControl(
            buffer,
            input_processors=[before, after],
            search_buffer_control=found,
            preview_search=True,  # the match is shown while the search is typed
        )
        height = Dimension(min=1, max=MOST_ROWS)
        window = Window(control, height=height, dont_extend_height=True, wrap_lines=True)
        return ConditionalContainer(window, ~is_done)

    # -- the Screen protocol ---------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Cells in a line."""
        return self._output.get_size().columns

    def show(self, *shown: RenderableType) -> None:
        """Print permanently, above the part that is redrawn."""
        self._shown.append(self._renderer.ansi(*shown, width=self.width))
        self._call(self._print)

    def page(self, *shown: RenderableType) -> None:
        """Show something long in the user's pager; print it if it fits on the screen or there is no pager."""
        text = self._renderer.ansi(*shown, width=self.width)
        command = screen.pager_command(os.environ)
        if not command or text.count("\n") <= self._output.get_size().rows - _ROOM_BELOW:
            self._shown.append(text)
            self._call(self._print)
        else:
            self._call(partial(self._page, command, text))

    def _page(self, command: list[str], text: str) -> None:
        if self._paging or not self._app.is_running:
            return

        async def run() -> None:
            await run_in_terminal(partial(screen.run_pager, command, text), in_executor=True)
            self._paging = None
            self._print()

        with set_app(self._app):
            self._paging = asyncio.ensure_future(run())

    def notify(self, words: str, how: str) -> None:
        """Call the user back to the terminal; see `Screen.notify`."""
        self._call(lambda: (self._output.write_raw(screen.notification(words, how)), self._output.flush()))

    def ask(self, menu: Menu) -> MenuAnswer | None:
        """Show a menu and wait; returns the user's answer, None if there is none."""
        waiting: Future[MenuAnswer | None] = Future()
        self._questions.append((menu, waiting))
        self._call(self._next_question)
        return waiting.result()

    def changed(self) -> None:
        """Redraw soon, and end the app if the chat is leaving."""
        if self._driver is not None and self._driver.chat.leaving:
            self._call(self.leave)
        self._app.invalidate()

    def suggest(self, words: str) -> None:
        """Put words into the input, before anything already typed."""

        def put() -> None:
            folded = self.pastes.fold(words)
            rest = self.typed.text
            self.typed.text = f"{folded}\n{rest}" if rest.strip() else folded
            self.typed.cursor_position = len(self.typed.text)

        self._call(put)

    # -- running ---------------------------------------------------------------------------------

    def run(self, opening: Callable[[], Chat], prompt: str = "") -> Chat | None:
        """Open a chat and show it until the user leaves; returns it, closed. Raises the error of a failed worker."""
        try:
            asyncio.run(self._run(opening, prompt))
        except KeyboardInterrupt:
            # The user pressed Ctrl-C again while the app was ending.
            pass
        finally:
            screen.ignore_interrupts()
            self._loop = None
            self._dismiss()
            self._opening.wait()
            if self._driver is not None:
                # Closing may wait for a last look for lasting facts.
                screen.hurry_on_interrupt(self._driver.chat.agent.session.hurry)
                self._driver.close()
            screen.ignore_interrupts()
            self._print()
        return self._driver.chat if self._driver else None

    async def _run(self, opening: Callable[[], Chat], prompt: str) -> None:
        self._loop = asyncio.get_running_loop()
        if sys.platform != "win32":
            for signal_number in (signal.SIGTERM, signal.SIGHUP):
                self._loop.add_signal_handler(signal_number, self.leave)
        if prompt:
            self._early.append(UserPrompt(prompt))
        ticking = asyncio.ensure_future(self._tick())
        self._loop.call_soon(self._opening.begin, lambda: self._open(opening))
        try:
            await self._app.run_async()
        finally:
            ticking.cancel()

    def _open(self, opening: Callable[[], Chat]) -> None:
        """Open the chat; runs in a worker thread, because loading takes longer than drawing."""
        chat = opening()
        from sevenfold.cli.chat.driver import ChatCompleter, Driver  # loads the agent

        self._driver = Driver(chat, self._on_done)
        self._completer = ThreadedCompleter(ChatCompleter(chat.options.folder))
        self._call(self._send_early)

    def _send_early(self) -> None:
        while self._early and self._driver is not None:
            self._driver.submit(self._early.popleft())
        self._app.invalidate()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            if self._hint or self.busy or (self._driver is not None and self._driver.chat.background()):
                if time.monotonic() - self._pressed > AGAIN:
                    self._hint = ""
                self._app.invalidate()

    # -- actions of keys -------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a turn or a command is running."""
        return self._driver is not None and self._driver.busy

    @property
    def stopping(self) -> bool:
        """Whether the user has interrupted, and the work has not stopped yet."""
        return self._driver is not None and self._driver.chat.live.stopping

    def submit(self, prompt: UserPrompt) -> None:
        """Send what the user wrote, once the chat is open."""
        self._pressed = float("-inf")
        if prompt.text.strip():
            self._early.append(prompt)
            self._send_early()

    @property
    def has_queued(self) -> bool:
        """Whether a message waits to be sent."""
        return self._driver is not None and self._driver.has_queued

    def edit_queued(self) -> None:
        """Put the newest message that waits to be sent back into the input, where it can be changed or deleted."""
        prompt = self._driver.take_back() if self._driver is not None else None
        if prompt is None:
            return
        self.typed.insert_text(prompt.text)
        if prompt.origin == "pasted":
            # Which part of it was pasted is not known any more, so all of it counts as that.
            self.pastes.pasted(self.typed.text, 0, len(prompt.text))

    def command(self, text: str) -> None:
        """Run a command, if the chat is open."""
        if self._driver is not None:
            self._driver.command(text)

    def next_mode(self) -> None:
        """Switch to the next mode, if the chat is open."""
        if self._driver is not None:
            self._driver.next_mode()

    def interrupt(self) -> None:
        """Interrupt what is running, and dismiss all questions."""
        if self._driver is not None:
            self._driver.interrupt()
        self._dismiss()

    def pressed_twice(self) -> bool:
        """Whether Ctrl-C was pressed within the last `AGAIN` seconds and nothing sent since; if not, show a hint."""
        before = self._pressed
        self._pressed = time.monotonic()
        if self._pressed - before <= AGAIN:
            return True
        self._hint = "press Ctrl-C again to leave"
        self._app.invalidate()
        return False

    def leave(self) -> None:
        """End the app, which interrupts what is running."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    def belongs_to_draft(self, words: str) -> bool:
        """Whether a key was meant for the message being typed when the menu appeared; if so, insert it there."""
        if not self._guard.guards(time.monotonic()):
            return False
        self.typed.insert_text(words if words.isprintable() else "")
        return True

    def begin_draft(self, words: str) -> None:
        """Start a message with a key typed at a menu; keys that follow without a pause belong to the message too."""
        if words.isprintable():
            self._guard.begin(time.monotonic())
            self.typed.insert_text(words)

    def advance(self, state: MenuState | MenuAnswer) -> None:
        """Move the menu to its next state, or answer it."""
        if isinstance(state, MenuAnswer):
            self.answer(state)
            return
        self.asking = state
        self._focus(writing=state.writing)
        self._app.invalidate()

    def answer(self, answer: MenuAnswer | None) -> None:
        """Answer the current question, and show the next."""
        if self.asking is None:
            return
        self.asking = None
        _, waiting = self._questions.popleft()
        self._focus(writing=False)
        waiting.set_result(answer)
        self._next_question()

    # -- internals -------------------------------------------------------------------------------

    def _call(self, work: Callable[[], Any]) -> None:
        """Run something in the drawing thread, or here and now if that thread's event loop has ended."""
        loop = self._loop
        if loop is None or loop.is_closed():
            work()
        else:
            loop.call_soon_threadsafe(work)

    def _print(self) -> None:
        if not self._shown or self._paging is not None:
            return  # output during paging is printed when the user leaves the pager
        drawing = self._app.is_running
        if drawing:
            self._app.erase()
        while self._shown:
            self._output.write_raw(self._shown.popleft())
        self._output.flush()
        if drawing:
            self._app.invalidate()

    def _on_done(self, error: BaseException | None) -> None:
        def end() -> None:
            if error is not None and self._app.is_running and not self._app.is_done:
                self._app.exit(exception=error)
            self._app.invalidate()

        self._call(end)

    def _focus(self, *, writing: bool) -> None:
        """Give the keyboard to the remark of an answer if the user is writing one, else to the message."""
        self.remark.reset()
        self.layout.focus(self.remark if writing else self.typed)

    def _dismiss(self) -> None:
        """Resolve all questions without an answer."""
        self.asking = None
        while self._questions:
            self._questions.popleft()[1].set_result(None)
        self._focus(writing=False)

    def _next_question(self) -> None:
        if self._loop is None:
            self._dismiss()
        elif self.asking is None and self._questions:
            self._guard.asked(time.monotonic(), self.typed.text)
            self.advance(MenuState.open(self._questions[0][0]))

    def _live(self) -> str:
        driver = self._driver
        size = self._output.get_size()
        if driver is None or self.asking is not None:
            return ""  # no activity is shown while the user is asked
        moment = (driver.chat.live, int(time.monotonic() / TICK), size)
        if moment != self._drawn[0]:
            # The screen is redrawn more often than the activity changes, and rendering Markdown is expensive.
            shown = driver.live()
            lines = [] if shown is None else self._ansi(shown).split("\n")
            self._drawn = moment, "\n".join(lines[-max(3, size.rows - _ROOM_BELOW) :])
        return self._drawn[1]

    def _question(self) -> str:
        return self._ansi(screen.draw_menu(self.asking, self.signs, self.width)) if self.asking else ""

    def _status(self) -> str:
        if self._hint:
            return self._ansi(Text(self._hint, style="yellow"))
        if self._driver is None:
            return self._ansi(Text("opening", style="dim"))
        return self._ansi(self._driver.status())

    def _ansi(self, shown: RenderableType) -> str:
        return self._renderer.ansi(shown, width=self.width).rstrip("\n")


def _text(words: Callable[[], str], height: int | None = None) -> ConditionalContainer:
    """A window with changing text; it takes no room while the text is empty or after the app has ended."""
    control = FormattedTextControl(lambda: ANSI(words()))
    window = Window(control, dont_extend_height=True, wrap_lines=False, height=height)
    return ConditionalContainer(ConditionalContainer(window, Condition(lambda: bool(words()))), ~is_done)


def terminal() -> Output:
    """Standard output as a terminal that is never asked for its cursor position.

    The reply would arrive through the keyboard, late over a slow connection, and be taken for typed text.
    """
    if sys.platform == "win32":
        return create_output(sys.stdout)
    from sevenfold.cli.chat.reflow import InlineOutput

    depth = ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None
    output = InlineOutput.from_pty(sys.stdout, os.environ.get("TERM"), default_color_depth=depth)
    output.enable_cpr = False
    return output
