"""Rules worth offering when the user is asked: wide enough to be of use, no wider than what was seen."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from sevenfold.tools.commands import Simple, read
from sevenfold.tools.wish import Wish
from sevenfold.tools.words import names

_SUBCOMMAND = re.compile(r"[a-z][a-z0-9-]*")
_RUNS_ANYTHING = names(
    "sh bash zsh dash fish python python3 node deno bun perl ruby php lua sudo doas env xargs find eval exec ssh "
    "timeout nohup time npx uvx make docker kubectl rm dd mkfs chmod chown curl wget"
)
"""Too mighty for a rule about their beginning."""
_SPECIAL = re.compile(r"[*?\[\]{}]")


def suggested(wish: Wish, workspace: str) -> tuple[str, ...]:
    """Rules that together would allow the wish; none where only a single consent is sensible."""
    match wish.deed:
        case "run":
            return _for_line(wish.subject)
        case "read" | "write":
            return _for_path("Read" if wish.deed == "read" else "Edit", wish.subject, workspace)
        case "fetch":
            host = urlsplit(wish.subject).hostname
            return (f"{wish.tool}(domain:{host})",) if host else ()
        case "call":
            return (wish.tool,)
        case _:
            return ()


def _for_line(text: str) -> tuple[str, ...]:
    line = read(text)
    if not line.plain or any(command.assigns or command.writes for command in line.commands):
        # What is not plain is allowed word for word or not at all.
        return () if "*" in text or not text.strip() else (f"Shell({text.strip()})",)
    rules = [_for_command(command) for command in line.commands if command.words]
    return tuple(dict.fromkeys(rules)) if all(rules) else ()


def _for_command(command: Simple) -> str:
    """A rule for one command; none for words that would mean more in a rule than in the line."""
    first, *others = command.words
    if PurePosixPath(first).name in _RUNS_ANYTHING or not _SUBCOMMAND.fullmatch(first):
        words = " ".join(command.words)
        return "" if "*" in words else f"Shell({words})"
    if others and _SUBCOMMAND.fullmatch(others[0]):
        return f"Shell({first} {others[0]}:*)"
    return f"Shell({first}:*)"


def _for_path(tool: str, path: str, workspace: str) -> tuple[str, ...]:
    folder = PurePosixPath(path).parent
    if _SPECIAL.search(path):
        return ()
    if folder.is_relative_to(workspace):
        beneath = folder.relative_to(workspace).as_posix()
        return (f"{tool}({'' if beneath == '.' else beneath}/**)".replace("(/**", "(./**"),)
    return (f"{tool}({folder.as_posix().rstrip('/')}/**)",)
