"""Every acceptance point, measured in full: pass or fail, with the figure and the bar.

    python bench/prove.py [--corpus FOLDER] [--only WORD] [--list]

Each measurement runs in a process of its own, one after the other, so that none disturbs the next and one that
dies is a failure like any other. Real transcripts are looked for in `../shared/corpus`; without them, what
needs them is skipped, and says so. Ends with 1 if any point fails.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.points import Outcome, Point

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
MODULES = ("corpus", "counting", "cost", "session", "compaction", "robustness", "agent")
"""Of `bench/points`, in the order they are run."""
VERDICTS = {True: "pass", False: "FAIL", None: "skip"}


def points() -> list[Point]:
    """All there are."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return [point for name in MODULES for point in import_module(f"bench.points.{name}").POINTS]


def measured(point: Point, corpus: Path | None) -> list[Outcome]:
    """What a point comes to, in a process of its own."""
    name, measurement = point
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        future = pool.submit(measurement, corpus)
        error = future.exception()
    if error is None:
        return future.result()
    outcome: type[Outcome] = import_module("bench.points").Outcome
    return [outcome(name, False, f"{type(error).__name__}: {error}")]


def show(outcome: Outcome) -> None:
    """Print one line."""
    asked = f"  ({outcome.bar})" if outcome.bar else ""
    print(f"{VERDICTS[outcome.met]}  {outcome.name}: {outcome.figure}{asked}", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Measure, report, and say by the exit status whether all points hold."""
    parser = argparse.ArgumentParser(description="Every acceptance point, measured in full.")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="a folder of real transcripts")
    parser.add_argument("--only", default="", help="only the measurements with this word in their name")
    parser.add_argument("--list", action="store_true", help="name the measurements and do nothing")
    options = parser.parse_args(arguments)
    chosen = [point for point in points() if options.only in point[0]]
    if options.list:
        print(*(name for name, _ in chosen), sep="\n")
        return 0
    corpus = options.corpus.resolve() if options.corpus.is_dir() else None
    begin, verdicts = time.monotonic(), Counter[bool | None]()
    for number, point in enumerate(chosen, 1):
        print(f"[{number}/{len(chosen)}] {point[0]} ...", file=sys.stderr, flush=True)
        for outcome in measured(point, corpus):
            verdicts[outcome.met] += 1
            show(outcome)
    print(
        f"\n{verdicts[True]} passed, {verdicts[False]} failed, {verdicts[None]} skipped "
        f"in {time.monotonic() - begin:.0f} s"
    )
    return 1 if verdicts[False] or not verdicts else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
