"""The transcript a command is about: found by name, read with a bar where that takes long, shown without harm."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

from sevenfold.errors import TranscriptMissing

WORTH_SHOWING = 20_000_000
"""Bytes from which on reading takes long enough to show how far it has come."""
_STEERING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def find(name: str) -> Path:
    """The file that is meant: a path, or the id of a session in the usual places."""
    path = Path(name)
    if path.exists() or path.suffix or len(path.parts) != 1:
        return path
    from sevenfold.adapters.home import user_home

    others = Path.home() / ".claude" / "projects"
    own = (project.transcript(name) for project in user_home().projects())
    for found in (Path(f"{name}.jsonl"), *own, *sorted(others.glob(f"*/{escape(name)}.jsonl"))):
        if found.is_file():
            return found
    raise TranscriptMissing(
        f"{name}: neither a file nor a session of ours, in this folder or in {others}; name the transcript's path"
    )


@contextmanager
def progress(path: Path, doing: str) -> Iterator[Callable[[int], None] | None]:
    """A bar on the error stream, if it takes a while and somebody is there to see it."""
    size = path.stat().st_size if path.is_file() else 0
    if size < WORTH_SHOWING or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(doing), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=size)
        yield lambda reached: bar.update(task, completed=reached)


def harmless(text: str) -> str:
    """The text without what would steer the terminal; a tool may have printed anything."""
    return _STEERING.sub("\ufffd", text.expandtabs(4))
