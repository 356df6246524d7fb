"""What the core may ask of the world.

Each protocol here is one thing the engine needs and does not do itself. Every implementation of a port
passes the same contract suite; those that keep everything in memory are shipped, so that programs built on
the engine can test with them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Protocol, TypeVar, runtime_checkable

from msgspec import Raw, Struct, field

from sevenfold.record.blocks import Block
from sevenfold.record.decisions import OwnDecision
from sevenfold.record.entries import Boundary, Entry, Said, Stored
from sevenfold.record.log import Answer

Made = TypeVar("Made", bound=OwnDecision)


class LogIdentity(Struct, frozen=True):
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

    fence: int
    """The number of its lease; 0 if it was not opened for writing."""

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Write lines (each with its line end) in one go; a crash leaves a first part of them at worst.

        Returns the position of each. ``durable`` waits until they would survive a power cut. Raises
        `sevenfold.errors.TranscriptOvertaken` if another writer took over, and nothing was written; any other
        `sevenfold.errors.TranscriptError` leaves at most a torn line, which readers pass over.
        """

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Lines from a position on. One that is too long to be read comes back as ``b""``."""

    def head(self, count: int) -> Sequence[bytes]:
        """The first lines."""

    def upto(self, position: int) -> Log:
        """The log as it was when it ended at a position; it cannot be written to."""

    def boundaries(self, before: int | None = None) -> Iterator[tuple[int, Boundary]]:
        """Compactions, on whatever branch."""

    def record(self, uuid: str, before: int | None = None) -> tuple[int, Entry] | None:
        """The record with this id."""

    def decisions(self, kind: type[Made]) -> Iterator[tuple[int, Made]]:
        """Decisions of one kind."""

    def answers(self) -> Iterator[Said]:
        """What models answered, on whatever branch."""

    def said(self) -> Iterator[Said]:
        """What users, tools and models said, on whatever branch."""

    def keyed(self, key: str) -> str:
        """The id of the record that was said under a caller's key; empty if there is none."""

    def result(self, call: str) -> Block | None:
        """The result of a tool call."""

    def called(self, call: str) -> bool:
        """Does a model make this tool call?"""

    def stored(self, reference: str) -> Stored | None:
        """Where the whole of an offloaded result is, by its tool call or its path."""

    def decided_at(self, decision: str) -> int | None:
        """Where a decision was last made, committed, undone or redone."""

    def mentions(self, text: str) -> bool:
        """Does anything that was said contain this text?"""

    def identity(self) -> LogIdentity:
        """The session and its folder, as the newest record that names both has them."""

    def close(self) -> None:
        """Let others write."""


NO_FILE = "memory/"
"""How the path of a result begins that is in no file, so that no tool can read it."""


class Results(Protocol):
    """Full tool results that were too big for the context; they belong to one session's transcript."""

    def keep(self, name: str, content: bytes) -> str:
        """Store a result under a name that may hold anything; returns the path readers are shown.

        It is on the disk when this returns. The same name and content give the same path again. Raises
        `sevenfold.errors.TranscriptError` (full, denied…) and then has stored nothing.
        """

    def fetch(self, path: str) -> bytes:
        """What was stored under a path that `keep` returned; raises `sevenfold.errors.ResultMissing`."""


class StoredText(Protocol):
    """A text that is replaced as a whole: a session's notes, an agent's state."""

    path: str
    """What readers are shown; a file's path where there is a file."""

    def read(self) -> str | None:
        """The text, or None if there is none yet."""

    def write(self, text: str) -> None:
        """Replace the text; raises `sevenfold.errors.TranscriptError`, and then the old one is still there."""


