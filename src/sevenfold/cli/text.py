"""Helpers for what commands take and print: arguments, figures, names, and text from untrusted sources.

Tools, models, files and the clipboard may hold anything, and none of it may control the terminal: `ReportConsole`,
`write` and `complain` replace control characters, `print_json` escapes them, and the chat draws `clean` text.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from functools import cache, partial
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

from sevenfold.archive.untrusted import clean as clean
from sevenfold.archive.untrusted import printable as printable
from sevenfold.errors import InputError, UserError

_UNESCAPED = re.compile("[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
N = TypeVar("N", int, float)
LONGEST_EXCERPT = 160
"""Characters of a fact or statement that a report shows."""

# -- numbers ---------------------------------------------------------------------------------


def count(number: float) -> str:
    """A number of tokens or calls: exact below a million, rounded above."""
    if abs(number) < 999_950:
        return f"{number:,.0f}"
    if abs(number) < 999_950_000:
        return f"{number / 1e6:,.2f} M" if abs(number) < 99_995_000 else f"{number / 1e6:,.1f} M"
    return f"{number / 1e9:,.2f} G"


def short_count(number: int) -> str:
    """A number of tokens in about four characters, for status lines."""
    if abs(number) < 1_000:
        return str(number)
    if abs(number) < 9_950:
        return f"{number / 1_000:.1f}k"
    if abs(number) < 999_500:
        return f"{number / 1_000:.0f}k"
    return f"{number / 1e6:.2f}M"


def money(amount: float | None) -> str:
    """An amount in dollars; ``unknown`` for None."""
    if amount is None:
        return "unknown"
    if amount and abs(amount) < 0.01:
        return f"${amount:.4f}"
    return f"${amount:,.2f}"


def share(amount: float, whole: float) -> str:
    """A percentage that never rounds a positive share down to zero."""
    if not whole:
        return "–"
    percent = 100 * amount / whole
    if 0 < percent < 0.1:
        return "<0.1%"
    return f"{percent:.1f}%" if percent < 99.95 or percent > 100 else "100%"


def times(amount: float | None, reference: float | None) -> str:
    """The amount as a multiple of the reference; empty if either is unknown or the reference is 0."""
    if amount is None or not reference:
        return ""
    return f"{amount / reference:.1f}×"


def plural(number: int, noun: str, many: str = "") -> str:
    """A number with its noun, in the singular or plural; ``many`` is an irregular plural."""
    return f"{count(number)} {noun if number == 1 else many or noun + 's'}"


def size(number: int) -> str:
    """A number of bytes in B, kB or MB."""
    if number < 1_000:
        return f"{number} B"
    if number < 1_000_000:
        return f"{number / 1_000:.0f} kB"
    return f"{number / 1e6:.1f} MB"


# -- times -----------------------------------------------------------------------------------


def duration(elapsed: float) -> str:
    """A span of time in days and hours, in hours and minutes, in minutes, or in seconds."""
    minutes = int(elapsed // 60)
    hours = int(elapsed // 3600)
    days = int(elapsed // 86400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{int(elapsed)} s"


def stopwatch(seconds: float) -> str:
    """How long something took: to a tenth of a second below 10 s, to the second below an hour, then to the minute."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, seconds_left = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds_left:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def whole_seconds(seconds: float) -> str:
    """How long something will still take, to the second, so that it can be counted down."""
    minutes, seconds_left = divmod(max(0, ceil(seconds)), 60)
    if minutes < 60:
        return f"{minutes} min {seconds_left:02} s" if minutes else f"{seconds_left} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def parse_time(timestamp: str | None) -> datetime | None:
    """The time in a record; None if it is missing or cannot be parsed."""
    try:
        return datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None


# -- names -----------------------------------------------------------------------------------


@cache
def wording(table: str) -> dict[str, Any]:
    """A table of ``words.toml``, which maps names used in records to words for people."""
    import tomllib  # imported late, because the list of commands does not need it and must appear at once

    tables = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
    words: dict[str, Any] = tables[table]
    return words


def category(name: str) -> str:
    """The words for a category of the profile, such as ``tool_result:Read``."""
    kind, _, tool = name.partition(":")
    return f"{tool_name(tool)} results" if kind == "tool_result" else wording("categories").get(name, name)


def tool_name(name: str) -> str:
    """The name of a tool; for a tool of an MCP server, the server and the name."""
    return name.removeprefix("mcp__").replace("__", " ") if name.startswith("mcp__") else name


def source(name: str) -> str:
    """The words for a query source, such as ``session_memory`` or ``agent:reviewer``."""
    kind, _, qualifier = name.partition(":")
    return f"{wording('sources').get(kind, kind.replace('_', ' '))}{f' {qualifier}' if qualifier else ''}"


def cause(name: str) -> str:
    """The words for the cause of a cache break."""
    return str(wording("causes").get(name, name.replace("_", " ")))


# -- untrusted text --------------------------------------------------------------------------


