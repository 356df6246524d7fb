"""Grep and Glob: finding text in files, and files by name.

Both respect ``.gitignore``, follow no links, and never show a file that may not be read. A `Searcher` does the search:
ripgrep if it is installed, else a search in plain Python with the same results. Either runs in a separate process,
because a pattern can take forever, and a process, unlike a thread, can be killed at any time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Protocol

from msgspec import Meta, Struct
from msgspec.structs import replace

from sevenfold.agent.tools import files
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.globs import Glob
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.tool import ServiceTool, ToolInput
from sevenfold.errors import Refused

LONGEST_LINE = 400
FILES_SHOWN = 100
LINES_SHOWN = 200


class FoundLine(Struct, frozen=True):
    """A matching line, or (with ``found`` False) a line of context around a match."""

    path: str
    number: int
    text: str
    found: bool = True


class Searcher(Protocol):
    """Searches files; raises `sevenfold.errors.UserError` for an invalid pattern."""

    def lines(self, query: GrepInput, stopped: Callable[[], bool]) -> Iterator[FoundLine]:
        """The matching lines with their context, file by file, sorted by path.

        The query's path is a folder or a file, with links resolved.
        """

    def files(self, root: str, stopped: Callable[[], bool]) -> Iterator[str]:
        """All files below a folder that are not ignored."""


class _SearchTool(ServiceTool[ToolInput, Searcher]):
    """A tool that searches files."""

    kind = "search"
    concurrent = True
    action = "read"


class GrepInput(Struct, forbid_unknown_fields=True):
    """What to look for, where, and what to show.

    Args:
        pattern: A regular expression.
        path: The folder or file to search; defaults to the working directory.
        glob: Only files whose path matches, such as *.py or src/**/*.{ts,tsx}.
        show: The matching files, the lines, or the number of lines per file.
        ignore_case: Ignore case.
        context: Lines to show around each match.
        multiline: The pattern may span lines.
        limit: How many files or lines to show at most.
    """

    pattern: Annotated[str, Meta(min_length=1)]
    path: str = "."
    glob: str = ""
    show: Literal["files", "lines", "counts"] = "files"
    ignore_case: bool = False
    context: Annotated[int, Meta(ge=0, le=50)] = 0
    multiline: bool = False
    limit: Annotated[int, Meta(ge=1, le=5_000)] = LINES_SHOWN


class GrepTool(_SearchTool[GrepInput]):
    """Finds text in files."""

    def act(self, arguments: GrepInput, context: Context) -> ToolOutput:
        """Search, and show the matching files, lines or counts, up to the limit."""
        context_lines = arguments.context if arguments.show == "lines" else 0
        query = replace(arguments, path=_root(arguments.path, context), context=context_lines)
        may_read = cache(context.may_read)
        matches = (line for line in self.service.lines(query, context.abort.is_set) if may_read(line.path))
        match arguments.show:
            case "lines":
                shown = _lines(matches, context, apart=arguments.context > 0)
            case "counts":
                shown = (f"{_short(path, context)}: {number}" for path, number in _counts(matches))
            case _:
                shown = (_short(path, context) for path, _ in _counts(matches))
        return ToolOutput(_bounded(shown, arguments.limit, context.room) or "No matches.")


class GlobInput(Struct, forbid_unknown_fields=True):
    """Which files to find.

    Args:
        pattern: A path pattern, such as **/*.py or docs/*.md.
        path: The folder to search; defaults to the working directory.
    """

    pattern: Annotated[str, Meta(min_length=1)]
    path: str = "."


class GlobTool(_SearchTool[GlobInput]):
    """Finds files by name."""

    def act(self, arguments: GlobInput, context: Context) -> ToolOutput:
        """The matching files, most recently changed first."""
        root = _root(arguments.path, context)
        if not Path(root).is_dir():
            raise Refused(f"{root} is not a folder.")
        glob = Glob(arguments.pattern.removeprefix(root + "/"))
        matching = [
            path
            for path in self.service.files(root, context.abort.is_set)
            if glob.matches(os.path.relpath(path, root)) and context.may_read(path)
        ]
        matching.sort(key=lambda path: (-_changed(path), path))
        shown = _bounded(
            (_short(path, context) for path in matching[:FILES_SHOWN]), FILES_SHOWN, context.room
        )
        if len(matching) > FILES_SHOWN:
            shown += f"\n({FILES_SHOWN} of {len(matching):,} files, newest first; narrow the pattern for the rest)"
        return ToolOutput(shown or "No files match.")


def _root(path: str, context: Context) -> str:
    root = files.permitted_path(path, context)
    if not files.exists(root):
        raise Refused(f"There is no {root}; look from the working directory {context.desk.cwd}.")
    files.must_be_stored(root)
    return root


def _counts(lines: Iterator[FoundLine]) -> Iterator[tuple[str, int]]:
    path = ""
    count = 0
    for line in lines:
        if line.path != path and count:
            yield path, count
            count = 0
        path = line.path
        count = count + line.found
    if count:
        yield path, count


def _lines(lines: Iterator[FoundLine], context: Context, *, apart: bool) -> Iterator[str]:
    """Each line with its path and number; with ``apart``, ``--`` between lines that are not consecutive."""
    previous: FoundLine | None = None
    for line in lines:
        if apart and previous and (previous.path, previous.number + 1) != (line.path, line.number):
            yield "--"
        previous = line
        text = line.text if len(line.text) <= LONGEST_LINE else f"{line.text[:LONGEST_LINE]}…"
        sign = ":" if line.found else "-"
        yield f"{_short(line.path, context)}{sign}{line.number}{sign}{text}"


def _bounded(lines: Iterator[str], limit: int, room: int) -> str:
    shown: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if len(shown) >= limit or room < 0:
            return "\n".join([*shown, "(more results; narrow the search, or raise limit)"])
        shown.append(line)
    return "\n".join(shown)


def _short(path: str, context: Context) -> str:
    """The path relative to the working directory if it is below it, else unchanged."""
    cwd = str(context.desk.cwd)
    shown = os.path.relpath(path, cwd) if path.startswith(cwd + os.sep) else path
    return shown.encode(errors="replace").decode()


def _changed(path: str) -> float:
    try:
        return Path(path).lstat().st_mtime
    except OSError:
        return 0.0
