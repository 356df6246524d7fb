"""The transcript a command is about: found by name, read with a bar where that takes long, shown without harm."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from sevenfold.errors import TranscriptMissing

if TYPE_CHECKING:
    from sevenfold.recall.index import RecallIndex
    from sevenfold.stores.jsonl.log import JsonlLog

PATIENCE = 1.0
"""Seconds from which on it is shown how far something has come."""
_STEERING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def find(name: str) -> Path:
    """The file that is meant: a path, or the id of a session in the usual places."""
    path = Path(name)
    if path.exists() or path.suffix or len(path.parts) != 1:
        return path
    from sevenfold.stores.home import user_home

    others = Path.home() / ".claude" / "projects"
    own = (project.transcript(name) for project in user_home().projects())
    for found in (Path(f"{name}.jsonl"), *own, *sorted(others.glob(f"*/{escape(name)}.jsonl"))):
        if found.is_file():
            return found
    raise TranscriptMissing(
        f"{name}: neither a file nor a session of ours, in this folder or in {others}; name the transcript's path"
    )


@contextmanager
def indexed(path: Path) -> Iterator[tuple[JsonlLog, RecallIndex]]:
    """The transcript and an up-to-date index of all that was said in it; refused if nothing was."""
    from sevenfold.lab.profile.files import not_a_conversation
    from sevenfold.recall.index import RecallIndex, side_file
    from sevenfold.stores.home import SessionFiles
    from sevenfold.stores.jsonl.log import JsonlLog
    from sevenfold.stores.jsonl.results import FileResults

    log = JsonlLog(path)
    stored = FileResults(SessionFiles(path.parent, path.stem).results)
    with closing(RecallIndex.for_reading(log, side_file(path), fetch=stored.fetch)) as index:
        with progress(path, "indexing") as step:
            index.catch_up(step)
        if index.size == 0:
            raise not_a_conversation(path)
        yield log, index


@contextmanager
def progress(path: Path, doing: str) -> Iterator[Callable[[int], None]]:
    """Tells on the error stream how far the reading of a file has come, once it has taken a while.

    On a terminal that is a bar, elsewhere a line.
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
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(doing), BarColumn(), TimeRemainingColumn())
    bar = shown.enter_context(Progress(*columns, console=Console(stderr=True), transient=True))
    task = bar.add_task("", total=size)
    return lambda reached: bar.update(task, completed=reached)


def _line(path: Path, doing: str, size: int) -> Callable[[int], None]:
    sys.stderr.write(f"sevenfold: {doing} {path.name}, {size / 1e6:,.0f} MB\n")
    sys.stderr.flush()
    return lambda reached: None


def harmless(text: str) -> str:
    """The text without what would steer the terminal; a tool may have printed anything."""
    return _STEERING.sub("\ufffd", text.expandtabs(4))
