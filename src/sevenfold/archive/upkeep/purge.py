"""Purging: the only permitted rewrite. It removes a session, or masks a leaked secret wherever it is stored.

Masking first searches everything, then locks every affected session, and only then changes anything; if one of them is
in use, nothing changes. All new files of a session are written before the first replaces its original. Branches are
replaced first, then the transcript, which records the purge, then the other files. Repeating an interrupted purge
completes it. A journal records what was purged and when, but never its content.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import Struct

from sevenfold.archive.upkeep.rewrite import RecordStamper, Rewrite
from sevenfold.archive.upkeep.secrets import Leak, is_transcript, mask_record, mask_text
from sevenfold.archive.upkeep.secrets import scan as find_secrets
from sevenfold.stores.files import Staged, opened, private_folder, safe_name
from sevenfold.stores.home import MAILBOX, Home, Project, SessionFiles, is_index
from sevenfold.stores.jsonl import removal
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.jsonl.log import JsonlLog, scan
from sevenfold.stores.jsonl.mailbox import SqliteMailbox
from sevenfold.stores.jsonl.removal import Extent, lock_branches
from sevenfold.stores.jsonl.store import BranchPoint

_WAIT_SECONDS = 5.0

Progress = Callable[[Path], None]
"""A function that is called with each file before it is searched."""


class PurgeNote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the journal."""

    at: str
    what: str
    """``session`` or ``secret``."""
    project: str = ""
    session: str = ""
    masks: list[str] = []
    """The masks that replaced the secrets."""
    places: int = 0
    """How many places were masked."""
    files: int = 0
    bytes: int = 0

    def write(self, home: Home) -> None:
        """Append the note to the journal; must be called before the files change."""
        private_folder(home.root)
        with closing(JsonlLog.open(home.journal, wait=_WAIT_SECONDS)) as log:
            log.append([msgspec.json.encode(self) + b"\n"], durable=True)


# -- removing a session ------------------------------------------------------------------------------


def find(home: Home, session: str, folder: Path | None = None) -> list[SessionFiles]:
    """The sessions with this id, or whose files have this name, in one project's folder or in all."""
    projects = home.projects() if folder is None else [home.project(folder)]
    names = {session, safe_name(session)}
    sessions = chain.from_iterable(project.all_sessions() for project in projects)
    return [files for files in sessions if files.name in names]


def remove(home: Home, session: SessionFiles, stamper: RecordStamper) -> None:
    """Remove all files of a session; raises `sevenfold.errors.TranscriptLocked` while it is in use."""

    def note(gone: Extent) -> None:
        PurgeNote(
            at=stamper.stamp(),
            what="session",
            project=session.folder.name,
            session=session.name,
            files=gone.files,
            bytes=gone.bytes,
        ).write(home)

    removal.remove(session, note)


# -- masking a secret --------------------------------------------------------------------------------


class Affected(Struct, frozen=True):
    """Files that hold secrets and belong to one session, to a project as a whole, or to no single project."""

    project: Project | None
    session: SessionFiles | None
    places: dict[Path, int]
    """How often the secrets occur, by file."""


def leaks_with(home: Home, digest: str, progress: Progress) -> list[Leak]:
    """The secrets whose digest, as `sevenfold scan` prints it, begins with this."""
    secrets: dict[str, str] = {}
    for path in home.texts():
        progress(path)
        for hit in find_secrets(path):
            if hit.digest.startswith(digest):
                secrets[hit.secret] = hit.kind
    return [Leak(secret, kind) for secret, kind in secrets.items()]


def survey(home: Home, leaks: Sequence[Leak], progress: Progress = lambda path: None) -> list[Affected]:
    """The files in which these secrets are stored."""
    affected = []
    for project, session, files in _groups(home):
        places: dict[Path, int] = {}
        for path in files:
            progress(path)
            if times := sum(times for _, times in _without(path, leaks)):
                places[path] = times
        if places:
            affected.append(Affected(project, session, places))
    return affected


def _groups(home: Home) -> Iterator[tuple[Project | None, SessionFiles | None, list[Path]]]:
    """All files that may hold text, grouped by the session or project they belong to."""
    for project in home.projects():
        for session in project.all_sessions():
            yield project, session, session.texts()
        yield project, None, [*project.other_texts(), *project.lost_indexes()]
    yield None, None, home.common_texts()


