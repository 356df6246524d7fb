"""Measure every acceptance point and report pass or fail, with the figure and the bar.

    python bench/prove.py [POINT ...] [--quick] [--again] [--corpus FOLDER] [--list] [--clients] [--store]

A POINT is part of a measurement's name; without any, all are measured. Each measurement runs in its own process, one
after the other, so that they do not disturb each other; one that crashes or takes longer than 15 minutes fails. Points
that passed are stored in `.dev/proved/` for this state of the tree and not measured again unless `--again` is given, so
an interrupted run resumes where it stopped. `--quick` uses small samples and takes at most half an hour; points it has
no time for are skipped. `--clients` measures real programs from npm and agents of frameworks from PyPI instead of
everything else (640 MB in `.dev/clients`, 500 MB in `.dev/peers`; Linux). Real transcripts are expected in
`../shared/corpus`; without them, the points that need them are reported as skipped. The exit status is 1 if any point
fails.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.points import Outcome, Point  # noqa: E402  # needs the path above

CORPUS = ROOT.parent / "shared" / "corpus"
PROVED = ROOT / ".dev" / "proved"
MODULES = (
    "corpus",
    "counting",
    "cost",
    "session",
    "compaction",
    "words",
    "robustness",
    "agent",
    "team",
    "dreams",
    "recall",
    "poisonings",
    "remembering",
    "sandbox",
    "inspector",
    "doors",
    "replays",
    "suite",
    "mutation",
)
"""The modules of `bench/points`, in the order they run."""
STORE = ("stores",)
"""The points of the store in PostgreSQL, which take half an hour."""
CLIENTS = ("clients", "frameworks")
"""The modules that need real programs from npm and PyPI; they run only with `--clients`."""
VERDICTS = {True: "pass", False: "FAIL", None: "skip"}
MOST_SECONDS = 15 * 60.0
"""The time limit for one point."""
LONGER = {"small faults in the core": 60 * 60.0, "random rewrites of a program's list": 60 * 60.0}
"""Points with a time limit of their own. The first runs the tests of the core with coverage, then a minute's worth for
each of 80 faults; the second makes 20,000 rewrites, with a compaction behind every fourth."""
QUICK_SECONDS, QUICK_POINT_SECONDS = 30 * 60.0, 4 * 60.0
"""The time limits with `--quick`: for all points, and for one."""
QUICK_FILES = 3
"""With `--quick`, one real transcript out of this many is used."""


def points(modules: Sequence[str] = MODULES) -> list[Point]:
    """Return all acceptance points of these modules."""
    return [point for name in modules for point in import_module(f"bench.points.{name}").POINTS]


# Measuring


def measured(point: Point, corpus: Path | None, seconds: float = MOST_SECONDS) -> list[Outcome]:
    """Measure a point in its own process; kill that process and its children when the time limit is reached."""
    name = point[0]
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=_measure, args=(point, corpus, writer))
    child.start()
    writer.close()
    try:
        if not reader.poll(max(seconds, 0)):
            return [Outcome(name, False, f"no end after {seconds:.0f} s", f"at most {seconds:.0f} s")]
        return msgspec.json.decode(reader.recv_bytes(), type=list[Outcome])
    except EOFError:
        child.join()
        return [Outcome(name, False, f"its process ended with exit code {child.exitcode}")]
    finally:
        reader.close()
        _end_group(child.pid or 0)
        # It may not have called setsid yet and so not lead a group.
        child.kill()
        child.join()


def _measure(point: Point, corpus: Path | None, answer: Connection) -> None:
    name, measurement = point
    if hasattr(os, "setsid"):
        os.setsid()
    try:
        outcomes = measurement(corpus)
    except Exception as error:  # noqa: BLE001  # whatever it is, the point has failed
        outcomes = [Outcome(name, False, f"{type(error).__name__}: {error}")]
    answer.send_bytes(msgspec.json.encode(outcomes))


def _end_group(group: int) -> None:
    """Kill a process and its children, if they still run."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


@contextmanager
def sample(corpus: Path, every: int = QUICK_FILES) -> Iterator[Path]:
    """Yield a temporary folder with links to every n-th file of the corpus."""
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(corpus.rglob("*.jsonl"))[::every]:
            link = Path(folder) / path.relative_to(corpus)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
        yield Path(folder)


# Points that already passed


