"""Ports: what the engine may ask of the outside world.

Each protocol here is one thing the engine needs and does not do itself. All implementations of a port pass the same
contract tests. Implementations that keep everything in memory are included, so that programs built on the engine
can test with them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    """The session that a log belongs to."""

    session: str = field(default="", name="sessionId")
    folder: str = field(default="", name="cwd")
    """The working directory of the session."""


@runtime_checkable
class Log(Protocol):
    """The records of a session; append-only.

    A position is where a line begins. Positions are ordered, and `read` can start from any of them; otherwise they are
    opaque. Every store counts them in bytes from the beginning, because some records contain positions, which must
    still be correct after a session was exported and imported. Queries search the whole log and return the newest
    first. `sevenfold.stores.log.LineLog` implements them for any store that can search its lines.
    """

    fence: int
    """The fencing number of its lease; 0 if it was not opened for writing."""
    lease_seconds: float
    """How long its lease lasts after an append or `renew`; 0 if it lasts until the log is closed or its process ends.
    """

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Append lines, each ending in a newline, in one write; a crash may leave only the first part of them.

        Returns the position of each line. ``durable`` waits until they would survive a power cut. Raises
        `sevenfold.errors.TranscriptOvertaken` if another writer took over; then nothing was written. After any other
        `sevenfold.errors.TranscriptError` there may be a torn line, which readers skip.
        """

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Lines from a position on, each with its position. A line too long to read is returned as ``b""``."""

    def head(self, count: int) -> Sequence[bytes]:
        """The first ``count`` lines."""

    def upto(self, position: int) -> Log:
        """A read-only log of everything before a position."""

    def boundaries(self, before: int | None = None) -> Iterator[tuple[int, Boundary]]:
        """Boundaries, on any branch."""

    def record(self, uuid: str, before: int | None = None) -> tuple[int, Entry] | None:
        """The record with this id."""

    def decisions(self, kind: type[Made]) -> Iterator[tuple[int, Made]]:
        """Decisions of one kind."""

    def answers(self) -> Iterator[Said]:
        """Answers of models, on any branch."""

    def said(self) -> Iterator[Said]:
        """All records with content, on any branch."""

    def keyed(self, key: str) -> str:
        """The id of the record with this caller's key; empty if there is none."""

    def result(self, call: str) -> Block | None:
        """The result of a tool call."""

    def called(self, call: str) -> bool:
        """Whether any record makes this tool call."""

    def stored(self, reference: str) -> Stored | None:
        """Where the full content of an offloaded result is, by its tool call, its path, or ``result:`` and its name."""

    def decided_at(self, decision: str) -> int | None:
        """The position at which a decision was last made, committed, undone or redone."""

    def mentions(self, text: str) -> bool:
        """Whether any record with content contains this text."""

    def identity(self) -> LogIdentity:
        """The session and its folder, from the newest record that names both."""

    def renew(self) -> None:
        """Extend the lease. Raises `sevenfold.errors.TranscriptOvertaken` if another writer has had it since.

        A lease that has expired is extended too, as long as nobody else has opened the log.
        """

    def close(self) -> None:
        """Release the lease, so that others can write."""


class Results(Protocol):
    """Full tool results that were too large for the context of one session."""

    @property
    def directory(self) -> Path | None:
        """The directory with their files; None if they are not in files."""

    def keep(self, name: str, content: bytes) -> str:
        """Store a result under a name, which may contain any characters; returns the path to show to readers.

        That is a file's path, or ``result:`` and a name without slashes if it is in no file. It is on disk when this
        returns. The same name and content give the same path. Raises `sevenfold.errors.TranscriptError` (full,
        denied…); then nothing was stored.
        """

    def fetch(self, path: str) -> bytes:
        """The content stored under a path that `keep` returned; raises `sevenfold.errors.ResultMissing`."""


class StoredText(Protocol):
    """A text that is replaced as a whole: a session's notes, an agent's state."""

    path: str
    """The path to show to readers; a file's path if there is a file."""

    def read(self) -> str | None:
        """The text, or None if there is none yet."""

    def write(self, text: str) -> None:
        """Replace the text; raises `sevenfold.errors.TranscriptError`, and then the old text is unchanged."""


