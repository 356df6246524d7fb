"""Mutation testing: small faults in the engine's core, each run against the tests that cover its line.

The tests run once with coverage in a copy of the tree, which gives a map from lines to tests (`bench.points.line_map`).
It is measured before a fault is drawn and knows nothing of them, so no test is chosen for a fault but by the line. Then
each fault is put into a copy, and tests that cover its line run, in this order:

- those that run the fewest lines, because they are the most specific;
- by turns, those that compare with a recording, because it has every byte that is logged and sent, and the rest: one
  of every test module, then another of each, because tests of one module look at the same behaviour, and what the
  nearest ones miss is more likely seen by others than by more of the same.

Time is what is short, not the number of tests: one may take a thousand times as long as another. So as many run as take
`MOST_SECONDS` together.

    python -m bench.points.mutation --number 20 --seed 12345

tries faults of another seed and prints those that no test notices; without a seed, one is drawn and printed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, zip_longest
from pathlib import Path
from queue import Queue

import pytest

from bench.points import Outcome, Point, is_quick
from bench.points.faults import Fault, choose
from bench.points.line_map import LineMap, line_map, module_of

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = (
    *("record", "request", "conversation", "layers", "stores"),
    *("recall", "memory", "session", "providers", "archive"),
)
CORE = tuple(f"src/sevenfold/{name}" for name in PACKAGES)
TESTS = (
    *(f"tests/{name}" for name in ("record", "request", "layers", "compaction", "engine", "session")),
    *(f"tests/{name}" for name in ("fidelity", "memory", "redaction", "scenarios", "hooks", "team")),
    *(f"tests/{name}" for name in ("stores", "storage", "recall", "archive", "profile", "clients")),
    *(f"tests/{name}" for name in ("settings", "commands")),
    *(f"tests/agent/test_{name}.py" for name in ("agent_waiting", "agent_resuming", "second_machine")),
    *(f"tests/agent/test_agent_{name}.py" for name in ("file_modes", "speaking_for_the_user")),
    *(f"tests/test_{name}.py" for name in ("gauge", "price", "rules", "tokens", "window", "wiring")),
    *(f"tests/recorded/{name}.py" for name in ("test_recorded", "test_recorded_parts")),
)
"""The tests of the core."""
RECORDED = re.compile(r"tests/recorded/.*_recorded\[")
"""Matches the names of tests that compare a scenario or a part with its recording."""
QUICK_CORE = ("src/sevenfold/record", "src/sevenfold/request")
QUICK_TESTS = (
    *("tests/record", "tests/request", "tests/layers"),
    *(f"tests/test_{name}.py" for name in ("gauge", "price", "tokens", "window")),
    *(f"tests/recorded/{name}.py" for name in ("test_recorded", "test_recorded_parts")),
)
"""A part of the core and its tests, small enough to be mapped in two minutes."""
SEED, NUMBER, FEW = 7, 80, 10
BAR = 0.85
MOST_SECONDS = 60.0
"""How long the tests chosen for a fault took together when they were mapped, which is with coverage."""
NEAREST, RECORDINGS = 100, 50
"""How many of the most specific tests run first, and how many of those that compare with a recording."""
SHORTEST = 0.01
"""Seconds that a test counts for at least: pytest needs some for each."""
CPU_SECONDS = 180
"""More than any selection of tests needs: a run that takes longer is in an endless loop."""
PATIENCE = 400
"""Wall-clock seconds after which a run counts as hung, even if it uses no CPU time."""
COPIES = 2


def copy_tree(folder: Path) -> Path:
    """Copy the files under version control to a folder, with their modification times; returns the folder."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def run_tests(
    tree: Path,
    arguments: Sequence[str],
    *,
    limited: bool = False,
    report: Path | None = None,
    **more: str,
) -> int:
    """Run pytest in a copy and return its exit code, which is negative if the run was killed."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "SEVENFOLD_PROVE": "faults", **more}

    def begin() -> None:
        # A shell lets its background processes ignore interrupts, and tests that send some would wait for ever.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if limited:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))

    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    with (
        (report or Path(os.devnull)).open("wb") as output,
        subprocess.Popen(
            command,
            cwd=tree,
            env=environment,
            stdout=output,
            stderr=subprocess.DEVNULL,
            preexec_fn=begin,
            start_new_session=True,
        ) as child,
    ):
        try:
            return child.wait(PATIENCE if limited else None)
        except subprocess.TimeoutExpired:
            child.kill()
            return -1


def mapped(tree: Path, core: Sequence[str] = CORE, tests: Sequence[str] = TESTS) -> LineMap:
    """Which tests run which lines of the core."""

    def measure(arguments: Sequence[str], report: Path, data_file: Path) -> int:
        return run_tests(tree, arguments, report=report, COVERAGE_FILE=str(data_file))

    return line_map(tree, core, tests, measure)


def tests_for(fault: Fault, line_map: LineMap) -> list[str]:
    """The tests to run against a fault, as many as there is time for."""
    running = line_map.running(fault.path, fault.line)
    nearest = running[:NEAREST]
    rest = running[NEAREST:]
    recordings = [test for test in rest if RECORDED.search(test)][:RECORDINGS]
    others = in_turn(test for test in rest if test not in recordings)
    chosen: list[str] = []
    seconds = 0.0
    for test in filter(None, (*nearest, *chain.from_iterable(zip_longest(recordings, others)))):
        seconds += max(line_map.tests[test].seconds, SHORTEST)
        if seconds > MOST_SECONDS and chosen:
            break
        chosen.append(test)
    return chosen


def in_turn(tests: Iterable[str]) -> Iterator[str]:
    """The first test of each module, then the second of each, and so on."""
    modules: dict[str, list[str]] = {}
    for test in tests:
        modules.setdefault(module_of(test), []).append(test)
    for tests_in_turn in zip_longest(*modules.values()):
        yield from filter(None, tests_in_turn)


def is_noticed(tree: Path, fault: Fault, tests: Sequence[str]) -> bool:
    """Whether any of the tests fails or hangs with the fault in the copy."""
    path = tree / fault.path
    source, stat = path.read_bytes(), path.stat()
    path.write_bytes(fault.applied(source))
    try:
        code = run_tests(tree, tests, limited=True) if tests else 0
    finally:
        # Bytecode compiled from the faulty file must not outlive the fault.
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
        path.write_bytes(source)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    # No test ran, because of the fault or because a test was renamed since it was mapped: retry without the fault.
    return run_tests(tree, tests, limited=True) == 0 if code >= pytest.ExitCode.INTERRUPTED else code != 0


def unnoticed(
    number: int, seed: int = SEED, core: Sequence[str] = CORE, tests: Sequence[str] = TESTS
) -> list[Fault]:
    """Draw ``number`` faults and return those that no test notices."""
    with tempfile.TemporaryDirectory() as folder:
        trees = [copy_tree(Path(folder, str(index))) for index in range(COPIES)]
        measured = mapped(trees[0], core, tests)
        free: Queue[Path] = Queue()
        for tree in trees:
            free.put(tree)

        def tried(fault: Fault) -> bool:
            tree = free.get()
            tests = tests_for(fault, measured)
            # Most faults are noticed by the nearest tests; importing the modules of the others takes longer than those.
            try:
                return is_noticed(tree, fault, tests[:NEAREST]) or is_noticed(tree, fault, tests[NEAREST:])
            finally:
                free.put(tree)

        faults = choose(trees[0], core, number, seed)
        with ThreadPoolExecutor(COPIES) as pool:
            return [
                fault for fault, noticed in zip(faults, pool.map(tried, faults), strict=True) if not noticed
            ]


def noticing(_: Path | None) -> list[Outcome]:
    """The share of small faults in the core that the tests notice."""
    number = FEW if is_quick() else NUMBER
    missed = unnoticed(number, SEED, *((QUICK_CORE, QUICK_TESTS) if is_quick() else (CORE, TESTS)))
    for fault in missed:
        print(f"      not noticed: {fault}", flush=True)
    share = 1 - len(missed) / number
    figure = f"{number - len(missed)} of {number}"
    return [Outcome("faults in the core that tests notice", share >= BAR, figure, f"at least {BAR:.0%}")]


POINTS: list[Point] = [("small faults in the core", noticing)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Try the faults of a seed from the command line."""
    parser = argparse.ArgumentParser(
        description="Small faults in the core, each run against the nearest tests."
    )
    parser.add_argument("--number", type=int, default=NUMBER)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    seed: int = random.randrange(10**6) if options.seed is None else options.seed
    missed = unnoticed(options.number, seed)
    for fault in missed:
        print(f"not noticed: {fault}")
    print(f"seed {seed}: {options.number - len(missed)} of {options.number} noticed")


if __name__ == "__main__":
    main()
