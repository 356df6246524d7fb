"""Layout of the files on disk.

    <root>/                             $SEVENFOLD_HOME, or ~/.sevenfold
        purged.jsonl                    what was purged, and when
        chat-history.jsonl              the user's input in the chat
        telemetry.jsonl                 telemetry events, if switched on, with the previous file
        orders.key                      what the user's orders to running sessions are sealed with
        models.json                     the model lists of servers, as last fetched
        memory/                         memory for all projects
        projects/<project>/             one folder for each folder a session worked in
            <session>.jsonl             a transcript, with its lock and its index
            tool-results/<session>/     results that were too big for the context
            session-memory/<session>.md the notes
            branches/<session>/         kept branches: the lines of saved forks, and their notes
            agents/<session>/           an agent's files: its state, its plan, command output, scratch files
            memory/                     the project's memory
            mailbox.sqlite              messages between agents that are not delivered yet

Names are derived from ids and paths so that no two of them share a file. Looking something up here creates nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path, PureWindowsPath

from msgspec import Struct

from sevenfold.errors import InputError, SettingError
from sevenfold.stores.files import explained, is_temporary, safe_name
from sevenfold.stores.trust import HOME_VARIABLE

_RESULTS = "tool-results"
_NOTES = "session-memory"
_AGENTS = "agents"
_BRANCHES = "branches"
_MEMORY = "memory"
_TENANTS = "tenants"
_TRANSCRIPT = ".jsonl"
_LOCK = ".lock"
MAILBOX = "mailbox.sqlite"
INDEX = ".recall.sqlite"
"""The suffix of a transcript's recall index; its SQLite journal adds to it."""


class TranscriptFile(Struct, frozen=True):
    """An existing transcript."""

    path: Path
    modified: float
    """In seconds since 1970."""
    size: int
    """In bytes."""


class BranchName(Struct, frozen=True):
    """Which branch a file holds."""

    session: str
    """The safe form of the session's id."""
    name: str


def branch_of(file: Path) -> BranchName | None:
    """The branch that a file holds, by its folder; None if the file is not a branch's."""
    is_branch = file.suffix == _TRANSCRIPT and file.parent.parent.name == _BRANCHES
    return BranchName(file.parent.name, file.stem) if is_branch else None


class SessionFiles(Struct, frozen=True):
    """The paths of one session's files; ``name`` is the safe form of its id."""

    folder: Path
    name: str
    file: Path | None = None
    """The transcript, if it is not named after the session."""

    @property
    def transcript(self) -> Path:
        """The transcript."""
        return self.file or self.folder / f"{self.name}{_TRANSCRIPT}"

    @property
    def branches(self) -> Path:
        """The folder with its branches."""
        return self.folder / _BRANCHES / self.name

    def branch(self, name: str) -> Path:
        """Return the file of one of its branches."""
        return self.branches / f"{safe_name(name)}{_TRANSCRIPT}"

    def branch_notes(self, name: str) -> Path:
        """Return the file with the notes of one of its branches."""
        return self.branches / f"{safe_name(name)}.md"

    def branch_index(self, name: str) -> Path:
        """Return the recall index of one of its branches."""
        return self.branches / f"{safe_name(name)}{INDEX}"

    def branch_files(self) -> list[Path]:
        """Return the files of its existing branches."""
        return [path for path in _files(self.branches) if path.suffix == _TRANSCRIPT]

    @property
    def results(self) -> Path:
        """The folder with its offloaded tool results."""
        return self.folder / _RESULTS / self.name

    @property
    def notes(self) -> Path:
        """The file with its running notes."""
        return self.folder / _NOTES / f"{self.name}.md"

    @property
    def agent(self) -> Path:
        """The folder with the files its agent needs to continue."""
        return self.folder / _AGENTS / self.name

    def texts(self) -> list[Path]:
        """Return all files that may contain parts of the conversation."""
        there = [path for path in (self.transcript, self.notes) if path.is_file()]
        notes = [path for path in _files(self.branches) if path.suffix == ".md"]
        return [*there, *self.branch_files(), *notes, *self.stored_results(), *self.agent_files()]

    def indexes(self) -> list[Path]:
        """Return the recall indexes; they contain text of the transcript and can be rebuilt from it."""
        indexes = [path for path in _files(self.folder) if path.name.startswith(f"{self.name}{INDEX}")]
        return [*indexes, *filter(is_index, _files(self.branches))]

    def agent_files(self) -> list[Path]:
        """Return the files in the agent's folder, at any depth."""
        return _below(self.agent)

    def stored_results(self) -> list[Path]:
        """Return the stored tool results, including temporary files of unfinished writes."""
        return _files(self.results)

    def unfinished(self) -> list[Path]:
        """Return the temporary files that interrupted writes left in the session's own folders."""
        return [path for path in (*self.stored_results(), *_files(self.branches)) if is_temporary(path)]


