"""`sevenfold trust`: manages the list of folders whose own settings, hooks and servers are used."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from sevenfold.cli.text import write
from sevenfold.stores.lineage import must_be_user
from sevenfold.stores.settings_files import PROJECT_FILE
from sevenfold.stores.trust import Trust, user_folder


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("folder", nargs="?", type=Path, default=Path(), metavar="FOLDER")
    what = command.add_mutually_exclusive_group()
    what.add_argument("--revoke", action="store_true")
    what.add_argument("--list", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    trust = Trust(user_folder(os.environ))
    if options.list:
        for listed in trust.folders():
            write(f"{listed}{'' if Path(listed).is_dir() else '  (no longer exists)'}\n")
        return 0
    must_be_user("sevenfold trust")
    if options.revoke:
        was = trust.remove(options.folder)
        state = "is no longer trusted" if was else "was not trusted"
        write(f"{options.folder.expanduser().resolve()} {state}\n")
        return 0
    folder = trust.add(options.folder)
    brings = (folder / PROJECT_FILE).exists()
    now = f"its {PROJECT_FILE} now takes effect" if brings else f"it has no {PROJECT_FILE} yet"
    write(f"{folder} is trusted; {now}\n")
    return 0
