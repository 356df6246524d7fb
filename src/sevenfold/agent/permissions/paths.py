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

from sevenfold.agent.permissions.known_programs import tables, word_set
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.permissions.shell import ShellLine, parse, unquoted
from sevenfold.stores.files import real_path

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_SEPARATOR = re.compile(r"[=:,@{}]|[\"'(](?=\.\.|[/~])")
"""Before and after it may be a path; a quote or a bracket only counts where a path that leads out seems to begin."""
_PATTERN = re.compile(r"[*?\[]")
_SCHEME = re.compile(r"(?:https?|wss?|ssh|git):\Z")
_HOOKS_PATH = re.compile(r'^\s*hookspath\s*=\s*"?([^"\n]+?)"?\s*$', re.IGNORECASE | re.MULTILINE)
_REDIRECTED = re.compile(r">[>|&]?\s*([^\s;&|<>()`]+)")
_ENTERS = word_set("cd pushd")
_MOVES = _ENTERS | word_set("popd builtin command eval")
"""Commands that may change the working directory of later commands."""
# Limits for one line, so that no line takes long to check. Beyond them, `NamedFiles.unseen` or `outside` tells.
_MAX_FOLDERS = 8
_MAX_PARTS = 32
"""Separators in one word."""
_MAX_ENTRIES = 10_000
"""Files of one folder that are compared with a pattern."""
_MAX_CHECKS = 20_000
"""Paths that are looked up."""
_MAX_WORD = 4_096
"""Characters of one word."""


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


class _PathChecks:
    """Looks up paths, up to a maximum number."""

    def __init__(self) -> None:
        self.remaining = _MAX_CHECKS

    def real(self, path: str, folders: list[str]) -> list[str]:
        """Resolve a path relative to each folder; empty once the maximum is reached."""
        self.remaining -= len(folders)
        if self.remaining <= 0:
            return []
        try:
            return [os.path.realpath(_absolute(path, folder)) for folder in folders]
        except ValueError:  # a NUL in the path
            return []

    def existing(self, path: str, folders: list[str]) -> Iterator[str]:
        """Yield the existing files that a path or pattern matches, as named and with links resolved."""
        for folder in folders if self.remaining > 0 else ():
            for file in self._matching(_absolute(path, folder)):
                yield os.path.normpath(file)
                yield from self.real(file, [folder])

    def _matching(self, path: str) -> list[str]:
        parent, _, name = path.rpartition("/")
        if _PATTERN.search(name) and not _PATTERN.search(parent):
            return [f"{parent}/{entry}" for entry in self._entries(parent) if fnmatchcase(entry, name)]
        self.remaining -= 1
        return [path] if _exists(path) else []

    def _entries(self, folder: str) -> list[str]:
        try:
            names = [entry.name for entry in islice(Path(folder or "/").iterdir(), _MAX_ENTRIES)]
        except (OSError, ValueError):
            return []
        # A folder with more entries than are compared may hide a match, so it ends the search: more may be named.
        self.remaining -= len(names) if len(names) < _MAX_ENTRIES else _MAX_CHECKS
        return names


