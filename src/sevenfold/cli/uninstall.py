"""`sevenfold uninstall`: removes our plugin from another program, to the byte."""

from __future__ import annotations

import argparse

from sevenfold.cli.install import PROGRAMS
from sevenfold.cli.text import clean, write
from sevenfold.doors.plugins.changes import installed, uninstall
from sevenfold.stores.lineage import must_be_user


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("program", choices=PROGRAMS, metavar="PROGRAM")
    add("--dry-run", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    for path in installed(options.program):
        write(f"remove {clean(str(path))}\n")
    if options.dry_run:
        write("Nothing was removed.\n")
        return 0
    must_be_user("sevenfold uninstall")
    leftovers = uninstall(options.program)
    write("".join(f"{clean(reason)}\n" for reason in leftovers))
    write(
        f"Removed. Nothing of ours is left in {options.program}.\n"
        if not leftovers
        else "The rest was removed.\n"
    )
    return 0
