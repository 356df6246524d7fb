"""What a conversation needs of the world."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from sevenfold.events import Listener
from sevenfold.memory.memory import Memory
from sevenfold.ports import Clock, Recall, Results, Store, StoredText
from sevenfold.settings import Source


class Services(Struct, frozen=True, kw_only=True):
    """What a conversation needs of the world."""

    clock: Clock
    settings: Source
    results: Results
    listeners: Iterable[Listener] = ()
    recall: Recall | None = None
    notes: StoredText | None = None
    """The file of the session notes; None: there are none."""
    read_file: Callable[[str], str] | None = None
    """Reads a file that is to be restored after a compaction; None: files are not restored."""
    memory: Memory | None = None
    """What outlives the session in its project; None: nothing does."""
    user_memory: Memory | None = None
    """What the user wants known in every project."""
    store: Store | None = None
    """Where the sessions of the project are; None: this one is kept nowhere."""
    there: Callable[[str], bool] | None = None
    """Says whether a path or a command that memory names is still there; None: that is not checked."""
    secrets: Iterable[str] = ()
    """Values that the gate masks wherever they come up, in any encoding."""
    path: str = ""
    """Where the transcript can be read; empty for one that is not kept."""