class Folder(Protocol):
    """Files by name, each replaced as a whole: what memory is kept in.

    A name is a relative path with ``/``; it never leads out of the folder. Methods that write raise
    `sevenfold.errors.TranscriptError` and then have changed nothing.
    """

    path: str
    """What readers are shown; a directory where there is one."""

    def names(self, below: str = "") -> Sequence[str]:
        """The files below a folder of this one, at any depth, sorted; links are not files.

        Folders whose names begin with a dot are passed over, unless ``below`` is one: versions only ever grow.
        """

    def read(self, name: str, *, most: int = ...) -> bytes | None:
        """A file's content; None if there is no such file, or it has more than ``most`` bytes."""

    def write(self, name: str, content: bytes) -> None:
        """Replace a file in one step; it is on the disk when this returns."""

    def append(self, name: str, line: bytes) -> None:
        """Add a line to a file; it is on the disk when this returns. A torn line before it is ended first."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def lock(self, *, wait: float = 0.0) -> AbstractContextManager[None]:
        """Hold the folder's lock; raises `sevenfold.errors.TranscriptLocked` after ``wait`` seconds."""

    def dream_lock(self) -> DreamLock:
        """The lock of those who consolidate what is in the folder."""


class DreamLock(Protocol):
    """Lets one process at a time consolidate memory, and remembers when that was last done."""

    def last(self) -> float | None:
        """When memory was last consolidated, in seconds since 1970; None if never."""

    def take(self, now: float) -> bool:
        """Begin; False if another process is at it. One that died, or gave no sign of life for an hour, is not."""

    def beat(self, now: float) -> bool:
        """Give a sign of life; False if another process took over meanwhile, and then nothing may be written."""

    def finish(self, now: float) -> None:
        """It is done; does nothing if another process took over."""

    def fail(self) -> None:
        """It was not done: the last time is again what it was; does nothing if another process took over."""


class SessionInfo(Struct, frozen=True):
    """A session in a store."""

    name: str
    modified: float
    """Seconds since 1970."""
    size: int
    """Bytes of its log."""


@runtime_checkable
class Store(Protocol):
    """Where sessions are kept."""

    def open(self, session: str, *, wait: float = 0.0, take: bool = False) -> Log:
        """The log of a session, new or continued, for writing.

        The log holds a lease until it is closed or its process ends. Raises
        `sevenfold.errors.TranscriptLocked` if another one has not closed it after ``wait`` seconds. With ``take`` that
        writer is overtaken instead: its fencing number is smaller than that of this log, and the store refuses what it
        appends with `sevenfold.errors.TranscriptOvertaken`.
        """

    def read(self, session: str) -> Log:
        """The log for reading; raises `sevenfold.errors.TranscriptMissing`. Needs no lease."""

    def branch(
        self,
        session: str,
        name: str,
        *,
        of: str = "",
        at: int | None = None,
        wait: float = 0.0,
        take: bool = False,
    ) -> Log:
        """A branch of a session, new or continued, for writing, with a lease of its own.

        A new one begins with the lines of the session, or of its branch ``of``, up to position ``at``, or up to its
        present end; what is appended to either of the two later is not seen by the other.
        """

    def branches(self, session: str) -> Sequence[str]:
        """The names of a session's branches."""

    def transcript(self, session: str, branch: str = "") -> Path | None:
        """The file that holds the log, or what a branch adds to it, for tools that read files; None if no file does."""

    def results(self, session: str) -> Results:
        """The session's tool results that were too big for the context."""

    def notes(self, session: str) -> StoredText:
        """The session's notes."""

    def agent_state(self, session: str) -> StoredText:
        """The state of the session's agent: permissions, to-dos, open files."""

    def lock(self, name: str, *, wait: float = 0.0) -> AbstractContextManager[None]:
        """Hold a lock that all users of the store share; raises `sevenfold.errors.TranscriptLocked`."""

    def sessions(self) -> Sequence[SessionInfo]:
        """The sessions there are, the newest first."""

    def export(self, session: str) -> Iterator[bytes]:
        """The log as JSONL, line by line; what `import_` makes of it has the same lines at the same positions."""

    def import_(self, session: str, lines: Iterable[bytes]) -> None:
        """Make a session of the lines of another; raises `sevenfold.errors.InputError` if there is one already."""


@runtime_checkable
class RemembersStore(Store, Protocol):
    """A store that also keeps what outlives its sessions; without this, sessions in it have no lasting memory."""

    def memory(self) -> Folder:
        """What outlives the sessions."""


