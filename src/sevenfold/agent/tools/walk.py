"""Searching in plain Python, for machines without ripgrep: the same results, only slower.

The pattern is the model's own, and Python's expressions can take for ever over a bad one while nothing else in the
process moves. So the search runs in a process of its own, which is ended when its time is up.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from sevenfold.agent.tools import files
from sevenfold.agent.tools.globs import Glob
from sevenfold.agent.tools.search import Line, Query
from sevenfold.agent.tools.search_process import SECONDS, printed
from sevenfold.errors import InputError, Refused

_HEAD = 8_192
_CHILD = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from sevenfold.agent.tools.walk import search
search(sys.argv[2])
"""


class PlainSearch:
    """Walks through folders and reads what is in them; a search for a pattern gets so many seconds."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds

    def lines(self, query: Query, stopped: Callable[[], bool]) -> Iterator[Line]:
        """Lines that fit and their neighbours, file by file in the order of paths."""
        if not sys.executable:
            raise Refused("Searching needs ripgrep here; install it with: pip install 'sevenfold[agent]'")
        asked = json.dumps(msgspec.to_builtins(query))
        child = [sys.executable, "-I", "-c", _CHILD, _importing(), asked]
        for raw in printed(child, b"\n", stopped, seconds=self._seconds):
            yield Line(*json.loads(raw))

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


def search(given: str) -> None:
    """In the child: print each line that a query, as JSON, finds."""
    try:
        for line in _found(Query(**json.loads(given))):
            # Paths may be no text, which this way of writing them survives.
            sys.stdout.write(json.dumps(msgspec.structs.astuple(line)) + "\n")
    except InputError as error:
        sys.exit(str(error))


def _importing() -> str:
    """Where the child finds this package and what it needs; never in the folder it happens to be in."""
    own = str(Path(__file__).parents[2])
    return json.dumps([*(path for path in sys.path if Path(path).is_absolute()), own])


def _found(query: Query) -> Iterator[Line]:
    flags = (
        (re.IGNORECASE if query.ignore_case else 0) | (re.DOTALL if query.multiline else 0) | re.MULTILINE
    )
    try:
        pattern = re.compile(query.pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"{query.pattern!r} is no regular expression: {error}.") from error
    glob = Glob(query.glob) if query.glob else None
    root = query.root
    for path in [root] if Path(root).is_file() else sorted(PlainSearch().files(root, lambda: False)):
        if glob is None or glob.matches(os.path.relpath(path, root)):
            yield from _in_file(path, pattern, query)


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
