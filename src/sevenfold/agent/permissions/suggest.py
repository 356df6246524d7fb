"""Rules worth offering when the user is asked: wide enough to be of use, no wider than what was seen.

Of a command line that is the line itself, but for a few programs whose subcommands do the same whatever follows.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from sevenfold.agent.permissions.request import Wish
from sevenfold.agent.permissions.rules import Rule
from sevenfold.agent.permissions.shell import Simple, read
from sevenfold.agent.tools.words import names

_HARMLESS = {
    "cargo": names("build check clippy doc fmt test tree"),
    "docker": names("images logs ps"),
    "git": names(
        "add blame branch commit describe diff log ls-files rev-parse show stash status switch tag"
    ),
    "npm": names("ls outdated test view"),
    "pip": names("check freeze list show"),
    "ruff": names("check format"),
}
"""Subcommands that stay what they are whatever follows. All other commands may become anything with other words."""
_DEEP = 4
"""Folders nearer to the root than this hold too much: homes, and the system's own."""
_SPECIAL = re.compile(r"[*?\[\]{}]")


def suggested(wish: Wish, workspace: str, *, guarded: bool = False) -> tuple[str, ...]:
    """Rules that together would allow the wish; none where only a single consent is sensible.

    ``guarded``: of a file, it alone is meant and not its neighbours.
    """
    match wish.deed:
        case "run":
            return _for_line(wish)
        case "read" | "write":
            tool = "Read" if wish.deed == "read" else "Edit"
            pattern = _for_path(PurePosixPath(wish.subject), workspace, guarded)
            return () if _SPECIAL.search(wish.subject) else (f"{tool}({pattern})",)
        case "fetch":
            host = urlsplit(wish.subject).hostname
            return (f"{wish.tool}(domain:{host})",) if host else ()
        case "call":
            return (wish.tool,)
        case _:
            return ()


def _for_line(wish: Wish) -> tuple[str, ...]:
    text, line = wish.subject.strip(), read(wish.subject)
    if not line.plain or any(command.assigns or command.writes for command in line.commands):
        # What is not plain is allowed word for word or not at all.
        return () if "*" in text or not text else (f"Shell({text})",)
    rules = [_for_command(command, wish.outside) for command in line.commands if command.words]
    return tuple(dict.fromkeys(rules)) if all(rules) else ()


def _for_command(command: Simple, outside: tuple[str, ...]) -> str:
    """A rule for one command; none for words that would mean more in a rule than in the line."""
    program, *others = command.words
    if command.literal and not command.reads and not set(outside) & set(others):
        rule = Rule("Shell", " ".join((program, *others[:1])) + ":*")
        if set(others[:1]) & _HARMLESS.get(program, frozenset()) and rule.allows_command(command):
            return str(rule)
    return "" if "*" in command.text else f"Shell({command.text})"


def _for_path(path: PurePosixPath, workspace: str, guarded: bool) -> str:
    """The folder of a file, or the file alone where its neighbours are another matter."""
    folder = path.parent
    if folder.is_relative_to(workspace):
        beneath = path.relative_to(workspace) if guarded else folder.relative_to(workspace) / "**"
        return beneath.as_posix() if "/" in beneath.as_posix() else f"./{beneath}"
    private = any(part.startswith(".") for part in path.parts)
    alone = guarded or private or len(folder.parts) < _DEEP
    return path.as_posix() if alone else f"{folder}/**"
