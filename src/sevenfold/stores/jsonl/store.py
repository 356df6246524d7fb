"""Sessions in a folder: a transcript for each, and next to it its results, notes, branches and agent state.

A branch starts with the lines of the transcript, or of another branch, up to a position, and continues in its own
file. The first line of that file is not a record: it stores where the branch starts and a digest of the line before
that position, so that a later rewrite of the transcript is noticed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from hashlib import blake2b
from pathlib import Path
from typing import Self, Unpack

import msgspec
from msgspec import Struct

from sevenfold.errors import InputError, TranscriptError, TranscriptForeign, TranscriptMissing
from sevenfold.ports import Log, SessionInfo
from sevenfold.stores.files import (
    Staged,
    explained,
    is_plain,
    missing_result,
    private_folder,
    result_name,
    result_names,
    safe_name,
    write_whole,
)
from sevenfold.stores.folder import FileFolder, read_regular
from sevenfold.stores.home import Project, SessionFiles, side_file
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.jsonl.log import LINE_LIMIT, JsonlLog, Sync, end_of, line_before, scan
from sevenfold.stores.jsonl.mailbox import SqliteMailbox
from sevenfold.stores.jsonl.removal import files_of, remove
from sevenfold.stores.log import BranchLog, Lease, LineLog, PrefixLog, exists_already

LARGEST_TEXT = 4 * 1024 * 1024


class FileResults:
    """Tool results in a folder, each in its own file; the folder is created with the first result.

    A file is named after its tool call and its content. Ids and paths are untrusted input: a name is made safe before
    it is used, and only the last part of a path is used, looked up in this folder and nowhere else. Links are not
    followed.
    """

    def __init__(self, folder: Path, check: Callable[[], None] | None = None) -> None:
        """``check`` raises if the session's writer was overtaken."""
        self.directory = self.folder = folder.absolute()
        self._check = check

    def keep(self, name: str, content: bytes) -> str:
        """Store a result; see `sevenfold.ports.Results`."""
        private_folder(self.folder)
        for candidate in result_names(name, content):
            path = self.folder / candidate
            stored = read_regular(path)
            if stored is None:
                write_whole(path, content, self._check)
            if stored is None or stored == content:
                return str(path)
        raise AssertionError("unreachable: two contents share a SHA-256")

    def fetch(self, path: str) -> bytes:
        """Return the result stored under a path; see `sevenfold.ports.Results`."""
        name = result_name(path, self.folder.name)
        content = read_regular(self.folder / name) if name else None
        if content is None:
            raise missing_result(path)
        return content


class FileText:
    """A text in a file that only its owner can read, always replaced whole; see `sevenfold.ports.StoredText`."""

    def __init__(self, path: Path, check: Callable[[], None] | None = None) -> None:
        """``check`` raises if the session's writer was overtaken."""
        self._path = path
        self._check = check
        self.path = str(path)

    def read(self) -> str | None:
        """Return the text, or None if there is none yet."""
        with explained(self._path), suppress(FileNotFoundError), self._path.open("rb") as file:
            return file.read(LARGEST_TEXT).decode(errors="replace")
        return None

    def write(self, text: str) -> None:
        """Replace the text."""
        private_folder(self._path.parent)
        write_whole(self._path, text.encode(errors="replace"), self._check)


class FileIndex:
    """The database of a recall index, in a file; see `sevenfold.ports.StoredIndex`."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> bytes | None:
        """Return the file's bytes, or None if there is none."""
        return read_regular(self.file)

    def write(self, index: bytes) -> None:
        """Replace the file."""
        private_folder(self.file.parent)
        write_whole(self.file, index)


# -- branches --------------------------------------------------------------------------------------


class BranchPoint(Struct, frozen=True, tag="branch", tag_field="type", omit_defaults=True):
    """The point at which a branch leaves the transcript or another branch."""

    start: int
    """The position of the branch's first line."""
    after: str
    """A digest of the line before that position."""
    of: str = ""
    """The parent branch; empty for the transcript."""

    @classmethod
    def at(cls, position: int, line: bytes, of: str = "") -> BranchPoint:
        """Create the point at a position, given the line that ends there."""
        return cls(position, blake2b(line.rstrip(b"\n"), digest_size=16).hexdigest(), of)

    @classmethod
    def read(cls, path: Path) -> tuple[BranchPoint, int]:
        """Read the point from the first line of a branch's file; also return that line's length in bytes."""
        header = next(scan(path)).raw
        try:
            return msgspec.json.decode(header, type=cls), len(header)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TranscriptForeign(f"{path}: this is not a branch of a session ({error})") from error

    def header(self) -> bytes:
        """Return the first line of the branch's file."""
        return msgspec.json.encode(self) + b"\n"

    def base(self, files: SessionFiles, limit: int = LINE_LIMIT) -> PrefixLog:
        """Return the lines before the branch, as a read-only log."""
        if self.of:
            return read_branch(files, files.branch(self.of), limit).upto(self.start)
        return JsonlLog(files.transcript, limit=limit).upto(self.start)

    def fits(self, files: SessionFiles) -> bool:
        """Whether the lines before the branch are still the same, here and in its parent branches."""
        line = line_before(*_place(files, self.of, self.start))
        if line is None or BranchPoint.at(self.start, line, self.of) != self:
            return False
        return not self.of or BranchPoint.read(files.branch(self.of))[0].fits(files)

    def depth(self, files: SessionFiles) -> int:
        """Return the number of parent branches between this one and the transcript."""
        return 1 + BranchPoint.read(files.branch(self.of))[0].depth(files) if self.of else 0


