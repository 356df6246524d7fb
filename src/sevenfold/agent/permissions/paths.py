"""Finds the files that a shell line names in its words, and those that it evidently writes.

Every word that could be a path is treated as one: after an option, after ``=`` or ``@``, relative to every folder the
line changes to, with the home folder, variables and a pattern in the last part expanded. What a program does with its
words is unknown, and files that it opens without naming them are not found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from msgspec import Struct, structs

from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.permissions.shell import ShellLine, names, parse, tables, unquoted
from sevenfold.stores.files import real_path

_EXPANSION = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_SEPARATOR = re.compile(r"[=:,@{}]|[\"'(](?=\.\.|[/~])")
"""Before and after it may be a path; a quote or a bracket only counts where a path that leads out seems to begin."""
_PATTERN = re.compile(r"[*?\[]")
_WEB = re.compile(r"(?:https?|wss?|ssh|git):\Z")
_HOOKS_PATH = re.compile(r'^\s*hookspath\s*=\s*"?([^"\n]+?)"?\s*$', re.IGNORECASE | re.MULTILINE)
_TARGET = re.compile(r">[>|&]?\s*([^\s;&|<>()`]+)")
_ENTERS = names("cd pushd")
_MOVES = _ENTERS | names("popd builtin command eval")
"""Commands that may change the working directory of later commands."""
_MOST_FOLDERS = 8
_MOST_PIECES = 32
_MOST_NAMES = 10_000
_MOST_LOOKS = 20_000
"""How many paths are checked for one line, so that no line takes long."""
_LONGEST = 4_096


class NamedFiles(Struct, frozen=True):
    """The files that a line names."""

    outside: tuple[str, ...] = ()
    """Words that lead out of the workspace."""
    paths: tuple[str, ...] = ()
    """Existing files, both as named and with links resolved."""
    writes: tuple[str, ...] = ()
    """Files that it evidently writes, existing or not, with links resolved."""
    unseen: bool = False
    """True if there may be more: it names too many, or changes to unknown folders."""


class _Looks:
    """Resolves paths, up to a maximum number."""

    def __init__(self) -> None:
        self.left = _MOST_LOOKS

    def real(self, path: str, folders: list[str]) -> list[str]:
        """Resolve a path relative to each folder; empty once the maximum is reached."""
        self.left -= len(folders)
        try:
            return [os.path.realpath(_from(folder, path)) for folder in folders] if self.left > 0 else []
        except ValueError:
            return []

    def existing(self, path: str, folders: list[str]) -> Iterator[str]:
        """Yield the existing files that a path or pattern matches, as named and with links resolved."""
        for folder in folders if self.left > 0 else ():
            whole = _from(folder, path)
            parent, _, name = whole.rpartition("/")
            if _PATTERN.search(name) and not _PATTERN.search(parent):
                found = [f"{parent}/{one}" for one in self._entries(parent) if fnmatchcase(one, name)]
            else:
                self.left -= 1
                found = [whole] if _exists(whole) else []
            for one in found:
                yield os.path.normpath(one)
                yield from self.real(one, [folder])

    def _entries(self, folder: str) -> list[str]:
        try:
            found = [one.name for one in islice(Path(folder or "/").iterdir(), _MOST_NAMES)]
        except (OSError, ValueError):
            return []
        self.left -= len(found) if len(found) < _MOST_NAMES else _MOST_LOOKS
        return found


def named_files(
    command: str, cwd: str, environ: Mapping[str, str], inside: Callable[[str], bool]
) -> NamedFiles:
    """Find the files that a command line run in ``cwd`` names; ``inside`` tells which paths are in the workspace."""
    line = parse(command)
    looks = _Looks()
    folders, known = _folders(line, cwd, looks)
    words = dict.fromkeys(word for one in line.commands for word in (*one.words, *one.reads, *one.writes))
    environ = {**environ, "PWD": cwd}
    outside = []
    existing = []
    for word in words:
        pieces = [] if _is_long(word) else _pieces(_expanded(word, environ))
        found = [one for path in pieces for one in looks.existing(path, folders)]
        existing += found
        leads = (real for path in pieces for real in looks.real(path, folders))
        if not pieces or not all(map(inside, leads)) or not all(map(inside, found)):
            outside.append(word)
    written = (
        one
        for word in _targets(line, command)
        for path in _pieces(_expanded(word, environ))
        for one in looks.real(path, folders)
    )
    seen = tuple(dict.fromkeys(existing)), tuple(dict.fromkeys(written))
    return NamedFiles(tuple(outside), *seen, unseen=looks.left <= 0 or not known)


def command_request(
    command: str,
    inside: Callable[[str], bool],
    cwd: str,
    environ: Mapping[str, str],
    tool: str = "Shell",
) -> PermissionRequest:
    """Return the request to run a command line in ``cwd``, with the files that it names.

    ``inside`` tells which paths are in the workspace.
    """
    files = named_files(command, cwd, environ, inside)
    repositories = tuple(filter(in_repository, files.writes))
    return PermissionRequest(
        tool, "run", command, in_repository=repositories, checked=True, **structs.asdict(files)
    )


def in_repository(path: str) -> bool:
    """Whether a path is in a folder that git may treat as a repository, and whose ``config`` it would then obey.

    Such a folder can have any name: it needs ``HEAD``, ``objects`` and ``refs``, and the last two are easily added.
    """
    try:
        return any((folder / "HEAD").is_file() for folder in Path(path).parents)
    except OSError:
        return False


def hook_folders(workspace: Path) -> list[Path]:
    """Return the folders that the repository's settings name for git hooks."""
    try:
        settings = (workspace / ".git/config").read_text(errors="replace")
    except OSError:
        return []
    return [real_path(workspace / Path(_from_home(found))) for found in _HOOKS_PATH.findall(settings)]