class Project:
    """The stored data of one project, that is, of one folder in which sessions work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.memory = folder / _MEMORY
        """The folder with its memory, which outlives its sessions."""
        self.user_memory = folder / "user-memory"
        """The folder with the user's memory, if this is not a project of the user's home."""
        self.mailbox = folder / MAILBOX
        """The file with the messages between its agents."""

    def of_tenant(self, tenant: str) -> Project:
        """Return the data of one tenant, of several that share the folder."""
        return Project(self.folder / _TENANTS / safe_name(tenant))

    def session(self, session: str) -> SessionFiles:
        """Return the paths of a session's files, by its id."""
        return SessionFiles(self.folder, safe_name(session))

    def sessions(self) -> list[TranscriptFile]:
        """Return the existing transcripts, newest first."""
        transcripts = []
        for path in _files(self.folder):
            if path.suffix == _TRANSCRIPT:
                state = path.stat()
                transcripts.append(TranscriptFile(path, state.st_mtime, state.st_size))
        return sorted(transcripts, key=lambda file: (-file.modified, file.path.name))

    def all_sessions(self) -> list[SessionFiles]:
        """Return every session that still has any file, sorted by name."""
        names = {file.path.name.removesuffix(_TRANSCRIPT) for file in self.sessions()}
        for folder in (_RESULTS, _AGENTS, _BRANCHES):
            names |= {path.name for path in _entries(self.folder / folder) if path.is_dir()}
        names |= {path.stem for path in _files(self.folder / _NOTES) if path.suffix == ".md"}
        return [SessionFiles(self.folder, name) for name in sorted(names)]

    def other_texts(self) -> list[Path]:
        """Return the text files that belong to no single session: memory, and leftovers of unfinished writes."""
        of_sessions = set(chain.from_iterable(session.texts() for session in self.all_sessions()))
        files = [path for path in _below(self.folder) if path.suffix != _LOCK and not is_index(path)]
        return [path for path in files if path not in of_sessions]

    def lost_indexes(self) -> list[Path]:
        """Return the indexes whose transcript no longer exists."""
        names = {file.path.name.removesuffix(_TRANSCRIPT) for file in self.sessions()}
        indexes = filter(is_index, _files(self.folder))
        return [path for path in indexes if path.name.partition(INDEX)[0] not in names]


class Home:
    """All data that Sevenfold keeps for a user."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.memory = root / _MEMORY
        """The folder with the user's memory for all projects."""
        self.journal = root / "purged.jsonl"
        """The file that lists what was purged."""
        self.typed = root / "chat-history.jsonl"
        """The user's input in the chat."""
        self.telemetry = root / "telemetry.jsonl"
        """The default file for telemetry events."""
        self.models = root / "models.json"
        """The model lists of servers, as last fetched."""

    def project(self, folder: Path) -> Project:
        """Return the data of one folder; all paths that lead to the same folder give the same project."""
        named = str(folder)
        # A transcript from another system may name a folder that is no path on this one, so it is not resolved.
        foreign = PureWindowsPath(named).is_absolute() or named.startswith("/")
        try:
            real = named if foreign and not folder.is_absolute() else str(folder.expanduser().resolve())
        except (OSError, RuntimeError) as error:  # circular links, a name that is too long, no such user
            why = getattr(error, "strerror", None) or error
            raise InputError(f"{folder}: this folder cannot be followed ({why}); name another") from error
        readable = re.sub(r"[^A-Za-z0-9_-]+", "-", real)[-40:].strip("-")
        digest = hashlib.sha256(real.encode(errors="surrogateescape")).hexdigest()[:16]
        return Project(self.root / "projects" / f"{readable or 'root'}.{digest}")

    def projects(self) -> list[Project]:
        """Return the projects that have data, sorted by folder name."""
        return [Project(path) for path in _entries(self.root / "projects") if path.is_dir()]

    def common_texts(self) -> list[Path]:
        """Return the text files that belong to no single project."""
        own_files = (self.typed.name, self.telemetry.name)
        files = (path for path in _files(self.root) if path.suffix != _LOCK)
        # This includes rotated and unfinished versions of these files; everything else there is the user's own.
        return [path for path in files if path.name.removeprefix(".").startswith(own_files)]

    def texts(self) -> Iterator[Path]:
        """Yield every file kept here that may contain parts of a conversation, in a fixed order."""
        yield from self.common_texts()
        for project in self.projects():
            for session in project.all_sessions():
                yield from session.texts()
            yield from project.other_texts()


def side_file(transcript: Path) -> Path:
    """Return the path of a transcript's recall index."""
    return transcript.with_name(transcript.stem + INDEX)


def is_index(path: Path) -> bool:
    """Whether this is a transcript's recall index or the index's journal."""
    return INDEX in path.name


def user_home(environ: Mapping[str, str] | None = None) -> Home:
    """Return the home that ``environ`` names, by default the process's own environment."""
    environ = os.environ if environ is None else environ
    try:
        return Home(Path(environ.get(HOME_VARIABLE) or "~/.sevenfold").expanduser().absolute())
    except RuntimeError as error:
        raise SettingError(f"there is no home folder to keep sessions in; set {HOME_VARIABLE}") from error


def _files(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.is_file() and not path.is_symlink()]


def _below(folder: Path) -> list[Path]:
    """Return the regular files below a folder, at any depth."""
    paths = folder.rglob("*") if folder.is_dir() else ()
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


def _entries(folder: Path) -> list[Path]:
    with explained(folder), suppress(FileNotFoundError):
        return sorted(folder.iterdir())
    return []
