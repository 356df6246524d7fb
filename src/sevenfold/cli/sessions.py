"""`sevenfold sessions`: lists the sessions of a folder with their titles, or deletes one."""

from __future__ import annotations

import argparse
import time

from rich.table import Table
from rich.text import Text

from sevenfold.cli import recorded_session as recorded_sessions
from sevenfold.cli import transcripts
from sevenfold.cli.chat.history import KeptSession, sessions
from sevenfold.cli.output import CUT, Column, ReportConsole, plain_table
from sevenfold.cli.text import add_folder, confirm, duration, one_line, plural, print_json, size, write
from sevenfold.cli.transcripts import project_name
from sevenfold.clock import RandomIds, SystemClock
from sevenfold.errors import Refused
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl import purge
from sevenfold.stores.jsonl.log import DraftLog
from sevenfold.stores.jsonl.rewrite import World

DECLINED = 1
"""The exit code if the user says no."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("action", nargs="?", choices=("list", "delete", "import"), default="list")
    add("name", nargs="?", metavar="NAME")
    add("--all", action="store_true")
    add_folder(command)
    add("--yes", action="store_true")
    add("--dry-run", action="store_true")
    add("--json", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    if options.action == "delete":
        return _delete(options)
    if options.action == "import":
        return _import(options)
    if options.all:
        return _list_all(options)
    kept = sessions(user_home().project(options.folder))
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
    folder = options.folder
    found = purge.find(home, options.name, folder)
    if not found:
        # Of a session without a transcript only its name is left, which was not it.
        kept = [one for one in transcripts.stored() if one.path.parent == home.project(folder).folder]
        if not kept:
            raise Refused(f"no session {options.name} in this folder; 'sevenfold sessions' lists them")
        found = purge.find(home, transcripts.named(options.name, kept).name, folder)
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


def _import(options: argparse.Namespace) -> int:
    if not options.name:
        raise Refused(
            "say which session to import: sevenfold sessions import NAME; 'sessions --all' lists them"
        )
    recorded = recorded_sessions.inspect(transcripts.find(options.name))
    # Not under the same id, or neither of the two could be named by it.
    kept = user_home().project(options.folder).session(f"from-{recorded.session}")
    target = kept.transcript
    if target.exists():
        raise Refused(f"{options.name} is here already; sevenfold chat --resume {kept.name} continues it")
    target.parent.mkdir(parents=True, exist_ok=True)
    recorded_sessions.write_new(target, DraftLog(recorded.path, recorded.converted))
    write(f"Copied {recorded.path}.\nTo go on with it: sevenfold chat --resume {kept.name}\n")
    return 0


def _list_all(options: argparse.Namespace) -> int:
    found = transcripts.stored()
    with transcripts.watch("reading titles", len(found)) as step:
        listed = []
        for number, one in enumerate(found):
            listed.append((one, one.about()))
            step(number)
    if options.json:
        print_json(
            [
                {
                    "name": one.name,
                    "tool": one.tool,
                    "title": about.title,
                    "project": about.project,
                    "modified": one.modified,
                    "bytes": one.size,
                    "path": str(one.path),
                }
                for one, about in listed
            ]
        )
        return 0
    if not listed:
        write("No sessions on this machine yet; 'sevenfold chat' starts one.\n")
        return 0
    console, now = ReportConsole(), time.time()
    wide = console.width >= 90
    table = _table(*(("tool",) if wide else ()), "last used", *(("project",) if wide else ()))
    for one, about in listed:
        age = f"{duration(max(0.0, now - one.modified))} ago"
        project = one_line(project_name(about.project), 16)
        more = (one.tool, age, Text(project)) if wide else (age,)
        table.add_row(Text(one.name), *more, Text(about.title))
    console.print(table)
    return 0


def _table(*names: str) -> Table:
    """A table that shows the names of sessions whole, because one needs them, and cuts their titles."""
    whole: Column = {"no_wrap": True}
    return plain_table(
        ("session", whole), *((name, whole) for name in names), ("title", {**CUT, "ratio": 1}), expand=True
    )


def _print(kept: list[KeptSession]) -> None:
    if not kept:
        write("No sessions in this folder yet; 'sevenfold chat' starts one.\n")
        return
    console, now = ReportConsole(), time.time()
    wide = console.width >= 76
    table = _table("last used", *(("size",) if wide else ()))
    for one in kept:
        table.add_row(Text(one.name), one.age(now), *((size(one.size),) if wide else ()), Text(one.title))
    console.print(table)
