"""The command line.

Each command is a module: what it says of itself, the `arguments` it takes, and `run`, which carries it out.
Describing imports next to nothing, so that `sevenfold --help` is quick. An error the user can mend is one line
on the error stream and exit code 2; any other is not hidden.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from typing import Protocol

import sevenfold as package
from sevenfold.cli import (
    audit,
    compact,
    config,
    demo,
    gc,
    notes,
    profile,
    purge,
    recall,
    scan,
    sessions,
    simulate,
    trust,
)
from sevenfold.cli.chat import command as chat
from sevenfold.errors import UserError


class Command(Protocol):
    """A module that is a command."""

    SUMMARY: str
    """One line, for the list of commands."""
    HELP: str
    EXAMPLES: str

    def arguments(self, command: argparse.ArgumentParser) -> None:
        """Declare what it takes."""
        ...

    def run(self, options: argparse.Namespace) -> int:
        """Carry it out; returns the exit code."""
        ...


COMMANDS: dict[str, Command] = {
    "demo": demo,
    "chat": chat,
    "sessions": sessions,
    "profile": profile,
    "compact": compact,
    "notes": notes,
    "recall": recall,
    "audit": audit,
    "config": config,
    "trust": trust,
    "scan": scan,
    "purge": purge,
    "gc": gc,
    "simulate": simulate,
}
FAILED = 2
INTERRUPTED = 130
PIPE_CLOSED = 141
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Whatever else is written has errors of its own, so these are about standard output."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    options = parser().parse_args(arguments)
    if sys.stdout is None or sys.stderr is None:
        # Whoever started this closed them.
        nowhere = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    try:
        code = COMMANDS[options.command].run(options)
        sys.stdout.flush()
    except UserError as error:
        sys.stderr.write(f"sevenfold: {error}\n")
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("sevenfold: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has had enough.
        _write_no_more()
        return PIPE_CLOSED
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        _write_no_more()
        sys.stderr.write(f"sevenfold: the output cannot be written: {error.strerror}\n")
        return FAILED
    return code


def _write_no_more() -> None:
    """Python writes what it still holds when it ends; that must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="sevenfold",
        description=package.__doc__,
        epilog="'sevenfold COMMAND --help' explains a command.",
    )
    top.add_argument("--version", action="version", version=f"sevenfold {package.__version__}")
    commands = top.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.arguments(
            commands.add_parser(
                name,
                help=command.SUMMARY,
                description=command.HELP,
                epilog=command.EXAMPLES,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    return top
