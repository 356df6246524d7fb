"""Profiling files: which files, in which format, in several processes, and the sum of all sessions.

Transcripts of parent-linked messages and Codex rollouts are known; anything else is refused with what it looks like, so
that the user knows whether it is the wrong file or the wrong tool. A file that cannot be profiled is listed with its
error and does not stop the others. Large amounts of work are spread over processes, the largest files first; an
interrupt ends them too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from hashlib import blake2b
from itertools import chain, islice
from math import fsum
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from sevenfold.errors import TranscriptDenied, TranscriptForeign, TranscriptMissing, UserError
from sevenfold.lab.profile.context import LARGEST, added
from sevenfold.lab.profile.figures import (
    BreakSum,
    FailedFile,
    Growth,
    ProfileReport,
    ProfileTotal,
    SessionProfile,
    UsageSums,
)
from sevenfold.lab.profile.labels import decoded
from sevenfold.lab.profile.transcript import CODEX, TranscriptReader
from sevenfold.record import rollout
from sevenfold.stores.jsonl.log import JsonlLog, Line, scan
from sevenfold.stores.log import LineLog
from sevenfold.stores.memory import MemoryLog

LOOKED_AT = 200
"""Lines that are read before a file counts as foreign."""
SMALL = 8_000_000
"""Bytes below which starting processes takes longer than the work."""
Progress = Callable[[int, int], None]
"""Called with how many of how many bytes are done."""
_LINKED = ("uuid", "sessionId", "leafUuid", "messageId")
_SUPPORTED = "Sevenfold reads Claude Code transcripts, Codex rollouts, and its own."


def profile_file(path: Path, name: str = "") -> tuple[SessionProfile, set[str]]:
    """The profile of a transcript and the ids of its calls; ``name`` is what the report calls the file."""
    lines = scan(path)
    form, head = _begin(path, lines)
    reader = TranscriptReader(form)
    for line in _converted(chain(head, lines)) if form == CODEX else chain(head, lines):
        reader.take(line)
    reader.finish()
    ids = reader.session_ids
    session_id = path.stem if path.stem in ids or not ids else ids[0]
    agent_id = next(iter(reader.agent_ids)) if len(reader.agent_ids) == 1 else ""
    session = reader.books.close(name or str(path), session_id, reader.format)
    return structs.replace(session, agent_id=agent_id or None), reader.call_ids


def _converted(lines: Iterable[Line]) -> Iterator[Line]:
    return (Line(0, raw) for raw in rollout.convert(line.raw for line in lines))


def _begin(path: Path, lines: Iterator[Line]) -> tuple[str, list[Line]]:
    """The format of the first line whose format is known, and the lines up to it."""
    head = []
    for line in islice(lines, LOOKED_AT):
        head.append(line)
        if form := _format(_record(line)):
            return form, head
    raise TranscriptForeign(f"{path}: {_looks_like(head)} {_SUPPORTED}")


def open_log(path: Path) -> LineLog:
    """The log of a session, ours or another tool's; a rollout is converted, and its file only read.

    Raises `TranscriptForeign` if no conversation is in it.
    """
    head = list(islice(scan(path), LOOKED_AT))
    form = next(filter(None, map(_format, map(_record, head))), "")
    if not form:
        raise TranscriptForeign(f"{path}: {_looks_like(head)} {_SUPPORTED}")
    return (
        MemoryLog(list(rollout.convert(line.raw for line in scan(path))))
        if form == CODEX
        else JsonlLog(path)
    )


def not_a_conversation(path: Path) -> TranscriptForeign:
    """The error for a file that holds no conversation to search, summarise or resume."""
    return TranscriptForeign(f"{path}: there is no conversation in it. {_SUPPORTED}")


def _format(record: dict[str, Any]) -> str:
    """The format of a record; empty if it is unknown."""
    kind = record.get("type")
    if not isinstance(kind, str):
        return ""
    if rollout.is_rollout(record):
        return CODEX
    return "transcript" if kind == "sevenfold" or any(record.get(key) for key in _LINKED) else ""


def _record(line: Line) -> dict[str, Any]:
    """The object on a line; empty if there is no object."""
    record = decoded(line.raw) if line.raw else None
    return record if isinstance(record, dict) else {}


def _looks_like(head: list[Line]) -> str:
    """What a foreign file looks like."""
    if not any(line.problem or line.raw.strip() for line in head):
        return "the file is empty."
    start = b"".join(line.raw[:4096] for line in head[:8])
    if b"\0" in start:
        return "this is a binary file, not a transcript."
    first, opens = next(filter(None, map(_record, head)), {}), start.lstrip()[:1]
    if opens == b"[" or (not first and opens == b"{"):
        return "this is JSON, but not one record on each line."
    if not first:
        return "this is not JSONL: no line of it is a JSON object."
    if first.get("type") == "session" and "cwd" in first:
        return "this looks like a pi session, a format that is not supported."
    if {"id", "instructions"} <= first.keys() or first.get("record_type"):
        return "this looks like a rollout of an early Codex, a format that is not supported."
    keys = ", ".join(sorted(map(str, first))[:6])
    return f"these are JSON records of an unknown kind (with {keys})."


class FoundFiles(NamedTuple):
    """Files to profile, and paths without any."""

    files: list[Path]
    failures: list[FailedFile]


def find(paths: Iterable[Path]) -> FoundFiles:
    """The transcripts under these paths: files themselves, and all ``*.jsonl`` in folders."""
    files: dict[Path, Path] = {}
    failures = []
    for path in paths:
        try:
            for file in _under(path):
                files.setdefault(file.resolve(), file)
        except UserError as error:
            failures.append(FailedFile(str(path), str(error)))
        except OSError as error:
            failures.append(FailedFile(str(path), f"{path}: cannot be opened: {error.strerror}"))
    return FoundFiles(list(files.values()), failures)


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


def profile(
    found: FoundFiles, *, jobs: int | None = None, progress: Progress | None = None
) -> ProfileReport:
    """The profile of these files, in their order; ``jobs`` limits the processes."""
    files = found.files
    sizes = {file: _size(file) for file in files}
    work, done = sum(sizes.values()), 0
    jobs = min(jobs or os.cpu_count() or 1, len(files)) if work > SMALL else 1
    results: dict[Path, _Profiled] = {}
    if progress:
        progress(0, work)
    for one in map(_one, files) if jobs <= 1 else _together(sorted(files, key=lambda f: -sizes[f]), jobs):
        results[one.path] = one
        done += sizes[one.path]
        if progress:
            progress(done, work)
    ordered = [results[file] for file in files]
    sessions = [one.session for one in ordered if one.session]
    seen: set[int] = set()
    copied = 0
    for one in ordered:
        copied += len(one.calls & seen)
        seen |= one.calls
    errors = [FailedFile(str(one.path), one.error) for one in ordered if one.error]
    return ProfileReport(sessions, total(sessions, copied), found.failures + errors)


class _Profiled(NamedTuple):
    """One file with its profile or its error."""

    path: Path
    session: SessionProfile | None = None
    calls: frozenset[int] = frozenset()
    """Hashes of the ids of its calls, the same in every process."""
    error: str = ""


def _one(path: Path) -> _Profiled:
    try:
        session, calls = profile_file(path)
    except UserError as error:
        return _Profiled(path, error=str(error))
    hashes = (blake2b(call.encode(errors="replace"), digest_size=8).digest() for call in calls)
    return _Profiled(path, session, frozenset(map(int.from_bytes, hashes)))


def _together(files: Sequence[Path], jobs: int) -> Iterator[_Profiled]:
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
    """The parent ends its children; a stack trace from each would be noise."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def total(sessions: Sequence[SessionProfile], copied_calls: int = 0) -> ProfileTotal:
    """The sums; of peaks and largest items, the largest."""

    def summed(name: str) -> int:
        return sum(getattr(session, name) for session in sessions)

    def counted(name: str) -> dict[str, int]:
        return _counts(getattr(session, name) for session in sessions)

    items = [item for session in sessions for item in session.largest_items]
    usage = _counts(structs.asdict(session.usage) for session in sessions)
    growth = [structs.asdict(session.growth) for session in sessions]
    steps = ("steps", "actual_tokens", "chars4_tokens", "estimate_tokens")  # Medians cannot be added up.
    return ProfileTotal(
        sessions=len(sessions),
        api_calls=summed("api_calls"),
        side_calls=summed("side_calls"),
        copied_calls=copied_calls,
        usage=UsageSums(**usage),
        compactions=summed("compactions"),
        clearings=summed("clearings"),
        cost_usd=_money(session.cost_usd for session in sessions),
        uncached_cost_usd=_money(session.uncached_cost_usd for session in sessions),
        ideal_cost_usd=_money(session.ideal_cost_usd for session in sessions),
        unpriced_calls=summed("unpriced_calls"),
        tokens_by_category=counted("tokens_by_category"),
        carried_by_category=counted("carried_by_category"),
        peak_context_tokens=max((session.peak_context_tokens for session in sessions), default=0),
        cache_breaks=_breaks(sessions),
        largest_items=sorted(items, key=lambda item: -item.tokens)[:LARGEST],
        repeated_reads=added([session.repeated_reads for session in sessions]),
        growth=Growth(**{name: sum(one[name] for one in growth) for name in steps}),
        models=dict(Counter(counted("models")).most_common()),
        partial_outputs=summed("partial_outputs"),
        damaged_lines=summed("damaged_lines"),
        unknown_lines=counted("unknown_lines"),
        repairs=counted("repairs"),
    )


def _counts(each: Iterable[dict[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for counts in each:
        for name, count in counts.items():
            sums[name] += count
    return dict(sorted(sums.items()))


def _money(each: Iterable[float | None]) -> float | None:
    """The sum of the known amounts; None if there are amounts and none is known."""
    amounts = list(each)
    known = [amount for amount in amounts if amount is not None]
    return fsum(known) if known or not amounts else None


def _breaks(sessions: Sequence[SessionProfile]) -> list[BreakSum]:
    found = defaultdict(list)
    for session in sessions:
        for one in session.cache_breaks:
            found[one.cause].append(one)
    sums = [
        BreakSum(cause, sum(one.tokens for one in each), len(each), _money(one.cost_usd for one in each))
        for cause, each in found.items()
    ]
    return sorted(sums, key=lambda one: -one.tokens)
