"""What several commands take and print: numbers, a confirmation, text, JSON."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sevenfold.cli.text import printable
from sevenfold.errors import UserError

_UNESCAPED = re.compile("[\x7f-\x9f]")
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


def add_folder(command: argparse.ArgumentParser, *, exists: bool = False) -> None:
    """Let a command take ``--folder``, with links followed; with ``exists``, one that is there."""

    def read(text: str) -> Path:
        try:
            path = Path(text).expanduser().resolve()
            if path.is_dir() or not exists:
                return path
            why = "there is no such folder"
        except (
            OSError,
            RuntimeError,
            ValueError,
        ) as error:  # such as links in a circle, or the home of no user
            why = str(error)
        raise argparse.ArgumentTypeError(f"{text!r}: {why}; check the path")

    command.add_argument("--folder", type=read, default=".", metavar="FOLDER")


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
        text = msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()
    except UnicodeEncodeError:
        # The name of a file may hold bytes that are no text; JSON has an escape for them, which scripts can undo.
        text = json.dumps(msgspec.to_builtins(fields), indent=2)
    # JSON need not escape these, but a terminal may obey them.
    sys.stdout.write(_UNESCAPED.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text) + "\n")


def write(text: str) -> None:
    """Print to standard output, control characters replaced."""
    sys.stdout.write(printable(text))


def complain(text: str) -> None:
    """Print a message to the error stream, control characters replaced."""
    sys.stderr.write(f"sevenfold: {printable(text)}\n")