class AgentMessage(Struct, frozen=True, omit_defaults=True):
    """What one agent sends to another."""

    id: str
    """Chosen by its sender: the same id from the same sender is the same message."""
    sender: str
    """Whose it is, as the channel it came by knows; never what its text claims."""
    to: str
    """The id of the recipient."""
    text: str
    summary: str = ""
    """A few words, for display."""
    kind: str = "message"
    """``message``, or what it asks for besides being read."""
    approve: bool | None = None
    """The answer of a response."""
    at: float = 0.0
    """When it was sent, in seconds since 1970."""
    due: float = 0.0
    """Not to be delivered before this time."""


class Mailbox(Protocol):
    """Messages on their way to agents, which may be in other processes.

    A recipient writes what is waiting to its log, under ids that the log recognises, and only then acknowledges it: so
    a message is in the log exactly once, whichever side is killed when. Methods raise
    `sevenfold.errors.TranscriptError`, and then have changed nothing.
    """

    def send(self, message: AgentMessage) -> Literal["queued", "delivered", "refused"]:
        """Take a message, unless it was taken before; it survives the end of any process once this returns.

        It is ``delivered`` if it was sent before and has arrived, and ``refused`` if too many wait for the recipient.
        """

    def waiting(self, recipient: str, most: int = ...) -> Sequence[AgentMessage]:
        """The first messages that the recipient has not acknowledged, in the order in which they were sent."""

    def acknowledge(self, messages: Iterable[AgentMessage]) -> None:
        """They have arrived and are not given out again."""

    def close(self) -> None:
        """Let go of the file."""


@runtime_checkable
class RelaysStore(Store, Protocol):
    """A store that also keeps messages between agents; without this, agents in it have no mail."""

    def mailbox(self) -> Mailbox:
        """The mailbox that all agents of the store share."""


class FoundRecord(Struct, frozen=True):
    """A record that recall found."""

    uuid: str
    exact: bool
    """Does it hold what was asked for, to the letter?"""


class Recall(Protocol):
    """Finds again what has left the context."""

    def catch_up(self) -> None:
        """Take in everything that was said up to now."""

    def follow(self, written: int) -> None:
        """Take in what is new while the conversation goes on; never waits and never fails.

        ``written`` is how many bytes were written since the session was opened: it tells how much is new.
        """

    def found(self, query: str, kinds: Sequence[str], most: int) -> Sequence[FoundRecord]:
        """The records that fit best, of these kinds."""


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Seconds since 1970."""


class Ids(Protocol):
    """Gives out unique names."""

    def new(self) -> str:
        """A new UUID as text."""


class Call(Struct, frozen=True):
    """A request to a model, ready to go out."""

    body: bytes
    """The JSON of the request, whole: what is hashed, logged and sent."""
    betas: tuple[str, ...] = ()
    source: str = "main"
    """On whose behalf it is made: the main thread, a compaction, notes…"""
    cache_key: str = ""
    """The same for all requests that share a cache: a provider with many caches sends them to one. No part of the
    prompt, and empty for a request of its own."""


class Piece(Struct, frozen=True):
    """A part of an answer while it is still coming: for display, never for the log."""

    kind: str
    """text, thinking, tool (its name) or input (some of its JSON)"""
    words: str


class Reply(Struct, frozen=True):
    """An answer, whole, and what came with it; what the provider did not send is ``null``."""

    answer: Answer
    diagnostics: Raw = Raw(b"null")
    input_transformations: Raw = Raw(b"null")
    stop_details: Raw = Raw(b"null")


Watcher = Callable[[Piece], None]


@runtime_checkable
class HeadWatcher(Protocol):
    """A watcher that is also given the head of an answer, which has the usage reported so far."""

    def begin(self, head: Answer) -> None:
        """Take the head, before the first piece."""


class Client(Protocol):
    """Asks a model; errors are of `sevenfold.errors.ModelError`, each with what was already said."""

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request, wait for the whole answer."""

    def close(self) -> None:
        """Let go of connections."""


class AsyncClient(Protocol):
    """The same for asynchronous programs."""

    async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request, wait for the whole answer."""

    async def close(self) -> None:
        """Let go of connections."""