def _folders(line: ShellLine, cwd: str, looks: _Looks) -> tuple[list[str], bool]:
    """Return the working directory and the folders that the line changes to, and whether the list is complete."""
    folders = [cwd]
    known = True
    for command in line.commands[:-1] if line.plain else line.commands:
        words = command.words
        while not line.plain and words and words[0] not in _MOVES:
            words = words[1:]
        if not words or words[0] not in _MOVES:
            continue
        named = [word for word in words[1:] if not word.startswith("-")]
        known = known and words[0] in _ENTERS and command.literal and bool(named) and "-" not in words
        if len(folders) + len(named) > _MOST_FOLDERS:
            return folders, False
        folders += [real for word in named for real in looks.real(word, folders[-1:])]
    return folders, known


def _targets(line: ShellLine, command: str) -> Iterator[str]:
    """Yield the words that name files to which a line writes."""
    if not line.plain:
        yield from map(unquoted, _TARGET.findall(command))
    for simple in line.commands:
        yield from simple.writes
        if simple.words and simple.words[0] in tables().write_files:
            yield from simple.words[1:]


def _is_long(word: str) -> bool:
    """Whether a word is empty, or too long or complex to check every path in it."""
    options = word.startswith("-") and not word.startswith("--") and len(word) > _MOST_PIECES
    return not 0 < len(word) <= _LONGEST or options or len(_SEPARATOR.findall(word)) > _MOST_PIECES


def _expanded(word: str, environ: Mapping[str, str]) -> str:
    """Return the word with known variables expanded."""
    return _EXPANSION.sub(lambda found: environ.get(found[1] or found[2], found[0]), word)


def _pieces(word: str) -> list[str]:
    """Return every part of a word that may be a path by itself."""
    pieces = {word: None, _SEPARATOR.split(word, maxsplit=1)[0]: None}
    for found in islice(_SEPARATOR.finditer(word), _MOST_PIECES):
        rest = word[found.end() :]
        if not (rest.startswith("//") and _WEB.search(word, 0, found.end())):
            pieces |= {rest: None, _SEPARATOR.split(rest, maxsplit=1)[0]: None}
    if word.startswith("-") and not word.startswith("--"):
        pieces |= {word[start:]: None for start in range(2, min(len(word), _MOST_PIECES))}
    return [_from_home(piece) for piece in pieces if piece]


def _from_home(path: str) -> str:
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:
        return path


def _from(folder: str, path: str) -> str:
    return path if path.startswith("/") else f"{folder}/{path}"


def _exists(path: str) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:
        return False
