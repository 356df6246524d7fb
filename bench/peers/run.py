"""The CPU time that engines spend on the context in every turn: ours, the floor and the peers, in one run.

    python -m bench.peers.run [PEER...] [--messages 100,1000,10000] [--kind turn,request]

Without names, all are measured. Every case runs in its own process, in the environment of its engine, on the same
session. No model is called; a stand-in answers at once. Times are CPU milliseconds per step (median); the column "x our
turn" is the time for the longest session, relative to a whole turn of ours. Engines differ in what they do in a turn,
so each line says what is timed. A peer that cannot be installed is left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from importlib import import_module
from pathlib import Path

from bench.peers import sessions
from bench.peers.environments import ROOT, Unavailable, python_of
from bench.peers.timing import Adapter, Case

ENGINES = ("floor", "sevenfold_", "langchain_", "deepagents_", "pydantic_ai_", "openai_agents_")
"""Modules of `adapters`."""
LENGTHS = (100, 1_000, 10_000)
PATIENCE = 240
"""Seconds a case may take, including the time to build the session."""
YARDSTICK = ("sevenfold", "turn: everything")
QUIET = {
    "ANTHROPIC_API_KEY": "none",
    "OPENAI_API_KEY": "none",
    "OTEL_SDK_DISABLED": "true",
    "DO_NOT_TRACK": "1",
    "PYTHONWARNINGS": "ignore",
}
"""Environment variables that keep peers from looking for services; nothing here uses one."""

Times = dict[int, float]
"""CPU milliseconds by session length."""
Table = dict[tuple[str, str], Times]


def adapter_of(module: str) -> Adapter:
    """The adapter in a module of `adapters`."""
    found: Adapter = import_module(f"bench.peers.adapters.{module}").ADAPTER
    return found


def measure(
    engines: Sequence[str] = ENGINES, lengths: Sequence[int] = LENGTHS, kinds: Collection[str] = ()
) -> Table:
    """The times of these engines' cases, of the given kinds or, if there are none, of all kinds."""
    table: Table = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {length: Path(folder, f"{length}.jsonl") for length in lengths}
        for length, path in paths.items():
            sessions.write(path, length)
        for module in engines:
            adapter = adapter_of(module)
            try:
                python = python_of(adapter)
            except Unavailable as reason:
                _say(f"{adapter.name}: left out, it cannot be installed here: {reason}")
                continue
            for case in adapter.cases:
                if not kinds or case.name.split(":")[0] in kinds:
                    times = table[adapter.name, case.name] = {}
                    for length in lengths:
                        _say(f"{adapter.name}, {case.name}, {length:,} messages")
                        times.update(timed(python, module, case, length, paths[length]))
    return table


def timed(python: Path, module: str, case: Case, length: int, path: Path) -> Iterator[tuple[int, float]]:
    """The time of a case at a session length; if the case fails, prints the reason and yields nothing."""
    command = [str(python), "-m", "bench.peers.one", module, case.name, str(path), str(length)]
    try:
        shown = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **QUIET},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        _say(f"  failed: {(error.stderr.strip().splitlines() or ['no message'])[-1]}")
    except subprocess.TimeoutExpired:
        _say(f"  given up after {PATIENCE} seconds")
    else:
        yield length, float(shown.stdout.split()[-1])


def show(table: Table, lengths: Sequence[int]) -> None:
    """Print the table, cases of kind ``turn`` first."""
    ours = table.get(YARDSTICK, {}).get(lengths[-1])
    heads = "".join(f"{length:>12,}" for length in lengths)
    print(f"\n{'CPU ms a step':15}{'':28}{heads}{'x our turn':>12}  what is timed")
    for name, case, times in sorted(_rows(table), key=lambda row: row[1].name.split(":")[0] != "turn"):
        cells = "".join(f"{_short(times.get(length)):>12}" for length in lengths)
        longest = times.get(lengths[-1])
        ratio = f"{longest / ours:,.1f}" if longest is not None and ours else "-"
        print(f"{name:15}{case.name:28}{cells}{ratio:>12}  {case.what}")


def _rows(table: Table) -> Iterator[tuple[str, Case, Times]]:
    cases = {(one.name, case.name): case for one in map(adapter_of, ENGINES) for case in one.cases}
    for key, times in table.items():
        yield key[0], cases[key], times


def _short(time: float | None) -> str:
    if time is None:
        return "-"
    return f"{time:.3f}" if time < 10 else f"{time:,.0f}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Measure the requested engines and print the table."""
    parser = argparse.ArgumentParser(prog="bench.peers.run", description="Engines side by side.")
    names = {adapter_of(module).name: module for module in ENGINES}
    parser.add_argument("peers", nargs="*", help=f"of {', '.join(names)}; ours and the floor always are")
    parser.add_argument("--messages", default=",".join(map(str, LENGTHS)), help="lengths of the sessions")
    parser.add_argument("--kind", default="", help="turn, request, clear, compact, whole, resume")
    options = parser.parse_args(arguments)
    if unknown := set(options.peers) - set(names):
        parser.error(f"no adapter for {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    wanted = [names[name] for name in names if name in ("floor", "sevenfold", *(options.peers or names))]
    lengths = [int(length) for length in options.messages.split(",")]
    show(measure(wanted, lengths, set(filter(None, options.kind.split(",")))), lengths)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
