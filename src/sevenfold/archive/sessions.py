"""The sessions on this machine: listing them, and finding the one a name means.

Claude Code, Codex and Sevenfold each keep their sessions in a folder of their own. A session is named by its path, by
its id or the beginning of it, by its title or part of it, or as `last`; every command takes the same names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path

import msgspec
from msgspec import Struct

from sevenfold.archive import databases, stores
from sevenfold.archive.formats import COMPRESSED, first_records, is_session_file
from sevenfold.archive.untrusted import one_line
from sevenfold.errors import InputError, TranscriptForeign, TranscriptMissing, UserError
from sevenfold.ports import LogIdentity
from sevenfold.record import entries
from sevenfold.record.authorship import users_words
from sevenfold.record.decoding import NOT_JSON
from sevenfold.record.entries import Label, Said
from sevenfold.record.log import title_of
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.log import scan

LAST = "last"
"""The name for the newest session of the current folder, or the newest of all if this folder has none."""
MOST_LISTED = 5
"""Sessions that an error message lists."""
HEAD_RECORDS = 200
TAIL_BYTES = 256 * 1024
"""How much of a file's start and end is searched for a title."""
LONGEST_TITLE = 80
Step = Callable[[int], None]
"""Called with the number of sessions looked at so far."""
_TIME_AND_ID = {
    "Codex": re.compile(r"rollout-\d{4}-\d\d-\d\d(?:T\d\d-\d\d-\d\d)?-(.+)"),
    "pi": re.compile(r"[\dT.Z-]+_(.+)"),
}
"""The file names of tools that put the time before the session's id."""


class SessionLabel(Struct, frozen=True):
    """What people recognise a session by."""

    title: str = ""
    """The title, or the user's first words."""
    project: str = ""
    """The folder the session worked in."""


class StoredSession(Struct, frozen=True):
    """A session on disk, of any tool."""

    path: Path
    tool: str
    name: str
    modified: float
    """Seconds since 1970."""
    size: int

    @classmethod
    def of(cls, path: Path, tool: str) -> StoredSession:
        """The session in a file of a tool, which the tool may delete at any moment."""
        try:
            state = path.stat()
        except OSError:
            return cls(path, tool, _name_of(path, tool), 0.0, 0)
        return cls(path, tool, _name_of(path, tool), state.st_mtime, state.st_size)

    label: SessionLabel | None = None
    """The title and project, if they were known without reading the session."""

    def about(self) -> SessionLabel:
        """The session's title and project; reads only the start and end of the file."""
        return self.label or read_label(self.path)


