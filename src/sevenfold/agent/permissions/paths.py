"""Which files a line of shell names, as far as its words tell, and which of them it is seen to write.

Wherever words could mean a path they are taken for one: behind an option, behind ``=`` or ``@``, from every folder the
line changes to, with the home folder, variables and the last part of a pattern filled in. What a program does with its
words is not known, and what it opens beside them is not seen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from msgspec import Struct

from sevenfold.agent.permissions.shell import Line, read
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.words import names

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_SEPARATOR = re.compile(r"[=:,@{}]")
_PATTERN = re.compile(r"[*?\[]")
_TARGET = re.compile(r">[>|&]?\s*([^\s;&|<>()`]+)")
_MOVE = names("cd pushd")
_WRITE = names("cp dd install ln mv rsync tee touch truncate")
"""Commands whose words are what they write, or what they take from its place."""
_MOST_FOLDERS = 8
_MOST_PIECES = 32
_MOST_NAMES = 10_000
_LONGEST = 4_096


class Places(Struct, frozen=True):
    """Paths as they are named, and with links resolved."""

    outside: tuple[str, ...] = ()
    """Words that lead out of the workspace."""
    named: tuple[str, ...] = ()
    """Files that are there."""
    written: tuple[str, ...] = ()
    """Files that are or will be."""


def places(command: str, context: Context) -> Places:
    """What a command line names, seen from the working directory."""
    line = read(command)
    folders = _folders(line, context)
    words = dict.fromkeys(
        word
        for one in line.commands
        for word in (*one.words, *one.reads, *one.writes)
        if len(word) <= _LONGEST
    )
    environ = {**context.environ, "PWD": str(context.desk.cwd)}
    full = {word: _filled_in(word, environ) for word in words}
    leading = (
        word
        for word in words
        if any(
            not context.inside(real) for path in _behind(full[word]) for real in _real(path, folders[:1])
        )
    )
    named = (one for word in words for path in _pieces(full[word]) for one in _there(path, folders))
    written = (
        one
        for word in _targets(line, command)
        for path in _pieces(_filled_in(word, environ))
        for one in _real(path, folders)
    )
    return Places(tuple(leading), tuple(dict.fromkeys(named)), tuple(dict.fromkeys(written)))


def _folders(line: Line, context: Context) -> list[str]:
    """The working directory, and those the line changes to."""
    folders = [str(context.desk.cwd)]
    for command in line.commands:
        if command.words and command.words[0] in _MOVE:
            folders += [real for word in command.words[1:] for real in _real(word, folders[-1:])]
    return folders[:_MOST_FOLDERS]


def _targets(line: Line, command: str) -> Iterator[str]:
    """The words that say where a line writes."""
    if not line.plain:
        yield from (re.sub(r"[\"'\\]", "", found) for found in _TARGET.findall(command))
    for simple in line.commands:
        yield from simple.writes
        if simple.words and simple.words[0] in _WRITE:
            yield from simple.words[1:]


def _filled_in(word: str, environ: Mapping[str, str]) -> str:
    """With the variables that are known."""
    return _VARIABLE.sub(lambda found: environ.get(found[1] or found[2], found[0]), word)


def _behind(word: str) -> list[str]:
    """A word, and what it may hold behind an option's name."""
    found = {word, word.partition("=")[2], word[2:] if word.startswith("-") else ""} - {""}
    return list(map(_from_home, found))


def _pieces(word: str) -> list[str]:
    """All of a word that may be a path of its own."""
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


def _there(path: str, folders: list[str]) -> Iterator[str]:
    """By every name they have, the files that a path stands for."""
    for folder in folders:
        whole = _from(folder, path)
        parent, _, name = whole.rpartition("/")
        if _PATTERN.search(name) and not _PATTERN.search(parent):
            found = [f"{parent}/{one}" for one in _names(parent) if fnmatchcase(one, name)]
        else:
            found = [whole] if _exists(whole) else []
        for one in found:
            yield os.path.normpath(one)
            yield from _real(one, [folder])


def _names(folder: str) -> list[str]:
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
