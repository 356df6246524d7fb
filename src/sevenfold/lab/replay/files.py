"""Replays many files under several policies, in several processes.

A file that cannot be replayed is listed with its error and does not stop the others. An interrupt ends all processes;
nothing is written here.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

from msgspec import Struct

from sevenfold.archive.processes import in_processes
from sevenfold.archive.profile.figures import FailedFile
from sevenfold.archive.profile.files import FoundFiles
from sevenfold.errors import UserError
from sevenfold.lab.replay.figures import PolicyTotal, Replayed, totals
from sevenfold.lab.replay.recording import read
from sevenfold.lab.replay.run import ReplayPolicy, replay

Progress = Callable[[int, int], None]
"""Called with how many replays are done, and how many there are."""


class ReplayReport(Struct, frozen=True):
    """What the replays found."""

    replays: Sequence[Replayed]
    """By file, and by policy within it."""
    totals: Sequence[PolicyTotal]
    errors: Sequence[FailedFile]


class _Job(Struct, frozen=True):
    file: Path
    policy: ReplayPolicy
    model: str
    window: int | None


def replay_files(
    found_files: FoundFiles,
    policies: Sequence[ReplayPolicy],
    *,
    model: str = "",
    window: int | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> ReplayReport:
    """Replay these files under each policy; ``jobs`` limits the number of processes."""
    work = [_Job(file, policy, model, window) for file, policy in product(found_files.files, policies)]
    processes = min(jobs or os.cpu_count() or 1, len(work))
    if processes <= 1:
        results: list[Replayed | FailedFile] = []
        for job in work:
            if progress:
                progress(len(results), len(work))
            results.append(_done(job))
    else:
        results = _together(work, processes, progress)
    if progress:
        progress(len(work), len(work))
    replays = [result for result in results if isinstance(result, Replayed)]
    errors = {result.file: result for result in results if isinstance(result, FailedFile)}
    return ReplayReport(replays, totals(replays), [*found_files.failures, *errors.values()])


def _done(job: _Job) -> Replayed | FailedFile:
    try:
        recording = read(job.file)
        return replay(recording, job.policy, file=str(job.file), model=job.model, window=job.window)
    except UserError as error:
        return FailedFile(str(job.file), str(error))
    except OSError as error:
        return FailedFile(str(job.file), f"{job.file}: cannot be read: {error.strerror}")


def _together(
    work: Sequence[_Job], processes: int, progress: Progress | None
) -> list[Replayed | FailedFile]:
    def report(done: int) -> None:
        if progress:
            progress(done, len(work))

    # The largest files take longest, so they begin first.
    largest_first = sorted(work, key=lambda job: -_size(job.file))
    results = in_processes(
        _done, [(job,) for job in largest_first], processes, begin=_begin_work, report=report
    )
    by_job = {
        (job.file, job.policy.name): result for job, result in zip(largest_first, results, strict=True)
    }
    return [by_job[job.file, job.policy.name] for job in work]


def _begin_work() -> None:
    """Set up a worker process; it ignores interrupts, because the parent ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        # The error is reported when the file is read.
        return 0
