"""The app for terminals that can do nothing: lines in, lines out, no cursor, no colour."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable
from concurrent.futures import Future
from shutil import get_terminal_size

from rich.console import RenderableType

from sevenfold.cli.chat import slash_commands as commands
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.questions import PAGE, Asking, Picked, Question, answered, listed
from sevenfold.cli.chat.screen import Job, Paper, Signs, no_more_interrupts

_TICK = 0.2
Asked = tuple[Question, Future[Picked | None]]


class Plain:
    """The screen of a chat, without a screen."""

    def __init__(self, paper: Paper, signs: Signs, read: Callable[[str], str] = input) -> None:
        self.signs = signs
        self._paper = paper
        self._read = read
        self._asked: queue.Queue[Asked | BaseException | None] = queue.Queue()
        self._suggested = ""
        self._job = Job(self._asked.put)

    @property
    def width(self) -> int:
        """Cells in a line."""
        return get_terminal_size().columns

    def show(self, *shown: RenderableType) -> None:
        """Print."""
        text = self._paper.ansi(*shown, width=self.width)
        sys.stdout.write("\n".join(line.rstrip() for line in text.split("\n")))
        sys.stdout.flush()

    def ask(self, question: Question) -> Picked | None:
        """Wait for the user's choice; None if there was none."""
        if not self._job.busy:
            return self._answer(question)
        waiting: Future[Picked | None] = Future()
        self._asked.put((question, waiting))
        return waiting.result()

    def changed(self) -> None:
        """Nothing is drawn here."""

    def suggest(self, words: str) -> None:
        """Show words the user may want to send again."""
        self._suggested = words

    def run(self, opening: Callable[[], Chat], prompt: str = "") -> Chat:
        """Open a chat, read and answer until the user leaves; returns it, closed."""
        chat = opening()
        try:
            self._talk(chat, prompt)
        finally:
            no_more_interrupts()
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
            if commands.is_command(text):
                self._job.begin(lambda line=text: commands.run(chat, line.strip()))  # type: ignore[misc]
            else:
                self._job.begin(lambda words=text: chat.turn(words))  # type: ignore[misc]
            self._wait(chat)

    def _typed(self) -> str | None:
        """A message; lines that end in a backslash go on. None: the user leaves."""
        if self._suggested:
            sys.stdout.write(f"(you said: {self._suggested})\n")
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
        """Until what is under way is done; Ctrl-C stops it."""
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

    def _answer(self, question: Question) -> Picked | None:
        first = 0
        sys.stdout.write("\n".join(listed(question)) + "\n")
        try:
            while True:
                line = self._read("? ")
                if not line.strip() and first + PAGE < len(question.choices):
                    first += PAGE
                    sys.stdout.write("\n".join(listed(question, first)) + "\n")
                    continue
                came = answered(question, line)
                if isinstance(came, Asking):
                    came = came.entered(self._read("your words: "))
                if isinstance(came, Picked):
                    return came
                sys.stdout.write("Type the number of a choice.\n")
        except (EOFError, KeyboardInterrupt):
            return None
