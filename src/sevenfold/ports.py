"""What the core may ask of the world.

Each protocol here is one thing the engine needs and does not do itself. Every implementation of a port
passes the same contract suite; the ones that keep everything in memory are shipped, because whoever
builds on the engine tests with them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from msgspec import Raw, Struct, field

from sevenfold.record.blocks import Block
from sevenfold.record.decisions import OwnDecision
from sevenfold.record.entries import Boundary, Entry, Said, Stored
from sevenfold.record.log import Answer

Made = TypeVar("Made", bound=OwnDecision)


class Identity(Struct, frozen=True):
    """Which session a log is of."""

    session: str = field(default="", name="sessionId")
    folder: str = field(default="", name="cwd")
    """The folder it worked in."""


@runtime_checkable
class Log(Protocol):
    """The records of a session, only ever added to.

    A position is where a line begins. Positions are ordered and `read` can start from any of them; otherwise they are
    opaque. Every store counts them in bytes from the beginning, because records hold them and must mean the same
    place after a session was exported and imported. Queries answer with the newest first and search everything up to
    the beginning. `sevenfold.stores.log.LineLog` implements them for any store that can search its lines.
    """

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Write lines (each with its line end) in one go; a crash leaves a first part of them at worst.

        Returns the position of each. ``durable`` waits until they would survive a power cut. Raises
        `sevenfold.errors.TranscriptError`, and then the caller must assume nothing was written.
        """
        ...

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Lines from a position on. One that is too long to be read comes back as ``b""``."""
        ...

    def head(self, count: int) -> Sequence[bytes]:
        """The first lines."""
        ...

    def upto(self, position: int) -> Log:
        """The log as it was when it ended at a position; it cannot be written to."""
        ...

    def boundaries(self, before: int | None = None) -> Iterator[tuple[int, Boundary]]:
        """Compactions, on whatever branch."""
        ...

    def record(self, uuid: str, before: int | None = None) -> tuple[int, Entry] | None:
        """The record with this id."""
        ...

    def decisions(self, kind: type[Made]) -> Iterator[tuple[int, Made]]:
        """Decisions of one kind."""
        ...

    def answers(self) -> Iterator[Said]:
        """What models answered, on whatever branch."""
        ...

    def keyed(self, key: str) -> str:
        """The id of the record that was said under a caller's key; empty if there is none."""
        ...

    def result(self, call: str) -> Block | None:
        """The result of a tool call."""
        ...

    def called(self, call: str) -> bool:
        """Does a model make this tool call?"""
        ...

    def stored(self, reference: str) -> Stored | None:
        """Where the whole of an offloaded result is, by its tool call or its path."""
        ...

    def decided_at(self, decision: str) -> int | None:
        """Where a decision was last made, committed, undone or redone."""
        ...

    def mentions(self, text: str) -> bool:
        """Does anything that was said contain this text?"""
        ...

    def identity(self) -> Identity:
        """The session and its folder, as the newest record that names both has them."""
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
