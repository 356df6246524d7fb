"""Random histories and damaged files."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import conversations, damage, edits, fuzz_reader, kills, mailbox
from bench.points import Outcome, Point, is_quick

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS_TO_FUZZ = 20
QUICK_KILLS = 60
QUICK_DAMAGES = 200
QUICK_MESSAGES = 5_000
PATIENCE = 840
"""Seconds allowed for a random search; shrinking a failing example can take longer than that."""


def histories(_: Path | None) -> list[Outcome]:
    """All stateful tests, with many more examples than in `./dev test`, and fresh ones on every run."""
    return _searched(
        "stateful tests: appends, branches, decisions, crashes, reopening", "RuleBasedStateMachine"
    )


def examples(_: Path | None) -> list[Outcome]:
    """All other property-based tests, and those that try more seeds, models or crash points under `./dev prove`."""
    return _searched("properties, and sessions cut off at every byte", "import given", ", given", "PROVING")


def _searched(name: str, *marks: str) -> list[Outcome]:
    """Run the test files whose source contains one of these strings, in two processes."""
    sources = {
        path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }
    tests = [
        str(path.relative_to(ROOT)) for path, text in sources.items() if any(mark in text for mark in marks)
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *tests]
    again = f"SEVENFOLD_PROVE=1 python -m pytest {' '.join(tests)}"
    environment = {"SEVENFOLD_PROVE": "1", **os.environ}
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


def damaged_files(_: Path | None) -> list[Outcome]:
    """The reader and the view, given transcripts damaged at random."""
    seed = random.randrange(10**6)
    found = fuzz_reader.search(SECONDS_TO_FUZZ, seed)
    name = "no bent transcript upsets the reader or the view"
    if not found.findings:
        return [Outcome(name, True, f"{found.tried:,} tried")]
    words = found.findings[0].problem.strip().splitlines()[-1]
    again = f"python bench/fuzz_reader.py --seed {seed}"
    return [Outcome(name, False, f"{len(found.findings)} ways in {found.tried:,}; {words}; see {again}")]


def random_conversations(_: Path | None) -> list[Outcome]:
    """Random conversations, with every request body checked against the simulator's rules."""
    seed, count = random.randrange(10**9), 2_000 if is_quick() else 100_000
    found = conversations.search(count, seed, processes=2)
    figure = f"{found.conversations:,} with {found.requests:,} requests from seed {seed}"
    return [
        Outcome(name, not kinds and found.conversations == count, f"{_number(kinds)} of {figure}", "0")
        for name, kinds in (
            ("random conversations: requests that a provider refuses", found.refused),
            ("random conversations: errors that are not ours", found.untyped),
        )
    ]


def random_edits(_: Path | None) -> list[Outcome]:
    """Sessions that are edited at random, closed and reopened."""
    seed, count = random.randrange(10**9), 150 if is_quick() else 3_000
    outcomes = []
    for cuts, name in (
        (False, "sessions edited at random: requests refused, bytes changed, or stuck"),
        (True, "sessions edited at random whose logs lose their ends: the same"),
    ):
        found = edits.search(count // 2, seed, cuts=cuts)
        met = not found.problems and found.sessions == count // 2
        figure = f"{found} from seed {seed}{_first(found.problems, 'edits')}"
        outcomes.append(Outcome(name, met, figure, "0"))
    return outcomes


def _number(kinds: Mapping[str, Sequence[int]]) -> str:
    worst = next(iter(kinds), "")
    return f"{sum(map(len, kinds.values())):,}" + (f" ({worst}, seed {kinds[worst][0]})" if worst else "")


def damaged_stores(_: Path | None) -> list[Outcome]:
    """Files of every kind that the engine writes, damaged at random."""
    seed, count = random.randrange(10**6), QUICK_DAMAGES if is_quick() else damage.COUNT
    found = damage.search(count, seed)
    name = "whatever file is damaged, the session opens and can be sent"
    met = not found.problems and found.tried == count
    return [Outcome(name, met, f"{found} from seed {seed}{_first(found.problems, 'damage')}", "0")]


def _first(problems: Mapping[str, Sequence[int]], script: str) -> str:
    """The first kind of problem that a search found, and the command that shows it again."""
    for problem, seeds in problems.items():
        return f"; first: {problem}, see python bench/{script}.py --count 1 --seed {seeds[0]}"
    return ""


def killed(_: Path | None) -> list[Outcome]:
    """Sessions whose process is killed at random moments: what is lost, and whether the next request is accepted."""
    seed = random.randrange(10**6)
    tally = kills.search_side_by_side(QUICK_KILLS if is_quick() else kills.KILLS, seed)
    name = "killed at any moment nothing is lost, and the next request is accepted"
    again = (
        f"; first: {tally.problems[0]}; see python bench/kills.py --seed {seed}" if tally.problems else ""
    )
    return [Outcome(name, not tally.problems, f"{tally}{again}", "0 problems")]


def mail(_: Path | None) -> list[Outcome]:
    """Two processes that send each other messages and are killed at random."""
    seed, count = random.randrange(10**6), QUICK_MESSAGES if is_quick() else mailbox.MESSAGES
    with tempfile.TemporaryDirectory() as folder:
        found = mailbox.soak(Path(folder), messages=count, seed=seed)
    name = "messages between killed processes: lost, doubled or out of order"
    figure = f"{'; '.join(found.problems) or 0} of {found.messages:,} with {found.kills} kills, seed {seed}"
    return [Outcome(name, not found.problems, figure, "0")]


POINTS: list[Point] = [
    ("mail", mail),
    ("kills", killed),
    ("random histories", histories),
    ("random examples", examples),
    ("bent transcripts", damaged_files),
    ("damaged files", damaged_stores),
    ("random conversations", random_conversations),
    ("random edits", random_edits),
]
