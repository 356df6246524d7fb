"""The transcript a command works on: found by path or session id, and read with a progress bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from glob import escape
from pathlib import Path

from sevenfold.errors import TranscriptMissing
from sevenfold.stores.home import user_home

PATIENCE = 1.0
"""Seconds before progress is shown."""


def find(name: str) -> Path:
    """The file named by a path, or by the id of a session in the usual places; raises `TranscriptMissing`."""
    path = Path(name)
    if path.exists() or path.suffix or len(path.parts) != 1:
        return path
    others = Path.home() / ".claude" / "projects"
    own = (project.transcript(name) for project in user_home().projects())
    for found in (Path(f"{name}.jsonl"), *own, *sorted(others.glob(f"*/{escape(name)}.jsonl"))):
        if found.is_file():
            return found
    raise TranscriptMissing(
        f"{name}: no such file, and no session with this id in this folder, in Sevenfold's home or in {others}; "
        "give the transcript's path"
    )


@contextmanager
def progress(path: Path, doing: str) -> Iterator[Callable[[int], None]]:
    """Show on the error stream how much of a file has been read, once that takes a while.

    On a terminal it is a bar, elsewhere one line. Yields the function to call with the number of bytes read.
    """
    size = path.stat().st_size if path.is_file() else 0
    patient_until = time.monotonic() + PATIENCE
    with ExitStack() as shown:
        show: Callable[[int], None] | None = None

        def step(reached: int) -> None:
            nonlocal show
            if show is None and time.monotonic() >= patient_until:
                show = _bar(shown, doing, size) if sys.stderr.isatty() else _line(path, doing, size)
            if show is not None:
                show(reached)

        yield step


def _bar(shown: ExitStack, doing: str, size: int) -> Callable[[int], None]:
    from rich.progress import TimeRemainingColumn

    from sevenfold.cli.output import progress_bar  # loads rich, for which pipes should not wait

    update = shown.enter_context(progress_bar(doing, size, TimeRemainingColumn()))
    return lambda reached: update(completed=reached)


def _line(path: Path, doing: str, size: int) -> Callable[[int], None]:
    sys.stderr.write(f"sevenfold: {doing} {path.name}, {size / 1e6:,.0f} MB\n")
    sys.stderr.flush()
    return lambda reached: None
