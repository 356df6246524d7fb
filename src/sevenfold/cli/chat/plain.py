"""The app for terminals without a cursor: lines in, lines out, no colour."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from shutil import get_terminal_size

from rich.console import RenderableType

from sevenfold.cli.chat import slash_commands
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.menu import PAGE, Menu, MenuAnswer, MenuState, list_menu, read_answer
from sevenfold.cli.chat.screen import Renderer, Signs, Worker, ignore_interrupts

_TICK = 0.2
Asked = tuple[Menu, Future[MenuAnswer | None]]


class PlainScreen:
    """The screen of a chat on a terminal that only takes lines."""

    redraws = False

    def __init__(self, renderer: Renderer, signs: Signs, read: Callable[[str], str] = input) -> None:
        self.signs = signs
        self._renderer = renderer
        self._read = read
        self._asked: queue.Queue[Asked | BaseException | None] = queue.Queue()
        self._suggested = ""
        self._worker = Worker(self._asked.put)

    @property
    def width(self) -> int:
        """Cells in a line."""
        return get_terminal_size().columns

    def show(self, *shown: RenderableType) -> None:
        """Print."""
        text = self._renderer.ansi(*shown, width=self.width)
        sys.stdout.write("\n".join(line.rstrip() for line in text.split("\n")))
        sys.stdout.flush()

    def page(self, *shown: RenderableType) -> None:
        """Print everything: a plain terminal has no pager."""
        self.show(*shown)

    def notify(self, words: str, how: str) -> None:
        """Do nothing: a plain terminal cannot notify the user."""

    def ask(self, menu: Menu) -> MenuAnswer | None:
        """Show a menu and wait; returns the user's answer, None if there is none."""
        if not self._worker.busy:
            return self._answer(menu)
        waiting: Future[MenuAnswer | None] = Future()
        self._asked.put((menu, waiting))
        return waiting.result()

    def changed(self) -> None:
        """Do nothing: a plain terminal has no activity or status line to redraw."""

    def suggest(self, words: str) -> None:
        """Print words before the next prompt, since they cannot be put into the input."""
        self._suggested = words

    def run(self, opening: Callable[[], Chat], prompt: str = "") -> Chat:
        """Open a chat and run what the user types until they leave; returns the chat, closed."""
        chat = opening()
        try:
            self._talk(chat, prompt)
        finally:
            ignore_interrupts()
            chat.close()
        return chat

    def _talk(self, chat: Chat, prompt: str) -> None:
        while not chat.leaving:
            text = prompt or self._typed()
            prompt = ""
            if text is None:
                return
            if not text.strip():
                continue
            command = partial(slash_commands.run, chat, text.strip())
            self._worker.begin(command if slash_commands.is_command(text) else partial(chat.turn, text))
            self._wait(chat)

    def _typed(self) -> str | None:
        """Read a message, in which a backslash at the end of a line continues it; None if the user leaves."""
        if self._suggested:
            sys.stdout.write(f"(your message was: {self._suggested})\n")
            self._suggested = ""
        lines: list[str] = []
        while True:
            try:
                line = self._read("  " if lines else f"{self.signs.prompt} ")
            except EOFError:
                return None
            except KeyboardInterrupt:
                sys.stdout.write("\n(Ctrl-D leaves)\n")
                return ""
            lines.append(line.removesuffix("\\"))
            if not line.endswith("\\"):
                return "\n".join(lines)

    def _wait(self, chat: Chat) -> None:
        """Ask the worker's questions until its work is done; Ctrl-C interrupts it. Raises the work's error."""
        while True:
            try:
                came = self._asked.get(timeout=_TICK)
                if isinstance(came, BaseException):
                    raise came
                if came is None:
                    return
                came[1].set_result(self._answer(came[0]))
            except queue.Empty:
                continue
            except KeyboardInterrupt:
                chat.interrupt()

    def _answer(self, menu: Menu) -> MenuAnswer | None:
        first = 0
        sys.stdout.write("\n".join(list_menu(menu)) + "\n")
        try:
            while True:
                line = self._read("? ")
                if not line.strip() and first + PAGE < len(menu.items):
                    first += PAGE
                    sys.stdout.write("\n".join(list_menu(menu, first)) + "\n")
                    continue
                came = read_answer(menu, line)
                if isinstance(came, MenuState):
                    came = came.enter(self._read(f"{came.prompt()}: "))
                if isinstance(came, MenuAnswer):
                    return came
                sys.stdout.write("Type the number of an answer.\n")
        except (EOFError, KeyboardInterrupt):
            return None
