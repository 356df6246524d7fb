"""What checkpoints store in the agent's folder: contents of files by hash, and a journal of what happened to them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from sevenfold.errors import Refused
from sevenfold.stores.files import private_folder, private_opener
from sevenfold.stores.mirror import Mirror

LARGEST_FOLDER = 200 * 1024 * 1024
"""The most bytes of contents that are stored altogether."""

By = Literal["agent", "user", "rewind"]


class FileState(Struct, frozen=True, omit_defaults=True):
    """The content (by hash) and mode of a file at one time."""

    digest: str
    mode: int
    unkept: str = ""
    """Why the content is not stored; then ``digest`` only distinguishes it from other states. Empty if it is stored."""


Tree = Mapping[str, FileState | None]
"""File states by path relative to the workspace; None: the file does not exist."""


class FilesSeen(Struct, frozen=True, tag="seen"):
    """Files that were scanned for the first time."""

    files: Tree
    whole: bool = False
    """Whether all files of the workspace are known from now on."""


class CallBegan(Struct, frozen=True, tag="began"):
    """A call that may change files began."""

    tip: str
    """The newest record of the conversation at that time."""
    at: int
    """The time, in nanoseconds since 1970."""


class CallsEnded(Struct, frozen=True, tag="ended"):
    """The last running call that may change files has ended."""


class FileChange(Struct, frozen=True):
    """The states of one file before and after a change."""

    path: str
    before: FileState | None
    after: FileState | None


class FilesChanged(Struct, frozen=True, tag="changed"):
    """Files were changed, by the agent, the user or a rewind."""

    tip: str
    by: By
    files: tuple[FileChange, ...]


class RestoreBegan(Struct, frozen=True, tag="restoring"):
    """A restore began; the next `FilesChanged` by a rewind ends it."""

    files: tuple[FileChange, ...]


JournalLine = FilesSeen | CallBegan | CallsEnded | FilesChanged | RestoreBegan


class MirroredFolder(Struct, frozen=True):
    """A folder, and what copies it to a store if it is not the store's own."""

    path: Path
    mirror: Mirror | None = None
    check: Callable[[], None] = lambda: None
    """Raises if another writer took over the session; the mirror's store checks that itself."""


class StoredContents:
    """The contents of files, stored by their hash, so that each is stored once."""

    def __init__(self, folder: MirroredFolder) -> None:
        self._folder = folder.path / "contents"
        self._mirror = folder.mirror
        self._stored_bytes: int | None = None
        """The size of all contents; None until it is needed, because it takes a look at each file."""

    def add(self, digest: str, content: bytes) -> bool:
        """Store a content; False if the folder is full."""
        target = self._file(digest)
        if target.exists():
            return True
        if self._stored_bytes is None:
            self._stored_bytes = sum(file.stat().st_size for file in self._folder.glob("*/*"))
        if self._stored_bytes + len(content) > LARGEST_FOLDER:
            return False
        self._stored_bytes += len(content)
        if self._mirror is not None:
            self._mirror.write(target, content)
            return True
        private_folder(target.parent)
        temporary = target.with_name(f".{target.name}.{threading.get_ident()}.tmp")
        with open(temporary, "wb", opener=private_opener) as file:
            file.write(content)
        temporary.replace(target)
        return True

    def read(self, state: FileState | None) -> bytes:
        """The stored content of a file state; raises `Refused` if it is missing or damaged."""
        if state is None:
            return b""
        try:
            content = self._file(state.digest).read_bytes()
        except OSError as error:
            raise Refused(f"its saved content cannot be read: {error}") from error
        if hashlib.sha256(content).hexdigest() != state.digest:
            raise Refused("its saved content was changed: it is damaged, or a secret in it was purged")
        return content

    def _file(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest[2:]


class Journal:
    """What was seen, begun and changed, in chronological order."""

    def __init__(self, folder: MirroredFolder) -> None:
        self._folder = folder
        self._file = folder.path / "journal.jsonl"

    def lines(self) -> Iterator[JournalLine]:
        """Yield all lines; one that a kill cut off, or that is damaged, is skipped.

        Nothing is lost by that: the next scan finds what the line would have recorded.
        """
        try:
            stored = self._file.read_bytes().split(b"\n")
        except OSError:
            return
        for raw in stored:
            try:
                line = msgspec.json.decode(raw, type=JournalLine)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            yield line
        if stored[-1]:
            self._append(b"")  # ends a line that was cut off, so that the next one is a line of its own

    def append(self, line: JournalLine) -> None:
        """Add a line; raises `OSError` or `TranscriptError` if that fails."""
        self._append(msgspec.json.encode(line))

    def _append(self, line: bytes) -> None:
        if self._folder.mirror is not None:
            self._folder.mirror.append(self._file, line)
            return
        self._folder.check()
        private_folder(self._folder.path)
        with open(self._file, "ab", opener=private_opener) as file:
            file.write(line + b"\n")
