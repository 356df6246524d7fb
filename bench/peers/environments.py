"""An environment for each peer, made when it is first needed, so that versions never clash.

They are in `.dev/peers`, with everything else that is installed for this project; delete it to get the newest
versions. uv makes them where there is one, else venv and pip do.
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
"""Seconds an installation may take."""


class Unavailable(Exception):
    """A peer cannot be installed here; the text says why."""


def python_of(adapter: Adapter) -> Path:
    """The interpreter that has what the adapter needs."""
    if not adapter.packages:
        return Path(sys.executable)
    folder = HOME / adapter.name
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists() or done.read_text() != " ".join(adapter.packages):
        shutil.rmtree(folder, ignore_errors=True)
        for command in _commands(folder, python, adapter.packages):
            _run(command)
        # Written last, so that an interrupted installation counts as none.
        done.write_text(" ".join(adapter.packages))
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
