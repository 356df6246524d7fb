"""Custom slash commands: Markdown files in the folders of Sevenfold, Claude Code and Codex.

``review.md`` becomes ``/review``. Its text is sent as a message, with ``$ARGUMENTS`` and ``$1``, ``$2``… replaced by
what follows the command; the output of each ``!`command` `` follows the message, and files mentioned as ``@path`` are
attached.
A project's commands are used only if its folder is trusted. The files in ``commands`` next to this module come with
Sevenfold; a file of the user or the project with the same name replaces them.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.memory.front_matter import split
from sevenfold.record.authorship import UserPrompt
from sevenfold.stores.trust import Trust, user_folder

PROJECT = (".sevenfold/commands/**/*.md", ".claude/commands/**/*.md", ".codex/prompts/*.md")
USER = (".claude/commands/**/*.md", ".codex/prompts/*.md")
OWN = "commands/**/*.md"
LARGEST = 256 * 1024
MOST = 500
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(:[\w.-]+)*")
_PLACES = re.compile(r"\$(ARGUMENTS|[1-9])\b")
_OUTPUT = re.compile(r"!`([^`\n]+)`")


class CustomCommand(Struct, frozen=True):
    """A slash command that a Markdown file defines."""

    name: str
    text: str
    description: str
    takes: str = ""
    path: str = ""

    def prompt(self, given: str | UserPrompt, output: Callable[[str], str]) -> UserPrompt:
        """The message to send; ``output`` runs a command line and returns its output.

        Only the arguments are what the user typed. The output of a command is not part of the message, which a summary
        may quote as the user's, but follows it: a name in a commit message is not something the user said.
        """
        arguments = UserPrompt.of(given)
        outputs: list[tuple[str, str]] = []

        def run(line: re.Match[str]) -> str:
            command = line[1].strip()
            outputs.append((command, output(command)))
            return f"`{command}` (its output follows)"

        text = _OUTPUT.sub(run, self.text)
        if _PLACES.search(self.text):
            values = _values(arguments.text)
            text = _PLACES.sub(lambda hole: values.get(hole[1], ""), text).strip()
        else:
            text = f"{text}\n\n{arguments.text}".strip()
        typed = arguments.text if arguments.origin == "typed" else arguments.typed
        return UserPrompt(text, "command", typed or None, tuple(outputs))


def _values(arguments: str) -> dict[str, str]:
    """What replaces each of the places for arguments."""
    try:
        words = shlex.split(arguments)
    except ValueError:
        words = arguments.split()
    return {"ARGUMENTS": arguments} | {str(number): word for number, word in enumerate(words, 1)}


def custom_commands(folder: Path) -> dict[str, CustomCommand]:
    """The custom commands by name; a trusted folder's take precedence over the user's, and those over Sevenfold's."""
    user = user_folder(os.environ)
    places = [(folder, subfolder) for subfolder in PROJECT] if Trust(user).covers(folder) else []
    places += [(user, OWN), *((Path.home(), subfolder) for subfolder in USER), (Path(__file__).parent, OWN)]
    found: dict[str, CustomCommand] = {}
    for command in (command for place in places for command in _read_all(*place)):
        found.setdefault(command.name, command)
    return found


def _read_all(folder: Path, pattern: str) -> Iterator[CustomCommand]:
    below = folder / pattern.partition("/*")[0]
    try:
        paths = sorted(path for path in folder.glob(pattern) if path.is_file())[:MOST]
    except OSError:
        return
    for path in paths:
        name = ":".join(path.relative_to(below).with_suffix("").parts)
        try:
            usable = _NAME.fullmatch(name) and path.stat().st_size <= LARGEST
            page = split(path.read_text(encoding="utf-8-sig") if usable else "")
        except (OSError, InputError, UnicodeDecodeError):
            continue
        if body := page.body.strip():
            says = page.values.get("description") or body.splitlines()[0].strip("# ").strip()
            yield CustomCommand(name, body, says, page.values.get("argument-hint", ""), str(path))
