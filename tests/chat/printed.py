"""What a terminal would show of something, as text."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import RenderableType

from sevenfold.cli.chat.menu import Menu, MenuAnswer
from sevenfold.cli.chat.screen import UNICODE, Renderer


def printed(*shown: RenderableType, width: int = 80) -> str:
    """The characters, without any style."""
    return Renderer("none").ansi(*shown, width=width)


class Page:
    """A screen that keeps what it is shown, and answers questions as it was told to."""

    signs = UNICODE
    redraws = True

    def __init__(
        self, answers: Callable[[Menu], MenuAnswer | None] = lambda _: None, width: int = 80
    ) -> None:
        self.width = width
        self.shown: list[str] = []
        self.asked: list[Menu] = []
        self.suggested: list[str] = []
        self.notified: list[tuple[str, str]] = []
        self._answers = answers

    def show(self, *shown: RenderableType) -> None:
        self.shown.append(printed(*shown, width=self.width))

    def page(self, *shown: RenderableType) -> None:
        self.show(*shown)

    def notify(self, words: str, how: str) -> None:
        self.notified.append((words, how))

    def ask(self, question: Menu) -> MenuAnswer | None:
        self.asked.append(question)
        return self._answers(question)

    def changed(self) -> None:
        """Nothing is drawn here."""

    def suggest(self, words: str) -> None:
        self.suggested.append(words)

    @property
    def text(self) -> str:
        return "".join(self.shown)
