"""Finds the commands that a line may run behind others: after ``sudo``, in ``bash -c``, in input piped into a shell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from sevenfold.agent.permissions.known_programs import is_read_only, tables
from sevenfold.agent.permissions.shell import RESERVED_WORDS, ShellLine, SimpleCommand, parse

_SOURCES = ("source", ".")
_DEEPEST = 4
"""How many levels of nested shell lines are parsed."""
_SETS_VARIABLE = re.compile(r"\w+=")
_VERSION = re.compile(r"[0-9.-]+t?\Z")
"""The end of the name of a program that has its version in it: ``python3.13t``, ``ruby-3.3``."""
_MORE_THAN_A_WORD = re.compile(r"[\s;&|<>()`$]")


class CommandText(Struct, frozen=True):
    """The words of a command, and the offsets at which the command that it really runs may start."""

    text: str
    starts: tuple[int, ...]


def possible_commands(line: ShellLine, depth: int = 0) -> Iterator[CommandText]:
    """Yield every command that a line may run, including behind ``sudo``, in ``bash -c``, or piped into ``sh``.

    This is for deny and ask rules, so it finds too much rather than too little: after a program that runs others, any
    word may start a command, and every word that could be a shell line is parsed as one. Each word is checked once,
    however many such programs come before it.
    """
    # From the end, because what a command prints is run if any command after it in the same pipe is a shell.
    ends_in_shell = False
    feeds_next = False
    for command in reversed(line.commands):
        runs_in_shell = feeds_next and ends_in_shell
        launches = _launches(command.words)
        starts_shell = launches and any(_program(word) in tables().shells for word in command.words)
        ends_in_shell = runs_in_shell or starts_shell
        feeds_next = command.piped_in
        anywhere = runs_in_shell or launches
        if command.words:
            yield CommandText(" ".join(command.words), tuple(_starts(command.words, anywhere)))
        if anywhere and depth < _DEEPEST:
            for word in filter(_MORE_THAN_A_WORD.search, dict.fromkeys(command.words)):
                yield from possible_commands(parse(word), depth + 1)


def hidden_part(line: ShellLine) -> str:
    """Return why a line does not show everything it runs; empty if it does."""
    return line.why or next(filter(None, map(_hidden_in, line.commands)), "")


def _hidden_in(command: SimpleCommand) -> str:
    words = command.words
    if not words:
        return ""
    launches = _launches(words)
    if not command.literal:
        expands_first = bool(set("$*?[{~") & set(words[0]))
        if expands_first or (launches and any(word.startswith("$") for word in words)):
            return "a variable or pattern in the place of a command"
    shells = [index for index, word in enumerate(words) if _program(word) in tables().shells]
    if words[0] in _SOURCES:
        shells = [0]
    if launches and shells and _reads_its_input(words[shells[-1] + 1 :]):
        return f"what {_program(words[shells[-1]])} reads from elsewhere"
    return ""


def obeys_input(command: SimpleCommand) -> bool:
    """Whether a command may execute the input piped into it."""
    words = command.words
    return command.piped_in and any(_is(words[index], tables().obey_input) for index in _programs(words))


def is_interpreter(command: SimpleCommand) -> bool:
    """Whether a command only starts an interpreter that reads its input, such as ``sudo sh`` or ``python3 -``.

    Also true if one of its words is a shell line with such a command.
    """
    words = command.words
    programs = _programs(words)
    program_indices = [index for index in programs if _is(words[index], tables().interpreters)]
    if program_indices and _reads_its_input(words[program_indices[-1] + 1 :]):
        return True
    lines = filter(_MORE_THAN_A_WORD.search, words[1:] if len(programs) > 1 else ())
    return any(any(map(is_interpreter, parse(line).commands)) for line in lines)


def names_interpreter(command: SimpleCommand) -> bool:
    """Whether any word of a command names an interpreter."""
    return any(_is(word, tables().interpreters) for word in command.words)


def is_known(command: SimpleCommand) -> bool:
    """Whether a command is read-only, or has a subcommand that is harmless with any arguments and runs none of them."""
    words = command.words
    harmless = tables().harmless.get(words[0], frozenset()) if words else frozenset()
    return bool(words) and (is_read_only(words) or bool(harmless & set(words[1:2])))


def _programs(words: tuple[str, ...]) -> range:
    """Return the indexes of the words that may name the program a command runs."""
    head = _head(words)
    carried = head < len(words) and _program(words[head]) in tables().carriers
    return range(head, len(words) if carried else min(head + 1, len(words)))


def _is(word: str, programs: frozenset[str]) -> bool:
    """Whether a word names one of these programs, in any folder and version."""
    program = _program(word).lower()
    return program in programs or _VERSION.sub("", program) in programs


def _reads_its_input(arguments: tuple[str, ...]) -> bool:
    """Whether an interpreter with these arguments reads its program from its input, not from a file or an argument."""

    def names_no_file(word: str) -> bool:
        # "run" is a subcommand (`deno run -`); files in /dev and /proc can be the input itself (/dev/fd/0).
        return word == "run" or word.startswith(("-", "/dev/", "/proc/"))

    return "-s" in arguments or all(map(names_no_file, arguments))


def _starts(words: tuple[str, ...], anywhere: bool) -> Iterator[int]:
    """Yield the offset of each word that may start a command, both with and without its folder."""
    last = len(words) if anywhere else _head(words)
    offset = 0
    for word in words[: last + 1]:
        yield offset
        if "/" in word:
            yield offset + word.rindex("/") + 1
        offset += len(word) + 1


def _head(words: tuple[str, ...]) -> int:
    """Return the index of the first word that is neither a reserved word nor an assignment."""
    for index, word in enumerate(words):
        if word not in RESERVED_WORDS and not _SETS_VARIABLE.match(word):
            return index
    return len(words)


def _launches(words: tuple[str, ...]) -> bool:
    return any(_program(word) in tables().launchers for word in words[_head(words) :][:1])


def _program(word: str) -> str:
    return word.rpartition("/")[2]