class Folder(Protocol):
    """Files by name, each replaced as a whole: where memory and an agent's files are kept.

    A name is a relative path with ``/`` that never leads out of the folder. Methods that write raise
    `sevenfold.errors.TranscriptError`; then nothing was changed.
    """

    path: str
    """The path to show to readers; a directory's path if there is a directory."""

    @property
    def directory(self) -> Path | None:
        """The directory with these files under these names; None if there is none."""

    def names(self, below: str = "") -> Sequence[str]:
        """The files in the subfolder ``below``, at any depth, sorted, without symbolic links.

        Folders whose names begin with a dot are skipped, unless ``below`` is one: old versions only accumulate.
        """

    def read(self, name: str, *, most: int = ...) -> bytes | None:
        """A file's content; None if there is no such file or it has more than ``most`` bytes."""

    def write(self, name: str, content: bytes) -> None:
        """Replace a file atomically; it is on disk when this returns."""

    def append(self, name: str, line: bytes) -> None:
        """Append a line to a file; it is on disk when this returns. A torn last line is ended first."""

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""

    def lock(self, *, wait: float = 0.0) -> AbstractContextManager[None]:
        """Hold the folder's lock; raises `sevenfold.errors.TranscriptLocked` after ``wait`` seconds."""

    def dream_lock(self) -> DreamLock:
        """The lock for consolidating the folder's contents."""


class DreamLock(Protocol):
    """Lets one process at a time consolidate memory, and stores when that was last done."""

    def last(self) -> float | None:
        """When memory was last consolidated, in seconds since 1970; None if never."""

    def take(self, now: float) -> bool:
        """Take the lock; False if another process holds it. One that died or sent no heartbeat for an hour loses it."""

    def beat(self, now: float) -> bool:
        """Send a heartbeat; False if another process took over meanwhile, and then nothing more may be written."""

    def finish(self, now: float) -> None:
        """Release the lock after success, with ``now`` as the last time; does nothing if another process took over."""

    def fail(self) -> None:
        """Release the lock after a failure and restore the last time; does nothing if another process took over."""


class StoredIndex(Protocol):
    """The search index over one session; it can be made again from the log at any time, so losing it loses nothing."""

    @property
    def file(self) -> Path | None:
        """The index's own file, which one writer keeps up to date; None if the store keeps a copy of its bytes."""

    def read(self) -> bytes | None:
        """The bytes last stored, or None."""

    def write(self, index: bytes) -> None:
        """Replace the bytes; raises `sevenfold.errors.TranscriptError`."""


class SessionInfo(Struct, frozen=True):
    """A session in a store."""

    name: str
    modified: float
    """Seconds since 1970."""
    size: int
    """Size of its log in bytes."""


