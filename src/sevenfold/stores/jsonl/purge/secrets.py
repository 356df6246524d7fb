"""Masking leaked secrets everywhere: in transcripts, stored results, notes, and whatever else of ours holds text.

First everything is looked through, then every session concerned is locked, and only then is anything changed;
while one of them is in use, nothing is. A session's new files are all written before the first takes its
place, the transcript, which says what happened, before the others. A purge that was cut off is finished by
doing it again.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from sevenfold.stores.atomic import Staged
from sevenfold.stores.home import Home, Project, SessionFiles, is_index
from sevenfold.stores.jsonl import lines
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.jsonl.purge import journal
from sevenfold.stores.jsonl.purge.journal import Purge
from sevenfold.stores.jsonl.purge.leak import Leak
from sevenfold.stores.jsonl.purge.rewrite import Rewriting, World, mask_record, mask_text
from sevenfold.stores.jsonl.scan import is_transcript, scan

_WAIT_SECONDS = 5.0

Progress = Callable[[Path], None]
"""Told which file is looked at."""


class Affected(Struct, frozen=True):
    """Files that hold secrets: of a session, of a project as a whole, or of all."""

    project: Project | None
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
    for project, session, files in _groups(home):
        places = {path: times for path in files if (times := _count(path, leaks, progress))}
        if places:
            found.append(Affected(project, session, places))
    return found


def _groups(home: Home) -> Iterator[tuple[Project | None, SessionFiles | None, list[Path]]]:
    """Everything that may hold text, by whom it belongs to."""
    for project in home.projects():
        for session in project.all_sessions():
            yield project, session, session.texts()
        yield project, None, [*project.other_texts(), *project.lost_indexes()]
    yield None, None, home.common_texts()


def purge(home: Home, leaks: Sequence[Leak], affected: Sequence[Affected], world: World) -> int:
    """Mask these secrets in all these files; returns in how many places."""
    with ExitStack() as locks:
        for one in affected:
            if one.session and one.session.transcript.exists():
                locks.callback(FileLock(one.session.transcript).release)
            if home.telemetry in one.places:
                # So that nobody puts the file aside just now.
                locks.callback(FileLock(home.telemetry, wait=_WAIT_SECONDS).release)
        return sum(_purge(home, leaks, one, world) for one in affected)


def _purge(home: Home, leaks: Sequence[Leak], affected: Affected, world: World) -> int:
    session = affected.session
    transcript = session.transcript if session and session.transcript.exists() else None
    indexes = session.indexes() if session else [path for path in affected.places if is_index(path)]
    masking = [_Masking(path, leaks) for path in affected.places if path not in (transcript, *indexes)]
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
    for path in indexes:
        path.unlink(missing_ok=True)
    return places


def _noted(affected: Affected, leaks: Sequence[Leak], places: int, world: World) -> Purge:
    return Purge(
        at=world.stamp(),
        what="secret",
        project=affected.project.folder.name if affected.project else "",
        session=affected.session.name if affected.session else "",
        masks=[leak.mask for leak in leaks],
        places=places,
        files=len(affected.places),
    )


class _Masking:
    """A file without the secrets. A text is read as a whole: a secret may span any number of lines."""

    def __init__(self, path: Path, leaks: Sequence[Leak]) -> None:
        self.path = path
        parts = list(_masked(path, leaks))
        self.content = b"".join(content for content, _ in parts)
        self.masked = sum(times for _, times in parts)

    @property
    def sha256(self) -> str:
        """The hash of what will be written."""
        return hashlib.sha256(self.content).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise lines.explain(error, path) from error


def _count(path: Path, leaks: Sequence[Leak], progress: Progress | None) -> int:
    if progress:
        progress(path)
    return sum(times for _, times in _masked(path, leaks))


def _masked(path: Path, leaks: Sequence[Leak]) -> Iterator[tuple[bytes, int]]:
    """The file's content without the secrets, in pieces, and how often they stood in each."""
    if is_transcript(path):
        yield from (mask_record(leaks, line.raw) for line in lines.scan(path, limit=sys.maxsize))
    else:
        yield mask_text(leaks, _read(path))