def mask(home: Home, leaks: Sequence[Leak], affected: Sequence[Affected], stamper: RecordStamper) -> int:
    """Mask these secrets in all these files; returns the number of places masked."""
    with ExitStack() as locks:
        for session_with_leaks in affected:
            if session_with_leaks.session and session_with_leaks.session.transcript.exists():
                locks.enter_context(FileLock(session_with_leaks.session.transcript))
                lock_branches(session_with_leaks.session, locks)
            if home.telemetry in session_with_leaks.places:
                # The lock keeps the file from being rotated meanwhile.
                locks.enter_context(FileLock(home.telemetry, wait=_WAIT_SECONDS))
        return sum(_purge(home, leaks, session_with_leaks, stamper) for session_with_leaks in affected)


def _purge(home: Home, leaks: Sequence[Leak], affected: Affected, stamper: RecordStamper) -> int:
    session = affected.session
    indexes = session.indexes() if session else [path for path in affected.places if is_index(path)]
    rewrites = _rewrites(session, leaks, affected, stamper) if session else []
    mailboxes = {path for path in affected.places if path.name.startswith(MAILBOX)}
    apart = {*indexes, *mailboxes, *(path for path, _ in rewrites)}
    masked = {path: _masked(path, leaks) for path in affected.places if path not in apart}
    with ExitStack() as staged:
        staged_others = [staged.enter_context(Staged(path, [text])) for path, (text, _) in masked.items()]
        stored = session.results if session else None
        texts = {str(path): text for path, (text, _) in masked.items() if path.parent == stored}
        results = {path: hashlib.sha256(text).hexdigest() for path, text in texts.items()}
        logs = [staged.enter_context(Staged(path, rewrite.lines(results))) for path, rewrite in rewrites]
        places = sum(times for _, times in masked.values()) + sum(rewrite.masked for _, rewrite in rewrites)
        places += sum(affected.places[path] for path in mailboxes)
        PurgeNote(
            at=stamper.stamp(),
            what="secret",
            project=affected.project.folder.name if affected.project else "",
            session=session.name if session else "",
            masks=[leak.mask for leak in leaks],
            places=places,
            files=len(affected.places),
        ).write(home)
        for file in (*logs, *staged_others):
            file.commit()
    for path in indexes:
        path.unlink(missing_ok=True)
    for path in {path.with_name(MAILBOX) for path in mailboxes}:
        with closing(SqliteMailbox(path)) as mailbox:
            mailbox.rewrite(lambda body: mask_record(leaks, body)[0])
    return places


def _rewrites(
    session: SessionFiles, leaks: Sequence[Leak], affected: Affected, stamper: RecordStamper
) -> list[tuple[Path, Rewrite]]:
    """The rewrites of a session's branches, those that start from another branch before it, then of its transcript."""
    transcript = session.transcript
    if not transcript.exists():
        return []
    points = {path: BranchPoint.read(path)[0] for path in session.branch_files()}
    deepest_first = sorted(points, key=lambda path: points[path].depth(session), reverse=True)
    # A branch that does not fit was already rewritten by an interrupted purge.
    due = [path for path in deepest_first if path in affected.places or points[path].fits(session)]
    branches = [(path, Rewrite(path, leaks, stamper, session)) for path in due]
    return [*branches, (transcript, Rewrite(transcript, leaks, stamper))]


def _masked(path: Path, leaks: Sequence[Leak]) -> tuple[bytes, int]:
    """A file's content with the secrets masked, and how often they occurred."""
    masked_parts = list(_without(path, leaks))
    return b"".join(content for content, _ in masked_parts), sum(times for _, times in masked_parts)


def _without(path: Path, leaks: Sequence[Leak]) -> Iterator[tuple[bytes, int]]:
    """A file's content in pieces, with the secrets masked, and how often they occurred in each."""
    if is_transcript(path):
        yield from (mask_record(leaks, line.raw) for line in scan(path, limit=sys.maxsize))
    else:
        # Read as a whole, because a secret may span any number of lines.
        with opened(path) as file:
            yield mask_text(leaks, file.read())
