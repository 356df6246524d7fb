"""`sevenfold install`: adds our plugin to another program, after showing what that writes."""

from __future__ import annotations

import argparse

from sevenfold.cli.text import write
from sevenfold.doors.plugins import claude_code, codex, hermes
from sevenfold.doors.plugins.changes import Changes, install
from sevenfold.errors import InputError
from sevenfold.stores.lineage import must_be_user

PROGRAMS = (claude_code.NAME, codex.NAME, hermes.NAME)
_AFTERWARDS = {codex.NAME: codex.AFTERWARDS, hermes.NAME: hermes.AFTERWARDS}


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("program", choices=PROGRAMS, metavar="PROGRAM")
    add("--status-line", action="store_true")
    add("--dry-run", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    changes = _changes(options.program, with_status_line=options.status_line)
    for line in changes.described():
        write(f"{line}\n")
    if options.dry_run:
        write("Nothing was written.\n")
        return 0
    must_be_user("sevenfold install")
    install(changes)
    write(f"Installed. Start {options.program} anew; 'sevenfold uninstall {options.program}' undoes it.\n")
    if options.program in _AFTERWARDS:
        write(f"{_AFTERWARDS[options.program]}\n")
    return 0


def _changes(program: str, *, with_status_line: bool) -> Changes:
    if program == claude_code.NAME:
        return claude_code.changes(with_status_line=with_status_line)
    if with_status_line:
        raise InputError(
            f"{program.capitalize()} has no status line that a command could fill; leave --status-line out"
        )
    return hermes.changes() if program == hermes.NAME else codex.changes()
