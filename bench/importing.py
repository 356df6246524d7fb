"""The time to import the package, and the distributions that installing it adds.

    python bench/importing.py [--no-install]

Fresh processes start with and without the import, alternating; the medians are compared. The imports of typical
programs that use the package are measured too, for reference. For the second figure, a plain `pip install`
installs the project into a new environment, which needs a package registry.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RUNS = 21
MOST_MILLISECONDS = 60
MOST_DISTRIBUTIONS = 2

BARE = "bare interpreter"
PACKAGE = "import sevenfold"
STARTS = {
    BARE: "pass",
    PACKAGE: "import sevenfold",
    "a transcript on disk": "import sevenfold.stores.jsonl.log, sevenfold.conversation.transcript",
    "the command line": "import sevenfold.cli.main",
    "the profiler with its output": "import sevenfold.cli.profile, rich.console, rich.table",
}

_LIST = """
import importlib.metadata, json
print(json.dumps(sorted({one.name.lower() for one in importlib.metadata.distributions()})))
"""


def _start(statement: str) -> tuple[float, float]:
    """Return the wall and CPU milliseconds of a process that runs one statement."""
    cpu, wall = _children(), time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return (time.perf_counter() - wall) * 1e3, (_children() - cpu) * 1e3


def _children() -> float:
    """Return the CPU seconds of all child processes that have ended so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure_import(runs: int = RUNS) -> dict[str, dict[str, float]]:
    """Return the wall and CPU milliseconds of each start, in total and beyond the bare interpreter."""
    for statement in STARTS.values():
        _start(statement)
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in STARTS}
    for _ in range(runs):
        for name, statement in STARTS.items():
            spent[name].append(_start(statement))
    middle = {
        name: [statistics.median(column) for column in zip(*times, strict=True)]
        for name, times in spent.items()
    }
    wall, cpu = middle[BARE]
    return {
        name: {"wall": row[0], "cpu": row[1], "more_wall": row[0] - wall, "more_cpu": row[1] - cpu}
        for name, row in middle.items()
    }


def measure_install() -> list[str] | str:
    """Return the distributions that a plain install adds, or the reason why it failed."""
    with tempfile.TemporaryDirectory() as name:
        python = Path(sysconfig.get_path("scripts", "venv", {"base": name}), "python")
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        try:
            venv.create(name, with_pip=True)
            there = _distributions(python, environment)
            _quiet(
                [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", ROOT],
                environment,
            )
            _quiet([python.with_name("sevenfold"), "--help"], environment)
        except subprocess.CalledProcessError as error:
            words = (error.stderr or error.stdout or b"").decode(errors="replace").strip().splitlines()
            return f"{error.cmd[0]} failed: {words[-1] if words else error.returncode}"
        return [one for one in _distributions(python, environment) if one not in there]


def _quiet(command: Sequence[str | Path], environment: Mapping[str, str]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True, env=environment).stdout


def _distributions(python: Path, environment: Mapping[str, str]) -> list[str]:
    found: list[str] = json.loads(_quiet([python, "-c", _LIST], environment))
    return found


def measure(runs: int = RUNS, *, install: bool = True) -> dict[str, Any]:
    """Return all figures; `bars` holds (name, figure, bar, met), where met is None if it could not be measured."""
    starts = measure_import(runs)
    brought = measure_install() if install else "not asked for"
    more = starts[PACKAGE]["more_wall"]
    bars: list[tuple[str, float | str, int, bool | None]] = [
        ("import beyond a bare interpreter, ms", more, MOST_MILLISECONDS, more <= MOST_MILLISECONDS)
    ]
    name = "distributions a plain install brings"
    if isinstance(brought, str):
        bars.append((name, brought, MOST_DISTRIBUTIONS, None))
    else:
        bars.append((name, len(brought), MOST_DISTRIBUTIONS, len(brought) <= MOST_DISTRIBUTIONS))
    return {"starts": starts, "distributions": brought, "bars": bars}


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return exit status 1 if a bar is missed, else 0."""
    found = measure(install="--no-install" not in arguments)
    print(f"{'':32}{'wall ms':>10}{'CPU ms':>10}{'+ wall':>10}{'+ CPU':>10}")
    for name, row in found["starts"].items():
        print(
            f"{name:32}" + "".join(f"{row[key]:>10.1f}" for key in ("wall", "cpu", "more_wall", "more_cpu"))
        )
    print(f"\ninstalled: {found['distributions']}")
    for name, figure, bar, met in found["bars"]:
        shown = f"{figure:.1f}" if isinstance(figure, float) else figure
        print(f"{'skip' if met is None else 'pass' if met else 'FAIL'}  {name}: {shown} (at most {bar})")
    return 1 if any(met is False for *_, met in found["bars"]) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
