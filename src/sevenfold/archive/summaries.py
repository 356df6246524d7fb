"""One line about every session of this machine, kept on disk so that a list of them needs no reading.

A summary holds as long as its file has the size and the time of change it had when it was read. Calls that are in
several files, because a session was resumed or forked, are counted in the file that started first, as
`sevenfold profile` counts them.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from sevenfold.archive.profile import cache as caching
from sevenfold.archive.profile.books import Scope, call_hash
from sevenfold.archive.profile.figures import DayUsage, SessionProfile
from sevenfold.archive.profile.files import profile_file
from sevenfold.archive.thinning import thinned
from sevenfold.errors import UserError
from sevenfold.record.decoding import NOT_JSON
from sevenfold.stores.files import private_folder, write_whole

FORMAT = 2
"""Grows when summaries have other fields, so that older ones are not used."""
SPARKS = 60
"""How many points the small chart of a session has at most."""
SMALL = 4_000_000
"""Bytes below which starting processes takes longer than the work."""


class SessionSummary(Struct, frozen=True, kw_only=True):
    """What a list shows of a session."""

    title: str = ""
    project: str = ""
    agent: str = ""
    parent: str = ""
    models: dict[str, int] = {}
    started: str = ""
    ended: str = ""
    requests: int = 0
    """Those of its conversations; the engine's calls for its own work cost, but are none."""
    usd: float | None = None
    uncached_usd: float | None = None
    lost_usd: float = 0.0
    """Paid again for what the cache no longer had, compactions included."""
    lost_tokens: int = 0
    breaks: int = 0
    unexplained: int = 0
    compactions: int = 0
    clearings: int = 0
    peak: int = 0
    window: int | None = None
    sparks: list[int] = []
    """The sizes of prompts of the main conversation, oldest first."""
    days: list[DayUsage] = []
    error: str = ""
    """Why the file cannot be read; empty if it was."""

    @classmethod
    def of(cls, session: SessionProfile) -> SessionSummary:
        """The summary of a profile."""
        sizes = [point.tokens for point in session.context_over_time if point.lane == 0]
        return cls(
            title=session.title,
            project=session.project,
            agent=session.agent_id or "",
            parent=session.parent or "",
            models=session.models,
            started=session.started or "",
            ended=session.ended or "",
            requests=session.api_calls - session.engine_calls,
            usd=session.cost_usd,
            uncached_usd=session.uncached_cost_usd,
            lost_usd=sum(lost.cost_usd or 0.0 for lost in session.cache_breaks),
            lost_tokens=sum(lost.tokens for lost in session.cache_breaks),
            breaks=len(session.cache_breaks),
            unexplained=sum(lost.cause == caching.UNEXPLAINED for lost in session.cache_breaks),
            compactions=session.compactions,
            clearings=session.clearings,
            peak=session.peak_context_tokens,
            window=session.window_tokens,
            sparks=thinned(sizes, SPARKS),
            days=session.usage_by_day,
        )


class SummarisedState(Struct, frozen=True):
    """By what a file is recognised as unchanged."""

    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: Path) -> SummarisedState | None:
        """The state of a session's file, or of the database it is in; None if it is gone."""
        for candidate in (path, path.parent):
            with suppress(OSError):
                if candidate.is_file():
                    state = candidate.stat()
                    return cls(state.st_size, state.st_mtime_ns)
        return None


class KeptSummary(Struct, frozen=True):
    """A summary as it is on disk."""

    format: int
    path: str
    state: SummarisedState
    elsewhere: list[int]
    """The calls that were not counted, because another file has them too."""
    calls: list[int]
    summary: SessionSummary


