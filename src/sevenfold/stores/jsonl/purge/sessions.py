"""Removing a session: its transcript, stored results, notes, its agent's state, its index and its lock."""

from __future__ import annotations

import shutil
from pathlib import Path

from msgspec import Struct

from sevenfold.stores.home import Home, SessionFiles
from sevenfold.stores.jsonl.lines import explain
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.jsonl.purge import journal
from sevenfold.stores.jsonl.purge.journal import Purge
from sevenfold.stores.jsonl.purge.rewrite import World
from sevenfold.stores.names import safe_name


class Extent(Struct, frozen=True):
    """How much there is of a session."""

    results: int
    files: int
    bytes: int


def find(home: Home, session: str, folder: Path | None = None) -> list[SessionFiles]:
    """Sessions of this id, or whose files have this name; in one project's folder, or in all."""
    projects = home.projects() if folder is None else [home.project(folder)]
    names = {session, safe_name(session)}
    return [one for project in projects for one in project.all_sessions() if one.name in names]


def extent(session: SessionFiles) -> Extent:
    """What removing it would remove."""
    files = _files(session)
    return Extent(len(session.stored_results()), len(files), sum(path.stat().st_size for path in files))


def remove(home: Home, session: SessionFiles, world: World) -> Extent:
    """Remove all of it; raises `sevenfold.errors.TranscriptLocked` while somebody writes it."""
    lock = FileLock(session.transcript)
    try:
        gone = extent(session)
        done = Purge(
            at=world.stamp(),
            what="session",
            project=session.folder.name,
            session=session.name,
            files=gone.files,
            bytes=gone.bytes,
        )
        journal.note(home, done)
        for path in _files(session):
            path.unlink(missing_ok=True)
        _remove_folder(session.results)
        _remove_folder(session.agent)
        lock.remove()
    except OSError as error:
        raise explain(error, session.transcript) from error
    finally:
        lock.release()
    return gone


def _files(session: SessionFiles) -> list[Path]:
    """The transcript first: without it the rest is nobody's, and `gc` would find it."""
    there = [session.transcript, session.notes, *session.indexes()]
    there += [*session.stored_results(), *session.agent_files()]
    return [path for path in there if path.is_file() or path.is_symlink()]


def _remove_folder(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif folder.is_dir():
        shutil.rmtree(folder)
