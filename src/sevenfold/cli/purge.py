"""`sevenfold purge`: removes a session, or masks a leaked secret everywhere it was stored."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from getpass import getpass
from pathlib import Path

from rich.progress import MofNCompleteColumn, TextColumn

from sevenfold.cli.output import progress_bar
from sevenfold.cli.storage import purge
from sevenfold.cli.storage.rewrite import World
from sevenfold.cli.storage.secrets import Leak
from sevenfold.cli.text import confirm, plural, write
from sevenfold.clock import RandomIds, SystemClock
from sevenfold.errors import InputError, UserError
from sevenfold.record.redact import DIGITS_IN_MASK
from sevenfold.stores.home import Home, user_home

DECLINED = 1
"""The exit code if the user says no."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--session", metavar="SESSION")
    what.add_argument("--secret-digest", metavar="DIGEST")
    what.add_argument("--secret-stdin", action="store_true")
    add = command.add_argument
    add("--project", type=Path, metavar="FOLDER")
    add("--yes", action="store_true")
    add("--dry-run", action="store_true")


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[Path], None]]:
    """A bar on the error stream, if that is a terminal; yields the function to call with each file."""
    if not sys.stderr.isatty() or total == 1:
        yield lambda path: None
        return
    columns = MofNCompleteColumn(), TextColumn("{task.description}", markup=False)
    with progress_bar(what, total, *columns) as update:
        yield lambda path: update(advance=1, description=path.name[:40])


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    home, world = user_home(), World(SystemClock(), RandomIds())
    if options.session is not None:
        return _purge_session(home, world, options)
    return _purge_secrets(home, world, _leaks(home, options), options)


def _purge_session(home: Home, world: World, options: argparse.Namespace) -> int:
    found = purge.find(home, options.session, options.project)
    if not found:
        raise UserError(
            f"{options.session}: no such session under {home.root}; 'sevenfold sessions --all' lists them"
        )
    if len(found) > 1:
        places = "".join(f"\n  {one.transcript}" for one in found)
        raise UserError(
            f"{options.session}: several sessions have this name; choose one with --project FOLDER{places}"
        )
    (session,) = found
    there = purge.extent(session)
    write(
        f"{session.transcript}\n  {plural(there.files, 'file')}, {there.results:,} of them stored results; "
        f"{there.bytes:,} bytes\n"
    )
    if options.dry_run:
        return 0
    if not confirm("Remove all of it permanently?", options):
        return DECLINED
    purge.remove(home, session, world)
    write("Removed.\n")
    return 0


def _purge_secrets(home: Home, world: World, leaks: list[Leak], options: argparse.Namespace) -> int:
    with progress("searching") as step:
        affected = purge.survey(home, leaks, step) if leaks else []
    if not affected:
        write(f"The secret is nowhere under {home.root}.\n")
        return 0
    for path, times in ((path, times) for one in affected for path, times in one.places.items()):
        write(f"{path}\n  {plural(times, 'place')}\n")
    if options.dry_run:
        return 0
    if not confirm(f"Replace it with {' and '.join(leak.mask for leak in leaks)} permanently?", options):
        return DECLINED
    places = purge.mask(home, leaks, affected, world)
    write(f"Masked in {plural(places, 'place')}.\n")
    return 0


def _leaks(home: Home, options: argparse.Namespace) -> list[Leak]:
    if options.secret_stdin:
        # A secret that is typed is not shown.
        return [Leak(getpass("Secret: ") if sys.stdin.isatty() else sys.stdin.read().rstrip("\r\n"))]
    digest = options.secret_digest.lower()
    if len(digest) < DIGITS_IN_MASK or not set(digest) <= set("0123456789abcdef"):
        raise InputError(f"{options.secret_digest}: this is not a digest; sevenfold scan prints them")
    with progress("searching") as step:
        return purge.leaks_with(home, digest, step)
