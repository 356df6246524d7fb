"""Profiles files: finds them, reads them in several processes and adds up all sessions.

A file that cannot be profiled is listed with its error and does not stop the others. Large jobs are spread over
processes, the largest files first; an interrupt ends these processes too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import NamedTuple

from sevenfold.archive.formats import SessionLines, is_session_file, lines_of
from sevenfold.archive.processes import in_processes
from sevenfold.archive.profile.books import Scope, call_hash
from sevenfold.archive.profile.figures import FailedFile, ProfileReport, SessionProfile, total
from sevenfold.archive.profile.transcript import TranscriptReader
from sevenfold.errors import TranscriptDenied, TranscriptForeign, TranscriptMissing, UserError
from sevenfold.stores.files import real_path
from sevenfold.stores.jsonl.log import Line

SMALL = 8_000_000
"""Bytes below which starting processes takes longer than the work."""
REPORT_BYTES = 1_000_000
"""How many bytes are read between two reports of progress."""
Progress = Callable[[int, int], None]
"""Called with the number of bytes done and the total."""


def profile_file(
    path: Path, *, scope: Scope | None = None, read: Callable[[int], None] | None = None
) -> tuple[SessionProfile, set[str]]:
    """Profile a transcript; returns the profile and the ids of its calls.

    ``read`` is called from time to time with the number of bytes read since the previous call.
    """
    lines = SessionLines(path, _reported(lines_of(path), read) if read else lines_of(path))
    reader = TranscriptReader(lines.format, scope)
    for line in lines:
        reader.take(line)
    return reader.profile(path), reader.call_ids


def _reported(lines: Iterator[Line], read: Callable[[int], None]) -> Iterator[Line]:
    reported = 0
    for line in lines:
        if line.offset - reported >= REPORT_BYTES:
            read(line.offset - reported)
            reported = line.offset
        yield line


class FoundFiles(NamedTuple):
    """Files to profile, and paths that gave none, with the error."""

    files: list[Path]
    failures: list[FailedFile]


def find(paths: Iterable[Path]) -> FoundFiles:
    """Find the transcripts under these paths: files themselves, and all ``*.jsonl`` in folders."""
    files: dict[Path, Path] = {}
    failures = []
    for path in paths:
        try:
            for file in _under(path):
                files.setdefault(real_path(file), file)
        except UserError as error:
            failures.append(FailedFile(str(path), str(error)))
        except OSError as error:
            failures.append(FailedFile(str(path), f"{path}: cannot be opened: {error.strerror}"))
    return FoundFiles(list(files.values()), failures)


def _under(path: Path) -> list[Path]:
    if path.is_file() or not path.exists():
        return [path]
    if not path.is_dir():
        raise TranscriptForeign(f"{path}: neither a file nor a folder; copy its content into a file first")
    inside = [file for file in sorted(path.rglob("*.jsonl*")) if is_session_file(file)]
    if not inside and not os.access(path, os.R_OK | os.X_OK):
        raise TranscriptDenied(f"{path}: this folder may not be read; check its permissions")
    if not inside:
        raise TranscriptMissing(
            f"{path}: there is no *.jsonl file in this folder. Claude Code keeps its transcripts in "
            "~/.claude/projects, Codex in ~/.codex/sessions."
        )
    return inside


def profile(
    found_files: FoundFiles,
    *,
    since: float | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> ProfileReport:
    """Profile these files, in their order; ``jobs`` limits the number of processes.

    A call in several files, because a session was resumed or forked, counts only in the file that started first. With
    ``since``, in seconds since 1970, only later calls count, and sessions without any are left out.
    """
    files = [file for file in found_files.files if since is None or _state(file).st_mtime >= since]
    results = _read({file: Scope(since) for file in files}, jobs, progress)
    counted_calls: set[int] = set()
    copies: dict[Path, Scope] = {}
    copied = 0
    for file in sorted(files, key=lambda file: (_started(results[file]), str(file))):
        if copied_calls := results[file].calls & counted_calls:
            copies[file] = Scope(since, copied_calls)
            copied += len(copied_calls)
        counted_calls |= results[file].calls
    # Only now is it known which calls are copies; few files have any, so only those are read again.
    results |= _read(copies, jobs, None)
    ordered = [results[file] for file in files]
    sessions = [
        file.session for file in ordered if file.session and (since is None or file.session.api_calls)
    ]
    errors = [FailedFile(str(file.path), file.error) for file in ordered if file.error]
    return ProfileReport(sessions, total(sessions, copied), found_files.failures + errors)


class _Profiled(NamedTuple):
    """One file with its profile or its error."""

    path: Path
    session: SessionProfile | None = None
    calls: frozenset[int] = frozenset()
    """Hashes of its call ids."""
    error: str = ""


def _started(profiled: _Profiled) -> str:
    return (profiled.session and profiled.session.started) or ""


def _read(scopes: dict[Path, Scope], jobs: int | None, progress: Progress | None) -> dict[Path, _Profiled]:
    """Profile files in this process, or in several with the largest files first."""
    sizes = {file: _state(file).st_size for file in scopes}
    work = sum(sizes.values())
    done = 0

    def advance(number: int) -> None:
        nonlocal done
        done = min(work, done + number)
        if progress:
            progress(done, work)

    advance(0)
    jobs = min(jobs or os.cpu_count() or 1, len(scopes)) if work > SMALL else 1
    if jobs <= 1:
        results = {file: _one(file, scope, advance) for file, scope in scopes.items()}
    else:
        largest_first = sorted(scopes.items(), key=lambda pair: -sizes[pair[0]])
        results = _together(largest_first, jobs, advance)
    advance(work - done)
    return results


def _one(path: Path, scope: Scope, read: Callable[[int], None]) -> _Profiled:
    try:
        session, calls = profile_file(path, scope=scope, read=read)
    except UserError as error:
        return _Profiled(path, error=str(error))
    return _Profiled(path, session, frozenset(map(call_hash, calls)))


_SHARED: ContextVar[Synchronized[int]] = ContextVar("bytes read by all processes")


def _together(
    work: Sequence[tuple[Path, Scope]], jobs: int, advance: Callable[[int], None]
) -> dict[Path, _Profiled]:
    read = multiprocessing.Value("q", 0)
    reported = 0

    def report(done: int) -> None:
        nonlocal reported
        total_read = read.value
        advance(total_read - reported)
        reported = total_read

    results = in_processes(_in_pool, work, jobs, begin=_begin_work, begin_with=(read,), report=report)
    return {file.path: file for file in results}


def _in_pool(path: Path, scope: Scope) -> _Profiled:
    shared = _SHARED.get()

    def read(number: int) -> None:
        with shared.get_lock():
            shared.value += number

    return _one(path, scope, read)


def _begin_work(read: Synchronized[int]) -> None:
    """Set up a worker process; it ignores interrupts, because the parent ends it and its stack trace would be noise."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _SHARED.set(read)


def _state(file: Path) -> os.stat_result:
    try:
        return file.stat()
    except OSError:
        # The error is reported when the file is read.
        return os.stat_result([0] * 8 + [2**62, 0])
