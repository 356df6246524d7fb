"""Which files to profile, and profiling them side by side.

A file that cannot be profiled is reported beside the others and stops nobody. Large amounts of work are
spread over processes, the largest files first; when the user interrupts, they are ended with it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from sevenfold.errors import TranscriptDenied, TranscriptForeign, TranscriptMissing, UserError
from sevenfold.lab.profile.figures import Failure, Profile, Session
from sevenfold.lab.profile.formats import profile_file
from sevenfold.lab.profile.totals import total

SMALL = 8_000_000
"""Bytes below which starting processes takes longer than the work."""

Progress = Callable[[int, int], None]
"""Told how many of how many bytes are done."""


class _Done(Struct, frozen=True):
    """One file, profiled or not."""

    path: Path
    session: Session | None = None
    calls: frozenset[int] = frozenset()
    error: str = ""


class Found(NamedTuple):
    """Files to profile, and paths that lead to none."""

    files: list[Path]
    failures: list[Failure]


def find(paths: Iterable[Path]) -> Found:
    """The transcripts under these paths: a file is taken as it is, of a folder all ``*.jsonl`` in it."""
    files: dict[Path, Path] = {}
    failures = []
    for path in paths:
        try:
            for file in _under(path):
                files.setdefault(file.resolve(), file)
        except UserError as error:
            failures.append(Failure(str(path), str(error)))
        except OSError as error:
            failures.append(Failure(str(path), f"{path}: cannot be opened: {error.strerror}"))
    return Found(list(files.values()), failures)


def _under(path: Path) -> list[Path]:
    if path.is_file() or not path.exists():
        return [path]
    if not path.is_dir():
        raise TranscriptForeign(
            f"{path}: neither a file nor a folder; copy what it gives into a file first"
        )
    inside = [file for file in sorted(path.rglob("*.jsonl")) if file.is_file()]
    if not inside and not os.access(path, os.R_OK | os.X_OK):
        raise TranscriptDenied(f"{path}: this folder may not be read; check its permissions")
    if not inside:
        raise TranscriptMissing(
            f"{path}: there is no *.jsonl file in this folder. Claude Code keeps its transcripts in "
            "~/.claude/projects, Codex in ~/.codex/sessions."
        )
    return inside


def profile(found: Found, *, jobs: int | None = None, progress: Progress | None = None) -> Profile:
    """The profile of these files, in their order."""
    files = found.files
    sizes = {file: _size(file) for file in files}
    work, done = sum(sizes.values()), 0
    jobs = min(jobs or os.cpu_count() or 1, len(files)) if work > SMALL else 1
    results: dict[Path, _Done] = {}
    if progress:
        progress(0, work)
    for one in _alone(files) if jobs <= 1 else _together(sorted(files, key=lambda f: -sizes[f]), jobs):
        results[one.path] = one
        done += sizes[one.path]
        if progress:
            progress(done, work)
    return _assemble([results[file] for file in files], found.failures)


def _assemble(results: list[_Done], failures: list[Failure]) -> Profile:
    sessions = [one.session for one in results if one.session]
    seen: set[int] = set()
    copied = 0
    for one in results:
        copied += len(one.calls & seen)
        seen |= one.calls
    errors = [Failure(str(one.path), one.error) for one in results if one.error]
    return Profile(sessions, total(sessions, copied), failures + errors)


def _one(path: Path) -> _Done:
    try:
        session, calls = profile_file(path)
    except UserError as error:
        return _Done(path, error=str(error))
    return _Done(path, session, frozenset(map(_short, calls)))


def _short(call: str) -> int:
    """A call's id as a number that is the same in every process."""
    return int.from_bytes(blake2b(call.encode(errors="replace"), digest_size=8).digest())


def _alone(files: Iterable[Path]) -> Iterator[_Done]:
    return map(_one, files)


def _together(files: Sequence[Path], jobs: int) -> Iterator[_Done]:
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, initializer=_ignore_interrupts)
    try:
        for future in as_completed([pool.submit(_one, file) for file in files]):
            yield future.result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    pool.shutdown()


def _ignore_interrupts() -> None:
    """The parent ends its children; a stack trace from each would only be noise."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
