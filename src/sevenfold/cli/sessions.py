"""`sevenfold sessions`: lists the sessions of a folder with their titles, or deletes one."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.text import Text

from sevenfold.cli.chat.history import KeptSession, sessions
from sevenfold.cli.options import confirm, print_json, write
from sevenfold.cli.output import ReportConsole, plain_table
from sevenfold.cli.text import plural, size
from sevenfold.clock import RandomIds, SystemClock
from sevenfold.errors import Refused
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl import purge
from sevenfold.stores.jsonl.rewrite import World

DECLINED = 1
"""The exit code if the user says no."""

HELP = """\
List the sessions of a folder, the newest first: name, age, size, and title or first words.
`sevenfold chat --resume NAME` continues one."""

EXAMPLES = """\
examples:
  sevenfold sessions                     the sessions of this folder
  sevenfold sessions --json              for scripts
  sevenfold sessions delete NAME         delete one with everything that belongs to it; asks first
  sevenfold purge --help                 remove a leaked secret from all of them"""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("action", nargs="?", choices=("list", "delete"), default="list", help="default: list")
    add("name", nargs="?", metavar="NAME", help="the session to delete")
    add("--folder", type=Path, default=Path(), metavar="FOLDER", help="the folder (default: this one)")
    add("--yes", action="store_true", help="do not ask before deleting")
    add("--dry-run", action="store_true", help="only show what would be deleted")
    add("--json", action="store_true", help="print JSON instead of the list")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    if options.action == "delete":
        return _delete(options)
    kept = sessions(user_home().project(options.folder.absolute()))
    if options.json:
        print_json(
            [
                {
                    "name": one.name,
                    "title": one.title,
                    "modified": one.modified,
                    "bytes": one.size,
                    "path": str(one.path),
                }
                for one in kept
            ]
        )
    else:
        _print(kept)
    return 0


def _delete(options: argparse.Namespace) -> int:
    if not options.name:
        raise Refused("say which session to delete: sevenfold sessions delete NAME")
    home = user_home()
    found = purge.find(home, options.name, options.folder.absolute())
    if not found:
        raise Refused(f"no session {options.name} in this folder; 'sevenfold sessions' lists them")
    for one in found:
        there = purge.extent(one)
        write(f"{one.name}: {plural(there.files, 'file')}, {there.bytes:,} bytes\n")
        if options.dry_run:
            continue
        if not confirm("Delete all of it permanently?", options):
            return DECLINED
        purge.remove(home, one, World(SystemClock(), RandomIds()))
        write("Deleted.\n")
    return 0


def _print(kept: list[KeptSession]) -> None:
    if not kept:
        write("No sessions in this folder yet; 'sevenfold chat' starts one.\n")
        return
    table = plain_table()
    for name in ("session", "last used", "size"):
        table.add_column(name, no_wrap=True)
    table.add_column("title", overflow="ellipsis", no_wrap=True, ratio=1)
    now = time.time()
    for one in kept:
        table.add_row(Text(one.name), one.age(now), size(one.size), Text(one.title))
    ReportConsole().print(table)
