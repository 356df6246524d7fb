"""The files a line of shell names, as far as its words tell, and which of them it is seen to write.

Wherever words could mean a path they are taken for one: behind an option, behind ``=`` or ``@``, from every folder the
line changes to, with the home folder, variables and the last part of a pattern filled in. What a program does with its
words is not known, and what it opens without naming it is not seen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from msgspec import Struct

from sevenfold.agent.permissions.shell import ShellLine, names, parse, unquoted

_EXPANSION = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_SEPARATOR = re.compile(r"[=:,@{}]")
_PATTERN = re.compile(r"[*?\[]")
_TARGET = re.compile(r">[>|&]?\s*([^\s;&|<>()`]+)")
_CHANGE_FOLDER = names("cd pushd")
_WRITE_FILES = names("cp dd install ln mv rsync tee touch truncate")
"""Commands whose words are the files they write or move away."""
_MOST_FOLDERS = 8
_MOST_PIECES = 32
_MOST_NAMES = 10_000
_LONGEST = 4_096


class NamedFiles(Struct, frozen=True):
    """The files a line names, as they are named and with links resolved."""

    outside: tuple[str, ...] = ()
    """Words that lead out of the workspace."""
    existing: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    """Files it is seen to write, whether they exist or not."""


def named_files(
    command: str, cwd: str, environ: Mapping[str, str], inside: Callable[[str], bool]
) -> NamedFiles:
    """The files a command line names, seen from ``cwd``; ``inside`` says which paths lie in the workspace."""
    line = parse(command)
    folders = _folders(line, cwd)
    words = dict.fromkeys(
        word
        for one in line.commands
        for word in (*one.words, *one.reads, *one.writes)
        if len(word) <= _LONGEST
    )
    environ = {**environ, "PWD": cwd}
    full = {word: _expanded(word, environ) for word in words}
    outside = (
        word
        for word in words
        if any(not inside(real) for path in _values(full[word]) for real in _real(path, folders[:1]))
    )
    existing = (one for word in words for path in _pieces(full[word]) for one in _existing(path, folders))
    written = (
        one
        for word in _targets(line, command)
        for path in _pieces(_expanded(word, environ))
        for one in _real(path, folders)
    )
    return NamedFiles(tuple(outside), tuple(dict.fromkeys(existing)), tuple(dict.fromkeys(written)))


def _folders(line: ShellLine, cwd: str) -> list[str]:
    """The working directory, and those the line changes to."""
    folders = [cwd]
    for command in line.commands:
        if command.words and command.words[0] in _CHANGE_FOLDER:
            folders += [real for word in command.words[1:] for real in _real(word, folders[-1:])]
    return folders[:_MOST_FOLDERS]


def _targets(line: ShellLine, command: str) -> Iterator[str]:
    """The words that say where a line writes."""
    if not line.plain:
        yield from map(unquoted, _TARGET.findall(command))
    for simple in line.commands:
        yield from simple.writes
        if simple.words and simple.words[0] in _WRITE_FILES:
            yield from simple.words[1:]


def _expanded(word: str, environ: Mapping[str, str]) -> str:
    """The word with the variables that are known."""
    return _EXPANSION.sub(lambda found: environ.get(found[1] or found[2], found[0]), word)


def _values(word: str) -> list[str]:
    """A word, and what it may hold behind an option's name."""
    found = {word, word.partition("=")[2], word[2:] if word.startswith("-") else ""} - {""}
    return list(map(_from_home, found))


def _pieces(word: str) -> list[str]:
    """Every part of a word that may be a path of its own."""
    pieces = {word: None, _SEPARATOR.split(word, maxsplit=1)[0]: None}
    for found in islice(_SEPARATOR.finditer(word), _MOST_PIECES):
        rest = word[found.end() :]
        pieces |= {rest: None, _SEPARATOR.split(rest, maxsplit=1)[0]: None}
    if word.startswith("-"):
        pieces |= {word[start:]: None for start in range(2, min(len(word), _MOST_PIECES))}
    return [_from_home(piece) for piece in pieces if piece]


def _from_home(path: str) -> str:
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:
        return path


def _existing(path: str, folders: list[str]) -> Iterator[str]:
    """The files a path means, by every name they have."""
    for folder in folders:
        whole = _from(folder, path)
        parent, _, name = whole.rpartition("/")
        if _PATTERN.search(name) and not _PATTERN.search(parent):
            found = [f"{parent}/{one}" for one in _entries(parent) if fnmatchcase(one, name)]
        else:
            found = [whole] if _exists(whole) else []
        for one in found:
            yield os.path.normpath(one)
            yield from _real(one, [folder])


def _entries(folder: str) -> list[str]:
    try:
        return [one.name for one in islice(Path(folder or "/").iterdir(), _MOST_NAMES)]
    except (OSError, ValueError):
        return []


def _from(folder: str, path: str) -> str:
    return path if path.startswith("/") else f"{folder}/{path}"


def _exists(path: str) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:
        return False


def _real(path: str, folders: list[str]) -> list[str]:
    try:
        return [os.path.realpath(_from(folder, path)) for folder in folders]
    except ValueError:
        return []
