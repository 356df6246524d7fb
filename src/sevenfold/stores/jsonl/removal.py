"""Removing a session: its transcript, its branches, and everything kept next to them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from sevenfold.stores.files import explained
from sevenfold.stores.home import SessionFiles
from sevenfold.stores.jsonl.lock import FileLock


class Extent(Struct, frozen=True):
    """The size of everything stored for a session."""

    results: int
    files: int
    bytes: int


def extent(session: SessionFiles) -> Extent:
    """How much removing a session would remove."""
    files = files_of(session)
    return Extent(len(session.stored_results()), len(files), sum(path.stat().st_size for path in files))


def remove(
    session: SessionFiles,
    begin: Callable[[Extent], None] = lambda extent: None,
    *,
    notes: Path | None = None,
) -> None:
    """Remove all files of a session; raises `sevenfold.errors.TranscriptLocked` while it is in use.

    ``begin`` is called when nothing can be written any more, and nothing has been removed yet; ``notes`` is the file
    with its notes, if they are in another folder.
    """
    with explained(session.transcript), FileLock(session.transcript) as lock, ExitStack() as locks:
        lock_branches(session, locks)
        begin(extent(session))
        for path in [*files_of(session), *([notes] if notes else [])]:
            path.unlink(missing_ok=True)
        for folder in (session.results, session.agent, session.branches):
            _remove_folder(folder)
        lock.remove()


def files_of(session: SessionFiles) -> list[Path]:
    """The files of a session, the transcript first: once it is gone, `gc` finds stored results left as orphans."""
    texts = [path for path in session.texts() if path not in (session.transcript, session.notes)]
    there = [session.transcript, session.notes, *session.indexes(), *texts]
    return [path for path in there if path.is_file() or path.is_symlink()]


def lock_branches(session: SessionFiles, locks: ExitStack) -> None:
    """Lock all branches of a session; raises `sevenfold.errors.TranscriptLocked` while one is in use."""
    for path in session.branch_files():
        locks.enter_context(FileLock(path))


def _remove_folder(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif folder.is_dir():
        shutil.rmtree(folder)
