"""The searchers: ripgrep, or plain Python if there is no ripgrep.

The pattern comes from the model, and the ``.gitignore`` files may too. Matching them can take forever and would block
the whole process, so each search runs in a separate process, which is killed when its time is up.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import selectors
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sevenfold.agent.tools import files
from sevenfold.agent.tools.globs import Glob
from sevenfold.agent.tools.search import FoundLine, GrepInput, Searcher
from sevenfold.errors import InputError, Refused

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SECONDS = 60.0
"""How many seconds a search may take."""
LARGEST_FILE = "50M"
_NOTHING_FOUND = 1
_COMMON = ("--no-config", "--hidden", "--no-messages", "--no-require-git", "--glob=!.git")
_HEAD = 8_192
_TICK = 0.1
_CHUNK = 256 * 1024
_LONGEST = 16 * 1024 * 1024
_CHILD = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from sevenfold.agent.tools.searchers import search
search(sys.argv[2])
"""


def find_searcher() -> Searcher:
    """Ripgrep from its wheel or from the PATH, else a search in plain Python."""
    return find_ripgrep() or PlainSearch()


def find_ripgrep() -> Ripgrep | None:
    """Ripgrep from its wheel, else from the PATH; None if it is not installed."""
    wheel = Path(sysconfig.get_path("scripts")) / "rg"
    program = str(wheel) if wheel.is_file() else shutil.which("rg")
    return Ripgrep(program) if program else None


class Ripgrep:
    """Searches with ripgrep, at the given path."""

    def __init__(self, program: str) -> None:
        self._program = program

    def lines(self, query: GrepInput, stopped: Callable[[], bool]) -> Iterator[FoundLine]:
        """The matching lines with their context, file by file, sorted by path."""
        options = ["--json", "--sort=path", f"--max-filesize={LARGEST_FILE}", f"--context={query.context}"]
        options += ["--ignore-case"] if query.ignore_case else []
        options += ["--multiline", "--multiline-dotall"] if query.multiline else []
        wanted = _glob_filter(query)
        arguments = [*_COMMON, *options, f"--regexp={query.pattern}", "--", query.path]
        for raw in _program_output(
            [self._program, *arguments], b"\n", stopped, nothing_found=_NOTHING_FOUND
        ):
            event = msgspec.json.decode(raw)
            if event["type"] not in ("match", "context"):
                continue
            data = event["data"]
            path = os.fsdecode(_bytes(data["path"]))
            number = data["line_number"] or 0
            if wanted(path):
                text = _bytes(data["lines"]).decode(errors="replace")
                for offset, line in enumerate(text.removesuffix("\n").split("\n")):
                    is_match = event["type"] == "match"
                    yield FoundLine(path, number + offset, line.removesuffix("\r"), is_match)

    def files(self, root: str, stopped: Callable[[], bool]) -> Iterator[str]:
        """All files below a folder that are not ignored."""
        arguments = [self._program, *_COMMON, "--files", "--null", "--", root]
        yield from map(
            os.fsdecode, _program_output(arguments, b"\0", stopped, nothing_found=_NOTHING_FOUND)
        )


def _glob_filter(query: GrepInput) -> Callable[[str], bool]:
    """A predicate for the files that match the query's glob; ripgrep's own globs would include ignored files."""
    glob = Glob(query.glob or "**")
    root = query.path
    return cache(
        lambda path: glob.matches(os.path.relpath(path, root) if path != root else Path(path).name)
    )


def _bytes(printed: Mapping[str, str]) -> bytes:
    """The bytes of a value that ripgrep prints as text, or in base64 if it is not UTF-8."""
    return printed["text"].encode() if "text" in printed else base64.b64decode(printed["bytes"])


