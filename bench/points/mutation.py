"""Mutation testing: small faults in the engine's core, each run against the tests that cover its line.

The tests run once with coverage in a copy of the tree, which gives a map from lines to tests. Then each fault is put
into a copy, and up to `MOST_TESTS` of the tests that cover its line run: those that run the fewest lines, because they
are the most specific; those that compare with a recording, because it has every byte that is logged and sent; and
some of the rest. The map is kept in `.dev/` until the sources or the tests change. It is measured before a fault is
drawn and knows nothing of them, so no test is chosen for a fault but by the line.

    python -m bench.points.mutation --number 20 --seed 12345

tries faults of another seed and prints those that no test notices; without a seed, one is drawn and printed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import BinaryIO

import msgspec
import pytest
from coverage import CoverageData

from bench.points import Outcome, Point, is_quick
from bench.points.faults import Fault, choose

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / ".dev" / "mutation"
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
MOST_TESTS = 200
CPU_SECONDS = 180
"""More than any selection of tests needs: a run that takes longer is in an endless loop."""
PATIENCE = 400
"""Wall-clock seconds after which a run counts as hung, even if it uses no CPU time."""
COPIES = 2

AT_IMPORT = 0
"""The key for lines that run when their module is imported, before any test: a table, a default."""

LineTests = dict[str, dict[int, list[str]]]
"""For each file and line, the tests that run it, the most specific first. For `AT_IMPORT`, all tests that run the file,
those that run little else first."""


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
    output: BinaryIO | None = None,
    **more: str,
) -> int:
    """Run pytest in a copy and return its exit code, which is negative if the run was killed."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "SEVENFOLD_PROVE": "faults", **more}

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))

    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    with subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdout=output or subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=limit if limited else None,
        start_new_session=True,
    ) as child:
        try:
            return child.wait(PATIENCE if limited else None)
        except subprocess.TimeoutExpired:
            child.kill()
            return -1


def line_tests(tree: Path, core: Sequence[str] = CORE, tests: Sequence[str] = TESTS) -> LineTests:
    """Which tests run which lines of the core: from the stored map if it is current, otherwise measured now."""
    names = [
        path for name in (*core, *tests) for path in [tree / name, *sorted((tree / name).rglob("*.py"))]
    ]
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in names if path.is_file())).hexdigest()
    kept = KEPT / f"{digest[:16]}.json"
    if kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=LineTests)
    for old in sorted(KEPT.glob("*.json"), key=lambda path: path.stat().st_mtime)[:-1]:
        old.unlink()
    cover = ["-n", "2", "--maxfail=20", "--cov", "--cov-context=test", "--cov-report="]
    data_file, report = tree / "measured", tree / "report"
    with report.open("wb") as output:
        code = run_tests(tree, [*cover, "-rfE", *tests], output=output, COVERAGE_FILE=str(data_file))
    shown = report.read_text(encoding="utf-8", errors="replace")
    if code > pytest.ExitCode.TESTS_FAILED:
        raise RuntimeError(f"without any fault, the tests end with exit code {code}: {shown[-2_000:]}")
    # A test that fails without a fault cannot detect one.
    found = _read_map(tree, data_file, set(re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", shown, re.M)))
    KEPT.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(msgspec.json.encode(found))
    return found


def _read_map(tree: Path, data_file: Path, without: set[str]) -> LineTests:
    data = CoverageData(str(data_file))
    data.read()
    lines = {
        str(path): {
            line: sorted({context.rpartition("|")[0] for context in contexts} - {"", *without})
            for line, contexts in data.contexts_by_lineno(str(path)).items()
        }
        for path in map(Path, data.measured_files())
    }
    runs = Counter(test for each in lines.values() for tests in each.values() for test in tests)
    found: LineTests = {}
    for path, each in lines.items():
        here = Counter(test for tests in each.values() for test in tests)
        found[str(Path(path).relative_to(tree))] = {
            AT_IMPORT: sorted(here, key=lambda test: (-here[test] / runs[test], test)),
            **{line: sorted(tests, key=lambda test: (runs[test], test)) for line, tests in each.items()},
        }
    return found


def tests_for(fault: Fault, mapped: LineTests) -> list[str]:
    """The tests to run against a fault: the most specific ones, some recorded ones, and some of the rest."""
    lines = mapped.get(fault.path, {})
    tests = lines.get(fault.line) or lines.get(AT_IMPORT, [])
    near, rest = tests[: MOST_TESTS // 2], tests[MOST_TESTS // 2 :]
    recorded = [test for test in rest if RECORDED.search(test)][: MOST_TESTS // 4]
    far = [test for test in rest if test not in recorded]
    room = MOST_TESTS - len(near) - len(recorded)
    return [*near, *recorded, *random.Random(fault.line).sample(far, min(len(far), room))]


def is_noticed(tree: Path, fault: Fault, tests: Sequence[str]) -> bool:
    """Whether any of the tests fails or hangs with the fault in the copy."""
    path = tree / fault.path
    source, stat = path.read_bytes(), path.stat()
    path.write_bytes(fault.applied(source))
    try:
        # Bytecode compiled from the faulty file must not outlive the fault.
        code = run_tests(tree, tests, limited=True, PYTHONDONTWRITEBYTECODE="1") if tests else 0
    finally:
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
        mapped = line_tests(trees[0], core, tests)
        free: Queue[Path] = Queue()
        for tree in trees:
            free.put(tree)

        def tried(fault: Fault) -> bool:
            tree = free.get()
            try:
                return is_noticed(tree, fault, tests_for(fault, mapped))
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
