"""`sevenfold purge`: removes a session, or masks a leaked secret in everything that was stored."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sevenfold.cli.options import agreed
from sevenfold.errors import InputError, UserError

if TYPE_CHECKING:
    from sevenfold.stores.home import Home
    from sevenfold.stores.jsonl.rewrite import World
    from sevenfold.stores.jsonl.secrets import Leak

DECLINED = 1
"""The exit code when the user said no."""

SUMMARY = "remove a session, or mask one leaked secret everywhere"
HELP = """\
Remove a session with everything that belongs to it, or mask one leaked secret wherever it was stored: in
transcripts, tool results, notes, memories, what was typed in the chat, telemetry. This is the only command that
rewrites a transcript. It needs the session to itself, says what it will do and asks first. What was purged, and
when, is written down in purged.jsonl, and never what it was. A session whose transcript was masked goes on without
its earlier reasoning, because that was bound to what stood there."""

EXAMPLES = """\
examples:
  sevenfold purge --session support-42              remove a session
  sevenfold purge --secret-digest 3fa91c22          mask a secret that sevenfold scan has named
  pass show leaked | sevenfold purge --secret-stdin --yes
  sevenfold purge --session support-42 --dry-run    only say what would go

exit code: 0 if it was done or there was nothing to do, 1 if you said no, 2 if it could not be done"""


def arguments(command: argparse.ArgumentParser) -> None:
    """What the command takes."""
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--session", metavar="SESSION", help="remove this session")
    what.add_argument("--secret-digest", metavar="DIGEST", help="mask the secret that scan names so")
    what.add_argument("--secret-stdin", action="store_true", help="mask the secret on standard input")
    command.add_argument(
        "--project", type=Path, metavar="FOLDER", help="where the session ran, if several have its name"
    )
    command.add_argument("--yes", action="store_true", help="do not ask")
    command.add_argument("--dry-run", action="store_true", help="only say what would be done")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    from sevenfold.clock import RandomIds, SystemClock
    from sevenfold.stores.home import user_home
    from sevenfold.stores.jsonl.rewrite import World

    home, world = user_home(), World(SystemClock(), RandomIds())
    if options.session is not None:
        return _purge_session(home, world, options)
    return _purge_secrets(home, world, _leaks(home, options), options)


def _purge_session(home: Home, world: World, options: argparse.Namespace) -> int:
    from sevenfold.cli.phrases import plural
    from sevenfold.stores.jsonl import purge

    found = purge.find(home, options.session, options.project)
    if not found:
        raise UserError(f"{options.session}: there is no such session under {home.root}")
    if len(found) > 1:
        places = "".join(f"\n  {one.transcript}" for one in found)
        raise UserError(
            f"{options.session}: several sessions have this name; add --project FOLDER.{places}"
        )
    (session,) = found
    there = purge.extent(session)
    sys.stdout.write(
        f"{session.transcript}\n  {plural(there.files, 'file')}, {there.results:,} of them stored results; "
        f"{there.bytes:,} bytes\n"
    )
    if options.dry_run:
        return 0
    if not agreed("Remove all of it, for good?", options):
        return DECLINED
    purge.remove(home, session, world)
    sys.stdout.write("Removed.\n")
    return 0


def _purge_secrets(home: Home, world: World, leaks: list[Leak], options: argparse.Namespace) -> int:
    from sevenfold.cli.scan import progress
    from sevenfold.stores.jsonl import purge

    with progress("looking") as step:
        affected = purge.survey(home, leaks, step) if leaks else []
    if not affected:
        sys.stdout.write(f"It is nowhere under {home.root}.\n")
        return 0
    for path, times in ((path, times) for one in affected for path, times in one.places.items()):
        sys.stdout.write(f"{path}\n  {times:,} {'place' if times == 1 else 'places'}\n")
    if options.dry_run:
        return 0
    if not agreed(f"Write {' and '.join(leak.mask for leak in leaks)} in its place, for good?", options):
        return DECLINED
    places = purge.mask(home, leaks, affected, world)
    sys.stdout.write(f"Masked in {places:,} {'place' if places == 1 else 'places'}.\n")
    return 0


def _leaks(home: Home, options: argparse.Namespace) -> list[Leak]:
    from sevenfold.cli.scan import progress
    from sevenfold.record.redact import DIGITS_IN_MASK
    from sevenfold.stores.jsonl import purge
    from sevenfold.stores.jsonl.secrets import Leak

    if options.secret_stdin:
        return [Leak(_secret())]
    digest = options.secret_digest.lower()
    if len(digest) < DIGITS_IN_MASK or not set(digest) <= set("0123456789abcdef"):
        raise InputError(f"{options.secret_digest}: this is no digest; take it from sevenfold scan")
    with progress("looking") as step:
        return purge.leaks_with(home, digest, step)


def _secret() -> str:
    """The secret, without being shown if somebody types it."""
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass("Secret: ")
    return sys.stdin.read().rstrip("\r\n")
