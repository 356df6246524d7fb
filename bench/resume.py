"""The cost of opening a large transcript from its end, compared with reading all of it.

    python bench/resume.py [SIZE_IN_MB] [--shape own|foreign]     default: 1000, in both shapes

A transcript of that size, with a compaction every 2 MB, is written to a temporary folder and opened by a
fresh process, once with 1 MB since the last compaction and once with 10 MB. A small transcript with exactly
the same end is opened as well: if the time depends on what is in view and not on the size of the file, both
take equally long. Then all of the large one is read, in three ways.

Memory is the peak of the process above its size with all modules imported, from the kernel's high-water mark
(`VmHWM`); `ru_maxrss` would start at the size of the parent process. The file has just been written, so it is
in the page cache; on a cold disk, the number of bytes read matters more than these times.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from sevenfold.clock import CountedIds
from sevenfold.conversation.resume import fold, resume
from sevenfold.record import blocks
from sevenfold.record import log as lines
from sevenfold.record.decisions import Carry, Commit, CompactMetadata, Segment
from sevenfold.record.log import Answer, Place, Stamp
from sevenfold.stores.jsonl.log import JsonlLog

MB = 1_000_000
SIZE = 1_000 * MB
TAILS = (1 * MB, 10 * MB)
BETWEEN_BOUNDARIES = 2 * MB
SMALL = 20 * MB
"""The size of the small transcript, unless the large one is smaller than this."""
LAST_ROUNDS = 10_000_000
"""The number at which the rounds at the end start, so that they are the same in every transcript."""
RUNS = 5

MOST_MEMORY = 200
"""The memory limit in MB above the baseline."""
MOST_READ = 3
"""The read limit as a multiple of the tail: once to find the boundary, once to read from it, some for references…"""
CHUNKS = 2
"""…and the MB allowed beyond it, because files are searched in chunks."""
MOST_TIME = 2
"""The limit on CPU time as a multiple of the small transcript's, which has the same end; it allows for noise."""

MODEL, NOW = "claude-sonnet-5-5", "2026-11-01T00:00:00.000Z"
Record = dict[str, Any]


# Writing


class Writer(ABC):
    """Writes a session of any length without holding it in memory; subclasses define the record format."""

    def __init__(self, file: BinaryIO) -> None:
        self.size = 0
        self.boundaries = 0
        self.ids = CountedIds()
        self.tip: str | None = None
        self.began_at = 0
        """The byte offset at which the newest round starts…"""
        self.began_with = ""
        """…and the id of its first record."""
        self._file = file
        self._rounds = 0
        self._chance = random.Random(7)
        self._stock = "".join(self._chance.choices("etaoin shrdlu\n(){}=._XYZ0123 ", k=400_000))

    def session(self, until: int) -> None:
        """Write rounds up to a size, with a compaction at regular intervals and one at the end."""
        while self.size < until:
            self.rounds(BETWEEN_BOUNDARIES)
            last = self.size >= until
            if last:
                self._begin_anew()
                self.rounds(1)
            self.compaction(self._stock[:8_000], keeps=last or self.boundaries % 2 == 1)
            self.boundaries += 1

    def _begin_anew(self) -> None:
        """Reset the counters, so that everything written from here on is independent of the session's length."""
        self._rounds, self._chance = LAST_ROUNDS, random.Random(7)

    def rounds(self, growth: int) -> None:
        """Write rounds of this many bytes without a compaction, and flush them to the file."""
        until = self.size + growth
        while self.size < until:
            self._rounds += 1
            self.began_at, self.began_with = self.size, ""
            self.round(self._rounds, self._result())
        self._file.flush()

    def put(self, line: bytes, uuid: str = "") -> None:
        """Write a line; if it has an id, it becomes the parent of the next one."""
        self._file.write(line)
        self.size += len(line)
        self.tip = uuid or self.tip
        self.began_with = self.began_with or uuid

    def _result(self) -> str:
        size = 100_000 if self._rounds % 50 == 0 else self._chance.randint(2_000, 8_000)
        start = self._chance.randrange(len(self._stock) - size)
        return self._stock[start : start + size]

    @abstractmethod
    def round(self, number: int, result: str) -> None:
        """Write an answer with a tool call, and the result."""

    @abstractmethod
    def compaction(self, summary: str, *, keeps: bool) -> None:
        """Write a compaction, which preserves the newest round if ``keeps`` is set."""