def read_branch(files: SessionFiles, path: Path, limit: int = LINE_LIMIT) -> LineLog:
    """Open a branch for reading, by its file."""
    point, header = BranchPoint.read(path)
    return _joined(files, point, JsonlLog(path, limit=limit, start=point.start, header=header), limit)


def _begin(files: SessionFiles, path: Path, of: str, at: int | None) -> None:
    parent = files.transcript
    start = header = 0
    if of:
        parent = files.branch(of)
        point, header = BranchPoint.read(parent)
        start = point.start
    if at is None:
        size, torn = end_of(parent)
        at = size + torn - header + start
    line = line_before(*_place(files, of, at))
    if line is None:
        raise InputError(f"{parent}: a branch cannot begin at {at:,}, where no line ends")
    private_folder(path.parent)
    write_whole(path, BranchPoint.at(at, line, of).header())


def _short_enough(lines: Iterable[bytes], path: Path) -> Iterator[bytes]:
    """Yield the lines; raises `TranscriptError` for one that could not be read again."""
    for line in lines:
        if len(line) > LINE_LIMIT:
            raise TranscriptError(
                f"{path}: a record of {len(line):,} bytes is over the limit of {LINE_LIMIT:,}; nothing was written"
            )
        yield line


def _place(files: SessionFiles, of: str, position: int) -> tuple[Path, int]:
    """Find the file whose line ends at a position of a branch or the transcript; return it and the file offset."""
    while of:
        path = files.branch(of)
        point, header = BranchPoint.read(path)
        if position > point.start:
            return path, position - point.start + header
        of = point.of
    return files.transcript, position


def _joined(
    files: SessionFiles, point: BranchPoint, continuation: LineLog, limit: int = LINE_LIMIT
) -> LineLog:
    if not point.fits(files):
        raise TranscriptError(
            f"{files.transcript}: it is not what its branch began with; if a purge was interrupted, run it again"
        )
    return BranchLog(point.base(files, limit), continuation, point.start)


# -- the store -------------------------------------------------------------------------------------


