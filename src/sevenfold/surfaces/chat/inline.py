"""The app in the terminal: a few lines at the bottom that change, and above them everything that is settled.

It does not take the screen over, so what was said can be scrolled, searched and copied like anything else. The agent
works in a thread; this one draws, listens to the keyboard, and never waits.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output
from rich.console import RenderableType
from rich.text import Text

from sevenfold.errors import InputError
from sevenfold.surfaces.chat import commands
from sevenfold.surfaces.chat.chat import Chat
from sevenfold.surfaces.chat.completing import Completions
from sevenfold.surfaces.chat.job import Job
from sevenfold.surfaces.chat.keys import bindings
from sevenfold.surfaces.chat.layout import Parts, make
from sevenfold.surfaces.chat.live import drawn as live_drawn
from sevenfold.surfaces.chat.paper import Paper
from sevenfold.surfaces.chat.questions import Asking, Picked, Question, drawn
from sevenfold.surfaces.chat.signs import Signs
from sevenfold.surfaces.chat.status import line
from sevenfold.surfaces.chat.words import clean

TICK = 0.25
AGAIN = 2.0
"""Seconds in which a second Ctrl-C leaves."""
_ROOM_BELOW = 6
"""Rows that are kept for the input and the status line."""


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
        self._asked: deque[tuple[Question, Future[Picked | None]]] = deque()
        self._asking: Asking | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ui = threading.get_ident()
        self._pressed = float("-inf")
        self._hint = ""
        self._chat: Chat | None = None
        self._job = Job(self._over)
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
        if self._loop is None:
            self._asking = Asking.begin(question)
            self._app.run()
            return waiting.result() if waiting.done() else None
        self._call(self._next_question)
        return waiting.result()

    def changed(self) -> None:
        """Draw again soon."""
        if self._chat is not None and self._chat.leaving:
            self._call(self.leave)
        self._app.invalidate()

    def suggest(self, words: str) -> None:
        """Put words where the user types."""
        self._call(lambda: self.parts.type(words))

    # -- running ---------------------------------------------------------------------------------

    def run(self, chat: Chat, prompt: str = "") -> None:
        """Show the chat until the user leaves; raises what went wrong inside."""
        self._chat = chat
        self.parts.complete_with(ThreadedCompleter(Completions(chat.start.folder)))
        try:
            asyncio.run(self._run(prompt))
        finally:
            self._loop = None
            self._print()
            if self._job.busy:
                self.interrupt()
                self._job.wait()

    async def _run(self, prompt: str) -> None:
        self._loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGHUP"):
            if sys.platform != "win32":
                self._loop.add_signal_handler(getattr(signal, name), self.leave)
        ticking = asyncio.ensure_future(self._tick())
        if prompt:
            self._loop.call_soon(self.submit, prompt)
        try:
            await self._app.run_async()
        finally:
            ticking.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            if self.busy or self._hint:
                if time.monotonic() - self._pressed > AGAIN:
                    self._hint = ""
                self._app.invalidate()

    # -- what keys do ----------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Is something under way?"""
        return self._job.busy

    @property
    def asking(self) -> Asking | None:
        """The question the user is looking at."""
        return self._asking

    def submit(self, text: str) -> None:
        """What was typed is meant: words, or a command."""
        chat = self._chat
        if chat is None or not text.strip():
            return
        if commands.is_command(text):
            self._command(chat, text.strip())
        elif self.busy:
            if chat.live.doing == "working":
                chat.queue(text)
            else:
                self._say_hint(f"{chat.live.doing}; wait for it")
                self.parts.type(text)
        else:
            self.show(Text(), Text(f"{self.signs.prompt} {clean(text)}", style="bold"), Text())
            self._job.begin(lambda: chat.turn(text))

    def _command(self, chat: Chat, text: str) -> None:
        self.show(Text(f"{self.signs.prompt} {clean(text)}", style="bold"))
        if not self.busy:
            self._job.begin(lambda: commands.run(chat, text))
            return
        try:
            anytime = commands.find(text)[0].anytime
        except InputError:
            anytime = True
        if anytime:
            Job(self._over).begin(lambda: commands.run(chat, text))
        else:
            chat.say("warning", f"{text.split()[0]} has to wait until it is done; Esc interrupts")

    def interrupt(self) -> None:
        """Stop what is under way, and whatever is being asked."""
        if self._chat is not None and self.busy:
            self._chat.interrupt()
        self.answer(None)
        while self._asked:
            self._asked.popleft()[1].set_result(None)

    def pressed_twice(self) -> bool:
        """Was Ctrl-C pressed a moment ago?"""
        before, self._pressed = self._pressed, time.monotonic()
        if self._pressed - before <= AGAIN:
            return True
        self._say_hint("Ctrl-C again leaves")
        return False

    def leave(self) -> None:
        """End the app; what is under way is stopped."""
        if self._app.is_running:
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
        if self._loop is None:
            self._app.exit()
        else:
            self._next_question()

    def open_last(self) -> None:
        """Show what is behind the last line."""
        if self._chat is not None:
            commands.run(self._chat, "/show")

    def rewind(self) -> None:
        """Open the list of earlier messages."""
        if self._chat is not None and not self.busy:
            self._command(self._chat, "/rewind")

    def next_mode(self) -> None:
        """The next of the modes one may switch to with a key."""
        if self._chat is None:
            return
        modes = ("ask", "accept_edits", "plan")
        now = self._chat.agent.grants.mode
        wanted = modes[(modes.index(now) + 1) % len(modes)] if now in modes else "ask"
        self._chat.agent.grants.mode = wanted  # type: ignore[assignment]  # one of the literals above
        self._chat.update()

    # -- inside ----------------------------------------------------------------------------------

    def _call(self, work: Callable[[], Any]) -> None:
        """Have something done by the thread that draws; at once where there is none."""
        if self._loop is None:
            work()
        else:
            self._loop.call_soon_threadsafe(work)

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
            if error is not None and self._app.is_running:
                self._app.exit(exception=error)
            self._app.invalidate()

        self._call(told)

    def _next_question(self) -> None:
        if self._asking is None and self._asked:
            self.moved(Asking.begin(self._asked[0][0]))

    def _say_hint(self, words: str) -> None:
        self._hint, self._pressed = words, max(self._pressed, time.monotonic() - AGAIN / 2)
        self._app.invalidate()

    def _live(self) -> str:
        if self._chat is None:
            return ""
        width, rows = self.width, self._output.get_size().rows
        shown = live_drawn(
            self._chat.live, self.signs, width, time.monotonic(), str(self._chat.start.folder)
        )
        if shown is None:
            return ""
        lines = self._paper.ansi(shown, width=width).rstrip("\n").split("\n")
        return "\n".join(lines[-max(3, rows - _ROOM_BELOW - 4) :])

    def _question(self) -> str:
        if self._asking is None:
            return ""
        return self._paper.ansi(drawn(self._asking, self.signs, self.width), width=self.width).rstrip("\n")

    def _status(self) -> str:
        if self._hint:
            return self._paper.ansi(Text(self._hint, style="yellow"), width=self.width).rstrip("\n")
        if self._chat is None:
            return ""
        return self._paper.ansi(line(self._chat.status, self.signs, self.width), width=self.width).rstrip(
            "\n"
        )
