"""Finds the transcript a command was told to work on, and shows progress while a command reads one."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path

from sevenfold.archive import sessions, stores
from sevenfold.cli.text import complain
from sevenfold.errors import InputError
from sevenfold.ports import Store
from sevenfold.stores.registry import open_store

PATIENCE = 1.0
"""Seconds before progress is shown."""


def add_store(command: argparse.ArgumentParser) -> None:
    """Declare the option that names the store of the sessions."""
    command.add_argument("--store", metavar="URL")


@contextmanager
def opened_store(url: str | None) -> Iterator[Store | None]:
    """The store with this URL while it is used; None without a URL. Raises `InputError` if it is something else."""
    if url is None:
        yield None
        return
    stores.check_url(url)
    with closing(open_store(url)) as store:
        yield store


def find(name: str, store: str | None = None) -> Path:
    """The file of a session, of a ``store`` if one is given; see `sevenfold.archive.sessions.find`.

    Shows progress if titles have to be read.
    """
    if store:
        name = stores.name_in(store, name)
    with watch("looking for titles", 0) as step:
        return sessions.find(name, step)


def copies(store: str) -> list[Path]:
    """Copies of the newest sessions of a store; raises `InputError` if there are none. Shows progress."""
    if stores.by_url_of_store(store) is None:
        return [find("", store)]
    paths: list[Path] = []
    with watch("copying sessions", stores.MOST_COPIED) as step:
        for copy in stores.copies(store):
            paths.append(copy)
            step(len(paths))
    if not paths:
        raise InputError("there are no sessions in this store")
    return paths


def progress(path: Path, doing: str) -> AbstractContextManager[Callable[[int], None]]:
    """Show on the error stream how much of a file has been read, if that takes a while; see `watch`."""
    size = path.stat().st_size if path.is_file() else 0
    return watch(doing, size, f"{path.name}, {size / 1e6:,.0f} MB")


@contextmanager
def watch(doing: str, total: int, amount: str = "") -> Iterator[Callable[[int], None]]:
    """Show progress on the error stream, if the work takes a while: a bar on a terminal, elsewhere one line.

    Yields a function to call with how much of ``total`` is done.
    """
    patient_until = time.monotonic() + PATIENCE
    with ExitStack() as shown:
        show: Callable[..., None] | None = None

        def step(reached: int) -> None:
            nonlocal show
            if show is None and time.monotonic() >= patient_until:
                show = shown.enter_context(_bar(doing, total, amount))
            if show is not None:
                show(completed=reached)

        yield step


@contextmanager
def _bar(doing: str, total: int, amount: str) -> Iterator[Callable[..., None]]:
    if not sys.stderr.isatty():
        complain(f"{doing} {amount}".strip())
        sys.stderr.flush()
        yield lambda completed: None
        return
    from rich.progress import TimeRemainingColumn

    from sevenfold.cli.output import progress_bar  # loads rich, which pipes should not wait for

    with progress_bar(doing, total, TimeRemainingColumn()) as update:
        yield update
