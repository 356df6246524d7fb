"""Starts an agent's process: with a home of its own, and nothing from the machine that would change the figures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FOREIGN = ("SEVENFOLD_", "ANTHROPIC_", "OPENAI_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
"""Variables that would make the figures depend on how the machine is set up."""


def start(module: str, given: Sequence[str], project: Path, home: Path) -> subprocess.Popen[bytes]:
    """Run a module of the demo in the project, with pipes to and from it."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(FOREIGN)}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return subprocess.Popen(
        [sys.executable, "-m", f"sevenfold.lab.demo.{module}", *given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=project,
        env={**kept, "SEVENFOLD_HOME": str(home), "PATH": path},
        start_new_session=True,  # An interrupt from the keyboard is for this process alone.
    )
