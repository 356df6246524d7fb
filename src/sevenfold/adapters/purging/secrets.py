"""Masking leaked secrets everywhere: in transcripts, stored results, notes and memories.

First everything is looked through, then every session concerned is locked, and only then is anything changed;
while one of them is in use, nothing is. A session's new files are all written before the first takes its
place, the transcript, which says what happened, before the others. A purge that was cut off is finished by
doing it again.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from sevenfold.adapters import lines
from sevenfold.adapters.home import Home, Project, SessionFiles
from sevenfold.adapters.lock import FileLock
from sevenfold.adapters.purging import journal
from sevenfold.adapters.purging.journal import Purge
from sevenfold.adapters.purging.leak import Leak
from sevenfold.adapters.purging.rewrite import Rewriting, World, mask_record, mask_text
from sevenfold.adapters.purging.sessions import remove_index
from sevenfold.adapters.scanning import is_transcript, scan
from sevenfold.adapters.storing import Staged

Progress = Callable[[Path], None]
"""Told which file is looked at."""


class Affected(Struct, frozen=True):
    """Files that hold secrets: of a session, or of a project as a whole."""

    project: Project
    session: SessionFiles | None
    places: dict[Path, int]
    """How often, by file."""


def leaks_with(home: Home, digest: str, progress: Progress | None = None) -> list[Leak]:
    """The secrets whose digest begins like this, as `sevenfold scan` names them."""
    found: dict[str, str] = {}
    for path in home.texts():
        if progress:
            progress(path)
        for hit in scan(path):
            if hit.digest.startswith(digest):
                found[hit.secret] = hit.kind
    return [Leak(secret, kind) for secret, kind in found.items()]


def survey(home: Home, leaks: Sequence[Leak], progress: Progress | None = None) -> list[Affected]:
    """Where these secrets are stored."""
    found = []
    for project in home.projects():
        groups: list[tuple[SessionFiles | None, list[Path]]] = [
            (session, _texts(session)) for session in project.all_sessions()
        ]
        groups.append((None, sorted(path for path in project.memory.rglob("*") if path.is_file())))
        for session, files in groups:
            places = {path: times for path in files if (times := _count(path, leaks, progress))}
            if places:
                found.append(Affected(project, session, places))
    return found


def purge(home: Home, leaks: Sequence[Leak], affected: Sequence[Affected], world: World) -> int:
    """Mask these secrets in all these files; returns in how many places."""
    with ExitStack() as locks:
        for one in affected:
            if one.session and one.session.transcript.exists():
                locks.enter_context(_locked(one.session))
        return sum(_purge(home, leaks, one, world) for one in affected)


@contextmanager
def _locked(session: SessionFiles) -> Iterator[None]:
    lock = FileLock(session.transcript)
    try:
        yield
    finally:
        lock.release()


def _purge(home: Home, leaks: Sequence[Leak], affected: Affected, world: World) -> int:
    session = affected.session
    transcript = session.transcript if session and session.transcript.exists() else None
    masking = [_Masking(path, leaks) for path in affected.places if path != transcript]
    staged: list[Staged] = []
    try:
        staged += [Staged(one.path, [one.content]) for one in masking]
        places = sum(one.masked for one in masking)
        if session and transcript:
            rewriting = Rewriting(transcript, leaks, world)
            results = {str(one.path): one.sha256 for one in masking if one.path.parent == session.results}
            staged.insert(0, Staged(transcript, rewriting.lines(results)))
            places += rewriting.masked
        journal.note(home, _noted(affected, leaks, places, world))
        for one in staged:
            one.commit()
    finally:
        for one in staged:
            one.discard()
    if session:
        remove_index(session)
    return places


def _noted(affected: Affected, leaks: Sequence[Leak], places: int, world: World) -> Purge:
    return Purge(
        at=world.stamp(),
        what="secret",
        project=affected.project.folder.name,
        session=affected.session.name if affected.session else "",
        masks=[leak.mask for leak in leaks],
        places=places,
        files=len(affected.places),
    )


class _Masking:
    """A text file without the secrets. It is read as a whole: a secret may span any number of lines."""

    def __init__(self, path: Path, leaks: Sequence[Leak]) -> None:
        self.path = path
        self.content, self.masked = mask_text(leaks, _read(path))

    @property
    def sha256(self) -> str:
        """The hash of what will be written."""
        return hashlib.sha256(self.content).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise lines.explain(error, path) from error


def _texts(session: SessionFiles) -> list[Path]:
    there = [path for path in (session.transcript, session.notes) if path.is_file()]
    return [*there, *session.stored_results(), *session.agent_files()]


def _count(path: Path, leaks: Sequence[Leak], progress: Progress | None) -> int:
    if progress:
        progress(path)
    if is_transcript(path):
        return sum(mask_record(leaks, line.raw)[1] for line in lines.scan(path, limit=sys.maxsize))
    return mask_text(leaks, _read(path))[1]
