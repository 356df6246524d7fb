"""The transcript a command works on: found by path or session id, and read with a progress bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from glob import escape
from itertools import chain
from pathlib import Path

from sevenfold.cli.options import complain
from sevenfold.errors import TranscriptForeign, TranscriptMissing
from sevenfold.stores.home import user_home

PATIENCE = 1.0
"""Seconds before progress is shown."""


def find(name: str) -> Path:
    """The file named by a path, or by the id of a session in the usual places; raises `TranscriptMissing`."""
    try:
        return _find(name)
    except OSError as error:
        raise TranscriptMissing(f"{name}: {error.strerror or error}; give a transcript's path") from None


def _find(name: str) -> Path:
    path = Path(name)
    claude, codex = Path.home() / ".claude" / "projects", Path.home() / ".codex" / "sessions"
    if path.is_file():
        return path
    if path.name and len(path.parts) == 1 and not path.suffix:
        own = (project.session(name).transcript for project in user_home().projects())
        theirs = (claude.glob(f"*/{escape(name)}.jsonl"), codex.rglob(f"rollout-*{escape(name)}.jsonl"))
        for found in (Path(f"{name}.jsonl"), *own, *sorted(chain(*theirs))):
            if found.is_file():
                return found
    if path.is_dir():
        raise TranscriptForeign(
            f"{path}: this is a directory; give the path of a transcript, or a session's id"
        )
    if path.exists() or path.suffix or len(path.parts) != 1:
        return path
    raise TranscriptMissing(
        f"{name}: no such file, and no session with this id in this folder, in Sevenfold's home, in {claude} or in "
        f"{codex}; give the transcript's path"
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
    complain(f"{doing} {path.name}, {size / 1e6:,.0f} MB")
    sys.stderr.flush()
    return lambda reached: None