class Store(Protocol):
    """Where sessions are kept, with all that belongs to them."""

    tenant: str
    """Whose sessions these are; empty if there is only one tenant. Nothing of another tenant's can be seen here, and
    none of their locks."""

    def open(self, session: str, *, wait: float = 0.0, take: bool = False) -> Log:
        """Open the log of a new or existing session for writing.

        The log holds a lease until it is closed, its process ends, or `Log.lease_seconds` pass without a sign of it; a
        store whose leases expire renews those of living processes itself. Raises `sevenfold.errors.TranscriptLocked` if
        another writer still holds the lease after ``wait`` seconds. With ``take``, this log takes over instead: it gets
        a larger fencing number, and the store refuses what the other writer appends with
        `sevenfold.errors.TranscriptOvertaken`. That is raised here too if yet another writer takes over meanwhile.
        """

    def read(self, session: str) -> Log:
        """Open the log for reading, without a lease; raises `sevenfold.errors.TranscriptMissing`."""

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
        """Open a new or existing kept branch of a session for writing, with its own lease.

        A new one begins with the lines of the session, or of its branch ``of``, up to position ``at`` or else up to its
        current end. Lines appended to one of the two later are not in the other.
        """

    def branches(self, session: str) -> Sequence[str]:
        """The names of a session's kept branches."""

    def transcript(self, session: str, branch: str = "") -> Path | None:
        """The file with the log, or with what a branch adds to it, for tools that read files; None if there is none."""

    def fenced(self, writer: Log) -> Store:
        """The same store for what belongs to a session that is being written.

        Whatever is written through it (results, notes, state, files, memory, mail) is refused with
        `sevenfold.errors.TranscriptOvertaken` once another writer has taken over from ``writer``, a log of this store.
        """

    def results(self, session: str) -> Results:
        """The session's tool results that were too large for the context."""

    def notes(self, session: str, branch: str = "") -> StoredText:
        """The notes of a session, or of one of its branches."""

    def recall_index(self, session: str, branch: str = "") -> StoredIndex:
        """The search index over a session, or over one of its branches."""

    def agent_state(self, session: str) -> StoredText:
        """The state of the session's agent: permissions, to-dos, open files."""

    def agent_files(self, session: str, branch: str = "") -> Folder:
        """The other files of the session's agent, or of a branch's: checkpoints, plan, scratch, output of commands.

        If the folder has a directory, the agent works in it; otherwise in a copy on its machine, and it writes what
        changed back to the folder.
        """

    def memory(self) -> Folder:
        """The folder of the project's memory, which outlives its sessions."""

    def user_memory(self) -> Folder:
        """The folder of the user's memory, which all projects of this user share.

        Only the store in the operating system user's own home has the memory of that user.
        """

    def mailbox(self) -> Mailbox:
        """The mailbox shared by all agents of the store."""

    def lock(self, name: str, *, wait: float = 0.0) -> AbstractContextManager[None]:
        """Hold a lock shared by all users of the store; raises `sevenfold.errors.TranscriptLocked`."""

    def sessions(self, *, since: float = 0.0, limit: int | None = None) -> Sequence[SessionInfo]:
        """The sessions that were modified at ``since`` or later, newest first; at most ``limit``."""

    def export(self, session: str) -> Iterator[bytes]:
        """The log as JSONL, line by line; `import_` restores the same lines at the same positions."""

    def import_(self, session: str, lines: Iterable[bytes]) -> None:
        """Create a session from exported lines; raises `sevenfold.errors.InputError` if it already exists."""

    def erase(self, session: str) -> None:
        """Remove a session with its branches and all that belongs to it, for good.

        Raises `sevenfold.errors.TranscriptLocked` while it, or one of its branches, is open for writing, and
        `sevenfold.errors.TranscriptMissing` if there is nothing of it.
        """

    def close(self) -> None:
        """Give back connections and files; the store is not used afterwards."""


class AgentMessage(Struct, frozen=True, omit_defaults=True):
    """A message from one agent to another."""

    id: str
    """Chosen by the sender: the same id from the same sender means the same message."""
    sender: str
    """The sender according to the channel it came through; never what the text claims."""
    to: str
    """The id of the recipient."""
    text: str
    summary: str = ""
    """A few words, for display."""
    kind: str = "message"
    """``message``, or what it requests in addition to being read."""
    approve: bool | None = None
    """The answer, if it is a response to a request."""
    at: float = 0.0
    """When it was sent, in seconds since 1970."""
    due: float = 0.0
    """The time before which it must not be delivered."""


MOST_MESSAGES_WAITING = 1_000
"""How many messages may wait for one recipient, in every mailbox."""
MOST_MESSAGES_AT_ONCE = 100
"""How many waiting messages a mailbox returns at once, unless asked otherwise."""


class Mailbox(Protocol):
    """Messages on their way to agents, which may be in other processes.

    A recipient writes waiting messages to its log, under ids that the log recognises, and only then acknowledges them:
    so a message is in the log exactly once, no matter which side is killed when. Methods raise
    `sevenfold.errors.TranscriptError`; then nothing was changed.
    """

    def send(self, message: AgentMessage) -> Literal["queued", "delivered", "refused"]:
        """Queue a message, unless it was sent before; once this returns, it survives the end of any process.

        Returns ``delivered`` if it was sent before and has arrived, ``refused`` if `MOST_MESSAGES_WAITING` wait for the
        recipient.
        """

    def waiting(self, recipient: str, most: int = MOST_MESSAGES_AT_ONCE) -> Sequence[AgentMessage]:
        """The oldest messages that the recipient has not acknowledged, in the order they were sent."""

    def acknowledge(self, messages: Iterable[AgentMessage]) -> None:
        """Mark messages as arrived, so that they are not returned again."""

    def close(self) -> None:
        """Close the underlying file."""


class FoundRecord(Struct, frozen=True):
    """A record that recall found."""

    uuid: str
    exact: bool
    """Whether it contains the exact text of the query."""