def one_line(text: str, room: int = 0, cut: str = "…") -> str:
    """The clean text on one line; with ``room``, no wider than that many cells."""
    # Text far beyond the end of the line need not be cleaned.
    line = " ".join(clean(text[: 4 * room + 4_000] if room else text).split())
    return fit(line, room, cut) if room else line


def fit(line: str, room: int, cut: str = "…") -> str:
    """A clean line, cut to at most ``room`` cells; ``cut`` marks where."""
    # Commands that print JSON import this module too, and should not wait for rich, or need it.
    try:
        from rich.cells import cell_len, set_cell_size
    except ModuleNotFoundError:
        return line if len(line) <= room else line[: max(0, room - len(cut))] + cut

    if cell_len(line) <= room:
        return line
    if room <= cell_len(cut):
        return set_cell_size(line, max(0, room)).rstrip()
    return set_cell_size(line, room - cell_len(cut)).rstrip() + cut


def excerpt(text: str) -> str:
    """The beginning of a text on one line, for a report; ``--json`` prints all of it."""
    return shorten(" ".join(text.split()), LONGEST_EXCERPT)


def shorten(text: str, room: int) -> str:
    """A text cut to at most ``room`` characters; a path keeps its end, anything else its beginning."""
    if len(text) <= room:
        return text
    if " " not in text and ("/" in text or "\\" in text):
        return "…" + text[len(text) - room + 1 :]
    return text[: room - 1] + "…"


# -- arguments -------------------------------------------------------------------------------


def number(kind: type[N], low: float, description: str, high: float = float("inf")) -> Callable[[str], N]:
    """The argparse type for a number from ``low`` to below ``high``; the error message says that it is not that.

    ``description`` completes "… is not".
    """

    def read(text: str) -> N:
        try:
            value = kind(text)
        except ValueError:
            value = kind(low - 1)
        if not low <= value < high:
            raise argparse.ArgumentTypeError(f"{text!r} is not {description}")
        return value

    return read


positive = number(int, 1, "a whole number above 0")


def folder_path(text: str, *, exists: bool = False) -> Path:
    """Read an argument that names a folder, with its links resolved; with ``exists``, it must exist."""
    try:
        path = Path(text).expanduser().resolve()
        if path.is_dir() or not exists:
            return path
        why = "there is no such folder"
    except (OSError, RuntimeError, ValueError) as error:
        # Such as a loop of links, or the home of an unknown user.
        why = getattr(error, "strerror", None) or str(error)
    raise argparse.ArgumentTypeError(f"{one_line(text, 100)}: {why}; check the path")


def add_folder(command: argparse.ArgumentParser, *, exists: bool = False) -> None:
    """Add the option ``--folder``, whose links are resolved; with ``exists``, the folder must exist."""
    command.add_argument(
        "--folder", type=partial(folder_path, exists=exists), default=".", metavar="FOLDER"
    )


def add_switches(command: argparse.ArgumentParser, *names: str) -> None:
    """Add options without a value."""
    for name in names:
        command.add_argument(name, action="store_true")


def confirm(question: str, options: argparse.Namespace) -> bool:
    """Whether the user agrees, or ``--yes`` was given; raises `UserError` if there is no terminal to ask on."""
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise UserError(
            "there is no terminal to ask for confirmation; add --yes to go ahead, or --dry-run to see what would happen"
        )
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def not_installed(feature: str, extras: str, error: ModuleNotFoundError) -> UserError:
    """The error for a missing module that comes with extras of the package."""
    return UserError(
        f"the {feature} needs {(error.name or '').partition('.')[0]}, which is not installed; run: pip install "
        f"'sevenfold[{extras}]'"
    )


# -- output ----------------------------------------------------------------------------------


def run_editor(path: Path) -> None:
    """Open a file in the user's editor and wait until it is closed; raises `InputError` if the editor fails."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        code = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
    except (OSError, ValueError) as error:
        raise InputError(f"cannot start the editor {editor!r} ({error}); set EDITOR") from error
    if code != 0:
        raise InputError(f"the editor {editor!r} ended with exit code {code}; nothing was changed")


def print_json(fields: object) -> None:
    """Print as JSON, for scripts."""
    import msgspec  # imported late, because `--help` does not need it

    try:
        text = msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()
    except UnicodeEncodeError:
        # A file name may hold bytes that are not valid text; JSON has an escape for them, which scripts can undo.
        text = json.dumps(msgspec.to_builtins(fields), indent=2)
    # JSON need not escape these characters, but a terminal may obey them, or show the text after them backwards.
    sys.stdout.write(_UNESCAPED.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text) + "\n")


def write(text: str) -> None:
    """Print to standard output, with control characters replaced."""
    sys.stdout.write(printable(text))


def complain(text: str) -> None:
    """Print a message to the error stream, with control characters replaced."""
    sys.stderr.write(f"sevenfold: {printable(text)}\n")
