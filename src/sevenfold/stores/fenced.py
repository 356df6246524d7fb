"""Parts of a store whose writes are refused once another writer has taken over.

They wrap parts that know nothing of writers. Each change is made inside a context that the store supplies: it excludes
a change of writer meanwhile, and raises `sevenfold.errors.TranscriptOvertaken` if there has been one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from sevenfold.ports import AgentMessage, DreamLock, Folder, Mailbox, Results, StoredText
from sevenfold.stores.folder import LARGEST

Writing = Callable[[], AbstractContextManager[None]]
"""Returns the context of one change."""


class FencedText:
    """A `StoredText` that only its writer changes."""

    def __init__(self, text: StoredText, writing: Writing) -> None:
        self._text = text
        self._writing = writing
        self.path = text.path

    def read(self) -> str | None:
        """Return the text, or None if there is none yet."""
        return self._text.read()

    def write(self, text: str) -> None:
        """Replace the text."""
        with self._writing():
            self._text.write(text)


class FencedResults:
    """Results that only their writer adds to."""

    def __init__(self, results: Results, writing: Writing) -> None:
        self._results = results
        self._writing = writing
        self.directory: Path | None = results.directory

    def keep(self, name: str, content: bytes) -> str:
        """Store a result; see `sevenfold.ports.Results`."""
        with self._writing():
            return self._results.keep(name, content)

    def fetch(self, path: str) -> bytes:
        """Return the result stored under a path; see `sevenfold.ports.Results`."""
        return self._results.fetch(path)


class FencedFolder:
    """A `Folder` that only a writer changes; its locks are those of the folder."""

    def __init__(self, folder: Folder, writing: Writing) -> None:
        self._folder = folder
        self._writing = writing
        self.path = folder.path
        self.directory: Path | None = folder.directory

    def names(self, below: str = "") -> Sequence[str]:
        """Return the names of the files below a subfolder."""
        return self._folder.names(below)

    def read(self, name: str, *, most: int = LARGEST) -> bytes | None:
        """Return a file's content, or None if it is missing or larger than ``most`` bytes."""
        return self._folder.read(name, most=most)

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file."""
        with self._writing():
            self._folder.write(name, content)

    def append(self, name: str, line: bytes) -> None:
        """Append a line to a file."""
        with self._writing():
            self._folder.append(name, line)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        with self._writing():
            self._folder.remove(name)

    def lock(self, *, wait: float = 0.0) -> AbstractContextManager[None]:
        """Return a context that holds the folder's lock."""
        return self._folder.lock(wait=wait)

    def dream_lock(self) -> DreamLock:
        """The lock for consolidating the memory in this folder."""
        return self._folder.dream_lock()


class FencedMailbox:
    """A `Mailbox` that only a writer sends from and empties."""

    def __init__(self, mailbox: Mailbox, writing: Writing) -> None:
        self._mailbox = mailbox
        self._writing = writing

    def send(self, message: AgentMessage) -> Literal["queued", "delivered", "refused"]:
        """Queue a message; see `sevenfold.ports.Mailbox`."""
        with self._writing():
            return self._mailbox.send(message)

    def waiting(self, recipient: str, most: int = 100) -> Sequence[AgentMessage]:
        """Return the first messages not yet acknowledged."""
        return self._mailbox.waiting(recipient, most)

    def acknowledge(self, messages: Iterable[AgentMessage]) -> None:
        """Mark messages as arrived."""
        with self._writing():
            self._mailbox.acknowledge(messages)

    def close(self) -> None:
        """Close the mailbox."""
        self._mailbox.close()
