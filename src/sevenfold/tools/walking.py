"""Searching in plain Python, for machines without ripgrep: the same results, only slower."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from sevenfold.errors import InputError, Refused
from sevenfold.tools import files
from sevenfold.tools.globs import Glob
from sevenfold.tools.search import Line, Query

_HEAD = 8_192


class PlainSearch:
    """Walks through folders and reads what is in them."""

    def lines(self, query: Query, stopped: Callable[[], bool]) -> Iterator[Line]:
        """Lines that fit and their neighbours, file by file in the order of paths."""
        flags = (
            (re.IGNORECASE if query.ignore_case else 0)
            | (re.DOTALL if query.multiline else 0)
            | re.MULTILINE
        )
        try:
            pattern = re.compile(query.pattern, flags)
        except (re.error, OverflowError, RecursionError) as error:
            raise InputError(f"{query.pattern!r} is no regular expression: {error}.") from error
        glob = Glob(query.glob) if query.glob else None
        root = query.root
        for path in [root] if Path(root).is_file() else sorted(self.files(root, stopped)):
            if glob is None or glob.matches(os.path.relpath(path, root)):
                yield from _in_file(path, pattern, query)

    def files(self, root: str, stopped: Callable[[], bool]) -> Iterator[str]:
        """All files beneath a folder that are not ignored."""
        ignores: dict[str, list[_Ignore]] = {}
        for folder, folders, names in os.walk(root):
            if stopped():
                raise Refused("The search was stopped.")
            above = ignores.get(str(Path(folder).parent), []) if folder != root else []
            here = ignores[folder] = [*above, *_ignores(folder)]
            folders[:] = [
                name for name in folders if name != ".git" and not _ignored(here, f"{folder}/{name}", True)
            ]
            for name in names:
                path = f"{folder}/{name}"
                if not Path(path).is_symlink() and not _ignored(here, path, False):
                    yield path


def _in_file(path: str, pattern: re.Pattern[str], query: Query) -> Iterator[Line]:
    try:
        raw = files.content(os.path.realpath(path))
    except Refused:
        return
    if b"\0" in raw[:_HEAD]:
        return
    text = raw.decode(errors="replace")
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if query.multiline:
        found = _spanned(pattern, text)
    else:
        found = {number for number, line in enumerate(lines) if pattern.search(line)}
    shown = {near for number in found for near in range(number - query.context, number + query.context + 1)}
    for number in sorted(shown & set(range(len(lines)))):
        yield Line(path, number + 1, lines[number], number in found)


def _spanned(pattern: re.Pattern[str], text: str) -> set[int]:
    found: set[int] = set()
    for match in pattern.finditer(text):
        first = text.count("\n", 0, match.start())
        found |= set(range(first, first + match[0].removesuffix("\n").count("\n") + 1))
    return found


class _Ignore:
    """One line of an ignore file."""

    def __init__(self, line: str, folder: str) -> None:
        self.keeps = line.startswith("!")
        pattern = line.removeprefix("!")
        self._folders_only = pattern.endswith("/")
        self._glob = Glob(pattern.rstrip("/") if "/" in pattern.rstrip("/") else pattern.strip("/"))
        self._folder = folder

    def fits(self, path: str, is_folder: bool) -> bool:
        return (is_folder or not self._folders_only) and self._glob.matches(
            os.path.relpath(path, self._folder)
        )


def _ignores(folder: str) -> list[_Ignore]:
    try:
        lines = (
            files.content(os.path.realpath(f"{folder}/.gitignore")).decode(errors="replace").splitlines()
        )
    except (Refused, OSError):
        return []
    return [_Ignore(line.rstrip(), folder) for line in lines if line.strip() and not line.startswith("#")]


def _ignored(ignores: list[_Ignore], path: str, is_folder: bool) -> bool:
    """The last line that fits counts."""
    fitting = (one for one in reversed(ignores) if one.fits(path, is_folder))
    last = next(fitting, None)
    return last is not None and not last.keeps
