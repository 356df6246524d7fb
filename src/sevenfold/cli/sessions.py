"""`sevenfold sessions`: the sessions of a folder, with their titles; and removing one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sevenfold.cli.options import agreed
from sevenfold.errors import Refused

if TYPE_CHECKING:
    from sevenfold.cli.chat.session_list import Kept

DECLINED = 1
"""The exit code when the user said no."""

SUMMARY = "list the sessions of a folder, or remove one"
HELP = """\
List the sessions that are kept for a folder, the newest first: name, age, size, and the first words of the user.
`sevenfold chat --resume NAME` goes on with one."""

EXAMPLES = """\
examples:
  sevenfold sessions                     those of this folder
  sevenfold sessions --json              for scripts
  sevenfold sessions delete NAME         remove one with all that belongs to it; asks first, unless --yes
  sevenfold purge --help                 remove a leaked secret from all of them"""


def arguments(command: argparse.ArgumentParser) -> None:
    """What the command takes."""
    command.add_argument(
        "action", nargs="?", choices=("list", "delete"), default="list", help="default: list"
    )
    command.add_argument("name", nargs="?", metavar="NAME", help="the session to delete")
    command.add_argument(
        "--folder", type=Path, default=Path(), metavar="FOLDER", help="whose sessions (default: this one)"
    )
    command.add_argument("--yes", action="store_true", help="do not ask before deleting")
    command.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    command.add_argument("--json", action="store_true", help="print JSON instead of the list")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    from sevenfold.cli.chat.session_list import sessions
    from sevenfold.stores.home import user_home

    if options.action == "delete":
        return _delete(options)
    kept = sessions(user_home().project(options.folder.absolute()))
    if options.json:
        _print_json(kept)
    else:
        _print(kept)
    return 0


def _delete(options: argparse.Namespace) -> int:
    from sevenfold.cli.phrases import plural
    from sevenfold.clock import RandomIds, SystemClock
    from sevenfold.stores.home import user_home
    from sevenfold.stores.jsonl import purge
    from sevenfold.stores.jsonl.rewrite import World

    if not options.name:
        raise Refused("say which session to delete: sevenfold sessions delete NAME")
    home = user_home()
    found = purge.find(home, options.name, options.folder.absolute())
    if not found:
        raise Refused(f"there is no session {options.name} in this folder; 'sevenfold sessions' lists them")
    for one in found:
        there = purge.extent(one)
        sys.stdout.write(f"{one.name}: {plural(there.files, 'file')}, {there.bytes:,} bytes\n")
        if options.dry_run:
            continue
        if not agreed("Remove all of it, for good?", options):
            return DECLINED
        purge.remove(home, one, World(SystemClock(), RandomIds()))
        sys.stdout.write("Removed.\n")
    return 0


def _print_json(kept: list[Kept]) -> None:
    import msgspec

    rows = [
        {
            "name": one.name,
            "title": one.title,
            "modified": one.modified,
            "bytes": one.size,
            "path": str(one.path),
        }
        for one in kept
    ]
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode() + "\n")


def _print(kept: list[Kept]) -> None:
    import time

    from rich.table import Table
    from rich.text import Text

    from sevenfold.cli.chat.session_list import size
    from sevenfold.cli.output import Report

    if not kept:
        sys.stdout.write("There are no sessions of this folder yet; 'sevenfold chat' begins one.\n")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in ("session", "last used", "size"):
        table.add_column(name, no_wrap=True)
    table.add_column("title", overflow="ellipsis", no_wrap=True, ratio=1)
    now = time.time()
    for one in kept:
        table.add_row(Text(one.name), one.age(now), size(one.size), Text(one.title))
    Report().print(table)
