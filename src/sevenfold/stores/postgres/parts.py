"""What belongs to a session besides its log, and memory: everything that is replaced as a whole.

It lies in areas, which have names like paths. The parts of such a name are quoted, so that none contains a slash.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

from sevenfold.errors import TranscriptError, TranscriptOvertaken
from sevenfold.ports import MOST_MESSAGES_AT_ONCE, MOST_MESSAGES_WAITING, AgentMessage
from sevenfold.record.entries import RESULT
from sevenfold.stores.files import missing_result, result_names
from sevenfold.stores.folder import LARGEST, TextDreamLock, check_name
from sevenfold.stores.objects import SMALLEST, ObjectStorage
from sevenfold.stores.postgres.database import Rows, texts

if TYPE_CHECKING:
    from sevenfold.stores.postgres.store import PostgresStore

_LONGEST_PART = 200
IDS_KEPT = 100_000
"""How many ids of messages to keep, counting back from the newest."""


def area(*parts: str) -> str:
    """The name of an area; a long part is cut, and its hash keeps it apart from others."""
    return "/".join(map(_quoted, parts))


def _quoted(part: str) -> str:
    quoted = quote(part, safe="", errors="surrogatepass").replace("~", "%7E")
    if len(quoted) <= _LONGEST_PART:
        return quoted
    digest = hashlib.sha256(part.encode(errors="surrogatepass")).hexdigest()
    return f"{quoted[: _LONGEST_PART - 80]}~{digest}"


class Area:
    """One area, as a session's writer or anybody else sees it."""

    def __init__(self, store: PostgresStore, name: str) -> None:
        self._store = store
        self.name = name

    def content(self, name: str, most: int = sys.maxsize) -> bytes | None:
        """What is kept under a name."""
        for (content,) in self.rows("content", name=name, most=min(most, (1 << 31) - 1)):
            return bytes(content)
        return None

    def put(self, name: str, content: bytes) -> None:
        """Keep something under a name, in place of what is there."""
        self._store.check(self.change("put", name=name, content=content)[0][0])

    def rows(self, query: str, **values: Any) -> Rows:
        """Run a statement that reads."""
        return self._store.run(query, area=self.name, **values)

    def change(self, query: str, **values: Any) -> Rows:
        """Run a statement that changes the area if the writer has not been overtaken, and may be run twice."""
        return self._store.run(query, area=self.name, **self._store.fencing(), **values)

    def change_once(self, query: str, **values: Any) -> Rows:
        """Run a statement that changes the area, and must not be run twice."""
        return self._store.run_once(query, area=self.name, **self._store.fencing(), **values)


class SessionObjects(Struct, frozen=True):
    """Where the large results of one session are."""

    storage: ObjectStorage
    prefix: str

    def put(self, content: bytes) -> str:
        """Store a result; returns its path."""
        return self.storage.put(self.prefix, content)

    def get(self, path: str) -> bytes:
        """The result at a path."""
        return self.storage.get(path)


class PostgresText:
    """Notes, or the state of an agent; see `sevenfold.ports.StoredText`."""

    def __init__(self, area: Area, path: str) -> None:
        self._area = area
        self.path = path

    def read(self) -> str | None:
        """Return the text, or None if there is none yet."""
        content = self._area.content("")
        return None if content is None else content.decode(errors="replace")

    def write(self, text: str) -> None:
        """Replace the text."""
        self._area.put("", text.encode(errors="replace"))


class PostgresIndex:
    """The bytes of a search index; see `sevenfold.ports.StoredIndex`."""

    file: Path | None = None

    def __init__(self, area: Area) -> None:
        self._area = area

    def read(self) -> bytes | None:
        """Return the bytes last stored, or None."""
        return self._area.content("")

    def write(self, index: bytes) -> None:
        """Replace the bytes."""
        self._area.put("", index)


