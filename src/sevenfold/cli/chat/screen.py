"""What a chat needs of whoever shows it; the inline app, the plain one and a run without a screen each have it."""

from __future__ import annotations

from typing import Protocol

from rich.console import RenderableType

from sevenfold.cli.chat.questions import Picked, Question
from sevenfold.cli.chat.signs import Signs


class Screen(Protocol):
    """Shows things and asks questions; may be called from any thread."""

    @property
    def signs(self) -> Signs:
        """The alphabet."""
        ...

    @property
    def width(self) -> int:
        """Cells in a line."""
        ...

    def show(self, *shown: RenderableType) -> None:
        """Print for good."""
        ...

    def ask(self, question: Question) -> Picked | None:
        """Wait for the user's choice; None if there was none."""
        ...

    def changed(self) -> None:
        """What is under way, or the status, is another one now."""
        ...

    def suggest(self, words: str) -> None:
        """Put words where the user types, to be changed or sent."""
        ...
