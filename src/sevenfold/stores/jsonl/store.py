"""Sessions in a folder: a transcript each, and next to it their results, notes, branches and agent state."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sevenfold.errors import InputError
from sevenfold.ports import SessionInfo
from sevenfold.stores.files import (
    explain,
    is_plain,
    missing_result,
    private_folder,
    result_name,
    result_names,
    safe_name,
    write_whole,
)
from sevenfold.stores.folder import FileFolder
from sevenfold.stores.home import Project, SessionFiles
from sevenfold.stores.jsonl.branch import open_branch
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.jsonl.log import JsonlLog, Sync, scan
from sevenfold.stores.log import LineLog

LARGEST_TEXT = 4 * 1024 * 1024
_READING = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


class FileResults:
    """Tool results in a folder, each in its own file; the folder is made when the first one comes.

    A file is named after its call and its content. Ids and paths come from elsewhere and are never trusted: a name is
    made safe before it is used, and of a path only the last part counts, looked up in this folder and nowhere else.
    Links are not followed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    def keep(self, name: str, content: bytes) -> str:
        """Store a result; see `sevenfold.ports.Results`."""
        private_folder(self.folder)
        for candidate in result_names(name, content):
            path = self.folder / candidate
            before = self._read(path)
            if before is None:
                write_whole(path, content)
            if before is None or before == content:
                return str(path)
        raise AssertionError("unreachable: two contents share a SHA-256")

    def fetch(self, path: str) -> bytes:
        """What was stored under a path; see `sevenfold.ports.Results`."""
        name = result_name(path, self.folder.name)
        content = self._read(self.folder / name) if name else None
        if content is None:
            raise missing_result(path)
        return content

    def _read(self, path: Path) -> bytes | None:
        """A result's bytes; None if there is none, or something else has its name."""
        try:
            handle = os.open(path, _READING)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENOTDIR) or path.is_symlink():
                return None
            raise explain(error, path) from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            return None
        with os.fdopen(handle, "rb") as file:
            return file.read()


class FileText:
    """A text in a file that only its owner can read, replaced as a whole; see `sevenfold.ports.StoredText`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.path = str(path)

    def read(self) -> str | None:
        """The text, or None if there is none yet."""
        try:
            with self._path.open("rb") as file:
                return file.read(LARGEST_TEXT).decode(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise explain(error, self._path) from error

    def write(self, text: str) -> None:
        """Replace the text."""
        private_folder(self._path.parent)
        write_whole(self._path, text.encode(errors="replace"))


class JsonlStore:
    """The sessions of one folder; a `sevenfold.ports.Store`. The folder is made when something is first written."""

    def __init__(self, folder: Path, *, sync: Sync = Sync.DURABLE) -> None:
        self.folder = folder
        self._sync = sync

    def files(self, session: str) -> SessionFiles:
        """Where the session's files are."""
        return SessionFiles(self.folder, safe_name(session))

    def open(self, session: str, *, wait: float = 0.0, take: bool = False) -> JsonlLog:
        """The session's log for writing; see `sevenfold.ports.Store`."""
        private_folder(self.folder)
        return JsonlLog.open(self.files(session).transcript, wait=wait, take=take, sync=self._sync)

    def read(self, session: str) -> JsonlLog:
        """The session's log for reading."""
        log = JsonlLog(self.files(session).transcript)
        log.head(1)  # raises if there is none
        return log

    def branch(
        self, session: str, name: str, *, at: int | None = None, wait: float = 0.0, take: bool = False
    ) -> LineLog:
        """A branch of the session for writing; see `sevenfold.ports.Store`."""
        return open_branch(self.files(session), name, at, wait=wait, take=take, sync=self._sync)

    def branches(self, session: str) -> Sequence[str]:
        """The names of the session's branches, in their safe form."""
        return [path.stem for path in self.files(session).branch_files()]

    def transcript(self, session: str) -> Path | None:
        """The file that holds the session's log."""
        return self.files(session).transcript

    def results(self, session: str) -> FileResults:
        """The session's tool results."""
        return FileResults(self.files(session).results)

    def notes(self, session: str) -> FileText:
        """The session's notes."""
        return FileText(self.files(session).notes)

    def agent_state(self, session: str) -> FileText:
        """The state of the session's agent."""
        return FileText(self.files(session).agent / "state.json")

    def memory(self) -> FileFolder:
        """What outlives the sessions."""
        return FileFolder(Project(self.folder).memory)

    @contextmanager
    def lock(self, name: str, *, wait: float = 0.0) -> Iterator[None]:
        """Hold a lock of that name; see `sevenfold.ports.Store`."""
        private_folder(self.folder)
        lock = FileLock(self.folder / safe_name(name), wait=wait)
        try:
            yield
        finally:
            lock.release()

    def sessions(self) -> Sequence[SessionInfo]:
        """The sessions there are, the newest first."""
        found = Project(self.folder).sessions()
        return [SessionInfo(_name_of(file.path), file.modified, file.size) for file in found]

    def export(self, session: str) -> Iterator[bytes]:
        """The session's lines."""
        return (line.raw for line in scan(self.files(session).transcript, limit=sys.maxsize))

    def import_(self, session: str, lines: Iterable[bytes]) -> None:
        """Fill a new session; see `sevenfold.ports.Store`."""
        log = self.open(session)
        try:
            if log.head(1):
                raise InputError(
                    f"{session}: there is such a session already; import it under another name"
                )
            log.append(list(lines), durable=True)
        finally:
            log.close()


class FileStore(JsonlStore):
    """One session in a file of any name, with its notes in a project's folder."""

    def __init__(self, path: Path, project: Project, *, sync: Sync = Sync.DURABLE) -> None:
        super().__init__(path.parent, sync=sync)
        self._path = path
        self._project = project

    def files(self, session: str) -> SessionFiles:
        """Where the session's files are, whatever it is called."""
        return SessionFiles(self.folder, self._path.stem, self._path)

    def open(self, session: str, *, wait: float = 0.0, take: bool = False) -> JsonlLog:
        """The log for writing; its folder is the user's and stays as it is."""
        return JsonlLog.open(self._path, wait=wait, take=take, sync=self._sync)

    def notes(self, session: str) -> FileText:
        """The session's notes."""
        return FileText(self._project.session(session).notes)

    def memory(self) -> FileFolder:
        """What outlives the project's sessions."""
        return FileFolder(self._project.memory)


def _name_of(transcript: Path) -> str:
    """The session a transcript is of: its file's name, or its id where that could not be one."""
    name = transcript.stem
    if is_plain(name):
        return name
    session = JsonlLog(transcript).identity().session
    return session if safe_name(session) == name else name
