"""The command line.

Commands are described here and carried out elsewhere, so that `sevenfold --help` imports next to nothing.
An error the user can mend is one line on the error stream and exit code 2; any other is not hidden.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import sevenfold as package
from sevenfold.errors import UserError

FAILED = 2
INTERRUPTED = 130
PIPE_CLOSED = 141

_PROFILE_HELP = """\
Show where the context and the money of recorded agent sessions went: tokens by category, the size of the
context from call to call, compactions and clearings, where the prompt cache was lost and why, what it cost
and what it might have cost, the largest items, and reads that were repeated for nothing.

Reads Claude Code transcripts, Sevenfold's own, and Codex rollouts. Nothing leaves this machine."""

_PROFILE_EXAMPLES = """\
examples:
  sevenfold profile --example                          a small session that comes with Sevenfold
  sevenfold profile session.jsonl                      one session
  sevenfold profile ~/.claude/projects                 every session of every project, with totals
  sevenfold profile ~/.codex/sessions --html page.html the same as a page with charts
  sevenfold profile session.jsonl --json | jq .total   for scripts

exit code: 0 if at least one file was profiled, else 2"""


_SIMULATE_HELP = """\
Serve a simulated provider on this machine. It speaks the Messages, Chat Completions and Responses APIs,
enforces their rules with their error texts, and keeps a prompt cache like theirs, so a client can be tried
without a network or a bill. There is no model inside: it repeats what it is told."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    options = parser().parse_args(arguments)
    if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    try:
        code = _run(options)
        sys.stdout.flush()
    except UserError as error:
        sys.stderr.write(f"sevenfold: {error}\n")
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("sevenfold: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has had enough. What Python still holds must not be written either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return code


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="sevenfold",
        description=package.__doc__,
        epilog="'sevenfold COMMAND --help' explains a command.",
    )
    top.add_argument("--version", action="version", version=f"sevenfold {package.__version__}")
    commands = top.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    _add_profile(
        commands.add_parser(
            "profile",
            help="show where the context and the money of recorded sessions went",
            description=_PROFILE_HELP,
            epilog=_PROFILE_EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    simulate = commands.add_parser(
        "simulate",
        help="serve a simulated provider: the real wire formats and rules, no model, no key, no bill",
        description=_SIMULATE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    simulate.add_argument("--port", type=_positive, help="where to listen (default: a free one)")
    simulate.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    simulate.add_argument(
        "--key", default="simulated-key", help="the key to accept; '' accepts any (default: %(default)s)"
    )
    return top


def _add_profile(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="a transcript, or a folder: then every *.jsonl file in it and below",
    )
    command.add_argument(
        "--example", action="store_true", help="profile the session that comes with Sevenfold"
    )
    output = command.add_argument_group("output")
    output.add_argument(
        "--json", action="store_true", help="print the figures as JSON instead of the report"
    )
    output.add_argument(
        "--html", type=Path, metavar="FILE", help="also write one self-contained page with charts"
    )
    output.add_argument(
        "--top", type=_positive, default=10, metavar="N", help="how many of the largest items (default: 10)"
    )
    output.add_argument(
        "--limit",
        type=_positive,
        default=20,
        metavar="N",
        help="how many sessions in the table (default: 20)",
    )
    output.add_argument("--each", action="store_true", help="of several sessions, show each in full")
    command.add_argument(
        "--jobs", type=_positive, metavar="N", help="how many processes (default: one for each processor)"
    )


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


def _run(options: argparse.Namespace) -> int:
    if options.command == "simulate":
        from sevenfold.surfaces.simulate_command import run
    else:
        from sevenfold.surfaces.profile_command import run
    return run(options)
