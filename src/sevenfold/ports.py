"""What the core may ask of the world.

Each protocol here is one thing the engine needs and does not do itself. Every implementation of a port
passes the same contract suite; the ones that keep everything in memory are shipped, because whoever
builds on the engine tests with them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Raw, Struct

from sevenfold.record.log import Answer


@runtime_checkable
class Log(Protocol):
    """Lines that are only ever added to.

    Offsets are opaque to the caller but ordered: a line's offset is where `read` can start again.
    """

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> int:
        """Write lines (each with its line end) in one go; a crash leaves a first part of them at worst.

        Returns the offset of the first. ``durable`` waits until they would survive a power cut.
        """
        ...

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Lines from an offset on. One that could not be read comes back as ``b""``."""
        ...

    def holding(self, needle: bytes, before: int | None = None) -> Iterator[int]:
        """Offsets of the lines that contain ``needle``, the newest first."""
        ...

    def close(self) -> None:
        """Let others write."""
        ...


class Results(Protocol):
    """Full tool results that were too big for the context; they belong to one session's transcript."""

    def keep(self, name: str, content: bytes) -> str:
        """Store a result under a name that may hold anything; returns the path readers are shown.

        It is on the disk when this returns. The same name and content give the same path again. Raises
        `sevenfold.errors.TranscriptError` (full, denied…) and then has stored nothing.
        """
        ...

    def fetch(self, path: str) -> bytes:
        """What was stored under a path that `keep` returned; raises `sevenfold.errors.ResultMissing`."""
        ...


class Found(Struct, frozen=True):
    """A record that recall came upon."""

    uuid: str
    exact: bool
    """Does it hold what was asked for, to the letter?"""


class Recall(Protocol):
    """Finds again what has left the context."""

    def catch_up(self) -> None:
        """Take in everything that was said up to now."""
        ...

    def follow(self, written: int) -> None:
        """Take in what is new beside the conversation; never waits and never fails.

        ``written`` is how many bytes were written since the session was opened: it tells how much is new.
        """
        ...

    def found(self, query: str, kinds: Sequence[str], most: int) -> Sequence[Found]:
        """The records that fit best, of these kinds."""
        ...


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Seconds since 1970."""
        ...


class Ids(Protocol):
    """Gives out names that nobody else has."""

    def new(self) -> str:
        """A new UUID as text."""
        ...


class Call(Struct, frozen=True):
    """A request to a model, ready to go out."""

    body: bytes
    """The JSON of the request, whole: what is hashed, logged and sent."""
    betas: tuple[str, ...] = ()
    source: str = "main"
    """On whose behalf it is made: the main thread, a compaction, notes…"""


class Piece(Struct, frozen=True):
    """A part of an answer while it is still coming: for whoever watches, never for the log."""

    kind: str
    """text, thinking, tool (its name) or input (some of its JSON)"""
    words: str


class Reply(Struct, frozen=True):
    """An answer, whole, and what came with it; what the provider did not send is ``null``."""

    answer: Answer
    diagnostics: Raw = Raw(b"null")
    context_management: Raw = Raw(b"null")
    input_transformations: Raw = Raw(b"null")
    stop_details: Raw = Raw(b"null")


Watcher = Callable[[Piece], None]


class Client(Protocol):
    """Someone who answers; errors are of `sevenfold.errors.ModelError`, each with what was already said."""

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request, wait for the whole answer."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class AsyncClient(Protocol):
    """The same for those who do not wait in line."""

    async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request, wait for the whole answer."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