class JsonlStore:
    """The sessions of one folder; a `sevenfold.ports.Store`. The folder is created on the first write."""

    def __init__(
        self,
        folder: Path,
        *,
        sync: Sync = Sync.DURABLE,
        project: Project | None = None,
        user_memory: Path | None = None,
        tenant: str = "",
    ) -> None:
        """``project`` is where notes, memory and mailbox are kept; by default in the same folder.

        ``user_memory`` is the folder of the user's memory; by default one in the project's folder. With a ``tenant``,
        everything is kept in a folder of that tenant's below ``folder``.
        """
        self.tenant = tenant
        self.folder = Project(folder).of_tenant(tenant).folder if tenant else folder
        self._sync = sync
        self._project = project or Project(self.folder)
        self._user_memory = user_memory or self._project.user_memory
        self._check: Callable[[], None] | None = None
        """Raises if the writer that this store is fenced by was overtaken."""

    def files(self, session: str) -> SessionFiles:
        """Return the paths of the session's files."""
        return SessionFiles(self.folder, safe_name(session))

    def open(self, session: str, **lease: Unpack[Lease]) -> JsonlLog:
        """Open the session's log for writing; see `sevenfold.ports.Store`."""
        private_folder(self.folder)
        return JsonlLog.open(self.files(session).transcript, sync=self._sync, **lease)

    def fenced(self, writer: Log) -> Self:
        """Return a store whose writes are refused once the writer was overtaken; see `sevenfold.ports.Store`.

        That is checked right before a file is replaced: between the check and the renaming remain microseconds.
        """
        fenced = copy(self)
        fenced._check = writer.renew
        return fenced

    def read(self, session: str) -> JsonlLog:
        """Open the session's log for reading; raises `TranscriptMissing` if there is none."""
        log = JsonlLog(self.files(session).transcript)
        log.head(1)  # raises if there is none
        return log

    def branch(
        self, session: str, name: str, *, of: str = "", at: int | None = None, **lease: Unpack[Lease]
    ) -> LineLog:
        """Open a branch of the session for writing; see `sevenfold.ports.Store`."""
        files = self.files(session)
        path = files.branch(name)
        if not path.exists():
            _begin(files, path, of, at)
        point, header = BranchPoint.read(path)
        own = JsonlLog.open(path, sync=self._sync, start=point.start, header=header, **lease)
        try:
            return _joined(files, point, own)
        except BaseException:
            own.close()
            raise

    def branches(self, session: str) -> Sequence[str]:
        """Return the names of the session's branches, in their safe form."""
        return [path.stem for path in self.files(session).branch_files()]

    def transcript(self, session: str, branch: str = "") -> Path | None:
        """Return the path of the session's transcript, or of a branch's file."""
        files = self.files(session)
        return files.branch(branch) if branch else files.transcript

    def results(self, session: str) -> FileResults:
        """The session's tool results."""
        return FileResults(self.files(session).results, self._check)

    def notes(self, session: str, branch: str = "") -> FileText:
        """The notes of the session, or of a branch."""
        if branch:
            return FileText(self.files(session).branch_notes(branch), self._check)
        return FileText(self._project.session(session).notes, self._check)

    def recall_index(self, session: str, branch: str = "") -> FileIndex:
        """The search index of the session, or of a branch."""
        files = self.files(session)
        return FileIndex(files.branch_index(branch) if branch else side_file(files.transcript))

    def agent_state(self, session: str) -> FileText:
        """The state of the session's agent."""
        return FileText(self.files(session).agent / "state.json", self._check)

    def agent_files(self, session: str, branch: str = "") -> FileFolder:
        """The files of the session's agent, or of a branch's; see `sevenfold.ports.Store`."""
        folder = self.files(session).agent
        return FileFolder(folder / "branches" / safe_name(branch) if branch else folder, self._check)

    def memory(self) -> FileFolder:
        """The memory that outlives the sessions."""
        return FileFolder(self._project.memory, self._check)

    def user_memory(self) -> FileFolder:
        """The user's memory, for all projects."""
        return FileFolder(self._user_memory, self._check)

    def mailbox(self) -> SqliteMailbox:
        """The mailbox shared by the agents of this folder, in any process."""
        forced = self._sync is Sync.ALWAYS
        return SqliteMailbox(self._project.mailbox, forced=forced, check=self._check)

    @contextmanager
    def lock(self, name: str, *, wait: float = 0.0) -> Iterator[None]:
        """Hold the lock of that name during the block; see `sevenfold.ports.Store`."""
        private_folder(self.folder)
        with FileLock(self.folder / safe_name(name), wait=wait):
            yield

    def sessions(self, *, since: float = 0.0, limit: int | None = None) -> Sequence[SessionInfo]:
        """Return the sessions modified at ``since`` or later, newest first; at most ``limit``."""
        transcripts = [file for file in Project(self.folder).sessions() if file.modified >= since]
        return [SessionInfo(_name_of(file.path), file.modified, file.size) for file in transcripts[:limit]]

    def export(self, session: str) -> Iterator[bytes]:
        """Yield the session's lines."""
        return (line.raw for line in scan(self.files(session).transcript, limit=sys.maxsize))

    def import_(self, session: str, lines: Iterable[bytes]) -> None:
        """Create a session from these lines; see `sevenfold.ports.Store`."""
        private_folder(self.folder)
        path = self.files(session).transcript
        with FileLock(path) as lock:
            if path.exists() and path.stat().st_size:
                raise exists_already(session)
            # It gets its name when it is whole: a kill must not leave half a session.
            with Staged(path, _short_enough(lines, path)) as staged:
                staged.commit(lock.check)

    def erase(self, session: str) -> None:
        """Remove all files of the session; see `sevenfold.ports.Store`."""
        files = self.files(session)
        notes = self._project.session(session).notes
        if not files_of(files) and not notes.is_file():
            raise TranscriptMissing(f"{files.transcript}: there is no such session; check its name")
        remove(files, notes=notes)

    def close(self) -> None:
        """Do nothing: no file stays open."""


class FileStore(JsonlStore):
    """One session in a file of any name, with its notes in the project's folder."""

    def __init__(
        self,
        path: Path,
        project: Project,
        *,
        sync: Sync = Sync.DURABLE,
        user_memory: Path | None = None,
    ) -> None:
        super().__init__(path.parent, sync=sync, project=project, user_memory=user_memory)
        self._path = path

    def files(self, session: str) -> SessionFiles:
        """Return the paths of the session's files; its name is ignored."""
        return SessionFiles(self.folder, self._path.stem, self._path)

    def open(self, session: str, **lease: Unpack[Lease]) -> JsonlLog:
        """Open the log for writing; its folder is the user's own, so it may also be a link."""
        return JsonlLog.open(self._path, sync=self._sync, **lease)


def _name_of(transcript: Path) -> str:
    """Return the session of a transcript: its file name, or its id if that cannot be a file name."""
    name = transcript.stem
    if is_plain(name):
        return name
    session = JsonlLog(transcript).identity().session
    return session if safe_name(session) == name else name