class PlainSearch:
    """Searches in plain Python, in a child process, for at most ``seconds``."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds

    def lines(self, query: GrepInput, stopped: Callable[[], bool]) -> Iterator[FoundLine]:
        """The matching lines with their context, file by file, sorted by path."""
        for raw in self._child(query, stopped):
            yield FoundLine(*json.loads(raw))

    def files(self, root: str, stopped: Callable[[], bool]) -> Iterator[str]:
        """All files below a folder that are not ignored."""
        for raw in self._child(GrepInput("", root), stopped):
            yield json.loads(raw)

    def _child(self, query: GrepInput, stopped: Callable[[], bool]) -> Iterator[bytes]:
        """Run a query in a child process and yield the lines it prints; without a pattern, it lists files."""
        if not sys.executable:
            raise Refused("Searching needs ripgrep here; install it with: pip install 'sevenfold[agent]'")
        # The child must find this package and its dependencies, but never import from its current directory.
        package_root = str(Path(__file__).parents[3])
        import_path = json.dumps([*(path for path in sys.path if Path(path).is_absolute()), package_root])
        query_json = json.dumps(msgspec.to_builtins(query))
        child = [sys.executable, "-I", "-c", _CHILD, import_path, query_json]
        return _program_output(child, b"\n", stopped, seconds=self._seconds)


# -- in the child --------------------------------------------------------------------------------


def search(query_json: str) -> None:
    """Run a query, given as JSON, and print each result as a line of JSON, which preserves paths that are not UTF-8."""
    query = GrepInput(**json.loads(query_json))
    try:
        # Without a pattern, the files themselves are wanted.
        results: Iterator[object] = _files(query.path)
        if query.pattern:
            results = map(msgspec.structs.astuple, _search_files(query))
        for result in results:
            sys.stdout.write(json.dumps(result) + "\n")
    except (InputError, Refused) as error:
        sys.exit(str(error))


def _search_files(query: GrepInput) -> Iterator[FoundLine]:
    flags = (
        (re.IGNORECASE if query.ignore_case else 0) | (re.DOTALL if query.multiline else 0) | re.MULTILINE
    )
    try:
        pattern = re.compile(query.pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"{query.pattern!r} is not a valid regular expression: {error}.") from error
    root = query.path
    for path in filter(_glob_filter(query), [root] if Path(root).is_file() else sorted(_files(root))):
        yield from _search_file(path, pattern, query)


def _search_file(path: str, pattern: re.Pattern[str], query: GrepInput) -> Iterator[FoundLine]:
    try:
        raw = files.content(os.path.realpath(path))
    except Refused:
        return
    if b"\0" in raw[:_HEAD]:
        return
    text = raw.decode(errors="replace")
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if query.multiline:
        matching = _spanned_lines(pattern, text)
    else:
        matching = {number for number, line in enumerate(lines) if pattern.search(line)}
    shown: set[int] = set()
    for number in matching:
        shown.update(range(number - query.context, number + query.context + 1))
    for number in sorted(shown & set(range(len(lines)))):
        yield FoundLine(path, number + 1, lines[number], number in matching)


def _spanned_lines(pattern: re.Pattern[str], text: str) -> set[int]:
    """The numbers of all lines that the matches span, counted from 0."""
    numbers: set[int] = set()
    for match in pattern.finditer(text):
        first = text.count("\n", 0, match.start())
        numbers |= set(range(first, first + match[0].removesuffix("\n").count("\n") + 1))
    return numbers


def _files(root: str) -> Iterator[str]:
    """All files below a folder that no ``.gitignore`` in it or below it excludes."""
    ignores: dict[str, list[tuple[str, GitIgnoreSpec]]] = {}
    for folder, folders, names in os.walk(root):
        inherited = ignores.get(str(Path(folder).parent), []) if folder != root else []
        rules = ignores[folder] = [*inherited, *_ignores(folder)]
        folders[:] = [
            name for name in folders if name != ".git" and not _ignored(rules, f"{folder}/{name}/")
        ]
        for name in names:
            path = f"{folder}/{name}"
            if not Path(path).is_symlink() and not _ignored(rules, path):
                yield path


def _ignores(folder: str) -> list[tuple[str, GitIgnoreSpec]]:
    """The ``.gitignore`` of a folder, if it has one."""
    try:
        lines = (
            files.content(os.path.realpath(f"{folder}/.gitignore")).decode(errors="replace").splitlines()
        )
    except (Refused, OSError):
        return []
    try:
        from pathspec import GitIgnoreSpec
        from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern
    except ImportError:
        raise Refused(
            "Searching needs ripgrep or pathspec here; install them with: pip install 'sevenfold[agent]'"
        ) from None
    patterns = []
    for line in lines:
        # Git skips invalid patterns, and so do we.
        with contextlib.suppress(ValueError, re.error):
            patterns.append(GitIgnoreSpecPattern(line))
    return [(folder, GitIgnoreSpec(patterns))]


def _ignored(ignores: Sequence[tuple[str, GitIgnoreSpec]], path: str) -> bool:
    """Whether a path is ignored; the innermost ``.gitignore`` with a matching pattern decides."""
    for folder, spec in reversed(ignores):
        included = spec.check_file(path.removeprefix(f"{folder}/")).include
        if included is not None:
            return included
    return False


# -- processes -----------------------------------------------------------------------------------


def _program_output(
    arguments: Sequence[str],
    separator: bytes,
    stopped: Callable[[], bool],
    *,
    seconds: float = SECONDS,
    nothing_found: int = 0,
) -> Iterator[bytes]:
    """The output of a program, split at the separator; the program is killed when the iterator is closed.

    ``nothing_found`` is its exit code if it finds nothing; higher codes mean that it failed.
    """
    try:
        child = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except (OSError, ValueError) as error:
        raise Refused(f"The search could not be started ({error}).") from error
    try:
        yield from _output_pieces(child, separator, stopped, seconds)
        _, errors = child.communicate(timeout=seconds)
        if child.returncode > nothing_found and errors:
            raise Refused(f"The search failed: {errors.decode(errors='replace').strip()[:1_000]}")
    finally:
        child.kill()
        with contextlib.suppress(ValueError):
            child.communicate()


def _output_pieces(
    child: subprocess.Popen[bytes], separator: bytes, stopped: Callable[[], bool], seconds: float
) -> Iterator[bytes]:
    """The output split at the separator; only standard output is read, because errors are few and fit in their pipe."""
    pipe = child.stdout
    incomplete = b""
    deadline = time.monotonic() + seconds
    assert pipe is not None
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if stopped():
                raise Refused("The search was stopped.")
            if time.monotonic() > deadline:
                raise Refused(
                    f"The search took longer than {seconds:g} s; search a smaller folder, or for something simpler."
                )
            if not selector.select(_TICK):
                continue
            chunk = os.read(pipe.fileno(), _CHUNK)
            if not chunk:
                break
            *complete, incomplete = (incomplete + chunk).split(separator)
            yield from complete
            if len(incomplete) > _LONGEST:
                raise Refused("The search met a line too long to read; exclude that file with a glob.")
    if incomplete:
        yield incomplete
