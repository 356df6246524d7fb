"""What several commands take and print: numbers, a confirmation, text, JSON."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from typing import TypeVar

from sevenfold.cli.text import printable
from sevenfold.errors import UserError

_UNESCAPED = re.compile("[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
N = TypeVar("N", int, float)


def number(kind: type[N], low: float, words: str, high: float = float("inf")) -> Callable[[str], N]:
    """The type of an option that takes a number from ``low`` to below ``high``; ``words`` says so to the user."""

    def read(text: str) -> N:
        try:
            value = kind(text)
        except ValueError:
            value = kind(low - 1)
        if not low <= value < high:
            raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
        return value

    return read


positive = number(int, 1, "a whole number above 0")


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

    try:
        raw = msgspec.json.encode(fields)
    except UnicodeEncodeError:
        # The name of a file may hold bytes that are no text; JSON has an escape for them, which scripts can undo.
        raw = json.dumps(msgspec.to_builtins(fields)).encode()
    text = msgspec.json.format(raw, indent=2).decode()
    # JSON need not escape these, but a terminal may obey them, or show what follows backwards.
    sys.stdout.write(_UNESCAPED.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text) + "\n")


def write(text: str) -> None:
    """Print to standard output, control characters replaced."""
    sys.stdout.write(printable(text))


def complain(text: str) -> None:
    """Print a message to the error stream, control characters replaced."""
    sys.stderr.write(f"sevenfold: {printable(text)}\n")