class Recall(Protocol):
    """Searches for content that has left the context."""

    def catch_up(self) -> None:
        """Index everything that was said up to now."""

    def follow(self, written: int) -> None:
        """Index new content in the background; never blocks and never raises.

        ``written`` is how many bytes were written since the session was opened, which shows how much is new.
        """

    def found(self, query: str, kinds: Sequence[str], most: int) -> Sequence[FoundRecord]:
        """The ``most`` records of these kinds that match best."""


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Seconds since 1970."""


class Ids(Protocol):
    """Generates unique ids."""

    def new(self) -> str:
        """A new UUID as text."""


CONTENT_SECONDS = 900.0
"""A model that thinks for long and shows nothing of it sends only pings meanwhile, so this has to be long."""


class Thread(Struct, frozen=True):
    """What a request says about the history that the provider holds; by default it begins one."""

    previous: str = ""
    """The id of the answer that it continues; empty if it begins a thread, with the whole conversation."""
    covered: int = 0
    """How many of the body's messages the provider holds already."""


class Inherited(Struct, frozen=True):
    """What a call for another program's conversation takes over from that program's own requests."""

    headers: Mapping[str, str] = {}
    fields: Mapping[str, Raw] = {}
    """Fields of the body, as the API has them."""


class Call(Struct, frozen=True):
    """A request to a model, ready to be sent."""

    body: bytes
    """The complete JSON of the request: what is hashed, logged and sent."""
    betas: tuple[str, ...] = ()
    source: str = "main"
    """The query source: the main thread, a compaction, notes…"""
    cache_key: str = ""
    """The same for all requests that share a prefix, so that a provider can route them to one cache. It is not part
    of the prompt, and is empty for a request that shares nothing."""
    content_seconds: float = CONTENT_SECONDS
    """After how many seconds without content an answer is given up, however alive its connection is."""
    name: str = ""
    """Names the call for a broker in between: the record of its request in the session's log; empty without one."""
    recorded: str = ""
    """The name of the session's last call whose answer is in the log; a broker keeps that answer no longer."""
    retries: int | None = None
    """How often the client itself may send it again, without a word to the user; None: as the client is set up."""
    thread: Thread | None = None
    """The history that the provider is to hold, or holds; None if it is to hold nothing."""
    inherited: Inherited | None = None
    """What it takes over from another program's requests; None for a call of a session of our own."""


class Piece(Struct, frozen=True):
    """A part of an answer while it streams: for display, never for the log."""

    kind: str
    """text, thinking, tool (the tool's name) or input (a part of its JSON)"""
    words: str


class Reply(Struct, frozen=True):
    """A complete answer and what came with it; fields the provider did not send are ``null``."""

    answer: Answer
    diagnostics: Raw = Raw(b"null")
    input_transformations: Raw = Raw(b"null")
    stop_details: Raw = Raw(b"null")


Watcher = Callable[[Piece], None]


@runtime_checkable
class HeadWatcher(Protocol):
    """A watcher that also receives the head of an answer, with the usage reported so far."""

    def begin(self, head: Answer) -> None:
        """Receive the head, before the first piece."""


@runtime_checkable
class ArrivalWatcher(Protocol):
    """A watcher that is also told that something arrived, even if no piece came of it."""

    def arrived(self) -> None:
        """Take note that the server is still there."""


class Client(Protocol):
    """Asks a model; raises `sevenfold.errors.ModelError`, which carries the part of the answer already received."""

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request and wait for the complete answer."""

    def close(self) -> None:
        """Close all connections."""


class AsyncClient(Protocol):
    """A `Client` for asynchronous programs."""

    async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request and wait for the complete answer."""

    async def close(self) -> None:
        """Close all connections."""


@runtime_checkable
class CountingClient(Protocol):
    """A client whose server can count the tokens of a request without answering it."""

    def count(self, call: Call) -> int | None:
        """The tokens of the request's prompt; None if the server does not say, for whatever reason."""


@runtime_checkable
class AsyncCountingClient(Protocol):
    """A `CountingClient` for asynchronous programs."""

    async def count(self, call: Call) -> int | None:
        """The tokens of the request's prompt; None if the server does not say, for whatever reason."""


def count_with(client: Client | None, call: Call) -> int | None:
    """The tokens of a request's prompt as the client's server counts them; None if it cannot be asked."""
    return client.count(call) if isinstance(client, CountingClient) else None


async def count_with_async(client: AsyncClient | None, call: Call) -> int | None:
    """Like `count_with`, for asynchronous programs."""
    return await client.count(call) if isinstance(client, AsyncCountingClient) else None
