"""What kind of transcript a file is, and the profile of one file.

Known are transcripts of parent-linked messages and Codex rollouts. Anything else is refused with what it
looks like, so that the user knows whether it is the wrong file or the wrong tool.


---

Which files to profile, and profiling them side by side.

A file that cannot be profiled is reported beside the others and stops nobody. Large amounts of work are
spread over processes, the largest files first; when the user interrupts, they are ended with it.


---

All sessions of a run added up."""

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

from msgspec import Struct, structs

from sevenfold.errors import TranscriptDenied, TranscriptForeign, TranscriptMissing, UserError
from sevenfold.lab.profile.context import LARGEST, added, decoded
from sevenfold.lab.profile.figures import (
    BreakSum,
    FailedFile,
    Growth,
    ProfileReport,
    ProfileTotal,
    SessionProfile,
    UsageSums,
)
from sevenfold.lab.profile.rollout import RolloutReader
from sevenfold.lab.profile.transcript import TranscriptReader
from sevenfold.stores.jsonl.log import Line, scan

LOOKED_AT = 200
"""Lines that are looked at before a file is given up."""

_LINKED = ("uuid", "sessionId", "leafUuid", "messageId")
_SUPPORTED = "Sevenfold profiles Claude Code transcripts, its own, and Codex rollouts."
Reader = TranscriptReader | RolloutReader


def profile_file(path: Path, name: str = "") -> tuple[SessionProfile, set[str]]:
    """The figures of a transcript and the ids of its calls; ``name`` is what the report calls the file."""
    lines = scan(path)
    reader, head = _begin(path, lines)
    for line in chain(head, lines):
        reader.take(line)
    reader.finish()
    ids = reader.session_ids
    session_id = path.stem if path.stem in ids or not ids else ids[0]
    agent_id = next(iter(reader.agent_ids)) if len(reader.agent_ids) == 1 else ""
    session = reader.books.close(name or str(path), session_id, reader.format)
    return structs.replace(session, agent_id=agent_id or None), reader.call_ids


def _begin(path: Path, lines: Iterator[Line]) -> tuple[Reader, list[Line]]:
    """The reader for the first line that settles the question, and the lines up to it."""
    head = []
    for line in islice(lines, LOOKED_AT):
        head.append(line)
        if reader := _reader(_record(line)):
            return reader, head
    raise TranscriptForeign(f"{path}: {_looks_like(head)} {_SUPPORTED}")


def not_a_conversation(path: Path) -> TranscriptForeign:
    """The error for a file in which there is nothing that could be searched, summarised or gone on with."""
    head = list(islice(scan(path), LOOKED_AT))
    reader = next(filter(None, map(_reader, map(_record, head))), None)
    if isinstance(reader, RolloutReader):
        what = "this is a Codex rollout, and of all commands only sevenfold profile reads those."
    else:
        what = "there is no conversation in it." if reader else _looks_like(head)
    return TranscriptForeign(f"{path}: {what} This reads Claude Code transcripts and Sevenfold's own.")


def _reader(record: dict[str, Any]) -> Reader | None:
    kind = record.get("type")
    if not isinstance(kind, str):
        return None
    if "timestamp" in record and isinstance(record.get("payload"), dict):
        return RolloutReader()
    return TranscriptReader() if kind == "sevenfold" or any(record.get(key) for key in _LINKED) else None


def _record(line: Line) -> dict[str, Any]:
    """The object on a line; empty if there is none."""
    record = decoded(line.raw) if line.raw else None
    return record if isinstance(record, dict) else {}


def _looks_like(head: list[Line]) -> str:
    """What a file that is no transcript seems to be."""
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


SMALL = 8_000_000
"""Bytes below which starting processes takes longer than the work."""

Progress = Callable[[int, int], None]
"""Told how many of how many bytes are done."""


class _Done(Struct, frozen=True):
    """One file, profiled or not."""

    path: Path
    session: SessionProfile | None = None
    calls: frozenset[int] = frozenset()
    error: str = ""


class FoundFiles(NamedTuple):
    """Files to profile, and paths that lead to none."""

    files: list[Path]
    failures: list[FailedFile]


def find(paths: Iterable[Path]) -> FoundFiles:
    """The transcripts under these paths: a file is taken as it is, of a folder all ``*.jsonl`` in it."""
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


def _assemble(results: list[_Done], failures: list[FailedFile]) -> ProfileReport:
    sessions = [one.session for one in results if one.session]
    seen: set[int] = set()
    copied = 0
    for one in results:
        copied += len(one.calls & seen)
        seen |= one.calls
    errors = [FailedFile(str(one.path), one.error) for one in results if one.error]
    return ProfileReport(sessions, total(sessions, copied), failures + errors)


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


def total(sessions: Sequence[SessionProfile], copied_calls: int = 0) -> ProfileTotal:
    """The sums; of peaks and largest items, the largest."""
    items = [item for session in sessions for item in session.largest_items]
    return ProfileTotal(
        sessions=len(sessions),
        api_calls=sum(session.api_calls for session in sessions),
        side_calls=sum(session.side_calls for session in sessions),
        copied_calls=copied_calls,
        usage=UsageSums(
            **_counts({n: getattr(s.usage, n) for n in UsageSums.__struct_fields__} for s in sessions)
        ),
        compactions=sum(session.compactions for session in sessions),
        clearings=sum(session.clearings for session in sessions),
        cost_usd=_money(session.cost_usd for session in sessions),
        uncached_cost_usd=_money(session.uncached_cost_usd for session in sessions),
        ideal_cost_usd=_money(session.ideal_cost_usd for session in sessions),
        unpriced_calls=sum(session.unpriced_calls for session in sessions),
        tokens_by_category=_counts(session.tokens_by_category for session in sessions),
        carried_by_category=_counts(session.carried_by_category for session in sessions),
        peak_context_tokens=max((session.peak_context_tokens for session in sessions), default=0),
        cache_breaks=_breaks(sessions),
        largest_items=sorted(items, key=lambda item: -item.tokens)[:LARGEST],
        repeated_reads=added([session.repeated_reads for session in sessions]),
        growth=_growth(sessions),
        models=dict(Counter(_counts(session.models for session in sessions)).most_common()),
        partial_outputs=sum(session.partial_outputs for session in sessions),
        damaged_lines=sum(session.damaged_lines for session in sessions),
        unknown_lines=_counts(session.unknown_lines for session in sessions),
        repairs=_counts(session.repairs for session in sessions),
    )


def _counts(each: Iterable[dict[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for counts in each:
        for name, count in counts.items():
            sums[name] += count
    return dict(sorted(sums.items()))


def _money(each: Iterable[float | None]) -> float | None:
    """The sum of what is known; None only where nothing is."""
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


def _growth(sessions: Sequence[SessionProfile]) -> Growth:
    """Medians cannot be added up, so a total has none."""
    each = [session.growth for session in sessions]
    return Growth(
        steps=sum(one.steps for one in each),
        actual_tokens=sum(one.actual_tokens for one in each),
        chars4_tokens=sum(one.chars4_tokens for one in each),
        estimate_tokens=sum(one.estimate_tokens for one in each),
    )
