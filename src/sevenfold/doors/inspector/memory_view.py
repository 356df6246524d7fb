"""What is remembered across sessions, and what runs in the background of those that are open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.agent.team.presence import TaskFile, TaskList
from sevenfold.archive.log_reader import session_key
from sevenfold.clock import SystemClock
from sevenfold.doors.inspector.wording import shown, shown_block
from sevenfold.errors import SevenfoldError, TranscriptDenied
from sevenfold.memory.memory import KnownEntry, Memory
from sevenfold.record.decoding import NOT_JSON
from sevenfold.stores.folder import FileFolder
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.lock import is_held

CHANGES = 40
LONGEST_DIFF = 6_000
LONGEST_BODY = 6_000


class FolderToLookAt(FileFolder):
    """A folder in which nothing is changed: memory is then what was last written."""

    def lock(self, *, wait: float = 0.0) -> AbstractContextManager[None]:  # type: ignore[override]
        """Refuse, as a folder does that may not be written to."""
        raise TranscriptDenied(f"{self.path}: only looked at")

    def write(self, name: str, content: bytes) -> None:
        """Refuse."""
        raise TranscriptDenied(f"{self.path}: only looked at")

    def append(self, name: str, line: bytes) -> None:
        """Refuse."""
        raise TranscriptDenied(f"{self.path}: only looked at")


class MemoryPlace(Struct, frozen=True):
    """A folder with memory."""

    name: str
    path: Path

    @property
    def key(self) -> str:
        """An id that says nothing of its path."""
        return session_key(self.path)


def memory_folders() -> list[MemoryPlace]:
    """The memory of the user and of every project that has any."""
    home = user_home()
    folders = [MemoryPlace("Yours, in all projects", home.memory)]
    folders += [MemoryPlace(_project_of(project.folder), project.memory) for project in home.projects()]
    return [folder for folder in folders if folder.path.is_dir()]


def memory_view() -> dict[str, Any]:
    """What is remembered, with its history."""
    return {
        "scopes": [
            {"key": folder.key, "name": shown(folder.name, 80), **_scope(folder)}
            for folder in memory_folders()
        ]
    }


def _project_of(folder: Path) -> str:
    """A project's readable name: the folder's, without the hash behind it."""
    return folder.name.rpartition(".")[0] or folder.name


def _scope(folder: MemoryPlace) -> dict[str, Any]:
    memory = Memory(FolderToLookAt(folder.path), SystemClock(), date.today().isoformat)
    try:
        entries = memory.entries()
        changes = list(islice(memory.changes(), CHANGES))
        return {
            "entries": [_entry(folder, known) for known in entries],
            "changes": [
                {
                    "number": change.number,
                    "at": change.at,
                    "by": shown(change.by, 40),
                    "reason": shown(change.reason, 200),
                    "files": [shown(file, 80) for file in list(change.entries)[:20]],
                    "diff": shown_block(memory.diff(change)[:LONGEST_DIFF]),
                }
                for change in changes
            ],
            "error": "",
        }
    except SevenfoldError as error:
        return {"entries": [], "changes": [], "error": shown(str(error), 300)}


def _record_at(folder: MemoryPlace, place: str) -> dict[str, str]:
    """Where a record is that memory names as ``session/record``; without a key if that session is gone."""
    session, _, record = place.rpartition("/")
    names = {"name": shown(session, 80), "record": shown(record, 120)}
    own = [project for project in user_home().projects() if project.memory == folder.path]
    # What is yours in all projects may come from any of them.
    for project in own or user_home().projects():
        log = project.session(session).transcript
        if log.is_file():
            return {**names, "session": session_key(log)}
    return {**names, "session": ""}


def _entry(folder: MemoryPlace, known: KnownEntry) -> dict[str, Any]:
    entry = known.entry
    return {
        "name": shown(entry.name, 100),
        "kind": shown(entry.kind, 40),
        "description": shown(entry.description, 300),
        "body": shown_block(entry.body[:LONGEST_BODY]),
        "quotes": [shown(quotation, 400) for quotation in entry.quotations],
        "origin": known.stamp.origin,
        "source": shown(known.stamp.source, 200),
        "evidence": [_record_at(folder, place) for place in known.stamp.evidence[:10]],
        "pinned": entry.pinned,
        "until": shown(entry.until, 40),
        "created": known.stamp.created or None,
        "verified": known.stamp.verified or None,
        "used": known.usage.used,
        "helped": known.usage.helped,
        "lastUsed": known.usage.last or None,
        "answers": [_record_at(folder, place) for place in known.usage.answers[::-1]],
    }


def tasks_view() -> dict[str, Any]:
    """The tasks of every session that some process has open."""
    return {"tasks": list(_tasks())}


def _tasks() -> Iterator[dict[str, Any]]:
    for project in user_home().projects():
        for session in project.all_sessions():
            file = session.agent / TaskFile.NAME
            if not file.is_file() or not is_held(session.transcript):
                continue
            try:
                listed = msgspec.json.decode(file.read_bytes(), type=TaskList)
            except (OSError, *NOT_JSON):
                continue
            for task in listed.tasks:
                yield {
                    "session": session_key(session.transcript),
                    "sessionName": shown(session.name, 60),
                    "project": shown(_project_of(project.folder), 60),
                    "id": shown(task.id, 60),
                    "kind": shown(task.kind, 40),
                    "name": shown(task.name, 200),
                    "state": task.state,
                    "started": task.started,
                    "progress": shown(task.progress, 200),
                    "usd": task.usd,
                    "over": task.over,
                }
