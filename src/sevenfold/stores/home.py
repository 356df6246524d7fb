"""Where things live on disk.

    <root>/                             $SEVENFOLD_HOME, or ~/.sevenfold
        purged.jsonl                    what was purged, and when
        chat-history.jsonl              what was typed in the chat
        telemetry.jsonl                 events, if that is switched on, and the generation before
        models.json                     the model lists of servers, as of their last answer
        memory/                         what the user wants known in every project
        projects/<project>/             one folder for each folder a session worked in
            <session>.jsonl             a transcript, with its lock and its index
            tool-results/<session>/     results that were too big for the context
            session-memory/<session>.md the notes
            branches/<session>/         what forks of it wrote that are kept
            agents/<session>/           what an agent keeps: its state, its plan, output of commands, scratch
            memory/                     what outlives a session
            mailbox.sqlite              messages between agents that have not arrived yet

Names are made from ids and paths so that two of them never share a file. Looking something up here creates nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
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
_TRANSCRIPT = ".jsonl"
_LOCK = ".lock"
MAILBOX = "mailbox.sqlite"
INDEX = ".recall.sqlite"
"""How the name of a transcript's index ends; that of its journal continues after it."""


class TranscriptFile(Struct, frozen=True):
    """A transcript that is there."""

    path: Path
    modified: float
    """Seconds since 1970."""
    size: int
    """Bytes."""


class SessionFiles(Struct, frozen=True):
    """All that is kept of one session; ``name`` is the safe form of its id."""

    folder: Path
    name: str
    file: Path | None = None
    """The transcript, if it is not called after the session."""

    @property
    def transcript(self) -> Path:
        """Everything that was said and decided."""
        return self.file or self.folder / f"{self.name}{_TRANSCRIPT}"

    @property
    def branches(self) -> Path:
        """The folder of its branches."""
        return self.folder / _BRANCHES / self.name

    def branch(self, name: str) -> Path:
        """The file of one of its branches."""
        return self.branches / f"{safe_name(name)}{_TRANSCRIPT}"

    def branch_files(self) -> list[Path]:
        """The branches that are there."""
        return [path for path in _files(self.branches) if path.suffix == _TRANSCRIPT]

    @property
    def results(self) -> Path:
        """The folder of results that were too big for the context."""
        return self.folder / _RESULTS / self.name

    @property
    def notes(self) -> Path:
        """The running notes."""
        return self.folder / _NOTES / f"{self.name}.md"

    @property
    def agent(self) -> Path:
        """The folder of what an agent needs to continue."""
        return self.folder / _AGENTS / self.name

    def texts(self) -> list[Path]:
        """The files that may hold something of the conversation."""
        there = [path for path in (self.transcript, self.notes) if path.is_file()]
        return [*there, *self.branch_files(), *self.stored_results(), *self.agent_files()]

    def indexes(self) -> list[Path]:
        """What can be made again from the transcript, and holds some of its text until then."""
        found = [path for path in _files(self.folder) if path.name.startswith(f"{self.name}{INDEX}")]
        return [*found, *filter(is_index, _files(self.branches))]

    def agent_files(self) -> list[Path]:
        """What is in that folder, at any depth."""
        return _below(self.agent)

    def stored_results(self) -> list[Path]:
        """The results that are there, and what an unfinished write may have left."""
        return _files(self.results)

    def unfinished(self) -> list[Path]:
        """What writes that were cut off left in the session's own folders."""
        return [path for path in (*self.stored_results(), *_files(self.branches)) if is_temporary(path)]


