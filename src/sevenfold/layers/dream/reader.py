"""The read-only commands of a dream, carried out here on the memory folder and the transcripts.

Nothing is executed. The commands have the names and output of shell commands, but a line is a single command: no
pipes, no redirection, no substitution, and nothing that writes. Paths reach only the files of memory, its logs, and
``transcripts/``, which can be searched for what users and models said, but never read whole.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from getopt import GetoptError, gnu_getopt

from sevenfold.errors import Refused, TranscriptError
from sevenfold.memory.entry import shortened
from sevenfold.ports import Folder, Store
from sevenfold.record import blocks, entries
from sevenfold.record.authorship import typed_words
from sevenfold.record.redact import mask_text

COMMANDS = ("ls", "find", "grep", "cat", "stat", "wc", "head", "tail")
TRANSCRIPTS = "transcripts/"
MOST_TRANSCRIPTS = 1_000
"""How many sessions a dream may look into, the newest first; a shared store may hold a million."""
MOST_LINES = 50
"""The most lines that a listing or search shows."""
MOST_BYTES = 16_000
"""The most output of any command."""
LONGEST_LINE = 400
MOST_SEARCHED = 64_000_000
"""The most bytes of transcripts that one search reads, the newest first."""

_SHELL = re.compile(r"[|;&<>()]+")
_EXPANSION = re.compile(r"`|\$[({\w]|\n")
_SPECIAL = re.compile(r"(?<!\\)[\[\](){}+?^$]|\\[^\\.*|/\-]")
_OPTIONS = {"ls": "alhR1r", "grep": "ilcnrRvhHEFe:m:", "wc": "lwc", "cat": "n", "head": "n:", "tail": "n:"}
"""The option letters of each command; those with a colon take a value."""
_LINES = re.compile(r"\A-(\d+)\Z")
"""The short form of the number of lines for head and tail, as in ``-20``."""

Matcher = Callable[[str], bool]


class MemoryReader:
    """Carries out the commands of one dream."""

    def __init__(self, folder: Folder, store: Store | None = None) -> None:
        """``store`` holds the sessions whose transcripts may be searched."""
        self._folder = folder
        self._store = store
        self._left = MOST_SEARCHED

    def run(self, line: str) -> str:
        """Run a command line and return its output, with secrets masked; raises `Refused` if it is not allowed."""
        self._left = MOST_SEARCHED
        arguments = _split(line)
        name = arguments[0] if arguments else ""
        if name not in COMMANDS:
            raise Refused(f"{name[:40] or 'nothing'} is not available here; use {', '.join(COMMANDS)}.")
        if name == "find":
            lines = self._find(arguments[1:])
            shown = MOST_LINES
        else:
            options, operands = _options(arguments[1:], name)
            look = {"ls": self._ls, "grep": self._grep}.get(name)
            lines = look(options, operands) if look else self._read(name, options, operands)
            shown = MOST_LINES if look else MOST_BYTES
        return mask_text(_limited(lines, shown)) or "(nothing)"

    # -- listing and searching -------------------------------------------------------------------

    def _ls(self, options: Mapping[str, str], paths: Sequence[str]) -> Iterator[str]:
        for path in paths or ("",):
            start = self._relative(path)
            top = f"{start}/" if start and not start.endswith("/") else start
            below = [name.removeprefix(top) for name in self._names() if name.startswith(top)]
            yield from dict.fromkeys(name.partition("/")[0] + "/" * ("/" in name) for name in below)
            if not below:
                yield from self._files(path)

    def _find(self, arguments: Sequence[str]) -> Iterator[str]:
        tests = next(
            (position for position, argument in enumerate(arguments) if argument.startswith("-")),
            len(arguments),
        )
        names = self._files(*(arguments[:tests] or ("",)))
        for test, value in zip(arguments[tests::2], [*arguments[tests + 1 :: 2], ""], strict=False):
            if test in ("-name", "-iname", "-path"):
                looked_at = {name: name if test == "-path" else name.rpartition("/")[2] for name in names}
                names = [
                    name for name, matched_part in looked_at.items() if fnmatchcase(matched_part, value)
                ]
            elif (test, value) != ("-type", "f"):
                raise Refused(f"find supports only -name, -path and -type f here, not {test[:20]}.")
        yield from names

    def _grep(self, options: Mapping[str, str], operands: Sequence[str]) -> Iterator[str]:
        pattern = options["e"] if "e" in options else operands[0] if operands else ""
        paths = operands if "e" in options else operands[1:]
        matches = _matcher(pattern, folded="i" in options)
        for name in self._files(*(paths or ("",))):
            lines = enumerate(self._lines(name), 1)
            inverted = "v" in options
            matching = [(number, text) for number, text in lines if matches(text) != inverted]
            if "c" in options:
                yield f"{name}:{len(matching)}"
            elif "l" in options:
                yield from [name] if matching else []
            else:
                yield from (f"{name}:{number}:{shortened(text, LONGEST_LINE)}" for number, text in matching)

    # -- reading -----------------------------------------------------------------------------------

    def _read(self, command: str, options: Mapping[str, str], paths: Sequence[str]) -> Iterator[str]:
        names = self._files(*paths)
        if any(name.startswith(TRANSCRIPTS) for name in names):
            raise Refused("Transcripts can only be searched with grep, not read.")
        for name in names:
            content = self._folder.read(name) or b""
            text = content.decode(errors="replace")
            match command:
                case "stat":
                    yield f"{name}: {len(content)} bytes"
                case "wc":
                    yield f"{text.count(chr(10))} {len(text.split())} {len(text.encode())} {name}"
                case "head":
                    yield from text.splitlines()[: _count(options)]
                case "tail":
                    yield from text.splitlines()[-_count(options) :]
                case _:
                    yield from text.splitlines()

    # -- files ---------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        """All file names: memory first, then the newest transcripts."""
        held = [name for name in self._folder.names() if not name.startswith(".")]
        sessions = self._store.sessions(limit=MOST_TRANSCRIPTS) if self._store is not None else ()
        return [*held, *(f"{TRANSCRIPTS}{session.name}.jsonl" for session in sessions)]

    def _files(self, *paths: str) -> list[str]:
        """The files that match these paths: a file, all files in a folder, or those that match a pattern."""
        matching: dict[str, None] = {}
        names = self._names()
        for path in paths:
            start = self._relative(path)
            fits = [
                name
                for name in names
                if name == start or not start or name.startswith(f"{start}/") or fnmatchcase(name, start)
            ]
            if not fits:
                raise Refused(f"{path[:120]}: no such file in memory; ls shows what there is.")
            matching.update(dict.fromkeys(fits))
        return list(matching)

    def _relative(self, path: str) -> str:
        """The path relative to the memory folder."""
        if self._folder.path and path.startswith(self._folder.path):
            path = path[len(self._folder.path) :].lstrip("/")
        while path.startswith("./"):
            path = path[2:]
        return "" if path == "." else path.rstrip("/")

    def _lines(self, name: str) -> Iterator[str]:
        if not name.startswith(TRANSCRIPTS):
            yield from (self._folder.read(name) or b"").decode(errors="replace").splitlines()
            return
        assert self._store is not None
        try:
            for _, line in self._store.read(name.removeprefix(TRANSCRIPTS).removesuffix(".jsonl")).read():
                self._left -= len(line)
                if self._left < 0:
                    return
                yield from _said(line)
        except TranscriptError:
            return  # it was removed in the meantime or cannot be read; the others still can


def _said(line: bytes) -> Iterator[str]:
    """The lines of a user or a model in a record, each with date and speaker; tool output is left out."""
    entry = entries.read(line)
    if not isinstance(entry, entries.Said) or entry.attachment or entry.summary:
        return
    by_model = entry.role == "assistant"
    text = blocks.text_of(entry.blocks) if by_model else typed_words(entry)
    speaker = "model" if by_model else "user"
    for line_of_text in text.splitlines():
        if line_of_text.strip():
            yield f"{entry.timestamp[:10]} {speaker}: {line_of_text}"


def _split(line: str) -> list[str]:
    """Split a command line into words; raises `Refused` for shell syntax such as pipes."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        arguments = list(lexer)
    except ValueError as error:
        raise Refused(f"This line cannot be read: {error}.") from error
    if _EXPANSION.search(line) or any(_SHELL.fullmatch(argument) for argument in arguments):
        raise Refused("One command a line: no pipes, redirection or substitution.")
    return arguments


