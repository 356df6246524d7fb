"""The folder a demonstration works in, and how it goes away again."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "sevenfold-demo"
"""The same in every run, as long as it is free: paths are part of what the model reads, and so of the figures."""


@contextmanager
def scratch_folder(*, keep: bool) -> Iterator[Path]:
    """A new folder of one's own, removed at the end, however it ends, unless it is to be kept."""
    folder = _made(Path(tempfile.gettempdir()).resolve())
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def checked(folder: Path) -> tuple[bool, str]:
    """What the project's own tests say: whether all pass, and the last line they print."""
    done = subprocess.run(
        [sys.executable, "check.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode == 0, (done.stdout.strip().splitlines() or ["nothing"])[-1]


def _made(parent: Path) -> Path:
    """Somebody else's folder of that name, or a link, makes this fail and another name be taken."""
    try:
        (parent / NAME).mkdir(mode=0o700)
    except FileExistsError:
        return Path(tempfile.mkdtemp(prefix=f"{NAME}-", dir=parent))
    return parent / NAME