class PostgresResults:
    """Tool results; see `sevenfold.ports.Results`."""

    directory: Path | None = None

    def __init__(
        self, store: PostgresStore, rows: Area, references: Area, objects: SessionObjects | None
    ) -> None:
        """Results are in ``rows``; large ones in ``objects``, if there are any, with their paths in ``references``."""
        self._store = store
        self._rows = rows
        self._references = references
        self._objects = objects

    def keep(self, name: str, content: bytes) -> str:
        """Store a result; see `sevenfold.ports.Results`."""
        kept = self._rows
        if self._objects is not None and len(content) >= SMALLEST:
            # The row comes after the object, so that no row leads nowhere.
            reference = self._objects.put(content).encode()
            kept = self._references
        else:
            reference = content
        for candidate in result_names(name, content):
            ((allowed, new, same),) = kept.change("keep", name=candidate, content=reference)
            self._store.check(allowed)
            if new or same or kept.content(candidate) == reference:
                return f"{RESULT}{candidate}"
        raise AssertionError("unreachable: two contents share a SHA-256")

    def fetch(self, path: str) -> bytes:
        """Return the result stored under a path; see `sevenfold.ports.Results`."""
        name = path.removeprefix(RESULT)
        if not path.startswith(RESULT) or "\0" in name:
            raise missing_result(path)
        content = self._rows.content(name)
        if content is not None:
            return content
        reference = self._references.content(name)
        if reference is None:
            raise missing_result(path)
        if self._objects is None:
            raise TranscriptError(
                f"{path}: this result is an object outside of the database; open the store with the parameter results "
                "that it was stored with"
            )
        return self._objects.get(reference.decode())


class PostgresFolder:
    """Files by name; see `sevenfold.ports.Folder`."""

    directory: Path | None = None

    def __init__(self, store: PostgresStore, area: Area, path: str) -> None:
        self._store = store
        self._area = area
        self.path = path

    def names(self, below: str = "") -> Sequence[str]:
        """Return the names of the files below a subfolder, at any depth; hidden folders are skipped."""
        start = f"{check_name(below)}/" if below else ""
        above = f"{start[:-1]}0" if below else "\U0010ffff"  # "0" comes after "/"
        names = [name for (name,) in self._area.rows("names", below=start, above=above)]
        return [name for name in names if "/." not in f"/{name[len(start) :].rpartition('/')[0]}"]

    def read(self, name: str, *, most: int = LARGEST) -> bytes | None:
        """Return a file's content, or None if it is missing or larger than ``most`` bytes."""
        return self._area.content(check_name(name), most)

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file."""
        self._area.put(check_name(name), content)

    def append(self, name: str, line: bytes) -> None:
        """Append a line to a file."""
        added = self._area.change_once("add line", name=check_name(name), line=line + b"\n")
        self._store.check(added[0][0])

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        self._store.check(self._area.change("remove", name=check_name(name))[0][0])

    def lock(self, *, wait: float = 0.0) -> AbstractContextManager[None]:
        """Return a context that holds the folder's lock."""
        return self._store.hold(f"folder {self._area.name}", self.path, wait)

    def dream_lock(self) -> TextDreamLock:
        """The lock for consolidating the memory in this folder."""
        return TextDreamLock(self)


class PostgresMailbox:
    """Messages between the agents of a project, in any process; see `sevenfold.ports.Mailbox`."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def send(self, message: AgentMessage) -> Literal["queued", "delivered", "refused"]:
        """Queue a message; see `sevenfold.ports.Mailbox`."""
        sender, name, recipient = texts(message.sender, message.id, message.to)
        while True:
            ((allowed, arrived, room, sequence),) = self._store.run(
                "send",
                sender=sender,
                id=name,
                recipient=recipient,
                body=msgspec.json.encode(message),
                limit=MOST_MESSAGES_WAITING,
                **self._store.fencing(),
            )
            self._store.check(allowed)
            if arrived is not None:
                return "delivered" if arrived else "queued"
            if not room:
                return "refused"
            if sequence is not None:
                if sequence % MOST_MESSAGES_WAITING == 0:
                    self._store.run("forget ids", sequence=sequence - IDS_KEPT)
                return "queued"
            # The same message is being sent twice at the same time; once more, and it is known.

    def waiting(self, recipient: str, most: int = MOST_MESSAGES_AT_ONCE) -> Sequence[AgentMessage]:
        """Return the oldest messages not yet acknowledged."""
        (to,) = texts(recipient)
        bodies = self._store.run("waiting", recipient=to, most=most)
        return [msgspec.json.decode(body, type=AgentMessage) for (body,) in bodies]

    def acknowledge(self, messages: Iterable[AgentMessage]) -> None:
        """Mark messages as arrived and delete their texts."""
        arrived = list(messages)
        if arrived:
            senders = list(texts(*(message.sender for message in arrived)))
            ids = list(texts(*(message.id for message in arrived)))
            ((allowed,),) = self._store.run(
                "acknowledge", senders=senders, ids=ids, **self._store.fencing()
            )
            self._store.check(allowed)

    def close(self) -> None:
        """Do nothing: the connections are the store's."""


def overtaken() -> TranscriptOvertaken:
    """The error for a change by a writer that was overtaken."""
    return TranscriptOvertaken(
        "the session was taken over by another writer; nothing was changed. Open it again to continue from what is "
        "there now"
    )