def named_files(
    command: str, cwd: str, environ: Mapping[str, str], inside: Callable[[str], bool]
) -> NamedFiles:
    """Find the files that a command line run in ``cwd`` names; ``inside`` tells which paths are in the workspace."""
    line = parse(command)
    checks = _PathChecks()
    folders, complete = _working_folders(line, cwd, checks)
    environ = {**environ, "PWD": cwd}
    words: dict[str, None] = {}
    for simple in line.commands:
        words |= dict.fromkeys((*simple.words, *simple.reads, *simple.writes))
    outside: list[str] = []
    existing: dict[str, None] = {}
    for word in words:
        if not _is_checkable(word):
            outside.append(word)
            continue
        paths = _possible_paths(_expanded(word, environ))
        files = [*chain.from_iterable(checks.existing(path, folders) for path in paths)]
        targets = chain.from_iterable(checks.real(path, folders) for path in paths)
        existing |= dict.fromkeys(files)
        if not paths or not all(map(inside, targets)) or not all(map(inside, files)):
            outside.append(word)
    writes: dict[str, None] = {}
    for word in _words_of_written_files(line, command):
        for path in _possible_paths(_expanded(word, environ)):
            writes |= dict.fromkeys(checks.real(path, folders))
    return NamedFiles(
        outside=tuple(outside),
        paths=tuple(existing),
        writes=tuple(writes),
        unseen=checks.remaining <= 0 or not complete,
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


def _working_folders(line: ShellLine, cwd: str, checks: _PathChecks) -> tuple[list[str], bool]:
    """Return the working directory and the folders that the line changes to, and whether the list is complete."""
    folders = [cwd]
    complete = True
    # Where the last command of a plain line changes to does not matter: nothing comes after it.
    for command in line.commands[:-1] if line.plain else line.commands:
        words = command.words
        # In a line that is not plain, a word before it may only seem to be the command: `if cd sub; then …`.
        while not line.plain and words and words[0] not in _MOVES:
            words = words[1:]
        if not words or words[0] not in _MOVES:
            continue
        named = [word for word in words[1:] if not word.startswith("-")]
        goes_back = "-" in words  # `cd -`: to a folder that only the shell knows
        is_clear = words[0] in _ENTERS and command.literal and bool(named) and not goes_back
        complete = complete and is_clear
        if len(folders) + len(named) > _MAX_FOLDERS:
            return folders, False
        # Relative to the folder before this command, whatever the command's other words name.
        current = folders[-1:]
        for word in named:
            folders += checks.real(word, current)
    return folders, complete


def _words_of_written_files(line: ShellLine, command: str) -> Iterator[str]:
    """Yield the words that name files to which a line writes."""
    if not line.plain:
        yield from map(unquoted, _REDIRECTED.findall(command))
    for simple in line.commands:
        yield from simple.writes
        if simple.words and simple.words[0] in tables().write_files:
            yield from simple.words[1:]


def _is_checkable(word: str) -> bool:
    """Whether a word is short and simple enough to check every path in it; an empty one is not a path."""
    # Each letter of a cluster of options may be the last one, with a path as its value behind it (see below).
    is_long_cluster = word.startswith("-") and not word.startswith("--") and len(word) > _MAX_PARTS
    if is_long_cluster or not 0 < len(word) <= _MAX_WORD:
        return False
    return len(_SEPARATOR.findall(word)) <= _MAX_PARTS


def _expanded(word: str, environ: Mapping[str, str]) -> str:
    """Return the word with known variables expanded."""
    return _VARIABLE.sub(lambda match: environ.get(match[1] or match[2], match[0]), word)


def _possible_paths(word: str) -> list[str]:
    """Return every part of a word that may be a path by itself."""
    parts = {word: None, _SEPARATOR.split(word, maxsplit=1)[0]: None}
    for separator in islice(_SEPARATOR.finditer(word), _MAX_PARTS):
        after = word[separator.end() :]
        is_address = after.startswith("//") and _SCHEME.search(word, 0, separator.end())
        if not is_address:
            parts |= {after: None, _SEPARATOR.split(after, maxsplit=1)[0]: None}
    if word.startswith("-") and not word.startswith("--"):
        # `-o/etc/x` and `-xo/etc/x`: the value of an option may follow its letter.
        parts |= {word[start:]: None for start in range(2, min(len(word), _MAX_PARTS))}
    return [_from_home(part) for part in parts if part]


def _from_home(path: str) -> str:
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except (RuntimeError, ValueError):  # there is no such user, or a NUL in the name
        return path


def _absolute(path: str, folder: str) -> str:
    return path if path.startswith("/") else f"{folder}/{path}"


def _exists(path: str) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:
        return False
