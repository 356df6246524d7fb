"""The console on which commands print their reports."""

from __future__ import annotations

from rich.console import Console


class Report(Console):
    """A console that prints texts as they are, and leaves it to the command line when nobody reads any more."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """Pass the error on: all commands end in the same way then."""
        raise