def _options(arguments: Sequence[str], name: str) -> tuple[dict[str, str], list[str]]:
    """Parse the options of a command, by letter, and its other arguments."""
    if name in ("head", "tail"):
        arguments = [_LINES.sub(r"-n\1", argument) for argument in arguments]
    try:
        options, operands = gnu_getopt(list(arguments), _OPTIONS.get(name, ""))
    except GetoptError as error:
        raise Refused(f"{name} has no option -{error.opt[:20]} here, or no value for it.") from error
    return {letter.removeprefix("-"): value for letter, value in options}, operands


def _count(options: Mapping[str, str]) -> int:
    wanted = options.get("n", "10")
    return max(1, int(wanted)) if wanted.isdecimal() and len(wanted) < 7 else 10


def _matcher(pattern: str, *, folded: bool) -> Matcher:
    """A matcher for plain words, with ``.*`` between them and ``|`` between alternatives, which runs in linear time."""
    if _SPECIAL.search(pattern):
        raise Refused(
            "grep supports only plain words here, with .* between them and | between alternatives."
        )
    if folded:
        pattern = pattern.casefold()
    alternatives = [_words_in_order(alternative) for alternative in re.split(r"\\?\|", pattern)]

    def matches(text: str) -> bool:
        searched = text.casefold() if folded else text
        return any(_in_order(searched, words) for words in alternatives)

    return matches


def _words_in_order(alternative: str) -> list[str]:
    """The plain words of a pattern that must follow one another."""
    return [re.sub(r"\\(.)", r"\1", word) for word in alternative.split(".*")]


def _in_order(text: str, words: Sequence[str]) -> bool:
    position = 0
    for word in words:
        start = text.find(word, position)
        if start < 0:
            return False
        position = start + len(word)
    return True


def _limited(lines: Iterator[str], max_lines: int) -> str:
    """Join as many lines as fit, with a note if there are more."""
    shown: list[str] = []
    room = MOST_BYTES
    for line in lines:
        room -= len(line) + 1
        if len(shown) == max_lines or room < 0:
            return "\n".join([*shown, "(there is more: narrow it down)"])
        shown.append(line)
    return "\n".join(shown)
