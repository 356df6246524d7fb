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
from itertools import chain, islice
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
            full_path = _from(folder, path)
            parent, _, name = full_path.rpartition("/")
            if _PATTERN.search(name) and not _PATTERN.search(parent):
                matching = [f"{parent}/{file}" for file in self._entries(parent) if fnmatchcase(file, name)]
            else:
                self.left -= 1
                matching = [full_path] if _exists(full_path) else []
            for file in matching:
                yield os.path.normpath(file)
                yield from self.real(file, [folder])

    def _entries(self, folder: str) -> list[str]:
        try:
            names = [entry.name for entry in islice(Path(folder or "/").iterdir(), _MOST_NAMES)]
        except (OSError, ValueError):
            return []
        self.left -= len(names) if len(names) < _MOST_NAMES else _MOST_LOOKS
        return names


def named_files(
    command: str, cwd: str, environ: Mapping[str, str], inside: Callable[[str], bool]
) -> NamedFiles:
    """Find the files that a command line run in ``cwd`` names; ``inside`` tells which paths are in the workspace."""
    line = parse(command)
    looks = _Looks()
    folders, complete = _folders(line, cwd, looks)
    words: dict[str, None] = {}
    for simple in line.commands:
        words |= dict.fromkeys((*simple.words, *simple.reads, *simple.writes))
    environ = {**environ, "PWD": cwd}
    outside = []
    existing = []
    for word in words:
        pieces = [] if _is_long(word) else _pieces(_expanded(word, environ))
        files = [*chain.from_iterable(looks.existing(path, folders) for path in pieces)]
        existing += files
        leads = chain.from_iterable(looks.real(path, folders) for path in pieces)
        if not pieces or not all(map(inside, leads)) or not all(map(inside, files)):
            outside.append(word)
    written: dict[str, None] = {}
    for word in _targets(line, command):
        for path in _pieces(_expanded(word, environ)):
            written |= dict.fromkeys(looks.real(path, folders))
    return NamedFiles(
        tuple(outside),
        tuple(dict.fromkeys(existing)),
        tuple(written),
        unseen=looks.left <= 0 or not complete,
    )


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
    return [real_path(workspace / Path(_from_home(folder))) for folder in _HOOKS_PATH.findall(settings)]


def _folders(line: ShellLine, cwd: str, looks: _Looks) -> tuple[list[str], bool]:
    """Return the working directory and the folders that the line changes to, and whether the list is complete."""
    folders = [cwd]
    complete = True
    for command in line.commands[:-1] if line.plain else line.commands:
        words = command.words
        while not line.plain and words and words[0] not in _MOVES:
            words = words[1:]
        if not words or words[0] not in _MOVES:
            continue
        named = [word for word in words[1:] if not word.startswith("-")]
        complete = complete and words[0] in _ENTERS and command.literal and bool(named) and "-" not in words
        if len(folders) + len(named) > _MOST_FOLDERS:
            return folders, False
        # Relative to the folder before this command, whatever the command's other words name.
        current = folders[-1:]
        for word in named:
            folders += looks.real(word, current)
    return folders, complete


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
    for separator in islice(_SEPARATOR.finditer(word), _MOST_PIECES):
        behind = word[separator.end() :]
        if not (behind.startswith("//") and _WEB.search(word, 0, separator.end())):
            pieces |= {behind: None, _SEPARATOR.split(behind, maxsplit=1)[0]: None}
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
