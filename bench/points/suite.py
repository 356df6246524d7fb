"""The test suite itself: whether it passes, how much CPU time it takes, and how much of the code it covers.

Measuring coverage doubles the time of the suite, so it is done here and not in `./dev test`.
"""

from __future__ import annotations

import ctypes
import os
import resource
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from bench.points import Outcome, Point, is_quick

ROOT = Path(__file__).resolve().parent.parent.parent
LEAST_COVERED = 94.0
SUBREAPER = 36
"""`PR_SET_CHILD_SUBREAPER`: makes orphaned descendants children of this process, so their CPU time is counted."""


def steps(_: Path | None) -> list[Outcome]:
    """Whether all steps of `./dev test` pass, and their CPU time together."""
    name = "steps of ./dev test that pass"
    if is_quick():
        return [Outcome(name, None, "measured in full runs only")]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    dev = runpy.run_path(str(ROOT / "dev"))
    codes = [_run(*command) for command in {**dev["LINT"], **dev["SUITE"]}.values()]
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes = (spent.ru_utime + spent.ru_stime) / 60
    passed = f"{codes.count(0)} of {len(codes)}, in {minutes:.1f} min of processor time"
    return [Outcome(name, not any(codes), passed, "all")]


def coverage(_: Path | None) -> list[Outcome]:
    """The share of lines and branches that the tests run."""
    name = "coverage of the tests"
    if is_quick():
        return [Outcome(name, None, "measured in full runs only")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        counted = ["--cov", f"--cov-report=json:{report}", "--cov-report="]
        _run("python", "-m", "pytest", "-q", "-n", "2", *counted, COVERAGE_FILE=str(Path(folder, "data")))
        covered: float = msgspec.json.decode(report.read_bytes())["totals"]["percent_covered"]
    return [Outcome(name, covered >= LEAST_COVERED, f"{covered:.1f}%", f"at least {LEAST_COVERED:g}%")]


def _run(program: str, *arguments: str, **more: str) -> int:
    """Run a program of the environment in this tree and return its exit code."""
    # Like `./dev test`, run the small sample: that is the suite everyone runs.
    environment = {name: value for name, value in os.environ.items() if name != "SEVENFOLD_PROVE"}
    beside = Path(sys.executable).with_name(program)
    return subprocess.call(
        [str(beside), *arguments], cwd=ROOT, env={**environment, **more}, stdout=subprocess.DEVNULL
    )


POINTS: list[Point] = [("the suite: steps", steps), ("the suite: coverage", coverage)]