class OwnWriter(Writer):
    """Writes our own format: one record per answer, and compactions that say where to resume reading."""

    place = Place("bench", cwd="/project", version="0.1.0")

    def round(self, number: int, result: str) -> None:
        call, usage = f"toolu_{number}", msgspec.Raw(b'{"input_tokens":%d,"output_tokens":90}' % number)
        parts = blocks.text("Let me look."), blocks.read(msgspec.json.encode(_call(call)))
        answer = Answer(f"msg_{number}", MODEL, parts, usage, "tool_use")
        uuid = self.ids.new()
        self.put(lines.said_by_model(Stamp(self.place, uuid, self.tip, NOW), answer).line, uuid)
        uuid = self.ids.new()
        self.put(
            lines.said_by_user(Stamp(self.place, uuid, self.tip, NOW), [blocks.result(call, result)]).line,
            uuid,
        )

    def compaction(self, summary: str, *, keeps: bool) -> None:
        boundary, anchor = self.ids.new(), self.ids.new()
        segment = Segment(self.began_with, anchor, self.tip or "") if keeps else None
        about = CompactMetadata(pre_tokens=170_000, preserved_segment=segment)
        carry = Carry(
            id=self.ids.new(),
            at=anchor,
            timestamp=NOW,
            boundary=boundary,
            segment_offset=self.began_at if keeps else None,
        )
        commit = Commit(id=self.ids.new(), at=anchor, timestamp=NOW, boundary=boundary)
        said = [blocks.text(summary)]
        self.put(lines.compacted(Stamp(self.place, boundary, self.tip, NOW), about).line)
        self.put(
            lines.said_by_user(Stamp(self.place, anchor, boundary, NOW), said, summary=True).line, anchor
        )
        self.put(lines.decided(carry).line)
        self.put(lines.decided(commit).line)


class ForeignWriter(Writer):
    """Writes the format of other tools: one record per block, progress records in the chain, every result twice."""

    def round(self, number: int, result: str) -> None:
        call, usage = f"toolu_{number}", {"input_tokens": number, "output_tokens": 90}
        for block in ({"type": "text", "text": "Let me look."}, _call(call)):
            message = {"role": "assistant", "id": f"msg_{number}", "model": MODEL, "content": [block]}
            self._record("assistant", message={**message, "usage": usage})
        self._record("progress", data={"type": "hook_progress"})
        answer = {"type": "tool_result", "tool_use_id": call, "content": result}
        self._record(
            "user", message={"role": "user", "content": [answer]}, toolUseResult={"stdout": result}
        )

    def compaction(self, summary: str, *, keeps: bool) -> None:
        anchor, tail = self.ids.new(), self.tip
        segment = {"headUuid": self.began_with, "anchorUuid": anchor, "tailUuid": tail}
        about = {
            "trigger": "auto",
            "preTokens": 170_000,
            **({"preservedSegment": segment} if keeps else {}),
        }
        self.tip = None
        self._record("system", subtype="compact_boundary", logicalParentUuid=tail, compactMetadata=about)
        said = {"role": "user", "content": summary}
        self._record("user", uuid=anchor, message=said, isCompactSummary=True)

    def _record(self, kind: str, *, uuid: str = "", **fields: Any) -> None:
        uuid = uuid or self.ids.new()
        head = {"parentUuid": self.tip, "isSidechain": False, "type": kind, "uuid": uuid, "timestamp": NOW}
        self.put(msgspec.json.encode({**head, **fields}) + b"\n", uuid)


WRITERS: dict[str, type[Writer]] = {"own": OwnWriter, "foreign": ForeignWriter}


def _call(name: str) -> Record:
    return {"type": "tool_use", "id": name, "name": "Read", "input": {"path": "src/module.py"}}


# Reading, in a separate process


def _open(path: Path) -> int:
    return len(resume(JsonlLog(path)).items)


def _decode(path: Path) -> int:
    decoder = msgspec.json.Decoder()
    with path.open("rb") as file:
        return sum(1 for line in file if decoder.decode(line))


def _keep(path: Path) -> int:
    with path.open("rb") as file:
        return len([json.loads(line) for line in file])


def _fold(path: Path) -> int:
    return len(fold(JsonlLog(path)).items)


WAYS: dict[str, Callable[[Path], int]] = {"open": _open, "decode": _decode, "keep": _keep, "fold": _fold}
WHOLE = {
    "decode": "decode every line, keep nothing",
    "keep": "json.loads every line, keep all",
    "fold": "fold from the start",
}


def _held(field: str) -> float:
    """Return a memory field of `/proc/self/status` in MB; without that file, the peak from `getrusage`."""
    status = Path("/proc/self/status")
    if not status.exists():
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MB
    return next(int(line.split()[1]) * 1024 / MB for line in status.open() if line.startswith(field))


def _read_so_far() -> int:
    account = Path("/proc/self/io")
    return int(account.read_text().split()[1]) if account.exists() else 0


def _child(way: str, path: Path) -> Record:
    """Read the transcript in one of the ways and return its cost; runs in a fresh process."""
    held, read = _held("VmRSS"), _read_so_far()
    wall, cpu = time.perf_counter(), time.process_time()
    items = WAYS[way](path)
    return {
        "items": items,
        "cpu_ms": (time.process_time() - cpu) * 1e3,
        "wall_ms": (time.perf_counter() - wall) * 1e3,
        "memory_mb": _held("VmHWM") - held,
        "read_mb": (_read_so_far() - read) / MB,
    }


