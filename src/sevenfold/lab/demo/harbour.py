"""The scratch project: the software of a small harbour, generated from ``scratch/``, the same every time.

All parts come from one template and differ only in words. Some modules have a fault that one of their tests finds; the
right and the wrong code are among the words, so that the script can fix it and `check` can tell whether that worked.

An agent works on it in a process with its own home, and without settings of the machine that would affect the figures.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from string import Template
from typing import Any

SEED = 7
INCIDENT = "GT-20931"
"""The incident behind the errors in the logs."""
GATES = ("east", "west", "fish")
LOG_LINES = 1_100
FOREIGN = ("SEVENFOLD_", "ANTHROPIC_", "OPENAI_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
"""Prefixes of environment variables that would make the figures depend on the machine's setup."""
SCRATCH = Path(__file__).parent / "scratch"
TEXTS: Mapping[str, Any] = tomllib.loads((SCRATCH / "script.toml").read_text("utf-8"))

Part = Mapping[str, str]
"""One part of the harbour: the words that replace the ``$names`` in a template."""


def fill(template: str, values: Part) -> str:
    """Fill a template with words."""
    return Template(template).substitute(values)


def harbour(parts: int, broken: int) -> list[Part]:
    """The parts of the project, ``broken`` of them with a fault."""
    chosen = sorted(Random(SEED).sample(range(parts), broken))
    faults = {index: TEXTS["faults"][number % len(TEXTS["faults"])] for number, index in enumerate(chosen)}
    return [_part(names, faults.get(index)) for index, names in enumerate(TEXTS["parts"][:parts])]


def _part(names: Sequence[str], fault: Sequence[str] | None) -> Part:
    chance = Random(f"{SEED} {names[0]}")
    values = dict(zip(("plural", "single", "unit", "purpose"), names, strict=True))
    values |= {name.capitalize(): value.capitalize() for name, value in values.items()}
    values |= {"UNIT": values["unit"].upper(), "reason": chance.choice(TEXTS["reasons"])}
    values |= {
        "most": str(chance.randrange(80, 400, 10)),
        "surcharge": str(chance.choice((10, 15, 20, 25))),
    }
    values |= {"free": str(chance.randrange(2, 7))}
    values |= {"module": f"tidewater/{names[0]}.py", "test": f"tests/test_{names[0]}.py"}
    if fault:
        right, wrong = (fill(template, values) for template in fault)
        values |= {"right": right, "wrong": wrong, "pattern": re.escape(wrong)}
    return values


def files(parts: Sequence[Part]) -> dict[str, str]:
    """The files of the project, faults included, by path."""
    project = SCRATCH / "project"
    fixed = project.rglob("*.txt")
    texts = {
        path.relative_to(project).with_suffix("").as_posix(): path.read_text("utf-8") for path in fixed
    }
    texts |= {f"logs/{gate}-gate.log": _log(gate) for gate in GATES}
    module, test = ((SCRATCH / name).read_text("utf-8") for name in ("module.py.txt", "test.py.txt"))
    for part in parts:
        right = fill(module, part)
        texts[part["module"]] = right.replace(part["right"], part["wrong"]) if "wrong" in part else right
        texts[part["test"]] = fill(test, part)
    return texts


def write(parts: Sequence[Part], folder: Path) -> None:
    """Write the project into a folder."""
    for name, content in files(parts).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8", newline="\n")


def check(folder: Path) -> str:
    """Run the project's own tests; returns the last line they print."""
    command = [sys.executable, "check.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return (done.stdout.strip().splitlines() or ["nothing"])[-1]


def start(module: str, arguments: Sequence[str], project: Path, home: Path) -> subprocess.Popen[bytes]:
    """Start a module of the demo as a process in the project, with pipes to and from it."""
    environ = {name: value for name, value in os.environ.items() if not name.upper().startswith(FOREIGN)}
    path = os.pathsep.join([str(Path(sys.executable).parent), environ.get("PATH", os.defpath)])
    return subprocess.Popen(
        [sys.executable, "-m", f"sevenfold.lab.demo.{module}", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=project,
        env={**environ, "SEVENFOLD_HOME": str(home), "PATH": path},
        start_new_session=True,  # A keyboard interrupt should reach only this process, not the child.
    )


def _log(gate: str) -> str:
    """The log of a week at one gate; at the first gate, one line explains the errors."""
    chance = Random(f"{SEED} {gate}")
    lines = []
    for number in range(LOG_LINES):
        second = chance.randrange(60)
        minute = number * 7 * 1_440 // LOG_LINES
        time = f"{2 + minute // 1_440:02d}T{minute % 1_440 // 60:02d}:{minute % 60:02d}:{second:02d}Z"
        level = chance.choices(("INFO", "WARN", "ERROR"), (90, 8, 2))[0]
        message = chance.choice(TEXTS["log"][level])
        barrier = chance.randrange(1, 5)
        ticket = chance.randrange(10_000, 99_999)
        lines.append(f"2026-03-{time} {level} {gate}-gate[{barrier}] {message.format(ticket)}")
    if gate == GATES[0]:
        cause = "the barrier's clock went back an hour and tickets were refused until 03:14"
        lines[LOG_LINES * 2 // 3] = (
            f"2026-03-05T02:14:09Z ERROR {gate}-gate[3] incident {INCIDENT}: {cause}"
        )
    return "\n".join(lines) + "\n"
