"""`sevenfold purge`: removes a session, or masks a leaked secret wherever it is stored."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getpass
from pathlib import Path

from sevenfold.archive import stores
from sevenfold.archive.upkeep.purge import Progress, find, leaks_with, mask, remove, survey
from sevenfold.archive.upkeep.rewrite import RecordStamper
from sevenfold.archive.upkeep.secrets import Leak
from sevenfold.cli.output import progress_bar
from sevenfold.cli.text import add_switches, confirm, one_line, plural, write
from sevenfold.cli.transcripts import add_store, opened_store
from sevenfold.errors import InputError, Refused, UserError
from sevenfold.record.redact import DIGITS_IN_MASK
from sevenfold.stores.home import Home, SessionFiles, user_home
from sevenfold.stores.jsonl.removal import extent
from sevenfold.stores.lineage import must_be_user

DECLINED = 1
"""The exit code if the user says no."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    target = command.add_mutually_exclusive_group(required=True)
    target.add_argument("--session", metavar="SESSION")
    target.add_argument("--secret-digest", metavar="DIGEST")
    target.add_argument("--secret-stdin", action="store_true")
    command.add_argument("--project", type=Path, metavar="FOLDER")
    add_store(command)
    add_switches(command, "--yes", "--dry-run")


@contextmanager
def _progress() -> Iterator[Progress]:
    """Show a progress bar on the error stream, if it is a terminal; yields the function to call with each file."""
    if not sys.stderr.isatty():
        yield lambda path: None
        return
    from rich.progress import MofNCompleteColumn, TextColumn

    columns = MofNCompleteColumn(), TextColumn("{task.description}", markup=False)
    with progress_bar("searching", None, *columns) as update:
        yield lambda path: update(advance=1, description=path.name[:40])


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    must_be_user("sevenfold purge")
    if options.store:
        if options.session is None:
            raise Refused(
                "a secret is masked in files only; in a store, remove the sessions that hold it: sevenfold scan "
                "--store URL names them, and sevenfold purge --store URL --session NAME removes one"
            )
        return remove_in_store(options.store, options.session, options, "Remove")
    home = user_home()
    if options.session is not None:
        return _purge_session(home, options)
    return _purge_secrets(home, _leaks(home, options), options)


def _purge_session(home: Home, options: argparse.Namespace) -> int:
    matching = find(home, options.session, options.project)
    name = options.session
    if not matching:
        raise UserError(f"{name}: no such session under {home.root}; 'sevenfold sessions --all' lists them")
    if len(matching) > 1:
        places = "".join(f"\n  {session.transcript}" for session in matching)
        raise UserError(
            f"{name}: several sessions have this name; choose one with --project FOLDER{places}"
        )
    (session,) = matching
    there = extent(session)
    results = f"{there.results:,} of them stored results"
    about = f"{session.transcript}\n  {plural(there.files, 'file')}, {results}; {there.bytes:,} bytes\n"
    return remove_if_confirmed(home, session, options, about, "Remove")


def _purge_secrets(home: Home, leaks: list[Leak], options: argparse.Namespace) -> int:
    with _progress() as step:
        affected = survey(home, leaks, step) if leaks else []
    if not affected:
        write(f"The secret is nowhere under {home.root}.\n")
        return 0
    for group in affected:
        for path, times in group.places.items():
            write(f"{path}\n  {plural(times, 'place')}\n")
    if options.dry_run:
        return 0
    if not confirm(f"Replace it with {' and '.join(leak.mask for leak in leaks)} permanently?", options):
        return DECLINED
    places = mask(home, leaks, affected, RecordStamper())
    write(f"Masked in {plural(places, 'place')}.\n")
    return 0


def _leaks(home: Home, options: argparse.Namespace) -> list[Leak]:
    if options.secret_stdin:
        # `getpass` does not show a secret while it is typed.
        return [Leak(getpass("Secret: ") if sys.stdin.isatty() else sys.stdin.read().rstrip("\r\n"))]
    digest = options.secret_digest.lower()
    if len(digest) < DIGITS_IN_MASK or not set(digest) <= set("0123456789abcdef"):
        raise InputError(f"{options.secret_digest}: this is not a digest; sevenfold scan prints them")
    with _progress() as step:
        return leaks_with(home, digest, step)


def remove_in_store(url: str, name: str, options: argparse.Namespace, verb: str) -> int:
    """Remove a session of a store if the user agrees; its name has to be whole. Returns the exit code."""
    about = f"{one_line(name, 80)} in this store, with its branches and all that belongs to it\n"
    with opened_store(url) as store:
        assert store is not None
        store.read(name)  # raises if there is none
    write(about)
    if options.dry_run:
        return 0
    if not confirm(f"{verb} all of it permanently?", options):
        return DECLINED
    stores.erase(url, name)
    write(f"{verb}d.\n")
    return 0


def remove_if_confirmed(
    home: Home, session: SessionFiles, options: argparse.Namespace, about: str, verb: str
) -> int:
    """Print ``about``, and remove the session if the user agrees; returns the exit code."""
    write(about)
    if options.dry_run:
        return 0
    if not confirm(f"{verb} all of it permanently?", options):
        return DECLINED
    remove(home, session, RecordStamper())
    write(f"{verb}d.\n")
    return 0
