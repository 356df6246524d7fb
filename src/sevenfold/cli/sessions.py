"""`sevenfold sessions`: lists the sessions of a folder with their titles, deletes one, or imports another tool's."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs
from rich.text import Text

from sevenfold.archive import rewrite, stores
from sevenfold.archive import sessions as archived
from sevenfold.archive.sessions import StoredSession, project_name
from sevenfold.archive.upkeep.purge import find
from sevenfold.cli import purge, transcripts
from sevenfold.cli.chat.history import KeptSession, sessions
from sevenfold.cli.output import CUT, Column, ReportConsole, plain_table
from sevenfold.cli.text import (
    add_folder,
    add_switches,
    duration,
    one_line,
    plural,
    print_json,
    size,
    write,
)
from sevenfold.errors import Refused
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.removal import extent
from sevenfold.stores.lineage import must_be_user


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("action", nargs="?", choices=("list", "delete", "import"), default="list")
    add("name", nargs="?", metavar="NAME")
    add("--all", action="store_true")
    add("--store", metavar="URL")
    add_folder(command)
    add_switches(command, "--yes", "--dry-run", "--json")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    if options.action in ("delete", "import"):
        must_be_user(f"sevenfold sessions {options.action}")
    if options.action == "delete":
        return _delete(options)
    if options.action == "import":
        return _import(options)
    if options.store:
        rows = list(_in_store(options.store, None if options.all else stores.MOST_LISTED))
    else:
        rows = list(_everywhere() if options.all else _here(options.folder))
    if options.json:
        print_json(rows)
    elif rows:
        _print(rows)
    else:
        if options.store:
            write("No sessions in this store yet.\n")
            return 0
        scope = "on this machine" if options.all else "in this folder"
        write(f"No sessions {scope} yet; 'sevenfold chat' starts one.\n")
    return 0


def _delete(options: argparse.Namespace) -> int:
    if not options.name:
        raise Refused("say which session to delete: sevenfold sessions delete NAME")
    if options.store:
        return purge.remove_in_store(options.store, options.name, options, "Delete")
    home = user_home()
    folder = options.folder
    matching = find(home, options.name, folder)
    if not matching:
        # A session without a transcript can be found only by its exact name, which this is not; others by title too.
        project = home.project(folder).folder
        stored_here = [session for session in archived.stored() if session.path.parent == project]
        if not stored_here:
            raise Refused(f"no session {options.name} in this folder; 'sevenfold sessions' lists them")
        matching = find(home, archived.named(options.name, stored_here).name, folder)
    for session in matching:
        there = extent(session)
        about = f"{session.name}: {plural(there.files, 'file')}, {there.bytes:,} bytes\n"
        if code := purge.remove_if_confirmed(home, session, options, about, "Delete"):
            return code
    return 0


def _import(options: argparse.Namespace) -> int:
    if not options.name:
        raise Refused(
            "say which session to import: sevenfold sessions import NAME; 'sessions --all' lists them"
        )
    recorded = rewrite.inspect(transcripts.find(options.name, options.store))
    # The copy gets another id, because a shared one would name neither of the two sessions.
    new_session = user_home().project(options.folder).session(f"from-{recorded.session}")
    target = new_session.transcript
    if target.exists():
        raise Refused(
            f"{options.name} is here already; sevenfold chat --resume {new_session.name} continues it"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    rewrite.write_new(target, rewrite.DraftLog(recorded.path, recorded.converted))
    write(f"Copied {recorded.path}.\nTo go on with it: sevenfold chat --resume {new_session.name}\n")
    return 0


def _here(folder: Path) -> Iterator[dict[str, Any]]:
    for session in sessions(folder):
        yield {"name": session.name, "title": session.title, **_file(session)}


def _everywhere() -> Iterator[dict[str, Any]]:
    stored = archived.stored()
    with transcripts.watch("reading titles", len(stored)) as step:
        for number, session in enumerate(stored):
            yield {
                "name": session.name,
                "tool": session.tool,
                **structs.asdict(session.about()),
                **_file(session),
            }
            step(number)


def _in_store(url: str, limit: int | None) -> Iterator[dict[str, Any]]:
    for listed in stores.listed(url, limit):
        info = listed.info
        yield {
            "name": info.name,
            "tool": "Sevenfold",
            "title": listed.title,
            "project": listed.project,
            "modified": info.modified,
            "bytes": info.size,
        }


def _file(session: KeptSession | StoredSession) -> dict[str, Any]:
    return {"modified": session.modified, "bytes": session.size, "path": str(session.path)}


def _print(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table with the full names of sessions, because other commands take them; titles are cut to fit."""
    console = ReportConsole()
    now = time.time()
    further_columns, room = (["tool", "project"], 90) if "tool" in rows[0] else (["size"], 76)
    further_columns = further_columns if console.width >= room else []
    whole: Column = {"no_wrap": True}
    columns = [(name, whole) for name in ("session", "last used", *further_columns)]
    table = plain_table(*columns, ("title", {**CUT, "ratio": 1}), expand=True)
    for row in rows:
        age = f"{duration(max(0.0, now - row['modified']))} ago"
        project = one_line(project_name(row.get("project", "")), 16)
        cells = {**row, "project": project, "size": size(row["bytes"])}
        texts = (row["name"], age, *map(cells.get, further_columns), row["title"])
        table.add_row(*map(Text, texts))
    console.print(table)
