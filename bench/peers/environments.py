"""A separate environment for each peer, created on first use, so that versions never clash.

The environments are in `.dev/peers`, with everything else that is installed for this project; delete that folder to
get the newest versions. uv creates them if it is available, otherwise venv and pip do.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.peers.timing import Adapter

ROOT = Path(__file__).resolve().parent.parent.parent
HOME = ROOT / ".dev" / "peers"
PATIENCE = 300
"""Seconds each command of an installation may take."""


class Unavailable(Exception):
    """A peer cannot be installed here; the text says why."""


def python_of(adapter: Adapter) -> Path:
    """The interpreter with the adapter's packages, installed first if necessary; raises `Unavailable` on failure."""
    return python_with(adapter.name, adapter.packages)


def python_with(name: str, packages: tuple[str, ...]) -> Path:
    """The interpreter with these packages, in the environment of this name; raises `Unavailable` on failure."""
    if not packages:
        return Path(sys.executable)
    folder = HOME / name
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists() or done.read_text() != " ".join(packages):
        shutil.rmtree(folder, ignore_errors=True)
        fresh(folder, packages)
        # Written last, so that an interrupted installation counts as none.
        done.write_text(" ".join(packages))
    return python


def fresh(folder: Path, packages: tuple[str, ...]) -> Path:
    """The interpreter of a new environment with these packages; raises `Unavailable` on failure."""
    python = folder / "bin" / "python"
    for command in _commands(folder, python, packages):
        _run(command)
    return python


def _commands(folder: Path, python: Path, packages: tuple[str, ...]) -> list[list[str]]:
    uv = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".dev" / "tools" / "bin"))
    if uv:
        return [
            [uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
            [uv, "pip", "install", "--quiet", "--python", str(python), *packages],
        ]
    return [
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
    ]


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout or "").strip().splitlines()
        raise Unavailable(words[-1] if words else f"exit code {error.returncode}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"not installed after {PATIENCE} seconds") from error
