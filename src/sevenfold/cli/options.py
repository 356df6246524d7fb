"""What several commands take and print: numbers, a confirmation, JSON."""

from __future__ import annotations

import argparse
import sys

from sevenfold.errors import UserError


def positive(text: str) -> int:
    """The type of an option that takes a whole number above 0."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


def confirm(question: str, options: argparse.Namespace) -> bool:
    """Ask the user, unless ``--yes`` was given; raises `UserError` where there is no terminal to ask on."""
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise UserError(
            "there is no terminal to ask for confirmation; add --yes to go ahead, or --dry-run to see what would happen"
        )
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def print_json(fields: object) -> None:
    """Print for scripts."""
    import msgspec  # not needed to describe a command

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(fields), indent=2).decode() + "\n")
