"""`sevenfold install`: adds our plugin to another program, after showing what that writes."""

from __future__ import annotations

import argparse

from sevenfold.cli.text import write
from sevenfold.doors.plugins import claude_code
from sevenfold.doors.plugins.changes import install


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("program", choices=(claude_code.NAME,), metavar="PROGRAM")
    add("--status-line", action="store_true")
    add("--dry-run", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    changes = claude_code.changes(with_status_line=options.status_line)
    for line in changes.described():
        write(f"{line}\n")
    if options.dry_run:
        write("Nothing was written.\n")
        return 0
    install(changes)
    write(f"Installed. Start {options.program} anew; 'sevenfold uninstall {options.program}' undoes it.\n")
    return 0
