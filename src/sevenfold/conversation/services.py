"""What a conversation needs of the world."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct

from sevenfold.events import Listener
from sevenfold.ports import Clock, Recall, Results
from sevenfold.settings import Source


class NotesFile(Protocol):
    """Where session notes are kept."""

    path: str

    def read(self) -> str | None:
        """Their text, or None if there are none yet."""
        ...

    def write(self, text: str) -> None:
        """Replace them as a whole."""
        ...


class Services(Struct, frozen=True, kw_only=True):
    """What a conversation needs of the world."""

    clock: Clock
    settings: Source
    results: Results
    listeners: Iterable[Listener] = ()
    recall: Recall | None = None
    notes: NotesFile | None = None
    """The file of the session notes; None: there are none."""
    read_file: Callable[[str], str] | None = None
    """Reads a file that is to be restored after a compaction; None: files are not restored."""
    path: str = ""
    """Where the transcript can be read; empty for one that is not kept."""