def claude_folder() -> Path:
    """Where Claude Code keeps its sessions."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude").expanduser() / "projects"


def codex_folder() -> Path:
    """Where Codex keeps its sessions."""
    return Path(os.environ.get("CODEX_HOME") or "~/.codex").expanduser() / "sessions"


def codex_archive() -> Path:
    """Where Codex keeps the sessions that its user has archived."""
    return codex_folder().with_name("archived_sessions")


def pi_folder() -> Path:
    """Where pi keeps its sessions."""
    return Path(os.environ.get("PI_CODING_AGENT_DIR") or "~/.pi/agent").expanduser() / "sessions"


def kimi_folder() -> Path:
    """Where Kimi keeps its sessions."""
    return Path(os.environ.get("KIMI_SHARE_DIR") or "~/.kimi").expanduser() / "sessions"


def opencode_database() -> Path:
    """Where opencode keeps its sessions."""
    shared = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    return shared / "opencode" / "opencode.db"


def hermes_database() -> Path:
    """Where Hermes keeps its sessions."""
    return Path(os.environ.get("HERMES_HOME") or "~/.hermes").expanduser() / "state.db"


def places() -> str:
    """The folders and databases that are searched for sessions, in words."""
    folders = [claude_folder(), codex_folder(), pi_folder(), kimi_folder()]
    folders += [opencode_database(), hermes_database()]
    return f"{', '.join(map(str, folders))} or {user_home().root}"


def stored() -> list[StoredSession]:
    """Every session on this machine, the newest first; the files of sub-agents do not count as sessions."""
    sessions: list[StoredSession] = []
    for project in user_home().projects():
        sessions += [StoredSession.of(transcript.path, "Sevenfold") for transcript in project.sessions()]
    for tool, path in _foreign_files():
        if not _is_sub_agents(path, tool):
            sessions.append(StoredSession.of(path, tool))
    sessions.extend(session for session, is_sub_agents in _in_databases() if not is_sub_agents)
    return sorted(sessions, key=lambda session: (-session.modified, str(session.path)))


def _is_sub_agents(path: Path, tool: str) -> bool:
    """Whether a file holds the records of a sub-agent, next to the session that started it or in its folder."""
    return path.name.startswith("agent-") or (tool == "Claude Code" and path.parents[1] != claude_folder())


def everything() -> list[Path]:
    """Every transcript file on this machine, including those of sub-agents and branches."""
    own_files: list[Path] = []
    for project in user_home().projects():
        for session in project.all_sessions():
            own_files += [session.transcript, *session.branch_files()]
    foreign_files = (path for _, path in _foreign_files())
    in_databases = (session.path for session, _ in _in_databases())
    return [*filter(Path.is_file, own_files), *foreign_files, *in_databases]


def _in_databases() -> Iterator[tuple[StoredSession, bool]]:
    """The sessions in databases of other tools, each with whether it is a sub-agent's.

    A database that cannot be read has none: naming it says why.
    """
    for file in (opencode_database(), hermes_database()):
        if not databases.is_database(file):
            continue
        with suppress(UserError):
            tool, conversations = databases.conversations(file)
            for conversation in conversations:
                label = SessionLabel(one_line(conversation.title, LONGEST_TITLE), conversation.folder)
                path = file / conversation.name
                size = 0
                session = StoredSession(path, tool, conversation.name, conversation.modified, size, label)
                yield session, bool(conversation.parent)


def _foreign_files() -> Iterator[tuple[str, Path]]:
    """The session files of other tools, each with the name of its tool."""
    globs = (
        ("Claude Code", claude_folder(), "**/*.jsonl"),
        ("Codex", codex_folder(), "**/*.jsonl*"),
        ("Codex", codex_archive(), "**/*.jsonl*"),
        ("pi", pi_folder(), "**/*.jsonl"),
        ("Kimi", kimi_folder(), "*/*/context.jsonl"),
    )
    for tool, folder, pattern in globs:
        for path in sorted(folder.glob(pattern)):
            if is_session_file(path):
                yield tool, path


def _name_of(path: Path, tool: str) -> str:
    """The session's id, as the name of its file has it."""
    if tool == "Kimi":
        return path.parent.name
    stem = path.name.partition(".jsonl")[0]
    dated = _TIME_AND_ID[tool].fullmatch(stem) if tool in _TIME_AND_ID else None
    return dated[1] if dated else stem


def read_label(path: Path) -> SessionLabel:
    """The title and project of a session, from the start and end of its file; empty if they are not found there."""
    labels: dict[str, str] = {}
    first_words = project = ""
    with suppress(UserError, OSError):
        for raw in first_records(path, HEAD_RECORDS):
            entry = entries.read(raw)
            project = project or _folder(raw)
            if isinstance(entry, Label):
                labels[entry.kind] = entry.text
            elif isinstance(entry, Said) and not entry.sidechain:
                first_words = first_words or users_words(entry)
        if path.suffix == COMPRESSED or databases.holds(path):
            return SessionLabel(one_line(title_of(labels) or first_words, LONGEST_TITLE), project)
        # The tail may start in the middle of a line; such a fragment is never read as a label.
        for line in scan(path, max(0, path.stat().st_size - TAIL_BYTES)):
            if b'title"' in line.raw and isinstance(entry := entries.read(line.raw), Label):
                labels[entry.kind] = entry.text
    return SessionLabel(one_line(title_of(labels) or first_words, LONGEST_TITLE), project)


def _folder(raw: bytes) -> str:
    try:
        return msgspec.json.decode(raw, type=LogIdentity).folder
    except NOT_JSON:
        return ""


# -- names -----------------------------------------------------------------------------------


