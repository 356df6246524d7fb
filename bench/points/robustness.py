"""Random histories and damaged files."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from bench import fuzz_reader
from bench.points import Outcome, Point

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS_TO_FUZZ = 20
PATIENCE = 240
"""Seconds for random histories; a failure that is being made smaller can take longer than that."""


def histories(_: Path | None) -> list[Outcome]:
    """All stateful tests, with many more examples than `./dev test` tries, and new ones every time."""
    tests = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if _is_stateful(path)]
    names = [str(path.relative_to(ROOT)) for path in tests]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *names]
    environment = {**os.environ, "SEVENFOLD_PROVE": "1"}
    name = "stateful tests: appends, branches, decisions, crashes, reopening"
    again = f"SEVENFOLD_PROVE=1 python -m pytest {' '.join(names)}"
    try:
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return [Outcome(name, False, f"no end after {PATIENCE} s, perhaps a failure; see {again}")]
    if ended.returncode == 0:
        return [Outcome(name, True, _last_line(ended.stdout))]
    said = " / ".join(filter(None, map(_last_line, (ended.stdout, ended.stderr))))
    return [Outcome(name, False, f"exit code {ended.returncode}: {said}; see {again}")]


def _last_line(shown: str) -> str:
    return (shown.strip().splitlines() or [""])[-1].strip("= ")


def _is_stateful(path: Path) -> bool:
    return "RuleBasedStateMachine" in path.read_text(encoding="utf-8")


def damaged_files(_: Path | None) -> list[Outcome]:
    """The reader and the view, given transcripts bent at random."""
    seed = random.randrange(10**6)
    found = fuzz_reader.search(SECONDS_TO_FUZZ, seed)
    name = "no bent transcript upsets the reader or the view"
    if not found.findings:
        return [Outcome(name, True, f"{found.tried:,} tried")]
    words = found.findings[0].problem.strip().splitlines()[-1]
    again = f"python bench/fuzz_reader.py --seed {seed}"
    return [Outcome(name, False, f"{len(found.findings)} ways in {found.tried:,}; {words}; see {again}")]


POINTS: list[Point] = [("random histories", histories), ("bent transcripts", damaged_files)]