def _fresh(way: str, path: Path, runs: int) -> Record:
    """Return the medians over several fresh processes, and the largest memory use."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", way, str(path)]
    found = [
        json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(runs)
    ]
    middle = {key: statistics.median(one[key] for one in found) for key in found[0]}
    return {**middle, "memory_mb": max(one["memory_mb"] for one in found)}


# Measuring


def measure(
    size_bytes: int = SIZE,
    *,
    shape: str = "own",
    tails: Sequence[int] = TAILS,
    whole: Sequence[str] = tuple(WHOLE),
    runs: int = RUNS,
) -> Record:
    """Return all figures for a transcript of that size; `bars` holds (name, figure, bar, met)."""
    with tempfile.TemporaryDirectory() as name:
        _room(Path(name), size_bytes + max(tails))
        paths = Path(name, "large.jsonl"), Path(name, "small.jsonl")
        with paths[0].open("wb") as large, paths[1].open("wb") as small:
            writers = WRITERS[shape](large), WRITERS[shape](small)
            writers[0].session(size_bytes)
            writers[1].session(min(size_bytes, SMALL))
            rows = [
                {
                    "tail": tail,
                    "open": _fresh("open", paths[0], runs),
                    "small": _fresh("open", paths[1], runs),
                }
                for tail in _growth(tails, writers)
            ]
        read_whole = {way: _fresh(way, paths[0], 1) for way in whole if _fits(way, size_bytes)}
        found = {
            "shape": shape,
            "size": paths[0].stat().st_size,
            "boundaries": writers[0].boundaries,
            "tails": rows,
            "whole": read_whole,
        }
    return {**found, "bars": bars(found)}


def _growth(tails: Sequence[int], writers: tuple[Writer, Writer]) -> Iterator[int]:
    """Grow both transcripts to each tail size in turn, and yield it."""
    written = 0
    for tail in sorted(tails):
        for writer in writers:
            writer.rounds(tail - written)
        written = tail
        yield tail


def _room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < 1.2 * needed:
        raise SystemExit(
            f"{folder.parent}: {needed // MB:,} MB needed, {free // MB:,} free; name a smaller size"
        )


def _fits(way: str, size: int) -> bool:
    """Whether there is enough memory for a way that holds everything."""
    account = Path("/proc/meminfo")
    if way == "decode" or not account.exists():
        return True
    available = next(int(line.split()[1]) for line in account.open() if line.startswith("MemAvailable"))
    return available * 1024 > 5 * size


def bars(found: Record) -> list[tuple[str, float, float, bool]]:
    """Return the acceptance bars: (name, figure, bar, met)."""
    result: list[tuple[str, float, float, bool]] = []
    for row in found["tails"]:
        opened, small, tail = row["open"], row["small"], row["tail"] / MB
        memory, read, most = opened["memory_mb"], opened["read_mb"], MOST_READ * tail + CHUNKS
        times, missing = opened["cpu_ms"] / max(small["cpu_ms"], 0.1), small["items"] - opened["items"]
        result += [
            (f"{tail:g} MB tail: records missing in view", missing, 0, missing == 0),
            (f"{tail:g} MB tail: MB above baseline", memory, MOST_MEMORY, memory < MOST_MEMORY),
            (f"{tail:g} MB tail: MB read", read, most, read <= most),
            (f"{tail:g} MB tail: CPU, x small file", times, MOST_TIME, times <= MOST_TIME),
        ]
    return result


def show(found: Record) -> None:
    """Print the figures as a table."""
    shape = "our own shape" if found["shape"] == "own" else "the shape of other tools"
    print(f"\n{found['size'] / MB:,.0f} MB in {shape}, {found['boundaries']} compactions")
    print(f"{'':34}{'CPU ms':>10}{'wall ms':>10}{'memory MB':>11}{'read MB':>10}{'x CPU':>9}")
    base = found["tails"][0]["open"]["cpu_ms"]
    for row in found["tails"]:
        tail = f"{row['tail'] / MB:g} MB tail"
        _show_row(f"open, {tail}", row["open"], base)
        _show_row("  the same, small file", row["small"], base)
    for way, row in found["whole"].items():
        _show_row(WHOLE[way], row, base)


def _show_row(label: str, row: Record, base: float) -> None:
    print(
        f"{label:34}{row['cpu_ms']:>10,.1f}{row['wall_ms']:>10,.1f}{row['memory_mb']:>11,.1f}"
        f"{row['read_mb']:>10,.1f}{row['cpu_ms'] / base:>9,.1f}"
    )


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return exit status 0 if all bars are met, else 1."""
    parser = argparse.ArgumentParser(description="What opening a large transcript costs.")
    parser.add_argument("size", nargs="?", type=int, default=SIZE // MB, help="of the transcript, in MB")
    parser.add_argument("--shape", choices=WRITERS, help="write it in this shape alone")
    options = parser.parse_args(arguments)
    met = True
    for shape in [options.shape] if options.shape else WRITERS:
        found = measure(options.size * MB, shape=shape)
        show(found)
        for name, figure, bar, passed in found["bars"]:
            print(f"{'pass' if passed else 'FAIL'}  {name}: {figure:.2f} (at most {bar})")
            met = met and passed
    return 0 if met else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(_child(sys.argv[2], Path(sys.argv[3]))))
    else:
        raise SystemExit(main(sys.argv[1:]))