def find(name: str, looked_at: Step | None = None) -> Path:
    """The file of a session, by path, id, beginning of an id, title, or `last`; a .jsonl path need not exist.

    For a session in a store, by the store's URL, # and its name, that is a copy; see `sevenfold.archive.stores`.
    ``looked_at`` is told how many sessions were looked at, if titles have to be read. Raises `InputError` if several
    match, `TranscriptForeign` for a folder or no name, else `TranscriptMissing`.
    """
    in_store = stores.by_url(name)
    if in_store is not None:
        return stores.copy_of(in_store)
    path = Path(name)
    try:
        if path.is_file() or databases.is_database(path.parent):
            return path
        if not name.strip() or path.is_dir():
            problem = f"{name}: this is a directory" if name.strip() else "the name of the session is empty"
            raise TranscriptForeign(f"{problem}; give the path of a transcript, or a session's id or title")
        transcript = Path(f"{name}.jsonl")
        if transcript.is_file():
            return transcript
        looks_like_path = path.suffix == ".jsonl" or path.exists()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TranscriptMissing(f"{one_line(name, 80)}: {reason}; give a transcript's path") from None
    return path if looks_like_path else named(name, stored(), looked_at).path


def named(name: str, sessions: list[StoredSession], looked_at: Step | None = None) -> StoredSession:
    """The session with this name among ``sessions``, which must be sorted newest first; raises as `find` does."""
    if name == LAST and sessions:
        here = Path.cwd()
        return next((session for session in sessions if is_in(session, here)), sessions[0])
    by_name = [session for session in sessions if session.name.startswith(name)]
    if by_name:
        return _only(name, [session for session in by_name if session.name == name] or by_name)
    titles = {}
    for number, session in enumerate(sessions):
        titles[session.path] = session.about().title.casefold()
        if looked_at:
            looked_at(number)
    folded_name = " ".join(name.split()).casefold()
    by_title = [session for session in sessions if folded_name in titles[session.path]]
    if by_title:
        return _only(
            name, [session for session in by_title if titles[session.path] == folded_name] or by_title
        )
    suggestion = _nearest(folded_name, sessions, titles)
    raise TranscriptMissing(f"{one_line(name, 60)}: no such file or session; {suggestion}")


def is_in(session: StoredSession, here: Path) -> bool:
    """Whether a session worked in a folder. Two tools store sessions by folder, so only Codex files are read."""
    if session.tool == "Sevenfold":
        return session.path.parent == user_home().project(here).folder
    if session.label is not None:
        return session.label.project == str(here)
    if session.tool == "Claude Code":
        return session.path.parent.name == re.sub(r"[^A-Za-z0-9]", "-", str(here))
    return session.about().project == str(here)


def _only(name: str, matching: list[StoredSession]) -> StoredSession:
    if len(matching) == 1:
        return matching[0]
    listed = "; ".join(map(describe, matching[:MOST_LISTED]))
    listed += f"; and {len(matching) - MOST_LISTED} more" if len(matching) > MOST_LISTED else ""
    raise InputError(
        f"{one_line(name, 60)}: {len(matching)} sessions match: {listed}; give more of the name"
    )


def _nearest(wanted: str, sessions: list[StoredSession], titles: dict[Path, str]) -> str:
    if not sessions:
        return f"there are no sessions in {places()}: give a transcript's path"
    by_label: dict[str, StoredSession] = {}
    for session in reversed(sessions):
        for title in (titles[session.path], session.name):
            if title:
                by_label[title] = session
    # The low cutoff forgives misspelt and missing words; without any match, suggest the newest session.
    close = get_close_matches(wanted, by_label, n=3, cutoff=0.5) or list(by_label)[-1:]
    return "did you mean " + "; ".join(describe(by_label[title]) for title in close) + "?"


def describe(session: StoredSession) -> str:
    """A session in a few words: its id, title, tool, project and date."""
    about = session.about()
    day = datetime.fromtimestamp(session.modified).date().isoformat()
    title = f' "{one_line(about.title, 40)}"' if about.title else ""
    location = f"{project_name(about.project)}, " if about.project else ""
    return f"{session.name}{title} ({session.tool}, {location}{day})"


def project_name(folder: str) -> str:
    """The last part of a project's folder, with either kind of path separator."""
    return re.split(r"[/\\]", folder.rstrip("/\\"))[-1] or folder
