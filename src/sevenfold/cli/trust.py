"""`sevenfold trust`: manages the list of folders whose own settings, hooks and servers are used."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from sevenfold.cli.text import clean, write
from sevenfold.stores.lineage import must_be_user
from sevenfold.stores.trust import Trust, brings, user_folder

FOREIGN = "{path} was changed outside Sevenfold, so nothing in it counts; trust your folders again"


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("folder", nargs="?", type=Path, default=Path(), metavar="FOLDER")
    choice = command.add_mutually_exclusive_group()
    choice.add_argument("--revoke", action="store_true")
    choice.add_argument("--list", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    trust = Trust(user_folder(os.environ))
    if options.list:
        if trust.foreign:
            write(f"{FOREIGN.format(path=trust.path)}\n")
        for listed in trust.folders():
            write(f"{listed}{_about(trust, Path(listed))}\n")
        return 0
    must_be_user("sevenfold trust")
    if options.revoke:
        was = trust.remove(options.folder)
        state = "is no longer trusted" if was else "was not trusted"
        write(f"{options.folder.expanduser().resolve()} {state}\n")
        return 0
    folder = trust.add(options.folder)
    brought = brings(folder)
    effect = (
        "this takes effect, and you are asked again if it changes:" if brought else "it brings nothing yet"
    )
    write("\n".join([f"{folder} is trusted; {effect}", *(f"  {clean(name)}" for name in brought), ""]))
    return 0


def _about(trust: Trust, folder: Path) -> str:
    """What to know of a trusted folder, behind its path."""
    if not folder.is_dir():
        return "  (no longer exists)"
    changes = trust.changes(folder)
    if changes:
        return "".join(
            [
                "  (changed since you trusted it, so it is not)",
                *(f"\n  {clean(change)}" for change in changes),
            ]
        )
    agreed = (f"server {name} (agreed to)" for name in trust.servers(folder))
    return "".join(f"\n  {clean(name)}" for name in (*brings(folder), *agreed))
