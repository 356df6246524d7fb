"""Which tests run which lines of the core, measured with coverage and kept in `.dev/` from one run to the next.

What a test module runs is measured once for a state of the core. When only tests change, the modules that changed or
that use what changed run again; when the core changes, all do. Nothing here knows of faults.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from coverage import CoverageData
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / ".dev" / "mutation"
_TEST_MODULES = "test_*.py"
_DURATION = re.compile(r"^([\d.]+)s (?:setup|call|teardown) +(\S.*)$", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_MOST_MAPS = 2

RunTests = Callable[[Sequence[str], Path, Path], int]
"""Runs pytest with these arguments, its output to one file and its coverage to another; returns the exit code."""


class MeasuredTest(Struct, frozen=True):
    """What one test runs, and how long it takes."""

    seconds: float
    """Under coverage, on the machine that measured it."""
    lines: dict[str, bytes]
    """For each file, the numbers of the lines as a set of bits, the lowest byte first."""
    total: int
    """How many lines it runs."""

    def runs(self, path: str, line: int) -> bool:
        """Whether it runs this line."""
        return bool(int.from_bytes(self.lines.get(path, b""), "little") >> line & 1)

    def share(self, path: str) -> float:
        """The share of this file in the lines it runs."""
        return int.from_bytes(self.lines[path], "little").bit_count() / self.total


class LineMap(Struct, frozen=True):
    """All tests that were measured."""

    tests: dict[str, MeasuredTest] = {}
    """By pytest's name of the test."""
    modules: dict[str, str] = {}
    """The digest of each test module when it was measured."""

    def running(self, path: str, line: int) -> list[str]:
        """The tests that run a line, the most specific first: those that run the fewest lines in all.

        Of a line that runs only when its module is imported, before any test: all tests that run something of the
        module, those that run little else first.
        """
        running = [name for name, test in self.tests.items() if test.runs(path, line)]
        if running:
            return sorted(running, key=lambda name: (self.tests[name].total, name))
        using = [name for name, test in self.tests.items() if path in test.lines]
        return sorted(using, key=lambda name: (-self.tests[name].share(path), name))

    def with_measured(self, measured: LineMap, unchanged: Iterable[str]) -> LineMap:
        """This map, updated with a new measurement; of its own entries only those of these modules stay."""
        remaining = set(unchanged)
        tests = {name: test for name, test in self.tests.items() if module_of(name) in remaining}
        modules = {name: digest for name, digest in self.modules.items() if name in remaining}
        return LineMap({**tests, **measured.tests}, {**modules, **measured.modules})


def module_of(test: str) -> str:
    """The file of a test, by pytest's name of it."""
    return test.partition("::")[0]


def line_map(tree: Path, core: Sequence[str], tests: Sequence[str], run_tests: RunTests) -> LineMap:
    """The map of a tree: what is kept of it, and the rest measured now."""
    modules = {
        str(path.relative_to(tree)): _digest(sorted(_with_helpers(tree, path)))
        for path in _test_modules(tree, tests)
    }
    sources = [path for name in core for path in (tree / name).rglob("*.py")]
    kept = KEPT / f"{_digest(sorted(sources))}.json"
    known = msgspec.json.decode(kept.read_bytes(), type=LineMap) if kept.exists() else LineMap()
    unchanged = [name for name, digest in modules.items() if known.modules.get(name) == digest]
    changed = sorted(modules.keys() - set(unchanged))
    if changed:
        measured = _measured(tree, core, changed, run_tests)
        fresh = LineMap(measured, {name: modules[name] for name in changed})
        known = known.with_measured(fresh, unchanged)
        _keep(kept, known)
    return known.with_measured(LineMap(), modules)


def _test_modules(tree: Path, tests: Iterable[str]) -> Iterator[Path]:
    """The test modules that these names of files and folders stand for."""
    for name in tests:
        path = tree / name
        yield from [path] if path.is_file() else sorted(path.rglob(_TEST_MODULES))


def _with_helpers(tree: Path, module: Path) -> set[Path]:
    """A test module, and what it uses below `tests`: what it imports, directly or not, and the fixtures above it."""
    used: set[Path] = set()
    waiting = [
        module,
        *(folder / "conftest.py" for folder in module.parents if folder.is_relative_to(tree)),
    ]
    while waiting:
        path = waiting.pop()
        if path.is_file() and path not in used:
            used.add(path)
            waiting += _imported(tree, path)
    return used


def _imported(tree: Path, module: Path) -> Iterator[Path]:
    """The files below `tests` that a module imports something from, as far as they exist."""
    for node in ast.walk(ast.parse(module.read_bytes())):
        if isinstance(node, ast.ImportFrom):
            above = module.parents[node.level - 1] if node.level else tree
            imported = above.joinpath(*(node.module or "").split("."))
            if imported.is_relative_to(tree / "tests"):
                yield imported.with_suffix(".py")
                yield from (imported / f"{alias.name}.py" for alias in node.names)


def _digest(paths: Iterable[Path]) -> str:
    contents = (path.read_bytes() for path in paths if path.is_file())
    return sha256(b"\0".join(contents)).hexdigest()[:16]


def _keep(kept: Path, measured: LineMap) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(msgspec.json.encode(measured))
    newest_last = sorted(kept.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
    for old in newest_last[:-_MOST_MAPS]:
        old.unlink()


def _measured(
    tree: Path, core: Sequence[str], modules: Sequence[str], run_tests: RunTests
) -> dict[str, MeasuredTest]:
    """Run these test modules with coverage."""
    data_file = tree / "measured"
    report = tree / "report"
    cover = ["-n", "2", "--maxfail=20", "--cov", "--cov-context=test", "--cov-report="]
    code = run_tests([*cover, "-vv", "-rfE", "--durations=0", *modules], report, data_file)
    shown = report.read_text(encoding="utf-8", errors="replace")
    if code > pytest.ExitCode.TESTS_FAILED:
        raise RuntimeError(f"without any fault, the tests end with exit code {code}: {shown[-2_000:]}")
    seconds: dict[str, float] = {}
    for duration, test in _DURATION.findall(shown):
        seconds[test] = seconds.get(test, 0.0) + float(duration)
    # A test that fails without a fault cannot detect one.
    failed = set(_FAILED.findall(shown))
    tests = {}
    for name, files in _read_lines(data_file, tree, core).items():
        if name not in failed:
            lines = {path: bytes(bits) for path, bits in files.items()}
            total = sum(int.from_bytes(bits, "little").bit_count() for bits in files.values())
            tests[name] = MeasuredTest(seconds.get(name, 0.0), lines, total)
    return tests


def _read_lines(data_file: Path, tree: Path, core: Sequence[str]) -> dict[str, dict[str, bytearray]]:
    """For each test, the lines it runs of each file of the core, as bits."""
    data = CoverageData(str(data_file))
    data.read()
    folders = tuple(f"{name}/" for name in core)
    lines: dict[str, dict[str, bytearray]] = {}
    for measured_file in data.measured_files():
        path = str(Path(measured_file).relative_to(tree))
        if not path.startswith(folders):
            continue
        contexts_by_line = data.contexts_by_lineno(measured_file)
        size = max(contexts_by_line, default=0) // 8 + 1
        for line, contexts in contexts_by_line.items():
            position, bit = divmod(line, 8)
            # A context is the name of a test with its phase; what runs before any test has none.
            for test in {context.rpartition("|")[0] for context in contexts} - {""}:
                lines.setdefault(test, {}).setdefault(path, bytearray(size))[position] |= 1 << bit
    return lines
