"""Collection of stored tool results that are no longer needed.

A result is kept as long as its transcript. Once the transcript is gone, the result is removed too, unless another
transcript (a fork) refers to it. Limits on age and total size, if set, remove more, the oldest first, but never a
result that is **needed**. Needed are the results that the view of any transcript or its pinned records refer to, and
all that undoing its last compaction would restore: everything recorded since the compaction before that one, or since
the start if there is none. A transcript whose last compaction is not one of ours, or that a newer version wrote, needs
every result it refers to. Sessions in use are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path, PurePath

from msgspec import Struct

from sevenfold.conversation.resume import resume
from sevenfold.errors import TranscriptLocked
from sevenfold.record import entries
from sevenfold.record.decisions import Carry, Offloaded, Pin
from sevenfold.record.entries import Boundary, Decision, Entry, Said
from sevenfold.record.view import View
from sevenfold.stores.files import explain, is_temporary
from sevenfold.stores.home import Home, Project, SessionFiles
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.jsonl.store import read_branch
from sevenfold.stores.log import LineLog

SECONDS_A_DAY = 86_400
BYTES_A_MEGABYTE = 1_000_000

_MARKS = (b'"offload"', b'"sevenfold_results"', b'"compact_boundary"', b'"carry"', b'"pin"')

Key = tuple[str, str]
"""A stored result by the name of its session and its file name: unlike its path, these never change."""


# -- what is removed --------------------------------------------------------------------------------


class RetentionLimits(Struct, frozen=True):
    """How long and how much is kept; None means no limit."""

    days: float | None = None
    megabytes: float | None = None


class Collected(Struct, frozen=True):
    """A file that is removed, and why."""

    path: Path
    size: int
    why: str
    """``orphan``, ``unfinished``, ``old`` or ``large``."""


class Collection(Struct, frozen=True):
    """The result of a collection: what is removed and what is kept."""

    gone: list[Collected]
    kept: int
    kept_bytes: int
    busy: list[str]
    """The names of sessions in use."""


class _Result(Struct, frozen=True):
    path: Path
    key: Key
    size: int
    modified: float
    orphan: bool
    spared: bool


def collect(home: Home, limits: RetentionLimits, now: float, *, dry_run: bool = False) -> Collection:
    """Remove results that are no longer needed, or over a limit; in a dry run, only report them."""
    with ExitStack() as locks:
        busy = _lock_all(home, locks)
        needed: set[Key] = set()
        for log in [*chain.from_iterable(map(_logs, _sessions(home)))]:
            needed |= _needed_by(log, resume(log))
        results = list(_results(home, needed, busy))
        gone = [*_unfinished(home, busy), *_choose(results, limits, now)]
        if not dry_run:
            _remove(gone)
    chosen = {result.path for result in gone}
    remaining = [result for result in results if result.path not in chosen]
    return Collection(
        gone, len(remaining), sum(result.size for result in remaining), [result.name for result in busy]
    )


def _lock_all(home: Home, locks: ExitStack) -> list[SessionFiles]:
    """Lock every session and its branches; returns the sessions in use, for which another process holds a lock."""
    busy = []
    for session in _sessions(home):
        if session.transcript.exists():
            try:
                for path in (session.transcript, *session.branch_files()):
                    locks.enter_context(FileLock(path))
            except TranscriptLocked:
                busy.append(session)
    return busy


def _sessions(home: Home) -> Iterator[SessionFiles]:
    for project in home.projects():
        yield from project.all_sessions()


def _results(home: Home, needed: set[Key], busy: list[SessionFiles]) -> Iterator[_Result]:
    for session in _sessions(home):
        for path in session.stored_results():
            if not is_temporary(path):
                state = path.stat()
                key = (session.name, path.name)
                orphan = not session.transcript.exists()
                spared = key in needed or session in busy
                yield _Result(path, key, state.st_size, state.st_mtime, orphan, spared)


def _unfinished(home: Home, busy: list[SessionFiles]) -> Iterator[Collected]:
    """Leftover temporary files; in a project with a session in use, only those of its idle sessions."""
    for project in home.projects():
        idle = [session for session in project.all_sessions() if session not in busy]
        leftovers = [*chain.from_iterable(session.unfinished() for session in idle)]
        if not any(session.folder == project.folder for session in busy):
            leftovers += _unfinished_beside(project)
        yield from (Collected(path, path.stat().st_size, "unfinished") for path in leftovers)


def _unfinished_beside(project: Project) -> list[Path]:
    memory = [project.memory / name for name in ("", "pinned", ".versions", ".versions/objects")]
    folders = {project.folder, project.session("").notes.parent, *memory}
    hidden = chain.from_iterable(folder.glob(".*") for folder in sorted(folders))
    return [path for path in hidden if is_temporary(path)]


def _choose(results: list[_Result], limits: RetentionLimits, now: float) -> Iterator[Collected]:
    remaining = sum(result.size for result in results)
    for result in sorted(results, key=lambda result: (not result.orphan, result.modified, result.key)):
        reason = "" if result.spared else _reason(result, limits, now, remaining)
        if reason:
            remaining -= result.size
            yield Collected(result.path, result.size, reason)


def _reason(result: _Result, limits: RetentionLimits, now: float, remaining: int) -> str:
    if result.orphan:
        return "orphan"
    if limits.days is not None and now - result.modified > limits.days * SECONDS_A_DAY:
        return "old"
    if limits.megabytes is not None and remaining > limits.megabytes * BYTES_A_MEGABYTE:
        return "large"
    return ""


def _remove(gone: list[Collected]) -> None:
    for result in gone:
        try:
            result.path.unlink(missing_ok=True)
        except OSError as error:
            raise explain(error, result.path) from error
    for folder in {result.path.parent for result in gone if result.why == "orphan"}:
        if not any(folder.iterdir()):
            folder.rmdir()


# -- what is needed --------------------------------------------------------------------------------


def _logs(session: SessionFiles) -> Iterator[LineLog]:
    if session.transcript.exists():
        yield JsonlLog(session.transcript)
        yield from (read_branch(session, path) for path in session.branch_files())


def _needed_by(log: LineLog, view: View) -> set[Key]:
    """The stored results that a transcript or branch still needs."""
    marked = ((offset, raw) for offset, raw in log.read() if any(mark in raw for mark in _MARKS))
    marked_records = [(offset, entries.read(raw)) for offset, raw in marked]
    start = 0 if view.unknown_kinds else _undo_reaches(log, marked_records, view.boundary)
    calls = {*chain.from_iterable(item.record.answers for item in view.items)}
    pinned = _pinned(marked_records)
    for uuid in pinned:
        calls.update(_answers(log, uuid))
    needed: set[Key] = set()
    for offset, entry in marked_records:
        for path, call, record in _references(entry):
            if offset >= start or call in calls or record in pinned:
                needed.add(_key(path))
    return needed


def _references(entry: Entry) -> list[tuple[str, str, str]]:
    """The stored results an entry refers to: the path, tool call id and record id of each."""
    match entry:
        case Said(uuid=uuid, stored=stored):
            return [(stored_result.path, call, uuid) for call, stored_result in stored.items()]
        case Decision(record=Offloaded() as made):
            return [(made.path, made.tool_use_id, "")]
        case _:
            return []


def _undo_reaches(log: LineLog, records: list[tuple[int, Entry]], live: str | None) -> int:
    """The offset from which records could return to view if the last compaction in force were undone."""
    boundaries = {entry.uuid: (offset, entry) for offset, entry in records if isinstance(entry, Boundary)}
    decided = [entry.record for _, entry in records if isinstance(entry, Decision)]
    boundary_before = {
        decision.boundary: decision.previous_boundary for decision in decided if isinstance(decision, Carry)
    }
    offset, boundary = boundaries.get(boundary_before.get(live or "") or "", (0, None))
    if boundary is None or boundary.about.preserved_segment is None:
        return offset
    head = log.record(boundary.about.preserved_segment.head_uuid)
    return min(offset, head[0]) if head else 0


def _pinned(records: list[tuple[int, Entry]]) -> set[str]:
    pinned: set[str] = set()
    for _, entry in records:
        if isinstance(entry, Decision) and isinstance(entry.record, Pin):
            (pinned.discard if entry.record.off else pinned.add)(entry.record.record)
    return pinned


def _answers(log: LineLog, uuid: str) -> tuple[str, ...]:
    record_at = log.record(uuid)
    return record_at[1].answers if record_at and isinstance(record_at[1], Said) else ()


def _key(path: str) -> Key:
    stored_path = PurePath(path)
    return stored_path.parent.name, stored_path.name
