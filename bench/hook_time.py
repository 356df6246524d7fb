"""The time each hook of the plugin for Claude Code takes, on transcripts of 5 and 50 MB.

    python -m bench.hook_time [--runs N] [FILE…]

Each hook is run as the program runs it: the plugin's own command line in a shell, the event on standard input. The time
is that of the whole process, from its start to its end, with the files in the page cache; the bar is on the 95th
percentile. The transcripts are made up: a message of the user every ten rounds, each round with words of the model, a
call, and a result of 1 to 6 KB that the program stores a second time in a field of its own, as Claude Code does. With
FILE, those transcripts are used instead, and the bar is the one for the next larger size. The hooks after a compaction
are measured both with the texts that were prepared and without. If the processes waited longer than they worked, the
machine was busy, and there is no verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sevenfold.doors.plugins import shared
from tests.profile.making import Tape, call, result, text, usage

MEGABYTE = 1_000_000
BARS = {5: 0.3, 50: 2.0}
"""Seconds, by the megabytes of the transcript."""
RUNS = 20
HOOKS = ("session-starts", "before-message", "before-compaction", "words", "things", "state", "status-line")
NOUNS = ("harbour", "ledger", "parser", "window", "invoice", "tunnel", "beacon", "schema", "kernel", "pier")
VERBS = ("build", "check", "rename", "move", "test", "measure", "remove", "explain", "split", "merge")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sevenfold-hooks-") as folder:
        os.environ["SEVENFOLD_HOME"] = str(Path(folder) / "home")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its bytecode compiled
        files = options.files or [transcript(size, Path(folder)) for size in BARS]
        slow = [row for path in files for row in measured(path, options.runs)]
    for row in slow:
        print(f"too slow: {row}")
    return 1 if slow else 0


def measured(path: Path, runs: int) -> Iterator[str]:
    """Time every hook on a transcript; yields those that are too slow."""
    megabytes = path.stat().st_size / MEGABYTE
    bar = next((seconds for size, seconds in BARS.items() if megabytes < size * 1.2), max(BARS.values()))
    print(f"{path.name}, {megabytes:.1f} MB; bar: p95 below {bar * 1_000:.0f} ms")
    print(f"{'hook':34}{'p50':>8}{'p95':>8}{'CPU p50':>9}  (ms)")
    for hook in (*HOOKS, "words", "things", "state"):
        prepared = hook in ("words", "things", "state") and hook in _measured_before(path)
        _measured_before(path).add(hook)
        if prepared:
            timed("before-compaction", path)
        else:
            timed("before-message", path)  # forgets what was prepared
        times = []
        for _ in range(runs):
            times.append(timed(hook, path))
            if hook == "before-compaction":
                timed("before-message", path)
        walls = sorted(wall for wall, _ in times)
        works = sorted(work for _, work in times)
        p95 = walls[min(len(walls) - 1, round(0.95 * len(walls)))]
        name = f"{hook}{', prepared' if prepared else ''}"
        row = f"{name:34}{walls[len(walls) // 2] * 1_000:8.0f}{p95 * 1_000:8.0f}{works[len(works) // 2] * 1_000:9.0f}"
        busy = sum(walls) > 2 * sum(works)
        print(row + ("  the machine was busy: no verdict" if busy else ""))
        if p95 > bar and not busy:
            yield f"{path.name}: {' '.join(row.split())}"


_BEFORE: dict[Path, set[str]] = {}


def _measured_before(path: Path) -> set[str]:
    return _BEFORE.setdefault(path, set())


def timed(hook: str, path: Path) -> tuple[float, float]:
    """The seconds and the CPU seconds of one call of a hook."""
    event = {
        "session_id": "s-1",
        "transcript_path": str(path),
        "cwd": str(path.parent),
        "source": "compact",
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    subprocess.run(
        ["sh", "-c", shared.command(hook)],
        input=json.dumps({**event, "prompt": "Go on."}).encode(),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    passed = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return passed, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def transcript(megabytes: int, folder: Path) -> Path:
    """A made-up transcript of this size."""
    chance = random.Random(megabytes)
    tape = Tape(cwd="/projects/harbour", version="2.1.327", gitBranch="main", userType="external")
    size = number = 0
    while size < megabytes * MEGABYTE:
        written = len(tape.lines)
        if number % 10 == 0:
            tape.user(f"Request {number}: {_words(chance, chance.randint(15, 120))}.")
        _round(tape, chance, number)
        size += sum(len(line) for line in tape.lines[written:])
        number += 1
    return tape.save(folder / f"made-up-{megabytes}.jsonl")


def _round(tape: Tape, chance: random.Random, number: int) -> None:
    name, given = _call(chance, number)
    report = usage(5, read=60_000, short=chance.randint(200, 3_000), output=200)
    said = text(f"{_words(chance, chance.randint(8, 50)).capitalize()}. See `{_name(chance)}`.")
    tape.answer(f"msg_{number}", report, said, call(name, f"toolu_{number}", **given), stop="tool_use")
    failed = chance.random() < 0.08
    output = "\n".join(_line(chance) for _ in range(chance.randint(12, 80)))
    if failed:
        output = f"Exit code 1\nError: {_words(chance, 6)} in {_name(chance)}\n{output}"
    tape.user(result(f"toolu_{number}", output, is_error=failed), toolUseResult={"stdout": output})


def _call(chance: random.Random, number: int) -> tuple[str, dict[str, Any]]:
    path = f"/projects/harbour/src/{chance.choice(NOUNS)}/{_name(chance)}.py"
    return chance.choice(
        [
            ("Read", {"file_path": path}),
            ("Bash", {"command": f"pytest -q tests/{_name(chance)}.py --maxfail {number % 7}"}),
            ("Edit", {"file_path": path, "old_string": _line(chance), "new_string": _line(chance)}),
            ("Grep", {"pattern": _name(chance), "path": "/projects/harbour/src"}),
        ]
    )


def _line(chance: random.Random) -> str:
    return f"    {_name(chance)} = {_name(chance)}({chance.randint(1, 9_999)})  # {_words(chance, 5)}"


def _name(chance: random.Random) -> str:
    return f"{chance.choice(VERBS)}_{chance.choice(NOUNS)}_{chance.randint(1, 400)}"


def _words(chance: random.Random, number: int) -> str:
    return " ".join(chance.choice(chance.choice((NOUNS, VERBS))) for _ in range(number))


if __name__ == "__main__":
    sys.exit(main())