class Project:
    """The data of one folder in which sessions work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.memory = folder / _MEMORY
        """The folder of what outlives its sessions."""
        self.mailbox = folder / MAILBOX
        """The messages between its agents."""

    def session(self, session: str) -> SessionFiles:
        """The files of a session, by its id."""
        return SessionFiles(self.folder, safe_name(session))

    def sessions(self) -> list[TranscriptFile]:
        """The transcripts that are there, the newest first."""
        found = []
        for path in _files(self.folder):
            if path.suffix == _TRANSCRIPT:
                state = path.stat()
                found.append(TranscriptFile(path, state.st_mtime, state.st_size))
        return sorted(found, key=lambda file: (-file.modified, file.path.name))

    def all_sessions(self) -> list[SessionFiles]:
        """Every session of which anything is left, in order of their names."""
        names = {file.path.name.removesuffix(_TRANSCRIPT) for file in self.sessions()}
        for folder in (_RESULTS, _AGENTS, _BRANCHES):
            names |= {path.name for path in _entries(self.folder / folder) if path.is_dir()}
        names |= {path.stem for path in _files(self.folder / _NOTES) if path.suffix == ".md"}
        return [SessionFiles(self.folder, name) for name in sorted(names)]

    def other_texts(self) -> list[Path]:
        """Texts that belong to no one session: what outlives them, and what an unfinished write may have left."""
        of_sessions = {path for session in self.all_sessions() for path in session.texts()}
        found = [path for path in _below(self.folder) if path.suffix != _LOCK and not is_index(path)]
        return [path for path in found if path not in of_sessions]

    def lost_indexes(self) -> list[Path]:
        """Indexes whose transcript is gone."""
        names = {file.path.name.removesuffix(_TRANSCRIPT) for file in self.sessions()}
        found = filter(is_index, _files(self.folder))
        return [path for path in found if path.name.partition(INDEX)[0] not in names]


class Home:
    """Everything of ours that is kept for a user."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.memory = root / _MEMORY
        """The folder of what the user wants known in every project."""
        self.journal = root / "purged.jsonl"
        """Where it is written down what was purged."""
        self.typed = root / "chat-history.jsonl"
        """What was typed in the chat."""
        self.telemetry = root / "telemetry.jsonl"
        """Where events are written if no other file is named."""
        self.models = root / "models.json"
        """The model lists of servers, as of their last answer."""

    def project(self, folder: Path) -> Project:
        """The data of one folder; whichever way leads to the folder, it is the same."""
        named = str(folder)
        # A place on another system, as transcripts that came from there name it, leads nowhere here.
        foreign = PureWindowsPath(named).is_absolute() or named.startswith("/")
        try:
            real = named if foreign and not folder.is_absolute() else str(folder.expanduser().resolve())
        except (OSError, RuntimeError) as error:  # links in a circle, a name that is too long, no such user
            why = getattr(error, "strerror", None) or error
            raise InputError(f"{folder}: this folder cannot be followed ({why}); name another") from error
        readable = re.sub(r"[^A-Za-z0-9_-]+", "-", real)[-40:].strip("-")
        digest = hashlib.sha256(real.encode(errors="surrogateescape")).hexdigest()[:16]
        return Project(self.root / "projects" / f"{readable or 'root'}.{digest}")

    def projects(self) -> list[Project]:
        """Those that have data, in order of their names."""
        return [Project(path) for path in _entries(self.root / "projects") if path.is_dir()]

    def common_texts(self) -> list[Path]:
        """Texts that belong to no one project."""
        kept = (self.typed.name, self.telemetry.name)
        found = (path for path in _files(self.root) if path.suffix != _LOCK)
        # With them what their writers put aside or left unfinished; all else there is the user's own.
        return [path for path in found if path.name.removeprefix(".").startswith(kept)]

    def texts(self) -> Iterator[Path]:
        """Every file of ours that may hold something of a conversation, in order."""
        yield from self.common_texts()
        for project in self.projects():
            for session in project.all_sessions():
                yield from session.texts()
            yield from project.other_texts()


def side_file(transcript: Path) -> Path:
    """Where the recall index of a transcript is kept."""
    return transcript.with_name(transcript.stem + INDEX)


def is_index(path: Path) -> bool:
    """Is this the index of a transcript, or the index's journal?"""
    return INDEX in path.name


def user_home(environ: Mapping[str, str] | None = None) -> Home:
    """The home the environment names; the process's own environment unless one is given."""
    environ = os.environ if environ is None else environ
    try:
        return Home(Path(environ.get(HOME_VARIABLE) or "~/.sevenfold").expanduser().absolute())
    except RuntimeError as error:
        raise SettingError(f"there is no home folder to keep sessions in; set {HOME_VARIABLE}") from error


def _files(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.is_file() and not path.is_symlink()]


def _below(folder: Path) -> list[Path]:
    """The files at any depth."""
    found = folder.rglob("*") if folder.is_dir() else ()
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def _entries(folder: Path) -> list[Path]:
    with explained(folder), suppress(FileNotFoundError):
        return sorted(folder.iterdir())
    return []