def state_of_tree(root: Path = ROOT) -> str:
    """Return the commit with a hash of uncommitted changes, or an empty string if git cannot tell."""

    def git(*arguments: str) -> bytes:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True).stdout

    try:
        commit, changed = git("rev-parse", "HEAD").decode().strip(), git("diff", "HEAD", "--binary")
        new = git("ls-files", "-z", "--others", "--exclude-standard").decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        return ""
    changed += b"".join(name.encode() + (root / name).read_bytes() for name in sorted(filter(None, new)))
    return f"{commit}-{hashlib.sha256(changed).hexdigest()[:12]}" if changed else commit


class Proved:
    """The points that passed at one state of the tree, stored in a file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._passed: dict[str, list[Outcome]] = {}
        if path is not None and path.exists():
            self._passed = msgspec.json.decode(path.read_bytes(), type=dict[str, list[Outcome]])

    def get(self, name: str) -> list[Outcome] | None:
        """Return the outcomes of a point that passed, or None."""
        return self._passed.get(name)

    def keep(self, name: str, outcomes: Sequence[Outcome]) -> None:
        """Store the outcomes of a point if it passed, and drop its earlier outcomes in any case."""
        self._passed.pop(name, None)
        if outcomes and all(outcome.met for outcome in outcomes):
            self._passed[name] = list(outcomes)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_suffix(".new")
            new.write_bytes(msgspec.json.format(msgspec.json.encode(self._passed)))
            new.replace(self._path)


# Reporting


def show(outcome: Outcome, note: str = "") -> None:
    """Print an outcome on one line."""
    asked = f"  ({outcome.bar})" if outcome.bar else ""
    print(f"{VERDICTS[outcome.met]}  {outcome.name}: {outcome.figure}{asked}{note}", flush=True)


def prove(chosen: Sequence[Point], corpus: Path | None, proved: Proved, *, quick: bool, again: bool) -> int:
    """Measure the points that have not passed yet and report all; return the exit status."""
    begin, verdicts = time.monotonic(), Counter[bool | None]()
    for number, point in enumerate(chosen, 1):
        name = point[0]
        outcomes, note = None if again else proved.get(name), "  [passed before]"
        if outcomes is None:
            print(f"[{number}/{len(chosen)}] {name} ...", file=sys.stderr, flush=True)
            left = QUICK_SECONDS - (time.monotonic() - begin)
            started, note = time.monotonic(), ""
            if quick and left < 1:
                outcomes = [Outcome(name, None, "no time was left for it")]
            else:
                limit = min(QUICK_POINT_SECONDS, left) if quick else LONGER.get(name, MOST_SECONDS)
                outcomes = measured(point, corpus, limit)
                print(f"      {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
            proved.keep(name, outcomes)
        for outcome in outcomes:
            verdicts[outcome.met] += 1
            show(outcome, note)
    print(
        f"\n{verdicts[True]} passed, {verdicts[False]} failed, {verdicts[None]} skipped "
        f"in {time.monotonic() - begin:.0f} s"
    )
    return 1 if verdicts[False] or not verdicts else 0


def main(arguments: Sequence[str]) -> int:
    """Measure and report; return exit status 0 if all points hold, else 1."""
    parser = argparse.ArgumentParser(description="Every acceptance point: pass or fail.")
    parser.add_argument(
        "points", nargs="*", metavar="POINT", help="only measurements with this in their name"
    )
    parser.add_argument("--only", action="append", default=[], help="the same as POINT")
    parser.add_argument("--quick", action="store_true", help="small samples, half an hour at most")
    parser.add_argument("--again", action="store_true", help="also what passed with this state of the tree")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="a folder of real transcripts")
    parser.add_argument("--list", action="store_true", help="name the measurements and do nothing")
    parser.add_argument(
        "--clients", action="store_true", help="real programs from npm and PyPI, instead of all others"
    )
    parser.add_argument(
        "--store", action="store_true", help="the store in PostgreSQL, instead of all others"
    )
    options = parser.parse_args(arguments)
    available = points((CLIENTS if options.clients else ()) + (STORE if options.store else ()) or MODULES)
    words = [*options.points, *options.only]
    chosen = [point for point in available if not words or any(word in point[0] for word in words)]
    if options.list:
        print(*(name for name, _ in chosen), sep="\n")
        return 0
    if not chosen:
        parser.error(f"no measurement has {' or '.join(words)} in its name; --list names all there are")
    os.environ["SEVENFOLD_PROVE"] = "quick" if options.quick else "1"
    state = state_of_tree()
    proved = Proved(PROVED / f"{state}{'-quick' * options.quick}.json" if state else None)
    corpus = options.corpus.resolve() if options.corpus.is_dir() else None
    if corpus is not None and options.quick:
        with sample(corpus) as some:
            return prove(chosen, some, proved, quick=True, again=options.again)
    return prove(chosen, corpus, proved, quick=options.quick, again=options.again)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
