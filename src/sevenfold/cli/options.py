"""Options that several commands share, and the question that one of them answers beforehand."""

from __future__ import annotations

import argparse
import sys

from sevenfold.errors import UserError


def agreed(question: str, options: argparse.Namespace) -> bool:
    """Does the user want it? Asked unless ``--yes`` says so; where nobody can be asked, that is an error."""
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise UserError(
            "nobody is there to ask; add --yes to do it, or --dry-run to see what would be done"
        )
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def port(text: str) -> int:
    """The number of a port."""
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 0 < number < 65_536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 65535")
    return number


def positive(text: str) -> int:
    """A whole number above 0."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number