class SummaryShelf:
    """The summaries of sessions; safe for use by several threads."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is where they are kept; nothing else is ever written."""
        self.folder = folder
        self._entries: dict[Path, KeptSummary] = {}
        self._lock = threading.Lock()

    def known(self, path: Path) -> SessionSummary | None:
        """The newest summary of a file, which may be older than the file; None if it was never read."""
        with self._lock:
            entry = self._entries.get(path)
        return None if entry is None else entry.summary

    def outdated(self, paths: Iterable[Path]) -> list[Path]:
        """Those files whose summary is missing or older than they are."""
        stale = []
        for path in paths:
            state = SummarisedState.of(path)
            entry = self._entries.get(path) or self._load(path)
            if state is not None and (entry is None or entry.state != state):
                stale.append(path)
        return stale

    def read(self, paths: Sequence[Path]) -> Iterator[Path]:
        """Read these files, largest first and in several processes if there is much; yields each when it is done."""
        sized = sorted(((_size(path), path) for path in paths), reverse=True)
        if sum(size for size, _ in sized) < SMALL:
            for _, path in sized:
                self._store(_summarised(path, ()))
                yield path
        else:
            with _processes(len(sized)) as pool:
                yield from self._read_in(pool, [path for _, path in sized])

    def _read_in(self, pool: Executor, paths: Sequence[Path]) -> Iterator[Path]:
        waiting = {pool.submit(_summarised, path, ()): path for path in paths}
        for done in as_completed(waiting):
            self._store(done.result())
            yield waiting[done]

    def count_copies_once(self) -> list[Path]:
        """Read files again whose calls are also in a file that started earlier; returns them."""
        with self._lock:
            entries = dict(self._entries)
        counted_calls: set[int] = set()
        reread = []
        for path, entry in sorted(
            entries.items(), key=lambda pair: (pair[1].summary.started, str(pair[0]))
        ):
            copies = sorted(counted_calls.intersection(entry.calls))
            if copies != entry.elsewhere:
                self._store(_summarised_again(path, copies))
                reread.append(path)
            counted_calls.update(entry.calls)
        return reread

    def _store(self, entry: KeptSummary) -> None:
        path = Path(entry.path)
        with self._lock:
            self._entries[path] = entry
        # Without a place to keep it, it is read again the next time.
        with suppress(UserError, OSError):
            private_folder(self.folder)
            write_whole(self._file(path), msgspec.json.encode(entry))

    def _load(self, path: Path) -> KeptSummary | None:
        try:
            entry = msgspec.json.decode(self._file(path).read_bytes(), type=KeptSummary)
        except (OSError, *NOT_JSON):
            return None
        if entry.format != FORMAT or entry.path != str(path):
            return None
        with self._lock:
            self._entries[path] = entry
        return entry

    def _file(self, path: Path) -> Path:
        return self.folder / f"{blake2b(os.fsencode(path), digest_size=12).hexdigest()}.json"


def _size(path: Path) -> int:
    state = SummarisedState.of(path)
    return state.size if state else 0


def _processes(files: int) -> ProcessPoolExecutor:
    """Processes that read files: the memory that long sessions took is free when they end."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(min(files, os.cpu_count() or 1), mp_context=context)


def _summarised_again(path: Path, elsewhere: Sequence[int]) -> KeptSummary:
    if _size(path) < SMALL:
        return _summarised(path, elsewhere)
    with _processes(1) as pool:
        return pool.submit(_summarised, path, elsewhere).result()


def _summarised(path: Path, elsewhere: Sequence[int]) -> KeptSummary:
    """Read a file, leaving out calls that are counted elsewhere."""
    state = SummarisedState.of(path) or SummarisedState(0, 0)
    calls: list[int] = []
    try:
        session, ids = profile_file(path, scope=Scope(elsewhere=frozenset(elsewhere)))
        calls = sorted(map(call_hash, ids))
        summary = SessionSummary.of(session)
    except UserError as error:
        summary = SessionSummary(error=str(error))
    return KeptSummary(FORMAT, str(path), state, list(elsewhere), calls, summary)


def by_day(summaries: Iterable[SessionSummary]) -> Mapping[str, float]:
    """What was spent on each day, where prices are known."""
    spent: dict[str, float] = {}
    for summary in summaries:
        for used in summary.days:
            if used.day is not None and used.cost_usd is not None:
                spent[used.day] = spent.get(used.day, 0.0) + used.cost_usd
    return dict(sorted(spent.items()))
